package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkWaivers looks for waivers that are for more tools than anybody can have meant.
// What lets raw tools run, with nothing to hold them, names them: it is refused unless
// its body asks which tool it is. Of other waivers that ask nothing about the tool it
// warns.
func (v *vetting) checkWaivers() {
	v.authors(func(m *module, r *ast.Rule) {
		if v.wordOf(m, r) != "waive" || r.Head.Key == nil {
			return
		}
		asked := v.askedOfTool(r)
		named := slices.ContainsFunc([]string{"", "name", "digest", "server", "tags"}, func(field string) bool { return asked[field] })
		switch parts := partsOf(r.Head.Key, r, maxHops); {
		case !named && slices.ContainsFunc(parts, mayBeRaw):
			v.refuse(r.Location, "waive_unguarded", `this waives "raw" for tools that it does not name, and nothing holds such tools to their capabilities; begin with input.tool.name == "x"`)
		case len(asked) == 0:
			v.hinting(func() {
				v.warn(r.Location, "waive_unguarded", `this waives a default for every tool; begin with input.tool.name == "x", or with another field of input.tool`)
			})
		}
	})
}

// mayBeRaw says that an entry is not known to be another one.
func mayBeRaw(entry *ast.Term) bool {
	s, ok := entry.Value.(ast.String)
	return !ok || s == "raw"
}

// askedOfTool are the fields of input.tool on which r depends, "" for all of it. What
// asks that a field is not something names no tool.
func (v *vetting) askedOfTool(r *ast.Rule) map[string]bool {
	out, seen := map[string]bool{}, map[*ast.Rule]bool{}
	tool := ast.MustParseRef("input.tool")
	var visit func(r *ast.Rule)
	visit = func(r *ast.Rule) {
		if seen[r] {
			return
		}
		seen[r] = true
		against := ast.NewVarSet() // what the compiler made of operands that are asked not to be
		ast.WalkExprs(r.Body, func(e *ast.Expr) bool {
			if asksNot(e) {
				against.Update(e.Vars(ast.VarVisitorParams{}))
			}
			return false
		})
		ast.NewGenericVisitor(func(x any) bool {
			switch x := x.(type) {
			case *ast.Expr:
				made := x.Generated && x.IsEquality() && slices.ContainsFunc(x.Operands(), func(t *ast.Term) bool {
					name, ok := t.Value.(ast.Var)
					return ok && against.Contains(name)
				})
				return made || asksNot(x)
			case ast.Ref:
				switch {
				case x.HasPrefix(tool) && len(x) == len(tool):
					out[""] = true
				case x.HasPrefix(tool):
					if field, ok := x[len(tool)].Value.(ast.String); ok {
						out[string(field)] = true
					}
				case x.HasPrefix(ast.DefaultRootRef):
					for _, dep := range v.compiler.GetRulesForVirtualDocument(x.GroundPrefix()) {
						visit(dep)
					}
				}
			}
			return false
		}).Walk(r.Body)
	}
	visit(r)
	return out
}

// asksNot says that e holds for all but what it says.
func asksNot(e *ast.Expr) bool {
	return e.IsNegated() || e.IsCall() && e.Operator().Equal(ast.NotEqual.Ref())
}
