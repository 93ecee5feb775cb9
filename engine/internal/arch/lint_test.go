package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../../.."

// banned imports, with the files that may have them all the same and why.
var banned = map[string]struct {
	why    string
	except []string
}{
	"encoding/json": {why: "it matches names without case and keeps the last of two equal keys; use go-json-experiment/json"},
	"unsafe":        {why: "a grant is only as sealed as the code around it is safe", except: []string{"sandbox/image_linux.go", "hostfx/confine_linux.go"}}, // to map memory at a place, and to ask which of it was written; to tell the kernel what a command may do
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1": {why: "its authors say that it is no boundary: sandbox/wasi"},
	"github.com/tetratelabs/wazero/experimental/sys":               {why: "it is the file system of wazero's WASI: sandbox/wasi"},
	"github.com/tetratelabs/wazero/experimental/sysfs":             {why: "its read-only mounts are written through: hostfx"},
	"C":                         {why: "cgo is never worth it here"},
	"math/rand":                 {why: "randomness here is for secrets: crypto/rand"},
	"math/rand/v2":              {why: "randomness here is for secrets: crypto/rand", except: []string{"engine/state/statetest/everything.go"}},
	"github.com/rs/zerolog/log": {why: "loggers are passed in options, never global"},
	"log":                       {why: "loggers are passed in options, never global"},
}

// bannedCalls are what only the named files may call. To name time.Now as the
// default of an option is fine.
var bannedCalls = map[string]struct {
	why    string
	except []string
}{
	"time.Now":           {why: "clocks are options", except: []string{"cmd/callgate/output.go", "engine/grant/granttest/granttest.go", "engine/state/statetest/clocks.go"}},
	"os.Exit":            {why: "only main ends the process", except: []string{"cmd/callgate/main.go", "hostfx/exec_main.go", "sandbox/main.go", "sandbox/guest/guest.go"}},
	"http.DefaultClient": {why: "it follows redirects and the environment's proxy"},
	"http.Get":           {why: "it follows redirects and the environment's proxy"},
}

// goFiles calls yield for every Go file that ships.
func goFiles(t *testing.T, yield func(name string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		yield(filepath.ToSlash(name), file, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLint(t *testing.T) {
	files := 0
	goFiles(t, func(name string, file *ast.File, fset *token.FileSet) {
		files++
		for _, imp := range file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if b, ok := banned[path]; ok && !slices.Contains(b.except, name) {
				t.Errorf("%s imports %s: %s", name, path, b.why)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				n = c.Fun
			} else if name := selector(n); !strings.HasPrefix(name, "viper.") && name != "http.DefaultClient" {
				return true
			}
			call := selector(n)
			if b, ok := bannedCalls[call]; ok && !slices.Contains(b.except, name) {
				t.Errorf("%s uses %s: %s", fset.Position(n.Pos()), call, b.why)
			}
			if strings.HasPrefix(call, "viper.") && call != "viper.New" {
				t.Errorf("%s uses %s: viper loads one Config and is asked nothing else", fset.Position(n.Pos()), call)
			}
			return true
		})
	})
	if files < 50 {
		t.Errorf("only %d files looked at: the walk is wrong", files)
	}
}

// selector is "pkg.Name", or "" for anything else.
func selector(n ast.Node) string {
	if sel, ok := n.(*ast.SelectorExpr); ok {
		if pkg, ok := sel.X.(*ast.Ident); ok {
			return pkg.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

// Long files hide things.
func TestFilesStayShort(t *testing.T) {
	goFiles(t, func(name string, file *ast.File, fset *token.FileSet) {
		if n := fset.File(file.Pos()).LineCount(); n > 450 {
			t.Errorf("%s has %d lines", name, n)
		}
	})
}

// Every exported name of the packages that others build on says what it is for.
func TestExportedNamesAreDocumented(t *testing.T) {
	goFiles(t, func(name string, file *ast.File, fset *token.FileSet) {
		if file.Name.Name == "main" {
			return
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					t.Errorf("%s: %s has no comment", fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: %s has no comment", fset.Position(ts.Pos()), ts.Name.Name)
					}
				}
			}
		}
	})
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	id, ok := t.(*ast.Ident)
	if !ok || !id.IsExported() {
		return false
	}
	// Methods that only implement a well-known interface explain themselves.
	return !slices.Contains([]string{"Error", "Unwrap", "String", "Write", "Read", "Close"}, d.Name.Name)
}

// The threat model cites the test that proves each of its claims, and each of
// them exists.
func TestThreatModelCitesTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cited := 0
	for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" `|,;.()\n", r) }) {
		if strings.HasPrefix(word, "Test") || strings.HasPrefix(word, "Fuzz") || strings.HasPrefix(word, "Example") {
			cited++
			if !tests[word] {
				t.Errorf("docs/threat-model.md cites %s, which is not there", word)
			}
		}
	}
	if cited < 20 {
		t.Errorf("docs/threat-model.md cites only %d tests", cited)
	}
}

// Every code of the engine is produced by something and asserted by some test.
func TestEveryCodeIsProducedAndTested(t *testing.T) {
	codes := map[string]*[2]bool{} // constant -> produced, tested
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "engine/call/code.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Code") {
			codes[v.Names[0].Name] = &[2]bool{}
		}
		return true
	})
	if len(codes) < 30 {
		t.Fatalf("only %d codes found", len(codes))
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "call/code.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		at := 0
		if strings.HasSuffix(path, "_test.go") {
			at = 1
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && codes[id.Name] != nil {
				codes[id.Name][at] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, seen := range codes {
		if !seen[0] {
			t.Errorf("nothing produces call.%s", name)
		}
		if !seen[1] {
			t.Errorf("no test speaks of call.%s", name)
		}
	}
}
