// Package mutants holds the proof that each check of effects is tested: tables of
// mutants, each of which is the code without one check, and the names of the tests that
// fail then. `make mutants` runs them.
package mutants

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// mutant is the code with one text in the place of another.
type mutant struct {
	table, name string
	file        string // relative to the module
	old, new    string
	tests       []cited
}

// cited are tests of which at least one must fail.
type cited struct {
	pkg   string // relative to the module
	names []string
}

// apply returns the mutant's file, which has the old text once.
func (m mutant) apply() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("%s has the old text %d times", m.file, n)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

// tables reads testdata/*.txt, whose form testdata/README describes.
func tables(t *testing.T) (all []mutant) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		table := strings.TrimSuffix(filepath.Base(f), ".txt")
		for n, part := range strings.Split("\n"+string(text), "\n= ")[1:] {
			m, err := parse(part)
			if err != nil {
				t.Fatalf("%s: mutant %d, %q: %v", f, n+1, m.name, err)
			}
			m.table = table
			all = append(all, m)
		}
	}
	return all
}

func parse(text string) (m mutant, err error) {
	var old, new []string
	for i, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case i == 0:
			m.name = line
		case line == "" || line[0] == '#':
		case line[0] == '-':
			old = append(old, line[1:])
		case line[0] == '+':
			new = append(new, line[1:])
		case key == "file":
			m.file = value
		case key == "tests":
			words := strings.Fields(value)
			if len(words) < 2 {
				return m, errors.New("tests of no package")
			}
			m.tests = append(m.tests, cited{words[0], words[1:]})
		default:
			return m, fmt.Errorf("what is %q?", line)
		}
	}
	m.old, m.new = strings.Join(old, "\n"), strings.Join(new, "\n")
	if m.file == "" || m.old == "" || m.old == m.new || len(m.tests) == 0 {
		return m, errors.New("no file, old text, difference or tests")
	}
	return m, nil
}

// The tables keep up with the code: each mutant can be made, and the tests that kill it
// are there.
func TestTables(t *testing.T) {
	all := tables(t)
	if len(all) < 100 {
		t.Errorf("only %d mutants", len(all))
	}
	have := map[string][]string{}
	names, made := map[string]bool{}, map[string]string{}
	for _, m := range all {
		id := m.table + ": " + m.name
		if names[id] {
			t.Errorf("there are two of %q", id)
		}
		names[id] = true
		text, err := m.apply()
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if other := made[m.file+string(text)]; other != "" {
			t.Errorf("%q is %q", id, other)
		}
		made[m.file+string(text)] = id
		for _, c := range m.tests {
			if have[c.pkg] == nil {
				have[c.pkg] = functions(t, c.pkg)
			}
			for _, name := range c.names {
				if !slices.Contains(have[c.pkg], name) {
					t.Errorf("%s: %s has no %s", id, c.pkg, name)
				}
			}
		}
	}
}

// functions are the names of the functions in a package's tests.
func functions(t *testing.T, pkg string) []string {
	t.Helper()
	out := []string{""}
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out
}
