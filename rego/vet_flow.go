package rego

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// source gives one thing that a variable is equal to.
type source struct {
	expr *ast.Expr // that makes them equal, nil for an argument
	read func(scope, trail) meaning
	weak bool // asked only if nothing else says what the variable is
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
				f.readRule(r)
				return false
			})
		}
	}
	return f, nil
}

// argument is the variable of a function's argument, whatever its head makes of it.
func argumentAt(i int) ast.Var { return ast.Var(fmt.Sprintf("argument %d", i)) }

// readRule notes what the expressions of r say of its variables, and what they pass on.
func (f *flow) readRule(r *ast.Rule) {
	s := scope{}
	f.scopes[r] = s
	for i, a := range r.Head.Args {
		s[argumentAt(i)] = []source{{nil, func(_ scope, on trail) meaning { return f.passed(r, i, on) }, false}}
		bind(s, nil, a, nil, func(s scope, on trail) meaning { return f.meanVar(argumentAt(i), s, on) })
	}
	around := ast.NewVarSet()
	addVars(around, r.Head)
	f.readInside(s, r.Head, around)
	f.readBody(s, r.Body, around, true)
}

// readBody notes what the expressions of b say. Of variables around b they say
// nothing unless b holds whenever what is around it does.
func (f *flow) readBody(s scope, b ast.Body, around ast.VarSet, holds bool) {
	var fixed ast.VarSet
	if !holds {
		fixed = around
	}
	all := around.Copy()
	for _, e := range b {
		addVars(all, e)
	}
	for _, e := range b {
		f.readExpr(s, e, fixed)
		if both, ok := e.Terms.(*ast.LogicalAnd); ok && !e.Negated {
			f.readBody(s, both.Lhs, all, holds)
			f.readBody(s, both.Rhs, all, holds)
			continue
		}
		f.readInside(s, e, all)
	}
}

// readInside reads the bodies in x, which may be without any solution.
func (f *flow) readInside(s scope, x any, around ast.VarSet) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Every:
			f.bindEvery(s, x)
		case ast.Body:
			f.readBody(s, x, around, false)
			return true
		}
		return false
	}).Walk(x)
}

// addVars adds the variables of x outside the bodies in it.
func addVars(to ast.VarSet, x any) {
	vis := ast.NewVarVisitor().WithParams(ast.VarVisitorParams{SkipClosures: true})
	vis.Walk(x)
	to.Update(vis.Vars())
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

// bind notes that t is what read gives, and what is in t of what is in that.
func bind(s scope, e *ast.Expr, t *ast.Term, fixed ast.VarSet, read func(scope, trail) meaning) {
	part := func(key ast.Value) func(scope, trail) meaning {
		return func(s scope, on trail) meaning { return step(read(s, on), key) }
	}
	switch x := t.Value.(type) {
	case ast.Var:
		if !fixed.Contains(x) {
			s[x] = append(s[x], source{e, read, false})
		}
	case *ast.Array:
		for i := range x.Len() {
			bind(s, e, x.Elem(i), fixed, part(ast.IntNumberTerm(i).Value))
		}
	case ast.Object:
		x.Foreach(func(k, field *ast.Term) {
			if ast.IsConstant(k.Value) {
				bind(s, e, field, fixed, part(k.Value))
			}
		})
	}
}

func (f *flow) bindEvery(s scope, x *ast.Every) {
	bind(s, nil, x.Value, nil, func(s scope, on trail) meaning {
		return step(f.mean(x.Domain, s, on), ast.Wildcard.Value)
	})
	if x.Key != nil {
		bind(s, nil, x.Key, nil, func(s scope, on trail) meaning { return keysIn(f.mean(x.Domain, s, on)) })
	}
}

func (f *flow) readExpr(s scope, e *ast.Expr, fixed ast.VarSet) {
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
	terms, ok := e.Terms.([]*ast.Term)
	if !e.Negated {
		f.bindKeys(s, e, fixed)
	}
	switch {
	case !ok:
	case e.IsEquality() && !e.Negated:
		for i := range 2 {
			other := e.Operand(1 - i)
			bind(s, e, e.Operand(i), fixed, func(s scope, on trail) meaning { return f.mean(other, s, on) })
		}
	case !e.IsEquality():
		f.readCall(s, e, terms, fixed)
	}
}

// bindKeys notes that the variables in brackets are keys of what is before them.
func (f *flow) bindKeys(s scope, e *ast.Expr, fixed ast.VarSet) {
	read := func(ref ast.Ref, i int) func(scope, trail) meaning {
		return func(s scope, on trail) meaning { return keysIn(f.meanPrefix(ref, i, s, on)) }
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Body, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		case ast.Ref:
			for i := 1; i < len(x); i++ {
				if name, ok := x[i].Value.(ast.Var); ok && !fixed.Contains(name) {
					s[name] = append(s[name], source{nil, read(x, i), true})
				}
			}
		}
		return false
	}).Walk(e)
}

// readCall notes what a call passes on, and what it gives.
func (f *flow) readCall(s scope, e *ast.Expr, terms []*ast.Term, fixed ast.VarSet) {
	rules := f.v.compiler.GetRulesExact(e.Operator())
	operands := -1
	for _, r := range rules {
		operands = len(r.Head.Args)
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
	if b := ast.BuiltinMap[e.Operator().String()]; b != nil && len(rules) == 0 && !b.Relation {
		operands = len(b.Decl.FuncArgs().Args)
	}
	if operands >= 0 && len(terms) == operands+2 && !e.Negated {
		bind(s, e, terms[operands+1], fixed, func(s scope, on trail) meaning { return f.given(rules, e, s, on) })
	}
}

// passed is all that calls pass to r as argument i.
func (f *flow) passed(r *ast.Rule, i int, on trail) meaning {
	calls := f.args[r][i]
	m := meaning{known: len(calls) > 0 && !f.opaque[r] && on.more()}
	for _, read := range calls {
		if !m.known {
			return meaning{}
		}
		m.add(read(on.further(nil)))
	}
	return m
}
