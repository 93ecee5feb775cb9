package rego

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/callgate/callgate/bundles"
)

// sample is one bundle of testdata/vet: what a section holds, beside the library.
// Its first file is rules.rego in callgate.rules; a line "@ name" starts another. A
// section of a file whose name begins with bare has no library beside it.
type sample struct {
	name string
	want []string // codes
	give fs.FS
}

// samples reads a file of testdata/vet. A section's name is "name: code code".
func samples(t testing.TB, file string) []sample {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]sample, 0, len(a.Files))
	for _, f := range a.Files {
		name, codes, _ := strings.Cut(f.Name, ":")
		out = append(out, sample{name, strings.Fields(codes), sampleFiles(t, string(f.Data), strings.HasPrefix(filepath.Base(file), "bare"))})
	}
	return out
}

func sampleFiles(t testing.TB, text string, bare bool) fs.FS {
	t.Helper()
	out := fstest.MapFS{}
	if !bare {
		add(t, out, "callgate/", bundles.Base())
	}
	name, b := "rules.rego", strings.Builder{}
	keep := func() {
		src := b.String()
		if name == "rules.rego" && !strings.HasPrefix(strings.TrimLeft(src, "\n"), "package") && !bare {
			src = "package callgate.rules\n\nimport rego.v2\n" + src
		}
		out[name] = &fstest.MapFile{Data: []byte(src)}
		b.Reset()
	}
	for line := range strings.Lines(text) {
		if next, ok := strings.CutPrefix(line, "@ "); ok {
			if strings.TrimSpace(b.String()) != "" {
				keep()
			}
			name = strings.TrimSpace(next)
			continue
		}
		b.WriteString(line)
	}
	keep()
	return out
}

func corpus(t testing.TB, pattern string) map[string][]sample {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "vet", pattern))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	out := map[string][]sample{}
	for _, n := range names {
		out[filepath.Base(n)] = samples(t, n)
	}
	return out
}

// codesOf are the codes of findings, each once.
func codesOf(fs []Finding, s Severity) []string {
	out := map[string]bool{}
	for _, f := range fs {
		if f.Severity == s {
			out[f.Code] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// What authors get wrong does not load, and says why in all places at once.
func TestWrongPoliciesDoNotLoad(t *testing.T) {
	n := 0
	for file, all := range corpus(t, "*wrong*.txtar") {
		for _, s := range all {
			n++
			t.Run(file+"/"+s.name, func(t *testing.T) {
				found, err := Check(t.Context(), s.give, CheckOptions{})
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(s.want)
				if got := codesOf(found, SeverityError); !slices.Equal(got, s.want) {
					t.Errorf("codes %v, want %v\n%v", got, s.want, found)
				}
				if n%4 == 0 { // all of them would only take long
					refuses(t, s)
				}
			})
		}
	}
	t.Log(n, "wrong policies")
}

func refuses(t *testing.T, s sample) {
	t.Helper()
	_, err := Open(t.Context(), s.give, Options{})
	if err == nil {
		t.Fatal("loads")
	}
	for _, c := range s.want {
		// What is no rule's fault needs no code beside its place.
		if !slices.Contains([]string{"bundle_files", "starter_data", "rules"}, c) && !strings.Contains(err.Error(), c) {
			t.Errorf("%v\nhas no %s", err, c)
		}
	}
}

// Nothing that an author may write is refused.
func TestRightPoliciesLoad(t *testing.T) {
	n := 0
	for file, all := range corpus(t, "*right*.txtar") {
		for _, s := range all {
			n++
			t.Run(file+"/"+s.name, func(t *testing.T) {
				found, err := Check(t.Context(), s.give, CheckOptions{})
				if err != nil || len(found) > 0 { // it has been opened, too
					t.Errorf("%v\n%v", found, err)
				}
			})
		}
	}
	t.Log(n, "right policies")
}

func TestShippedPoliciesHaveNoErrors(t *testing.T) {
	web := withBase(t, bundles.Project())
	add(t, web, "", bundles.Web())
	tested := fstest.MapFS{}
	add(t, tested, "callgate/", os.DirFS("../bundles/base"))
	dir := func(name string) fs.FS { return withBase(t, os.DirFS(filepath.Join("..", "bundles", name))) }
	for name, tt := range map[string]struct {
		give fs.FS
		role Role
	}{
		"base": {withBase(t, fstest.MapFS{}), Permit}, "base with tests": {tested, Permit},
		"project": {withBase(t, bundles.Project()), Permit}, "web": {web, Permit},
		"starter": {withBase(t, bundles.Starter()), Permit}, "starter example": {dir("starter"), Permit},
		"coding-agent": {dir("coding-agent"), Permit}, "org-baseline": {dir("org-baseline"), Restrict},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Check(t.Context(), tt.give, CheckOptions{Role: tt.role})
			if err != nil || len(found) > 0 {
				t.Errorf("%v\n%v", found, err)
			}
		})
	}
}

func TestWordsThatPermitAreNotForRestrictLayers(t *testing.T) {
	for word, want := range map[string][]string{
		`allow contains {"id": "x"}`: {"word_misplaced"}, `waive contains "ask"`: {"word_misplaced"},
		`deny contains "no"`: nil, `label contains "x"`: nil,
	} {
		b := sampleFiles(t, word+` if input.tool.name == "x"`, false)
		found, err := Check(t.Context(), b, CheckOptions{Role: Restrict})
		if got := codesOf(found, SeverityError); !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: %v, %v", word, found, err)
		}
		if found, err := Check(t.Context(), b, CheckOptions{Role: Permit}); len(found) > 0 || err != nil {
			t.Errorf("%s in a permit layer: %v, %v", word, found, err)
		}
	}
}

// A copy of the library elsewhere would hide an author's rules among its own.
func TestTheLibraryStandsInItsDirectory(t *testing.T) {
	found, err := Check(t.Context(), bundles.Base(), CheckOptions{})
	if got := codesOf(found, SeverityError); !slices.Contains(got, "package_reserved") || err != nil {
		t.Errorf("%v, %v", found, err)
	}
}

func TestFindingsAreSortedAndTellWhatToWrite(t *testing.T) {
	found, err := Check(t.Context(), sampleFiles(t, `deny contains "no" if data.frozne

alow contains {"id": "x"} if input.principal.kind == "agnt"
@ a.rego
package misspelt

x := 1
@ frozen/data.json
{}
`, false), CheckOptions{})
	want := []string{
		"a.rego:1: package_unread: nothing reads package misspelt; rules that decide go into package callgate.rules, and rules there read helpers",
		"rules.rego:4: data_unknown: data.frozne is neither a rule nor data of this bundle; did you mean frozen?",
		"rules.rego:6: constant_unknown: input.principal.kind is never \"agnt\": it is one of agent, user, service; did you mean agent?",
		"rules.rego:6: rule_unread: alow is not a word, and no rule reads it; did you mean allow?",
	}
	var got []string
	for _, f := range found {
		got = append(got, f.String())
	}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
}

// A log may hold the places of what is wrong, and so nothing of the data.
func TestPlacesOfFindingsQuoteNoData(t *testing.T) {
	_, err := Open(t.Context(), sampleFiles(t, `deny contains "no" if input.tool.class in data.secrets
@ secrets/data.json
["hunter2"]
`, false), Options{})
	if got := Places(err); !slices.Equal(got, []string{"rules.rego:4: constant_unknown"}) {
		t.Errorf("%v of %v", got, err)
	}
}

func TestCheckOptions(t *testing.T) {
	for name, o := range map[string]CheckOptions{"role": {Role: "both"}, "entrypoint": {Entrypoint: "data.x[_]"}} {
		if _, err := Check(t.Context(), withBase(t, fstest.MapFS{}), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, withBase(t, fstest.MapFS{}), CheckOptions{}); err == nil {
		t.Error("nothing is known, and no error says so")
	}
	other := files("p.rego", "package agent\n\ndecision if input.tool.name == \"x\"\n")
	if found, err := Check(t.Context(), other, CheckOptions{Entrypoint: "data.agent.decision"}); err != nil || len(found) > 0 {
		t.Errorf("another entrypoint: %v, %v", found, err)
	}
}

// smallBase is a library of the least, for speed.
func smallBase(t testing.TB) fstest.MapFS {
	t.Helper()
	words, err := fs.ReadFile(bundles.Base(), "words.rego")
	if err != nil {
		t.Fatal(err)
	}
	return files("callgate/words.rego", string(words),
		"callgate/lib.rego", "package callgate.lib\n\nrole(r) if r in input.principal.roles\n\nclass := input.tool.class\n\nroles := {r | some r in input.principal.roles}\n",
		"callgate/decision.rego", `package callgate

import data.callgate.rules

default decision := false

decision := {"decision": "allow", "grants": rules.allow, "limits": rules.limit} if {
	count(rules.allow) > 0
	count(rules.deny) + count(rules.ask) == 0
	input.tool.name != ""
}
`)
}

// Whatever the rules are, Check says that they load exactly if they do, in order.
func FuzzCheck(f *testing.F) {
	for _, all := range corpus(f, "*.txtar") {
		for _, s := range all {
			if b, err := fs.ReadFile(s.give, "rules.rego"); err == nil {
				f.Add(string(b))
			}
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		b := smallBase(t)
		b["rules.rego"] = &fstest.MapFile{Data: []byte(src)}
		o := world()
		found, err := Check(t.Context(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), b, Options{})
		if refused := len(codesOf(found, SeverityError)) > 0; refused != (err != nil) {
			t.Errorf("Open: %v\nCheck: %v", err, found)
		}
		if again := inOrder(slices.Clone(found)); !slices.Equal(found, again) {
			t.Errorf("not in order: %v", found)
		}
	})
}
