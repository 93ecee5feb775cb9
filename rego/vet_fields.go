package rego

import (
	"fmt"
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
				// OPA knows the input, where its keys are written out.
				if !ref.HasPrefix(ast.InputRootRef) || !ref.IsGround() {
					v.checkField(e.Location, f, s, ref)
				}
				if !ref.HasPrefix(ast.InputRootRef) {
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
	if _, ok := ref[0].Value.(ast.Var); !ok || ref.HasPrefix(ast.DefaultRootRef) {
		return
	}
	m := f.meanPrefix(ref, 1, s, start(nil))
	for _, t := range ref[1:] {
		keys, ok := f.keys(t, s, start(nil))
		if !ok {
			keys = []ast.Value{t.Value}
		}
		next := f.steps(m, []*ast.Term{t}, s, start(nil))
		if v.refuseField(l, m, next, keys[0]) {
			return
		}
		for _, k := range keys {
			v.hinting(func() { v.refuseField(l, m, step(m, k), k) })
		}
		m = next
	}
}

// refuseField refuses a step to where nothing is.
func (v *vetting) refuseField(l *ast.Location, from, to meaning, key ast.Value) bool {
	name, named := key.(ast.String)
	switch {
	case !to.known || to.size() > 0:
		return false
	case len(from.nodes) > 0 && named:
		n := from.nodes[0]
		v.refuse(l, "field_unknown", "%s has no field %s%s", n.path, string(name), didYouMean(string(name), n.names()))
		return true
	case len(from.nodes) > 0:
		n := from.nodes[0]
		v.refuse(l, "field_unknown", "%s is %s, and nothing is inside it", n.path, n.kindOf())
		return true
	case len(from.made) > 0 && named && !from.data:
		v.refuse(l, "field_unknown", "what the rules make here has no field %s", string(name))
		return true
	default:
		return false
	}
}

// checkConstants looks at what e compares.
func (v *vetting) checkConstants(f *flow, s scope, e *ast.Expr) {
	for _, w := range e.With {
		if ref, ok := w.Target.Value.(ast.Ref); ok && ref.HasPrefix(ast.InputRootRef) {
			v.checkReplaced(f, s, w, ref)
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
	case op.Equal(ast.And.Ref()), op.Equal(ast.Minus.Ref()):
		v.checkSets(e.Location, f, s, e, e.Operand(0), e.Operand(1))
	case op.Equal(ast.Intersection.Ref()):
		if sets, ok := e.Operand(0).Value.(ast.Set); ok {
			all := sets.Slice()
			for i := range all[1:] {
				v.checkSets(e.Location, f, s, e, all[i], all[i+1])
			}
		}
	case op.Equal(ast.ObjectSubset.Ref()):
		v.checkSubset(e.Location, of(0), e.Operand(1).Value)
	case op.Equal(ast.ObjectGet.Ref()):
		v.checkGet(e.Location, f, s, of(0), e.Operand(1))
	case op.String() == "data.callgate.lib.role":
		v.checkRole(e.Location, of(0))
	case op.Equal(ast.ObjectFilter.Ref()):
		names, _ := constantKeys(e.Operand(1).Value)
		v.checkPaths(e.Location, of(0), pathsOf(names))
	case op.Equal(ast.JSONFilter.Ref()):
		paths, _ := constantPaths(e.Operand(1).Value)
		v.checkPaths(e.Location, of(0), paths)
	default:
		v.checkText(e, of)
	}
}

// checkRole refuses what is no name of a role: lib.role takes one.
func (v *vetting) checkRole(l *ast.Location, m meaning) {
	if kinds := kindsOfMeaning(m); len(kinds) > 0 && !slices.Contains(kinds, "string") {
		v.refuse(l, "type", "lib.role takes the name of one role, and this is %s", strings.Join(kinds, " or "))
	}
}

// checkSets compares the elements of two sets.
func (v *vetting) checkSets(l *ast.Location, f *flow, s scope, e *ast.Expr, a, b *ast.Term) {
	x, y := f.elements(a, s, start(e)), f.elements(b, s, start(e))
	v.compare(l, x, y)
	v.compare(l, y, x)
}

// checkPaths refuses a choice of fields that are not there.
func (v *vetting) checkPaths(l *ast.Location, m meaning, paths [][]string) {
	for _, p := range paths {
		at := m
		for _, name := range p {
			next := step(at, ast.String(name))
			if v.refuseField(l, at, next, ast.String(name)) {
				break
			}
			at = next
		}
	}
}

func (v *vetting) checkMember(l *ast.Location, x, list, elems meaning) {
	if list.onlyConsts() && !slices.ContainsFunc(list.consts, isCollection) {
		v.refuse(l, "member_of_none", "nothing is in %s, which is no list", abridged(list.consts[0]))
		return
	}
	if v.refuseField(l, list, elems, ast.Wildcard.Value) {
		return
	}
	before := len(v.findings)
	v.compare(l, x, elems)
	v.compare(l, elems, x)
	if !slices.ContainsFunc(list.consts, func(c ast.Value) bool { _, ok := c.(ast.Object); return ok }) {
		return
	}
	for i := range v.findings[before:] {
		v.findings[before+i].Message += "; in looks at the values of an object, not at its keys" + keyAdvice(l, x)
	}
}

// keyAdvice is how to look x up in what is written at l.
func keyAdvice(l *ast.Location, x meaning) string {
	if l == nil || len(x.nodes) == 0 {
		return ""
	}
	_, list, _ := strings.Cut(string(l.Text), " in ")
	ref, err := ast.ParseRef(strings.TrimSpace(list))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": is %s[%s] meant?", ref, x.nodes[0].path)
}

func (v *vetting) checkGet(l *ast.Location, f *flow, s scope, m meaning, key *ast.Term) {
	path := []*ast.Term{key}
	if a, ok := key.Value.(*ast.Array); ok {
		path = path[:0]
		a.Foreach(func(t *ast.Term) { path = append(path, t) })
	}
	for _, t := range path {
		next := f.steps(m, []*ast.Term{t}, s, start(nil))
		keys, ok := f.keys(t, s, start(nil))
		if !ok {
			keys = []ast.Value{t.Value}
		}
		if v.refuseField(l, m, next, keys[0]) {
			return
		}
		if name, ok := keys[0].(ast.String); ok && len(keys) == 1 && f.lacks(m, name) {
			v.hinting(func() { v.refuseKey(l, m, name) })
			return
		}
		m = next
	}
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
		v.checkParts(r.Location, a, f.passed(r, i, start(nil)))
	}
}
