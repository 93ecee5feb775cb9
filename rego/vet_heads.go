package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

const headAdvice = "without %s this %s is no more; ask for it in the body, write a template string, or object.get with a default"

// checkHeads refuses a field in the head of deny, ask or limit that a call need not
// have: without it the rule is undefined and takes nothing away. Claims, context and
// facts nobody promises. An argument is promised by the schema of a tool that
// requires it, which is not known here: of a rule that says which tools it is for,
// arguments are left to lint, which knows the schemas.
func (v *vetting) checkHeads() {
	v.optionalHeads(func(m *module, r *ast.Rule, ref ast.Ref, g guard) {
		if !mayBeRequired(ref, g) {
			v.refuse(r.Location, "head_optional", headAdvice, ref, v.wordOf(m, r))
		}
	})
}

// mayBeRequired says that ref is an argument of tools that the rule names.
func mayBeRequired(ref ast.Ref, g guard) bool {
	return g.named && ref[1].Equal(ast.StringTerm("args"))
}

// optionalHeads calls f for each field that a head needs, or what the body makes for
// it, that an input may lack, and that the body does not ask for.
func (v *vetting) optionalHeads(f func(m *module, r *ast.Rule, ref ast.Ref, g guard)) {
	if !v.library {
		return
	}
	h := v.heads()
	v.written(func(m *module, r *ast.Rule) {
		if r.Head.Key == nil || !slices.Contains([]string{"deny", "ask", "limit"}, v.wordOf(m, r)) {
			return
		}
		made, asks := h.split(m, r)
		g, spelled := h.guardOf(m, asks, maxHops), h.spelled(m, r.Body)
		for i, ref := range g.needs {
			g.needs[i] = spelled(ref)
		}
		told := map[string]bool{}
		for _, t := range append(made, r.Head.Key) {
			walkStrict(t, func(ref ast.Ref) {
				if ref = spelled(ref); optional(ref) && !g.asksFor(ref) && !told[ref.String()] {
					told[ref.String()] = true
					f(m, r, ref, g)
				}
			})
		}
	})
}

// heads finds what bodies ask for, by helpers too.
type heads struct {
	v     *vetting
	rules map[string][]headRule // by full name
}

func (v *vetting) heads() heads {
	h := heads{v: v, rules: map[string][]headRule{}}
	for _, m := range v.modules {
		for _, r := range m.parsed.Rules {
			full := m.pkg + "." + nameOf(r)
			h.rules[full] = append(h.rules[full], headRule{m, r})
		}
	}
	return h
}

type headRule struct {
	m *module
	r *ast.Rule
}

// guard is what a body cannot hold without.
type guard struct {
	needs []ast.Ref
	named bool // the tool is one of some, or of a name like theirs
}

func (g guard) asksFor(ref ast.Ref) bool {
	return slices.ContainsFunc(g.needs, func(n ast.Ref) bool { return n.HasPrefix(ref) })
}

// and is a guard of both, and or of one of the two.
func (g guard) and(o guard) guard {
	return guard{slices.Concat(g.needs, o.needs), g.named || o.named}
}

func (g guard) or(o guard) guard {
	var both []ast.Ref
	for _, n := range slices.Concat(g.needs, o.needs) {
		if g.asksFor(n) && o.asksFor(n) {
			both = append(both, n)
		}
	}
	return guard{both, g.named && o.named}
}

func (h heads) guardOf(m *module, b ast.Body, hops int) guard {
	var g guard
	for _, e := range b {
		switch x := e.Terms.(type) {
		case *ast.LogicalAnd:
			g = g.and(h.guardOf(m, x.Lhs, hops)).and(h.guardOf(m, x.Rhs, hops))
		case *ast.LogicalOr:
			g = g.and(h.guardOf(m, x.Lhs, hops).or(h.guardOf(m, x.Rhs, hops)))
		case *ast.Every:
			walkStrict(x.Domain, func(ref ast.Ref) { g.needs = append(g.needs, resolve(m, ref)) })
		default:
			if e.IsNegated() || len(e.With) > 0 || isPrint(e) {
				continue
			}
			walkStrict(e, func(ref ast.Ref) { g.needs = append(g.needs, resolve(m, ref)) })
			g.named = g.named || namesTool(m, e)
			if t, ok := e.Terms.(*ast.Term); ok && hops > 0 {
				g = g.and(h.helper(m, t.Value, hops-1))
			}
		}
	}
	return g
}

// helper is what a rule that stands alone in a body cannot be true without.
func (h heads) helper(m *module, x ast.Value, hops int) guard {
	ref, ok := x.(ast.Ref)
	if name, isVar := x.(ast.Var); isVar {
		ref, ok = ast.Ref{ast.VarTerm(string(name))}, true
	}
	if !ok {
		return guard{}
	}
	rules := h.rules[m.pkg+"."+ref.String()]
	if len(rules) == 0 {
		rules = h.rules[resolve(m, ref).String()]
	}
	var g guard
	first := true
	for _, x := range rules {
		for r := x.r; r != nil; r = r.Else {
			if r.Head.RuleKind() == ast.MultiValue {
				return guard{}
			}
			if r.Head.Value.Value.Compare(ast.Boolean(false)) == 0 {
				continue // it does not hold then
			}
			one := h.guardOf(x.m, r.Body, hops)
			walkStrict(r.Head.Value, func(ref ast.Ref) { one.needs = append(one.needs, resolve(x.m, ref)) })
			if first {
				g, first = one, false
			} else {
				g = g.or(one)
			}
		}
	}
	return g
}

// namesTool says that e asks for tools by their names.
func namesTool(m *module, e *ast.Expr) bool {
	if !e.IsCall() {
		return false
	}
	op := e.Operator()
	asks := isEqual(op) || slices.ContainsFunc([]*ast.Builtin{ast.Member, ast.StartsWith, ast.GlobMatch}, func(b *ast.Builtin) bool { return op.Equal(b.Ref()) })
	return asks && slices.ContainsFunc(e.Operands(), func(t *ast.Term) bool {
		ref, ok := t.Value.(ast.Ref)
		return ok && isToolName(resolve(m, ref))
	})
}

// resolve writes out what an import stands for.
func resolve(m *module, ref ast.Ref) ast.Ref {
	name, ok := ref[0].Value.(ast.Var)
	if !ok {
		return ref
	}
	for _, i := range m.parsed.Imports {
		if path, ok := i.Path.Value.(ast.Ref); ok && i.Name() == name && len(path) > 1 {
			return path.Concat(ref[1:])
		}
	}
	return ref
}

// optional says that an input may lack ref.
func optional(ref ast.Ref) bool {
	for _, open := range optionalPlaces {
		if ref.HasPrefix(open) && len(ref) > len(open) {
			return true
		}
	}
	return false
}

var optionalPlaces = []ast.Ref{
	ast.MustParseRef("input.args"), ast.MustParseRef("input.facts"),
	ast.MustParseRef("input.principal.claims"), ast.MustParseRef("input.asserted.context"),
}

// walkStrict calls f for the references in x that must be defined for x to be:
// not those in template strings and comprehensions, nor in a get with a default.
func walkStrict(x any, f func(ast.Ref)) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.TemplateString, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		case ast.Ref:
			f(x)
		}
		return false
	}).Walk(x)
}
