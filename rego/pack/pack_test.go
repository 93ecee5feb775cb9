package pack_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
)

func TestBuild(t *testing.T) {
	b, err := pack.Build(t.Context(), policy(), pack.Options{Revision: "r1", Epoch: epoch(7)})
	if err != nil {
		t.Fatal(err)
	}
	again, err := pack.Build(t.Context(), policy(), pack.Options{Revision: "r1", Epoch: epoch(7)})
	if err != nil || !bytes.Equal(b.Archive, again.Archive) {
		t.Errorf("the same files give other bytes, %v", err)
	}
	if b.Tests != 1 {
		t.Errorf("%d tests", b.Tests)
	}
	fsys := archive(t, b.Archive)
	f := inspect(t, fsys)
	if f.Revision != "r1" || f.Epoch == nil || *f.Epoch != 7 || f.Claims != nil {
		t.Errorf("%+v", f)
	}
	if src, err := fs.ReadFile(fsys, "rules/p.rego"); err != nil || string(src) != "package callgate\n\ndecision := {\"decision\": \"deny\"}\n" {
		t.Errorf("not formatted: %q, %v", src, err)
	}
	if _, err := rego.Open(t.Context(), fsys, rego.Options{}); err != nil {
		t.Error(err)
	}
}

// What the base library's tests say of it holds for `callgate bundle build` too,
// and the archive is the directory's policy: it is formatted.
func TestBuildProject(t *testing.T) {
	m := fstest.MapFS{}
	for dir, from := range map[string]fs.FS{"": bundles.Project(), "callgate/": bundles.Base()} {
		err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(from, name)
			m[dir+name] = &fstest.MapFile{Data: b}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := pack.Build(t.Context(), m, pack.Options{Revision: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	got := inspect(t, archive(t, b.Archive))
	if want := inspect(t, m); got.Digest != want.Digest || got.Epoch != nil || b.Tests == 0 {
		t.Errorf("%+v with %d tests, the directory is %+v", got, b.Tests, want)
	}
}

// The manifest keeps what it has and the flags do not say.
func TestBuildManifest(t *testing.T) {
	with := func(manifest string) fstest.MapFS {
		m := policy()
		m[".manifest"] = &fstest.MapFile{Data: []byte(manifest)}
		return m
	}
	for _, tt := range []struct {
		name, manifest string
		give           pack.Options
		want           string // revision, epoch, or the error
	}{
		{"flags", `{}`, pack.Options{Revision: "r1", Epoch: epoch(1)}, "r1 1"},
		{"manifest", `{"revision": "r2", "metadata": {"callgate": {"epoch": 2}}}`, pack.Options{}, "r2 2"},
		{"flags first", `{"revision": "r2", "metadata": {"callgate": {"epoch": 2}}}`, pack.Options{Revision: "r3", Epoch: epoch(3)}, "r3 3"},
		{"no revision", `{"metadata": {"callgate": {"epoch": 2}}}`, pack.Options{}, "no revision"},
		{"metadata of another kind", `{"revision": "r", "metadata": {"callgate": 2}}`, pack.Options{Epoch: epoch(2)}, "not an object"},
		{"below 0", `{"revision": "r"}`, pack.Options{Epoch: epoch(-1)}, "below 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := pack.Build(t.Context(), with(tt.manifest), tt.give)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Error(err)
				}
				return
			}
			f := inspect(t, archive(t, b.Archive))
			if got := f.Revision + " " + string(rune('0'+*f.Epoch)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	m := with(`{"revision": "r", "metadata": {"team": "x", "callgate": {"note": "y"}}}`)
	b, err := pack.Build(t.Context(), m, pack.Options{Epoch: epoch(5)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := fs.ReadFile(archive(t, b.Archive), ".manifest")
	if err != nil || !strings.Contains(string(got), `"team":"x"`) || !strings.Contains(string(got), `"note":"y"`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ file, body, want string }{
		"test that fails":       {"x_test.rego", "package x_test\ntest_no if false\n", "1 tests"},
		"test with an error":    {"x_test.rego", "package x_test\ntest_no if {\n\ta := 1\n\ta == data.x[_]\n\tfalse\n}\n", "1 tests"},
		"test that never ends":  {"x_test.rego", "package x_test\ntest_no if {\n\tsome a, b, c, d in numbers.range(1, 2000)\n\tsome e in numbers.range(1, 2000)\n\tsome f in numbers.range(1, 2000)\n\te + f == -1\n}\n", ""},
		"syntax":                {"x.rego", "package x\n???\n", "rego_parse_error"},
		"types":                 {"x.rego", "package x\ny := 1 + \"a\"\n", "rego_type_error"},
		"a builtin that is out": {"x.rego", "package x\ny := http.send({\"method\": \"get\", \"url\": \"http://a\"})\n", "http.send"},
		"delta":                 {"patch.json", `{"data": [{"op": "upsert", "path": "/x", "value": 1}]}`, "OPA reads data only"},
	} {
		t.Run(name, func(t *testing.T) {
			m := policy()
			m[tt.file] = &fstest.MapFile{Data: []byte(tt.body)}
			b, err := pack.Build(t.Context(), m, pack.Options{Revision: "r1", TestTimeout: 500 * time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, %v, want %q", b, err, tt.want)
			}
			if f, ok := errors.AsType[*pack.TestError](err); ok && (len(f.Failed) != 1 || !strings.Contains(f.Failed[0], "x_test.rego:2: ")) {
				t.Errorf("failed: %q", f.Failed)
			}
		})
	}
}

// What would not load is not built, for OPA would leave out of the archive what is
// wrong with the directory: it would load, and allow.
func TestBuildRefusesWhatWouldNotLoad(t *testing.T) {
	const permit = "package callgate.rules\n\nimport rego.v2\n\nallow contains {\"id\": \"x\"} if input.tool.name == \"x\"\n"
	for name, tt := range map[string]struct {
		file, body, want string
		o                pack.Options
	}{
		"loads":                             {"README.md", "Rules.", "", pack.Options{}},
		"loads as a restriction":            {"rules.rego", "package callgate.rules\n\nimport rego.v2\n\ndeny contains \"no\" if input.tool.name == \"x\"\n", "", pack.Options{Role: rego.Restrict}},
		"another case":                      {"denies.Rego", "package callgate.rules\n\ndeny contains \"no\"\n", "denies.Rego: bundle_files: OPA reads rules only", pack.Options{}},
		"data that OPA ignores":             {"extra/blocked.json", `["x"]`, "extra/blocked.json: bundle_files: OPA reads data only", pack.Options{}},
		"the last of two keys":              {"data.json", `{"x": 1, "x": 2}`, "data.json: bundle_files", pack.Options{}},
		"a package of no use":               {"denies.rego", "package callgate.rule\n\nimport rego.v2\n\ndeny contains \"no\"\n", "package_", pack.Options{}},
		"a word of no use":                  {"denies.rego", "package callgate.rules\n\nimport rego.v2\n\ndenny contains \"no\"\n", "rule_unread", pack.Options{}},
		"permits in a layer that restricts": {"more.rego", permit, "word_misplaced", pack.Options{Role: rego.Restrict}},
		"no entrypoint":                     {"more.rego", permit, "there is no rule data.x.y", pack.Options{Entrypoint: "data.x.y"}},
		"no role":                           {"more.rego", permit, `"both"`, pack.Options{Role: "both"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fstest.MapFS{"rules.rego": {Data: []byte(permit)}}
			for name, body := range files(t, bundles.Base()) {
				m["callgate/"+name] = &fstest.MapFile{Data: []byte(body)}
			}
			m[tt.file] = &fstest.MapFile{Data: []byte(tt.body)}
			tt.o.Revision = "r1"
			b, err := pack.Build(t.Context(), m, tt.o)
			if tt.want == "" && err == nil {
				return
			}
			if err == nil || tt.want == "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if b != nil {
				t.Error("it is built")
			}
		})
	}
	// Of what has nothing of ours the files are looked at, and no more without an
	// entrypoint.
	other := fstest.MapFS{"p.rego": {Data: []byte("package agent\n\ndecision if input.tool.name == \"x\"\n")}}
	if _, err := pack.Build(t.Context(), other, pack.Options{Revision: "r1"}); err != nil {
		t.Error(err)
	}
	if _, err := pack.Build(t.Context(), other, pack.Options{Revision: "r1", Entrypoint: "data.agent.decision"}); err != nil {
		t.Error(err)
	}
	other["denies.Rego"] = other["p.rego"]
	if _, err := pack.Build(t.Context(), other, pack.Options{Revision: "r1"}); err == nil {
		t.Error("a file that OPA does not read is left out")
	}
}

// A test that passes only because plain OPA overlooks an error is one that fails.
func TestBuildRunsTestsStrictly(t *testing.T) {
	m := policy()
	m["x_test.rego"] = &fstest.MapFile{Data: []byte("package x_test\n\ntest_no if not to_number(input.n) with input as {\"n\": \"many\"}\n")}
	_, err := pack.Build(t.Context(), m, pack.Options{Revision: "r1"})
	if f, ok := errors.AsType[*pack.TestError](err); !ok || len(f.Failed) != 1 || !strings.Contains(f.Failed[0], "x_test.rego:3: data.x_test.test_no: differs_strict") {
		t.Errorf("%v", err)
	}
}

// Signing an archive adds the signature and changes nothing else; signing again
// puts the new signature in place of the old.
func TestSignArchive(t *testing.T) {
	b, err := pack.Build(t.Context(), policy(), pack.Options{Revision: "r1", Epoch: epoch(7)})
	if err != nil {
		t.Fatal(err)
	}
	private, public := pair(t, keys(t)["EdDSA"])
	s := pack.Signing{Key: private, KeyID: "old", Scope: "a", Issued: made}
	once, err := pack.SignArchive(b.Archive, s)
	if err != nil {
		t.Fatal(err)
	}
	s.KeyID, s.Scope = "new", "b"
	twice, err := pack.SignArchive(once, s)
	if err != nil {
		t.Fatal(err)
	}
	before, after := files(t, archive(t, b.Archive)), files(t, archive(t, twice))
	delete(after, pack.SignaturesFile)
	if !maps.Equal(before, after) {
		t.Errorf("%q is now %q", before, after)
	}
	v := &rego.Verification{Keys: map[string]rego.Key{"new": {PEM: string(public)}}, Scope: "b", Now: func() time.Time { return made }}
	if _, _, err := rego.Verify(archive(t, twice), v); err != nil {
		t.Error(err)
	}
}

func files(t testing.TB, fsys fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSignRefuses(t *testing.T) {
	private, public := pair(t, keys(t)["ES256"])
	for name, tt := range map[string]struct {
		give pack.Signing
		want string
	}{
		"no key":         {pack.Signing{}, "PEM form"},
		"secret":         {pack.Signing{Key: []byte("s3cret"), Algorithm: "HS256"}, "PEM form"},
		"public":         {pack.Signing{Key: public}, "not a PRIVATE KEY"},
		"two":            {pack.Signing{Key: append(bytes.Clone(private), private...)}, "PEM form"},
		"algorithm":      {pack.Signing{Key: private, Algorithm: "RS256"}, "ES256"},
		"expires before": {pack.Signing{Key: private, Issued: made, Expires: made}, "expire"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pack.SignDir(policy(), tt.give)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	good := pack.Signing{Key: private}
	m := policy()
	m["x/"+pack.SignaturesFile] = &fstest.MapFile{Data: []byte("{}")}
	if _, err := pack.SignDir(m, good); err == nil || !strings.Contains(err.Error(), "at the top") {
		t.Errorf("a signature below: %v", err)
	}
	if _, err := pack.SignArchive([]byte("x"), good); err == nil {
		t.Error("signs what is no archive")
	}
}
