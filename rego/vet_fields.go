package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkFields refuses fields that the input does not have and constants that none
// of its fields can be, where OPA's types do not reach: in every, in functions, and
// in lists that the schema closes.
func (v *vetting) checkFields() {
	f, err := newFlow(v)
	if err != nil {
		v.refuse(nil, "schema", "input.json: %v", err)
		return
	}
	v.authors(func(_ *module, r *ast.Rule) {
		s := f.scopes[r]
		walkOwn(r, func(e *ast.Expr) {
			ast.WalkRefs(e, func(ref ast.Ref) bool {
				if !ref.HasPrefix(ast.InputRootRef) { // those are known to OPA
					v.checkField(e.Location, f, s, ref)
					v.checkKeys(e, f, s, ref)
				}
				return false
			})
			v.checkConstants(f, s, e)
		})
		v.checkCases(f, r)
	})
}

func (v *vetting) checkField(l *ast.Location, f *flow, s scope, ref ast.Ref) {
	var m meaning
	for i := range ref {
		if i == 0 {
			if _, ok := ref[0].Value.(ast.Var); !ok || ref.HasPrefix(ast.DefaultRootRef) {
				return
			}
			m = f.mean(ref[0], s, start(nil))
			continue
		}
		next := step(m, ref[i].Value)
		if v.refuseField(l, m, next, ref[i].Value) {
			return
		}
		m = next
	}
}

// refuseField refuses a step to where nothing is.
func (v *vetting) refuseField(l *ast.Location, from, to meaning, key ast.Value) bool {
	if !to.known || len(from.nodes) == 0 || len(to.nodes)+len(to.consts) > 0 {
		return false
	}
	n := from.nodes[0]
	if name, ok := key.(ast.String); ok {
		v.refuse(l, "field_unknown", "%s has no field %s%s", n.path, string(name), didYouMean(string(name), n.names()))
	} else {
		v.refuse(l, "field_unknown", "%s is %s, and nothing is inside it", n.path, n.kindOf())
	}
	return true
}

// checkConstants looks at what e compares.
func (v *vetting) checkConstants(f *flow, s scope, e *ast.Expr) {
	for _, w := range e.With {
		if ref, ok := w.Target.Value.(ast.Ref); ok && ref.HasPrefix(ast.InputRootRef) {
			v.checkReplaced(w.Location, f, ref, f.mean(w.Value, s, start(nil)))
			v.compare(w.Location, f.meanRef(ref, s, start(nil)), f.mean(w.Value, s, start(nil)))
		}
	}
	if !e.IsCall() {
		return
	}
	of := func(i int) meaning { return f.mean(e.Operand(i), s, start(e)) }
	switch op := e.Operator(); {
	case e.IsEquality(), op.Equal(ast.Equal.Ref()), op.Equal(ast.NotEqual.Ref()):
		v.checkEqual(f, s, e, e.Operand(0), e.Operand(1))
	case op.Equal(ast.Member.Ref()):
		v.checkMember(e.Location, of(0), of(1), f.elements(e.Operand(1), s, start(e)))
	case op.Equal(ast.MemberWithKey.Ref()):
		v.checkMember(e.Location, of(1), of(2), f.elements(e.Operand(2), s, start(e)))
	case op.Equal(ast.StartsWith.Ref()):
		v.checkPrefix(e.Location, of(0), e.Operand(1), "")
	case op.Equal(ast.GlobMatch.Ref()):
		v.checkPrefix(e.Location, of(2), e.Operand(0), `*?[{\!`)
	case op.Equal(ast.ObjectGet.Ref()):
		v.checkGet(e.Location, f, of(0), e.Operand(1).Value)
	}
}

func (v *vetting) checkMember(l *ast.Location, x, list, elems meaning) {
	if list.known && len(list.nodes) == 0 && len(list.consts) > 0 && !slices.ContainsFunc(list.consts, isCollection) {
		v.refuse(l, "member_of_none", "nothing is in %s, which is no list", abridged(list.consts[0]))
		return
	}
	if v.refuseField(l, list, elems, ast.Wildcard.Value) {
		return
	}
	v.compare(l, x, elems)
	v.compare(l, elems, x)
}

func (v *vetting) checkGet(l *ast.Location, f *flow, m meaning, key ast.Value) {
	path := []*ast.Term{ast.NewTerm(key)}
	if a, ok := key.(*ast.Array); ok {
		path = path[:0]
		a.Foreach(func(t *ast.Term) { path = append(path, t) })
	}
	for _, t := range path {
		next := step(m, t.Value)
		if v.refuseField(l, m, next, t.Value) {
			return
		}
		if name, ok := t.Value.(ast.String); ok && f.lacks(m, name) {
			v.hinting(func() {
				v.refuse(l, "data_unknown", "nothing here has %s%s", string(name), didYouMean(string(name), keyNames(m)))
			})
			return
		}
		m = next
	}
}

// compare refuses constants of x that y can never be.
func (v *vetting) compare(l *ast.Location, y, x meaning) {
	if !x.known || !y.known || len(y.nodes) == 0 {
		return
	}
	for _, c := range x.consts {
		v.compareOne(l, y, c)
	}
}

func (v *vetting) compareOne(l *ast.Location, y meaning, c ast.Value) {
	admits := func(n *node) bool { return n.admits(c) }
	same := func(o ast.Value) bool { return o.Compare(c) == 0 }
	if slices.ContainsFunc(y.nodes, admits) || slices.ContainsFunc(y.consts, same) {
		return
	}
	n := y.nodes[0]
	v.refuse(l, "constant_unknown", "%s is never %s: it is %s%s", n.path, abridged(c), n.kindOf(), didYouMean(strings.Trim(c.String(), `"`), n.names()))
}

// abridged is a constant of a policy, short enough for a line.
func abridged(c ast.Value) string {
	const most = 64
	s := c.String()
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// checkCases refuses a constant in a function's head that no call passes.
func (v *vetting) checkCases(f *flow, r *ast.Rule) {
	for i, a := range r.Head.Args {
		if ast.IsConstant(a.Value) {
			if m := f.passed(r, i, start(nil)); m.known && len(m.nodes) > 0 {
				v.compareOne(r.Location, m, a.Value)
			}
		}
	}
}
