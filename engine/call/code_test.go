package call

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

func TestCodesIsTheWholeTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []Code
	var typ string
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			id, ok := v.Type.(*ast.Ident)
			if !ok {
				t.Fatalf("%s has no type of its own", v.Names[0].Name)
			}
			if typ = id.Name; typ != "Code" {
				continue
			}
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			constants = append(constants, Code(text))
		}
	}
	var rows []Code
	classes := []Class{ClassDenied, ClassPending, ClassLimited, ClassUnavailable, ClassRan, ClassFailed}
	for _, i := range Codes() {
		rows = append(rows, i.Code)
		if i.Meaning == "" || !slices.Contains(classes, i.Class) {
			t.Errorf("%s: class %q, meaning %q", i.Code, i.Class, i.Meaning)
		}
		if i.Code.Info() != i {
			t.Errorf("Info of %s is another row", i.Code)
		}
	}
	if len(constants) < 30 || !slices.Equal(constants, rows) {
		t.Errorf("constants and rows differ:\n%v\n%v", constants, rows)
	}
	slices.Sort(rows)
	if len(slices.Compact(rows)) != len(constants) {
		t.Error("a code stands in the table twice")
	}
}

func TestUnknownCodeIsUnavailable(t *testing.T) {
	for _, c := range []Code{"", "no_such_code"} {
		if got := c.Info(); got.Class != ClassUnavailable || got.Meaning == "" {
			t.Errorf("Info(%q) = %+v", c, got)
		}
	}
}

func TestCodesIsACopy(t *testing.T) {
	Codes()[0] = CodeInfo{}
	if Codes()[0].Code == "" {
		t.Error("a change of Codes shows in the table")
	}
}
