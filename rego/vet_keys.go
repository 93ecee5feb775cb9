package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkKeys refuses keys that nothing has of what ref looks into: an element of
// data, or a table of the policy.
func (v *vetting) checkKeys(e *ast.Expr, f *flow, s scope, ref ast.Ref) {
	from := 1
	if ref.HasPrefix(ast.DefaultRootRef) {
		from = len(ref.ConstantPrefix()) // before it, names are checked as such
		if len(ref) > 2 && ref[1].Equal(ast.StringTerm(starterRoot)) || len(targets(e)) > 0 {
			return
		}
	}
	for i := max(from, 1); i < len(ref); i++ {
		key := ref[i].Value
		if name, ok := key.(ast.String); ok {
			m := f.meanPrefix(ref, i, s, start(nil))
			empty := m.known && m.data && !m.open && m.size() == 0
			if !empty && !f.lacks(m, name) {
				continue
			}
			if empty || m.data && !uniform(m.consts) {
				v.hinting(func() { v.refuseKey(e.Location, m, name) })
			} else {
				v.refuseKey(e.Location, m, name)
			}
			return
		}
		if !ast.IsConstant(key) && v.checkKey(e.Location, f, s, ref, i) {
			return
		}
	}
}

// lacks says that m is known and has no such key.
func (f *flow) lacks(m meaning, name ast.String) bool {
	return m.onlyConsts() && !m.open && !f.mocked && len(step(m, name).consts) == 0 &&
		!slices.ContainsFunc(m.consts, func(c ast.Value) bool { return ast.Null{}.Compare(c) == 0 })
}

func (v *vetting) refuseKey(l *ast.Location, m meaning, name ast.String) {
	v.refuse(l, "data_unknown", "nothing here has %s%s", string(name), didYouMean(string(name), keyNames(m)))
}

// uniform says that values from data are alike: if all objects have the same keys,
// and some, a key that none of them has is a slip. Elements that differ have optional
// keys, and so might have others one day; and an empty table says nothing.
func uniform(consts []ast.Value) bool {
	shape := func(c ast.Value) string {
		o, ok := c.(ast.Object)
		if !ok {
			return ast.ValueName(c)
		}
		return ast.NewArray(o.Keys()...).String()
	}
	first := shape(consts[0])
	return !slices.ContainsFunc(consts, func(c ast.Value) bool { return isEmpty(c) || shape(c) != first })
}

// checkKey refuses a key at i that is not constant.
func (v *vetting) checkKey(l *ast.Location, f *flow, s scope, ref ast.Ref, i int) bool {
	key := f.mean(ref[i], s, start(nil))
	if !key.known || len(key.nodes) == 0 || len(key.nodes) < key.size() || f.mocked {
		return false
	}
	if f.isMany(ref[:i]) {
		return v.compareSome(l, key, f.meanRef(ref[:i+1], s, start(nil)))
	}
	m := f.meanPrefix(ref, i, s, start(nil))
	if !m.onlyConsts() || m.open {
		return false
	}
	var keys []ast.Value
	lists := 0
	for _, c := range m.consts {
		switch c := c.(type) {
		case ast.Object:
			c.Foreach(func(k, _ *ast.Term) { keys = append(keys, k.Value) })
		case ast.Set:
			c.Foreach(func(k *ast.Term) { keys = append(keys, k.Value) })
		case *ast.Array:
			lists++
		default:
			return false
		}
	}
	isText := func(n *node) bool { return n.Type == "string" }
	if lists == len(m.consts) && !slices.ContainsFunc(key.nodes, func(n *node) bool { return !isText(n) }) {
		v.refuse(l, "key_of_list", "a list has numbers for keys, and %s is text; ask whether it is in the list", key.nodes[0].path)
		return true
	}
	return lists == 0 && v.compareSome(l, key, meaning{known: true, consts: keys})
}

// isMany says that ref is a rule of many values.
func (f *flow) isMany(ref ast.Ref) bool {
	if !ref.HasPrefix(ast.DefaultRootRef) || !ref.IsGround() {
		return false
	}
	rules := f.v.compiler.GetRulesExact(ref)
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(r *ast.Rule) bool { return r.Head.RuleKind() != ast.MultiValue || len(r.Ref()) != len(ref) })
}

// elements is what t holds, also where t is a rule of many values.
func (f *flow) elements(t *ast.Term, s scope, on trail) meaning {
	if ref, ok := t.Value.(ast.Ref); ok && f.isMany(ref) {
		return f.meanRef(ref.Append(ast.Wildcard), s, on)
	}
	if name, ok := t.Value.(ast.Var); ok && len(s[name]) == 1 {
		if e := s[name][0].expr; e != nil && e.IsEquality() {
			for i := range 2 {
				if ref, ok := e.Operand(i).Value.(ast.Ref); ok && f.isMany(ref) {
					return f.meanRef(ref.Append(ast.Wildcard), s, on)
				}
			}
		}
	}
	return step(f.mean(t, s, on), ast.Wildcard.Value)
}

// checkReplaced refuses modifiers of fields that the input does not have, and values
// that they cannot have. An object in a field's place may be a part of one.
func (v *vetting) checkReplaced(f *flow, s scope, w *ast.With, ref ast.Ref) {
	m := meaning{known: true, nodes: []*node{f.input}}
	for _, t := range ref[1:] {
		next := step(m, t.Value)
		if v.refuseField(w.Location, m, next, t.Value) {
			return
		}
		m = next
	}
	if isLiteral(w.Value) {
		v.checkSubset(w.Location, m, w.Value.Value)
		return
	}
	for _, c := range f.mean(w.Value, s, start(nil)).consts {
		v.checkSubset(w.Location, m, c)
	}
}

func isCollection(c ast.Value) bool {
	switch c.(type) {
	case *ast.Array, ast.Object, ast.Set:
		return true
	default:
		return false
	}
}

func isEmpty(c ast.Value) bool {
	switch c := c.(type) {
	case *ast.Array:
		return c.Len() == 0
	case ast.Object:
		return c.Len() == 0
	case ast.Set:
		return c.Len() == 0
	case ast.Null:
		return true
	default:
		return false
	}
}

func keyNames(m meaning) []string {
	var out []string
	for _, c := range m.consts {
		if o, ok := c.(ast.Object); ok {
			o.Foreach(func(k, _ *ast.Term) { out = append(out, strings.Trim(k.Value.String(), `"`)) })
		}
	}
	return out
}
