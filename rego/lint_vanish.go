package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// lintVanishing warns of a rule that takes away where a field is something, and says
// nothing where a call does not have the field: neither it nor another rule asks
// whether it is there.
func (v *vetting) lintVanishing(o CheckOptions) {
	if !v.library {
		return
	}
	type question struct {
		expr *ast.Expr
		ref  ast.Ref
		word string
	}
	var questions []question
	var absent []ast.Ref // what some rule holds without
	h := v.heads()
	v.written(func(m *module, r *ast.Rule) {
		word, spelled := v.wordOf(m, r), h.spelled(m, r.Body)
		takes := word == "deny" || word == "ask" || word == "limit"
		g := h.guardOf(m, r.Body, maxHops)
		for _, e := range r.Body {
			if e.IsNegated() {
				absent = append(absent, h.negated(m, e, spelled)...)
			}
			if !takes || !isNegative(e) {
				continue
			}
			for _, t := range e.Operands() {
				ref := refOf(t, spelled)
				if ref != nil && v.vanishes(o, r, ref, g) {
					questions = append(questions, question{e, ref, word})
				}
			}
		}
	})
	for _, q := range questions {
		if !slices.ContainsFunc(absent, func(a ast.Ref) bool { return a.HasPrefix(q.ref) || q.ref.HasPrefix(a) }) {
			v.warn(q.expr.Location, "deny_vanishes",
				"%s says nothing of a call without %s; add a rule with not %s, or compare object.get with a default", q.word, q.ref, q.ref)
		}
	}
}

// isNegative says that e holds for most values: it refuses all but some.
func isNegative(e *ast.Expr) bool {
	if e.IsNegated() || len(e.With) > 0 || !e.IsCall() {
		return false
	}
	op := e.Operator()
	return slices.ContainsFunc([]*ast.Builtin{ast.NotEqual, ast.LessThan, ast.LessThanEq, ast.GreaterThan, ast.GreaterThanEq}, func(b *ast.Builtin) bool { return op.Equal(b.Ref()) })
}

// refOf is the place that t is, by itself or as a variable, or nil.
func refOf(t *ast.Term, spelled func(ast.Ref) ast.Ref) ast.Ref {
	ref, ok := t.Value.(ast.Ref)
	if name, isVar := t.Value.(ast.Var); isVar {
		ref, ok = ast.Ref{ast.VarTerm(string(name))}, true
	}
	if !ok {
		return nil
	}
	return spelled(ref)
}

// negated is what e, under its not, does not hold without.
func (h heads) negated(m *module, e *ast.Expr, spelled func(ast.Ref) ast.Ref) []ast.Ref {
	var out []ast.Ref
	walkStrict(e, func(ref ast.Ref) { out = append(out, spelled(ref)) })
	body := ast.NewBody(e)
	if not, ok := e.Terms.(*ast.Not); ok {
		body = not.Body
	}
	for _, x := range body {
		if t, ok := x.Terms.(*ast.Term); ok {
			out = append(out, h.helper(m, t.Value, maxHops).needs...)
		}
	}
	return out
}

// vanishes says that a call of r's may lack ref. Of arguments only those count that a
// known tool of the rule does not require; a rule for any tool is for those that have
// the argument.
func (v *vetting) vanishes(o CheckOptions, r *ast.Rule, ref ast.Ref, g guard) bool {
	switch {
	case !ref.IsGround() || !optional(ref) || ref[1].Equal(ast.StringTerm("facts")):
		return false
	case ref[1].Equal(ast.StringTerm("args")):
		return g.named && len(toolsOf(o, r)) > 0 && !v.required(o, r, ref)
	}
	return true
}

// lintLists warns of lists of the input that are compared as a whole.
func (v *vetting) lintLists() {
	v.written(func(m *module, r *ast.Rule) {
		for _, part := range []any{r.Head, r.Body} {
			ast.WalkExprs(part, func(e *ast.Expr) bool {
				if !e.IsCall() || !isEqual(e.Operator()) && !e.Operator().Equal(ast.NotEqual.Ref()) || len(e.Operands()) != 2 {
					return false
				}
				for i := range 2 {
					ref, ok := e.Operand(i).Value.(ast.Ref)
					list, is := e.Operand(1 - i).Value.(*ast.Array)
					if ok && is && list.Len() > 0 && slices.ContainsFunc(wholeLists, func(w ast.Ref) bool { return w.Equal(resolve(m, ref)) }) {
						v.warn(e.Location, "list_equal",
							"compares all of %s, and in this order; ask \"x\" in %s, or compare sets", ref, ref)
					}
				}
				return false
			})
		}
	})
}

var wholeLists = []ast.Ref{
	ast.MustParseRef("input.principal.roles"), ast.MustParseRef("input.session.labels"), ast.MustParseRef("input.session.plan"),
	ast.MustParseRef("input.tool.tags"), ast.MustParseRef("input.tool.sensitivity"), ast.MustParseRef("input.tool.findings"),
}
