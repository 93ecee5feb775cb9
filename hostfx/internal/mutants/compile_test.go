//go:build mutants

package mutants

import (
	"go/ast"
	"go/parser"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A mutant that does not compile proves nothing. To look at all of them first takes less
// than to find the last one at the end.
func TestMutantsCompile(t *testing.T) {
	loaded := map[string]*packages.Package{}
	for _, m := range chosen(t) {
		dir := path.Dir(m.file)
		p := loaded[dir]
		if p == nil {
			p = load(t, dir)
			loaded[dir] = p
		}
		text, err := m.apply()
		if err != nil {
			continue // as TestTables says
		}
		name, err := filepath.Abs(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.Index(p.CompiledGoFiles, name)
		if i < 0 {
			t.Errorf("%s: %s: the file is not compiled here", m.table, m.name)
			continue
		}
		file, err := parser.ParseFile(p.Fset, m.file, text, parser.SkipObjectResolution)
		if err == nil {
			files := slices.Clone(p.Syntax)
			files[i] = file
			err = check(p, files)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", m.table, m.name, err)
		}
	}
}

func load(t *testing.T, dir string) *packages.Package {
	t.Helper()
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
		Dir:  root,
	}, "./"+dir)
	if err != nil || len(list) != 1 || len(list[0].Errors) > 0 || len(list[0].Syntax) != len(list[0].CompiledGoFiles) {
		t.Fatalf("loading %s: %v, %v", dir, err, list)
	}
	return list[0]
}

// check is what the compiler says of the package with these files.
func check(p *packages.Package, files []*ast.File) error {
	conf := types.Config{
		Importer: importer{p}, Sizes: p.TypesSizes,
		// Files of other packages were read with the versions of their modules.
		GoVersion: p.Types.GoVersion(),
	}
	_, err := conf.Check(p.PkgPath, p.Fset, files, nil)
	return err
}

// importer gives the packages that were loaded.
type importer struct{ of *packages.Package }

func (i importer) Import(name string) (*types.Package, error) {
	if name == "unsafe" {
		return types.Unsafe, nil
	}
	return i.of.Imports[name].Types, nil
}
