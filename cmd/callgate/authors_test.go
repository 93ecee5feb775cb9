package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// Every command of docs/policy-authors.md works, one after another, in an empty
// directory.
func TestPolicyAuthorsDocumentRuns(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy-authors.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	script := "set -eu\n"
	blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 6 {
		t.Fatalf("the document has %d blocks of commands", len(blocks))
	}
	for _, b := range blocks {
		script += b[1]
	}
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "CALLGATE_DECIDE_TIMEOUT=1m")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"Welcome", "somebody gets more", "would run", "rules that nearly held", "verified: "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands print nothing of %q:\n%s", want, out)
		}
	}
}

// The document's table of the input has the fields of the schema, all and no others.
func TestPolicyAuthorsDocumentNamesTheInput(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy-authors.md")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../rego/schema/input.json")
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties map[string]node `json:"properties"`
		Items      *node           `json:"items"`
	}
	var root node
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	var want []string
	var walk func(at string, n node)
	walk = func(at string, n node) {
		switch {
		case n.Items != nil && len(n.Items.Properties) > 0:
			walk(at+"[]", *n.Items)
		case len(n.Properties) == 0:
			want = append(want, at)
		}
		for name, p := range n.Properties {
			walk(strings.TrimPrefix(at+"."+name, "."), p)
		}
	}
	walk("", root)
	_, table, _ := strings.Cut(string(text), "## The input\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("the table has\n%q, the schema\n%q", got, want)
	}
}
