package rego

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// codesSaid are the codes of the findings that the sources of vet and lint make. A
// code is a text, or a constant of the same file.
func codesSaid(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{"refuse": 1, "warn": 1, "found": 0}
	out := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(file, "vet") && !strings.HasPrefix(file, "lint") {
			continue
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		consts := map[string]ast.Expr{}
		keep := func(e ast.Expr) {
			if name, ok := e.(*ast.Ident); ok && consts[name.Name] != nil {
				e = consts[name.Name]
			}
			if lit, ok := e.(*ast.BasicLit); ok {
				code, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out[code] = true
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, v := range n.Values {
					consts[n.Names[i].Name] = v
				}
			case *ast.CallExpr:
				name := ""
				switch fn := n.Fun.(type) {
				case *ast.SelectorExpr:
					name = fn.Sel.Name
				case *ast.Ident:
					name = fn.Name
				}
				if i, ok := at[name]; ok && i < len(n.Args) {
					keep(n.Args[i])
				}
			case *ast.CompositeLit:
				if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Finding" && len(n.Elts) > 1 {
					keep(n.Elts[1])
				}
			}
			return true
		})
	}
	return out
}

// The tables of docs/policy-authors.md have each code that vet and lint say, and no
// other.
func TestCodesAreInTheDocs(t *testing.T) {
	b, err := os.ReadFile("../docs/policy-authors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## What does not load\n")
	text, _, end := strings.Cut(text, "\n## ")
	if !ok || !end {
		t.Fatal("the section is gone")
	}
	listed := map[string]bool{}
	code := regexp.MustCompile("`([a-z_]+)`")
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[1], -1) {
			listed[m[1]] = true
			if strings.TrimSpace(cells[2]) == "" || strings.TrimSpace(cells[3]) == "" {
				t.Errorf("%s has no meaning or no remedy", m[1])
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(codesSaid(t))); !slices.Equal(got, want) {
		t.Errorf("docs list %v\nthe source says %v", got, want)
	}
}

// A constant that a change of case would change is none that lower or upper gives.
func TestCaseIsKeptByAnotherChange(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		if low := strings.ToLower(s); strings.ToLower(low) != low {
			t.Errorf("lower of %U changes again", r)
		}
		if up := strings.ToUpper(s); strings.ToUpper(up) != up {
			t.Errorf("upper of %U changes again", r)
		}
	}
}
