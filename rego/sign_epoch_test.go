package rego_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
)

// release is a bundle with this manifest and rule.
func release(t testing.TB, manifest, rule string) *rego.Facts {
	t.Helper()
	f, err := rego.Inspect(fstest.MapFS{
		".manifest": {Data: []byte(manifest)},
		"p.rego":    {Data: []byte("package p\n\n" + rule + "\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A bundle of an older epoch is refused, however well it is signed, and so is one
// that shares its epoch with another; an operator can let either in by name.
func TestEpochs(t *testing.T) {
	r1 := release(t, `{"revision": "r1", "metadata": {"callgate": {"epoch": 1}}}`, "x := 1")
	r2 := release(t, `{"revision": "r2", "metadata": {"callgate": {"epoch": 2}}}`, "x := 2")
	r2b := release(t, `{"revision": "r2", "metadata": {"callgate": {"epoch": 2}}}`, "x := 3")
	none := release(t, `{"revision": "r3"}`, "x := 4")
	for _, tt := range []struct {
		name    string
		before  []*rego.Facts
		give    *rego.Facts
		allowed []string
		want    rego.BundleCode
	}{
		{"first", nil, r1, nil, ""},
		{"first, without", nil, none, nil, rego.CodeEpochMissing},
		{"the same", []*rego.Facts{r2}, r2, nil, ""},
		{"newer", []*rego.Facts{r1}, r2, nil, ""},
		{"older", []*rego.Facts{r2}, r1, nil, rego.CodeEpochOlder},
		{"older, after a way back", []*rego.Facts{r1, r2, r1}, r1, nil, rego.CodeEpochOlder},
		{"older, allowed", []*rego.Facts{r2}, r1, []string{"r1"}, ""},
		{"older, allowed by digest", []*rego.Facts{r2}, r1, []string{r1.Digest}, ""},
		{"older, another allowed", []*rego.Facts{r2}, r1, []string{"r2", ""}, rego.CodeEpochOlder},
		{"reused", []*rego.Facts{r2}, r2b, nil, rego.CodeEpochReused},
		{"reused, allowed by digest", []*rego.Facts{r2}, r2b, []string{r2b.Digest}, ""},
		{"without, later", []*rego.Facts{r1}, none, nil, rego.CodeEpochMissing},
		{"without, allowed", []*rego.Facts{r1}, none, []string{"r3"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := rego.Epochs{Dir: filepath.Join(t.TempDir(), "data", "epochs")}
			for _, f := range tt.before {
				if err := e.Raise("base", f); err != nil {
					t.Fatal(err)
				}
			}
			e = rego.Epochs{Dir: e.Dir} // as after a restart
			if err := e.Check("base", tt.give, tt.allowed); rego.BundleCodeOf(err) != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if err := e.Check("other", r1, nil); err != nil {
				t.Errorf("another layer has the mark too: %v", err)
			}
		})
	}
}

// A bundle that an operator lets in beside the mark does not take the mark's place:
// once the word for it is taken back, the bundle of the mark is the one of its epoch.
func TestEpochsKeepTheMark(t *testing.T) {
	r1 := release(t, `{"revision": "r1", "metadata": {"callgate": {"epoch": 1}}}`, "x := 1")
	r2 := release(t, `{"revision": "r2", "metadata": {"callgate": {"epoch": 2}}}`, "x := 2")
	beside := release(t, `{"revision": "r2b", "metadata": {"callgate": {"epoch": 2}}}`, "x := 3")
	for name, allowed := range map[string]*rego.Facts{"of its epoch": beside, "of an older one": r1} {
		e := rego.Epochs{Dir: t.TempDir()}
		if err := e.Raise("base", r2); err != nil {
			t.Fatal(err)
		}
		if err := e.Check("base", allowed, []string{allowed.Digest}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := e.Raise("base", allowed); err != nil {
			t.Fatal(err)
		}
		if err := e.Check("base", r2, nil); err != nil {
			t.Errorf("%s: the bundle of the mark is refused: %v", name, err)
		}
		if err := e.Check("base", allowed, nil); err == nil {
			t.Errorf("%s: in without a word", name)
		}
	}
}

// A mark that cannot be read is not no mark.
func TestEpochsDamaged(t *testing.T) {
	r1 := release(t, `{"revision": "r1", "metadata": {"callgate": {"epoch": 1}}}`, "x := 1")
	for _, body := range []string{"", "{}", "null", `{"epoch": -1, "content": "x", "revision": ""}`, `{"epoch": 0, "content": "x", "revision": "", "x": 1}`} {
		e := rego.Epochs{Dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(e.Dir, "base.json"), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := e.Check("base", r1, []string{"r1"}); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%q: %v", body, err)
		}
		if err := e.Raise("base", r1); err == nil {
			t.Errorf("%q: raised", body)
		}
	}
	if err := (rego.Epochs{Dir: t.TempDir()}).Check("../x", r1, nil); err == nil {
		t.Error("a layer's name leads elsewhere")
	}
}

func TestInspect(t *testing.T) {
	m := sign(t, policy(), edKey(t))
	f, err := rego.Inspect(m)
	if err != nil {
		t.Fatal(err)
	}
	if f.Revision != "r1" || f.Epoch == nil || *f.Epoch != 7 || f.Files != 5 ||
		!slices.Equal(f.Packages, []string{"callgate"}) || !slices.Equal(f.Data, []string{"hosts", "more"}) {
		t.Errorf("%+v", f)
	}
	if c := f.Claims; c == nil || c.KeyID != "k" || c.Scope != "team/bundle" || !c.Expires.Equal(signed.Add(24*time.Hour)) || c.Problem != "" {
		t.Errorf("claims %+v", c)
	}
	again, err := rego.Inspect(sign(t, policy(), edKey(t), func(s *pack.Signing) { s.Scope = "else" }))
	if err != nil || again.Content != f.Content || again.Digest != f.Digest {
		t.Errorf("signed anew, it is another bundle: %+v, %v", again, err)
	}
	text := maps.Clone(m)
	put(text, "README.md", "bye")
	put(text, signatures, "x")
	other, err := rego.Inspect(text)
	if err != nil || other.Content == f.Content || other.Digest != f.Digest || other.Claims.Problem == "" {
		t.Errorf("with another text: %+v, %v", other, err)
	}
}

// An epoch is a whole number, and nothing that is read as one.
func TestInspectEpoch(t *testing.T) {
	for give, want := range map[string]int64{
		"0": 0, "9007199254740991": 9007199254740991,
		"-1": -1, "1.0": -1, "1e3": -1, `"7"`: -1, "null": -1, "[7]": -1, "true": -1, "9007199254740992": -1, "1e400": -1,
	} {
		f := release(t, `{"revision": "r", "metadata": {"callgate": {"epoch": `+give+`}}}`, "x := 1")
		got := int64(-1)
		if f.Epoch != nil {
			got = *f.Epoch
		}
		if got != want {
			t.Errorf("%s is %d, want %d", give, got, want)
		}
	}
	for _, manifest := range []string{`{}`, `{"metadata": {"callgate": 7}}`, `{"metadata": {"callgate.epoch": 7}}`} {
		if f := release(t, manifest, "x := 1"); f.Epoch != nil {
			t.Errorf("%s has epoch %d", manifest, *f.Epoch)
		}
	}
}
