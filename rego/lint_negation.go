package rego

import "github.com/open-policy-agent/opa/v1/ast"

// lintNegation warns of rules that permit by what is not there, and of the older
// negation where it says no for another reason than it seems.
func (v *vetting) lintNegation() {
	v.written(func(m *module, r *ast.Rule) {
		word := v.wordOf(m, r)
		permits := word == "allow" || word == "waive"
		for _, part := range []any{r.Head, r.Body} {
			ast.WalkExprs(part, func(e *ast.Expr) bool {
				if permits && e.IsNegated() {
					v.warn(e.Location, "negation_permits",
						"%s holds because something does not, and so also when that is absent; say what must be there, in a helper if need be", word)
				}
				if e.Negated && hoists(e) {
					v.warn(e.Location, "negation_hoisted",
						"without import rego.v2, this not is undefined rather than true when what it asks about is absent; add the import")
				}
				return false
			})
		}
	})
}

// hoists says that OPA's older negation evaluates a part of e before the not: the
// operands of calls, and what stands in brackets.
func hoists(e *ast.Expr) bool {
	if !e.IsCall() {
		t, ok := e.Terms.(*ast.Term)
		return ok && nests(t.Value)
	}
	equal := isEqual(e.Operator())
	for _, t := range e.Operands() {
		switch x := t.Value.(type) {
		case ast.Ref:
			if !equal || nests(x) {
				return true
			}
		case ast.Call:
			return true
		default:
			if !equal && contains(t, isRefOrCall) {
				return true
			}
		}
	}
	return false
}

// nests says that x is a reference, or a call, with another inside.
func nests(x ast.Value) bool {
	switch x := x.(type) {
	case ast.Call:
		return contains(ast.NewTerm(ast.NewArray(x.Operands()...)), isRefOrCall)
	case ast.Ref:
		if _, ok := x[0].Value.(ast.Var); !ok && !ast.IsConstant(x[0].Value) {
			return true
		}
		return contains(ast.NewTerm(ast.NewArray(x[1:]...)), isRefOrCall)
	default:
		return false
	}
}

func isRefOrCall(x ast.Value) bool {
	switch x.(type) {
	case ast.Ref, ast.Call:
		return true
	default:
		return false
	}
}
