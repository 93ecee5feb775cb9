package bundles_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/loader"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/callgate/callgate/bundles"
)

const (
	schema       = "../rego/schema/input.json"
	capabilities = "../rego/schema/capabilities.json"
)

// opa runs plain OPA, of the version that is linked into the engine.
func opa(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"tool", "opa"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("opa %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// vendored is a policy with the base library beside it, as init writes it.
func vendored(t *testing.T, policy fs.FS) string {
	t.Helper()
	dir := t.TempDir()
	for to, from := range map[string]fs.FS{dir: policy, filepath.Join(dir, "callgate"): bundles.Base()} {
		if err := os.CopyFS(to, from); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shipped are the directories that plain OPA has to take: the library alone, the
// policies as init writes them, and the starter with the test of its example.
func shipped(t *testing.T) map[string]string {
	web := vendored(t, bundles.Project())
	if err := os.CopyFS(web, bundles.Web()); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"base": "base", "project": vendored(t, bundles.Project()), "project with web": web,
		"starter": vendored(t, bundles.Starter()), "starter example": vendored(t, os.DirFS("starter")),
		"org baseline": vendored(t, bundles.OrgBaseline()),
	}
}

// The library stands by itself: what it says of entries does not rest on there
// being some.
func TestPlainOPAChecksTheLibraryAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, bundles.Base()); err != nil {
		t.Fatal(err)
	}
	opa(t, "check", "-b", "--strict", "-s", schema, "--capabilities", capabilities, dir)
}

func TestPlainOPA(t *testing.T) {
	for name, dir := range shipped(t) {
		t.Run(name, func(t *testing.T) {
			opa(t, "test", "-b", "--timeout", "2m", "--fail-on-empty", dir)
			opa(t, "check", "-b", "--strict", "-s", schema, "--capabilities", capabilities, dir)
			opa(t, "fmt", "--fail", "--diff", dir)
		})
	}
}

// The engine takes an error of a builtin for a refusal, where plain OPA takes it for
// nothing said. No test that we ship passes because of the difference.
func TestStrictly(t *testing.T) {
	for name, dir := range shipped(t) {
		t.Run(name, func(t *testing.T) {
			loaded, err := loader.NewFileLoader().AsBundle(dir)
			if err != nil {
				t.Fatal(err)
			}
			store := inmem.New()
			txn, err := store.NewTransaction(t.Context(), storage.WriteParams)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Abort(t.Context(), txn)
			results, err := tester.NewRunner().
				SetStore(store).
				SetBundles(map[string]*bundle.Bundle{dir: loaded}).
				RaiseBuiltinErrors(true).
				SetTimeout(time.Minute).
				RunTests(t.Context(), txn)
			if err != nil {
				t.Fatal(err)
			}
			ran := 0
			for r := range results {
				if ran++; !r.Pass() {
					t.Errorf("%s.%s: %v", r.Package, r.Name, r.Error)
				}
			}
			if ran == 0 {
				t.Error("no test ran")
			}
		})
	}
}

// What the input does not have is an error for authors before it is one for
// the engine.
func TestPlainOPAChecksTheInput(t *testing.T) {
	dir := vendored(t, bundles.Project())
	src := "package callgate.rules\n\ndeny contains \"x\" if input.tool.nmae == \"x\"\n"
	if err := os.WriteFile(filepath.Join(dir, "typo.rego"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "opa", "check", "-b", "--strict", "-s", schema, dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "input.tool.nmae") {
		t.Errorf("opa check = %v\n%s", err, out)
	}
}

func TestCoverage(t *testing.T) {
	var report struct {
		Files map[string]struct {
			NotCovered []any `json:"not_covered"`
		} `json:"files"`
	}
	for name, dir := range shipped(t) {
		out := opa(t, "test", "-b", "--timeout", "2m", "--coverage", "--format", "json", dir)
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err)
		}
		for file, f := range report.Files {
			switch {
			case filepath.Base(file) == "words.rego": // rules that never hold: each word with nothing in it
			case name != "base" && strings.Contains(file, "/callgate/"):
			case len(f.NotCovered) > 0:
				t.Errorf("%s: not covered: %v", file, f.NotCovered)
			}
		}
		if len(report.Files) < 2 {
			t.Errorf("%s: the report has %d files", name, len(report.Files))
		}
		clear(report.Files)
	}
}

// Whoever changes the data keeps a bundle whose tests pass.
func TestStarterTestsNeedNoExample(t *testing.T) {
	dir := vendored(t, bundles.Starter())
	if err := os.RemoveAll(filepath.Join(dir, "starter")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "starter"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "starter", "data.json"), []byte(`{"tools": {}, "frozen": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	opa(t, "test", "-b", "--timeout", "2m", "--fail-on-empty", dir)
}

func TestBaseIsAllOfIt(t *testing.T) {
	names, err := filepath.Glob("base/*.rego")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, n := range names {
		if !strings.HasSuffix(n, "_test.rego") {
			want = append(want, filepath.Base(n))
		}
	}
	got, err := fs.Glob(bundles.Base(), "*")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Base() has %v, base/ has %v", got, want)
	}
}

func TestDigest(t *testing.T) {
	of := func(fsys fs.FS) string {
		t.Helper()
		d, err := bundles.Digest(fsys)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	first := of(fstest.MapFS{"a": file("x"), "b/c": file("y")})
	if got := of(fstest.MapFS{"b/c": file("y"), "a": file("x")}); got != first {
		t.Error("the order matters")
	}
	if !strings.HasPrefix(first, "sha256:") || len(first) != len("sha256:")+64 {
		t.Errorf("Digest() = %s", first)
	}
	for name, fsys := range map[string]fstest.MapFS{
		"bytes":    {"a": file("z"), "b/c": file("y")},
		"path":     {"a": file("x"), "b/d": file("y")},
		"missing":  {"a": file("x")},
		"extra":    {"a": file("x"), "b/c": file("y"), "d": file("")},
		"boundary": {"a": file("xfile 3 1\nb/cy")},
	} {
		if of(fsys) == first {
			t.Errorf("%s does not matter", name)
		}
	}
	if got, want := of(os.DirFS(filepath.Join(vendored(t, bundles.Project()), "callgate"))), of(bundles.Base()); got != want {
		t.Errorf("a copy of Base() is %s, Base() is %s", got, want)
	}
	if _, err := bundles.Digest(fstest.MapFS{"a": {Mode: fs.ModeSymlink}}); err == nil {
		t.Error("a link has a digest")
	}
}
