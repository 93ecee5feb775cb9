package engine_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the code in docs/embedders.md anew")

var exampleBlock = regexp.MustCompile("<!-- example: (\\w+) -->\n(?:\n```\\w+\n(?s:.*?)\n```\n)?")

// The code in docs/embedders.md is that of the examples, which are compiled and
// run.
func TestEmbeddersDocumentRuns(t *testing.T) {
	const page = "../docs/embedders.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	source := exampleSources(t)
	shown := 0
	want := exampleBlock.ReplaceAllStringFunc(string(text), func(block string) string {
		name := exampleBlock.FindStringSubmatch(block)[1]
		code := source[name]
		if code == "" {
			t.Fatalf("there is no example %s", name)
		}
		shown++
		lang := "go"
		if !strings.HasPrefix(code, "func ") {
			lang = "rego"
		}
		return "<!-- example: " + name + " -->\n\n```" + lang + "\n" + code + "\n```\n"
	})
	if shown < 5 {
		t.Errorf("the page shows %d examples", shown)
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("docs/embedders.md differs from the examples: go test ./engine -run EmbeddersDocument -update")
	}
}

// exampleSources is the text of the functions and constants in example_test.go.
func exampleSources(t *testing.T) map[string]string {
	text, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "example_test.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	out := map[string]string{"policyText": strings.TrimSpace(policyText)}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			out[f.Name.Name] = string(text[at(f.Pos()):at(f.End())])
		}
	}
	return out
}
