package rego

import "github.com/open-policy-agent/opa/v1/ast"

// side is a rule, and whether the more it holds the more is permitted.
type side struct {
	rule    *ast.Rule
	permits bool
}

// permissive calls f for each expression of an author that permits more the more
// often it holds: in allow and waive, in what they read, and under not in the rest.
func (v *vetting) permissive(f func(r *ast.Rule, e *ast.Expr)) {
	p := polarity{v: v, f: f, seen: map[side]bool{}, told: map[*ast.Expr]bool{}, own: map[*ast.Rule]bool{}}
	v.authors(func(m *module, r *ast.Rule) {
		p.own[r] = true
		switch word := v.wordOf(m, r); {
		case !v.library, word == "allow", word == "waive":
			p.push(r, true)
		case word != "":
			p.push(r, false)
		}
	})
	for len(p.queue) > 0 {
		s := p.queue[0]
		p.queue = p.queue[1:]
		p.body(s.rule, s.rule.Body, s.permits)
	}
}

type polarity struct {
	v     *vetting
	f     func(r *ast.Rule, e *ast.Expr)
	seen  map[side]bool
	told  map[*ast.Expr]bool
	own   map[*ast.Rule]bool // written by authors
	queue []side
}

func (p *polarity) push(r *ast.Rule, permits bool) {
	for ; r != nil; r = r.Else {
		if s := (side{r, permits}); p.own[r] && !p.seen[s] {
			p.seen[s] = true
			p.queue = append(p.queue, s)
		}
	}
}

func (p *polarity) body(r *ast.Rule, b ast.Body, permits bool) {
	for _, e := range b {
		here := permits != e.Negated
		switch x := e.Terms.(type) {
		case *ast.Not:
			p.body(r, x.Body, !here)
		case *ast.Every:
			p.body(r, x.Body, here)
		case *ast.LogicalAnd:
			p.body(r, x.Lhs, here)
			p.body(r, x.Rhs, here)
		case *ast.LogicalOr:
			p.body(r, x.Lhs, here)
			p.body(r, x.Rhs, here)
		default:
			p.expr(r, e, here)
		}
	}
}

func (p *polarity) expr(r *ast.Rule, e *ast.Expr, permits bool) {
	if permits && !p.told[e] {
		p.told[e] = true
		p.f(r, e)
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Ref:
			for _, dep := range p.v.compiler.GetRules(x.ConstantPrefix()) {
				p.push(dep, permits)
			}
		case ast.Body: // of a comprehension
			p.body(r, x, permits)
			return true
		}
		return false
	}).Walk(e)
}
