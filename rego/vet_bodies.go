package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkBodies has OPA check the types in every, not, and, or: it looks only at
// references to the input there. So it is shown the same rules with comprehensions
// in their stead, whose bodies it checks.
func (v *vetting) checkBodies() {
	schema, err := inputSchema()
	if err != nil {
		v.refuse(nil, "schema", "%v", err)
		return
	}
	modules, changed := map[string]*ast.Module{}, false
	for _, m := range v.modules {
		file := m.parsed.Package.Location.File
		modules[file] = m.parsed
		if m.authored() && hasBodies(m.parsed) {
			changed = true
			cpy := m.parsed.Copy()
			openBodies(cpy)
			modules[file] = cpy
		}
	}
	if !changed {
		return
	}
	schemas := ast.NewSchemaSet()
	schemas.Put(ast.SchemaRootRef, schema)
	c := ast.NewCompiler().WithCapabilities(v.compiler.Capabilities()).WithSchemas(schemas).SetErrorLimit(0)
	c.Compile(modules)
	for _, e := range c.Errors {
		// Others come of what was changed: a variable may be out of reach now.
		if e.Code == ast.TypeErr && !v.told(placeOf(e.Location)) {
			v.refuse(e.Location, "type", "%s", e.Message)
		}
	}
}

// told says that there is an error about fields or constants at where already.
func (v *vetting) told(where string) bool {
	return slices.ContainsFunc(v.findings, func(f Finding) bool {
		return f.Where == where && (f.Code == "field_unknown" || f.Code == "constant_unknown")
	})
}

func hasBodies(m *ast.Module) bool {
	found := false
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		found = found || e.IsEvery() || e.IsNot() || e.IsAnd() || e.IsOr()
		return found
	})
	return found
}

func openBodies(m *ast.Module) {
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		switch x := e.Terms.(type) {
		case *ast.Every:
			in := ast.Member.Call(x.Value.Copy(), x.Domain)
			if x.Key != nil {
				in = ast.MemberWithKey.Call(x.Key.Copy(), x.Value.Copy(), x.Domain)
			}
			some := &ast.SomeDecl{Symbols: []*ast.Term{in}, Location: e.Location}
			body := append(ast.Body{{Terms: some, Location: e.Location}}, x.Body...)
			e.Terms = located(ast.ArrayComprehensionTerm(x.Value.Copy(), renumbered(body)), e.Location)
		case *ast.Not:
			e.Terms = opened(x.Body, e.Location)
		case *ast.LogicalAnd:
			e.Terms = located(ast.ArrayTerm(opened(x.Lhs, e.Location), opened(x.Rhs, e.Location)), e.Location)
		case *ast.LogicalOr:
			e.Terms = located(ast.ArrayTerm(opened(x.Lhs, e.Location), opened(x.Rhs, e.Location)), e.Location)
		}
		return false
	})
}

func opened(b ast.Body, l *ast.Location) *ast.Term {
	return located(ast.ArrayComprehensionTerm(ast.BooleanTerm(true), renumbered(b)), l)
}

func located(t *ast.Term, l *ast.Location) *ast.Term { return t.SetLocation(l) }

func renumbered(b ast.Body) ast.Body {
	for i, e := range b {
		e.Index = i
	}
	return b
}
