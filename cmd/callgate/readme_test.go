package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/bundles"
)

// What differs from run to run: times, the folder, the log's name and its root,
// and how many records a checkpoint took in.
var varies = regexp.MustCompile(`[0-9.]+ ms|/\S*/?callgate-demo-\w+|under [0-9]+ signed|callgate.local/\w+|root \S+|record [12]\b|ap-\w+| +`)

// The README shows what the demo prints, and the policy that init writes.
func TestReadme(t *testing.T) {
	t.Setenv("CALLGATE_DECIDE_TIMEOUT", "1m")
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```\nA new project is in ")
	block, _, ok := strings.Cut(block, "\n```")
	if !ok {
		t.Fatal("the README does not show the demo")
	}
	var out, errOut strings.Builder
	dir := filepath.Join(t.TempDir(), "callgate-demo-x")
	if code := run(t.Context(), []string{"demo", dir}, strings.NewReader(""), &out, &errOut); code != exitOK {
		t.Fatalf("demo: exit %d, %s", code, errOut.String())
	}
	want := varies.ReplaceAllString("A new project is in "+block, " ")
	got := varies.ReplaceAllString(strings.TrimRight(out.String(), "\n"), " ")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the README's demo (-) is not the demo (+):\n%s", diff)
	}

	policy, err := fs.ReadFile(bundles.Project(), "docs.rego")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(text), "```rego\n")
	shown, _, ok = strings.Cut(shown, "```")
	if !ok || !strings.HasPrefix(string(policy), shown) {
		t.Error("the README does not show the beginning of the policy that init writes")
	}
}
