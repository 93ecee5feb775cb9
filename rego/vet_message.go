package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// split parts the body of r into what only makes what the head says, such as
// msg := sprintf(...), and what asks. An assignment asks if its variable is used by
// what asks, and so does one that looks something up or calls an author's function:
// whether there is an answer may well be the question.
func (h heads) split(m *module, r *ast.Rule) (made []*ast.Term, asks ast.Body) {
	makes := map[int]making{}
	targets := map[ast.Var]int{}
	for i, e := range r.Body {
		if x, ok := h.making(m, e); ok {
			makes[i] = x
			targets[x.name]++
		}
	}
	for again := true; again; {
		again = false
		for i, x := range makes {
			if targets[x.name] > 1 || h.asked(r.Body, makes, x.name) {
				delete(makes, i)
				again = true
			}
		}
	}
	for i, e := range r.Body {
		if x, ok := makes[i]; ok {
			made = append(made, x.of...)
		} else {
			asks = append(asks, e)
		}
	}
	return made, asks
}

// making is an expression that gives a variable its value.
type making struct {
	name ast.Var
	of   []*ast.Term
}

// asked says that an expression which makes nothing uses the variable.
func (h heads) asked(b ast.Body, makes map[int]making, name ast.Var) bool {
	for i, e := range b {
		_, isMaking := makes[i]
		_, declares := e.Terms.(*ast.SomeDecl)
		if isMaking || isPrint(e) || declares && !contains(e, func(x ast.Value) bool { _, call := x.(ast.Call); return call }) {
			continue
		}
		if contains(e, func(x ast.Value) bool { return x.Compare(name) == 0 }) {
			return true
		}
	}
	return false
}

func (h heads) making(m *module, e *ast.Expr) (making, bool) {
	if e.IsNegated() || len(e.With) > 0 || !e.IsCall() {
		return making{}, false
	}
	b := ast.BuiltinMap[e.Operator().String()]
	if b == nil || isPrint(e) {
		return making{}, false
	}
	all := e.Operands()
	var x making
	switch op := e.Operator(); {
	case op.Equal(ast.Assign.Ref()) || op.Equal(ast.Equality.Ref()):
		if len(all) != 2 {
			return making{}, false
		}
		to, from := all[0], all[1]
		if name, ok := h.local(m, to); ok {
			x = making{name, []*ast.Term{from}}
		} else if name, ok := h.local(m, from); ok && op.Equal(ast.Equality.Ref()) {
			x = making{name, []*ast.Term{to}}
		} else {
			return making{}, false
		}
	case len(all) == b.Decl.Arity()+1: // sprintf("...", [...], msg)
		name, ok := h.local(m, all[len(all)-1])
		if !ok {
			return making{}, false
		}
		x = making{name, all[:len(all)-1]}
	default:
		return making{}, false
	}
	return x, !slices.ContainsFunc(x.of, func(t *ast.Term) bool { return h.looksUp(m, t) })
}

// local is the variable that t is, if it is one of the body's own.
func (h heads) local(m *module, t *ast.Term) (ast.Var, bool) {
	name, ok := t.Value.(ast.Var)
	if !ok || name.IsWildcard() || len(h.rules[m.pkg+"."+string(name)]) > 0 {
		return "", false
	}
	imported := slices.ContainsFunc(m.parsed.Imports, func(i *ast.Import) bool { return i.Name() == name })
	return name, !imported
}

// looksUp says that t may be undefined for another reason than that a field is not
// there: by what a rule says, or data, a key that is not constant, or an author's
// function.
func (h heads) looksUp(m *module, t *ast.Term) bool {
	found := false
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.TemplateString, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		case ast.Call:
			ref, ok := x[0].Value.(ast.Ref)
			found = found || !ok || ast.BuiltinMap[ref.String()] == nil
			found = found || slices.ContainsFunc(x[1:], func(arg *ast.Term) bool { return h.looksUp(m, arg) })
			return true
		case ast.Ref:
			found = found || resolve(m, x)[0].Equal(ast.DefaultRootDocument) || slices.ContainsFunc(x[1:], func(key *ast.Term) bool { return !ast.IsScalar(key.Value) })
		case ast.Var:
			found = found || len(h.rules[m.pkg+"."+string(x)]) > 0
		}
		return found
	}).Walk(t)
	return found
}

// spelled writes out what variables of b stand for: claims.dept, after
// claims := input.principal.claims.
func (h heads) spelled(m *module, b ast.Body) func(ast.Ref) ast.Ref {
	means := map[ast.Var]ast.Ref{}
	for _, e := range b {
		if x, ok := h.making(m, e); ok && len(x.of) == 1 {
			if ref, ok := x.of[0].Value.(ast.Ref); ok && means[x.name] == nil {
				means[x.name] = resolve(m, ref)
			}
		}
	}
	return func(ref ast.Ref) ast.Ref {
		ref = resolve(m, ref)
		for range maxHops {
			name, ok := ref[0].Value.(ast.Var)
			if !ok || means[name] == nil {
				break
			}
			ref = means[name].Concat(ref[1:])
		}
		return ref
	}
}

func isPrint(e *ast.Expr) bool { return e.IsCall() && e.Operator().Equal(ast.Print.Ref()) }
