package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// source gives one thing that a variable is made equal to.
type source struct {
	expr *ast.Expr // that makes them equal, nil for an argument
	read func(trail) meaning
}

// scope is the variables of one rule. The compiler names them so that each is one
// thing throughout the rule.
type scope map[ast.Var][]source

// flow follows the input through the variables, helpers and functions of a bundle,
// for OPA's types do not reach into functions, nor into every.
type flow struct {
	v      *vetting
	input  *node
	scopes map[*ast.Rule]scope
	args   map[*ast.Rule]map[int][]func(trail) meaning // what calls pass
	opaque map[*ast.Rule]bool                          // functions that a modifier may call
	mocked bool                                        // a modifier replaces data
}

func newFlow(v *vetting) (*flow, error) {
	input, err := inputNode()
	if err != nil {
		return nil, err
	}
	f := &flow{v: v, input: input, scopes: map[*ast.Rule]scope{}, args: map[*ast.Rule]map[int][]func(trail) meaning{}, opaque: map[*ast.Rule]bool{}}
	for _, m := range v.modules {
		if !m.test {
			ast.WalkRules(m.compiled, func(r *ast.Rule) bool {
				f.read(r)
				return false
			})
		}
	}
	return f, nil
}

// read notes what the expressions of r say of its variables, and what they pass on.
func (f *flow) read(r *ast.Rule) {
	s := scope{}
	f.scopes[r] = s
	for i, a := range r.Head.Args {
		if name, ok := a.Value.(ast.Var); ok {
			s[name] = append(s[name], source{nil, func(on trail) meaning { return f.passed(r, i, on) }})
		}
	}
	walkOwn(r, func(e *ast.Expr) { f.readExpr(s, e) })
}

// walkOwn calls fn for each expression of r at any depth, without those of its else.
func walkOwn(r *ast.Rule, fn func(*ast.Expr)) {
	for _, part := range []any{r.Head, r.Body} {
		ast.WalkExprs(part, func(e *ast.Expr) bool {
			fn(e)
			return false
		})
	}
}

func (f *flow) readExpr(s scope, e *ast.Expr) {
	bind := func(t *ast.Term, read func(trail) meaning) {
		if name, ok := t.Value.(ast.Var); ok && !e.Negated {
			s[name] = append(s[name], source{e, read})
		}
	}
	for _, w := range e.With {
		if ref, ok := w.Target.Value.(ast.Ref); ok && ref.HasPrefix(ast.DefaultRootRef) {
			f.mocked = true
		}
		ast.WalkRefs(w, func(ref ast.Ref) bool {
			for _, r := range f.v.compiler.GetRulesExact(ref) {
				f.opaque[r] = true
			}
			return false
		})
	}
	switch terms := e.Terms.(type) {
	case *ast.Every:
		elem := func(on trail) meaning { return step(f.mean(terms.Domain, s, on), ast.Wildcard.Value) }
		bind(terms.Value, elem)
	case []*ast.Term:
		switch {
		case e.IsEquality():
			bind(e.Operand(0), func(on trail) meaning { return f.mean(e.Operand(1), s, on) })
			bind(e.Operand(1), func(on trail) meaning { return f.mean(e.Operand(0), s, on) })
		case e.Operator().Equal(ast.ObjectGet.Ref()) && len(terms) == 5:
			bind(terms[4], func(on trail) meaning {
				m := f.got(e, s, on)
				m.add(f.mean(terms[3], s, on))
				return m
			})
		default:
			f.readCall(s, e)
		}
	}
}

// got is what an object.get finds, without its default.
func (f *flow) got(e *ast.Expr, s scope, on trail) meaning {
	m := f.mean(e.Operand(0), s, on)
	if path, ok := e.Operand(1).Value.(*ast.Array); ok {
		path.Foreach(func(t *ast.Term) { m = step(m, t.Value) })
		return m
	}
	return step(m, e.Operand(1).Value)
}

func (f *flow) readCall(s scope, e *ast.Expr) {
	for _, r := range f.v.compiler.GetRulesExact(e.Operator()) {
		for ; r != nil; r = r.Else {
			if f.args[r] == nil {
				f.args[r] = map[int][]func(trail) meaning{}
			}
			for i := range r.Head.Args {
				if t := e.Operand(i); t != nil {
					f.args[r][i] = append(f.args[r][i], func(on trail) meaning { return f.mean(t, s, on) })
				}
			}
		}
	}
}
