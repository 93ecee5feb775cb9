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
			m := f.meanRef(ref[:i], s, start(nil))
			if i == 1 {
				m = f.mean(ref[0], s, start(nil))
			}
			if f.lacks(m, name) {
				v.refuse(e.Location, "data_unknown", "nothing here has %s%s", string(name), didYouMean(string(name), keyNames(m)))
				return
			}
			continue
		}
		if !ast.IsConstant(key) && v.checkKey(e.Location, f, s, ref, i) {
			return
		}
	}
}

// lacks says that m is known, holds something, and has no such key.
func (f *flow) lacks(m meaning, name ast.String) bool {
	if !m.known || m.open || f.mocked || len(m.nodes) > 0 || len(m.consts) == 0 || len(step(m, name).consts) > 0 {
		return false
	}
	return !slices.ContainsFunc(m.consts, isEmpty)
}

// checkKey refuses a key at i that is not constant.
func (v *vetting) checkKey(l *ast.Location, f *flow, s scope, ref ast.Ref, i int) bool {
	key := f.mean(ref[i], s, start(nil))
	if !key.known || len(key.nodes) == 0 || len(key.consts) > 0 || f.mocked {
		return false
	}
	if f.isMany(ref[:i]) {
		return v.compareSome(l, key, f.meanRef(ref[:i+1], s, start(nil)))
	}
	m := f.mean(ref[0], s, start(nil))
	if i > 1 {
		m = f.meanRef(ref[:i], s, start(nil))
	}
	if !m.known || m.open || len(m.nodes) > 0 || len(m.consts) == 0 {
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

// compareSome refuses x if y can be none of its constants. Of a table, or of what is
// iterated over, some need not fit.
func (v *vetting) compareSome(l *ast.Location, y, x meaning) bool {
	if !x.known || !y.known || len(y.nodes) == 0 || len(x.nodes) > 0 || len(x.consts) == 0 {
		return false
	}
	for _, c := range x.consts {
		if slices.ContainsFunc(y.nodes, func(n *node) bool { return n.admits(c) }) || slices.ContainsFunc(y.consts, func(o ast.Value) bool { return o.Compare(c) == 0 }) {
			return false
		}
	}
	v.compareOne(l, y, x.consts[0])
	return true
}

// checkEqual compares two terms, and lists by their elements.
func (v *vetting) checkEqual(f *flow, s scope, e *ast.Expr, a, b *ast.Term) {
	list, ok := a.Value.(*ast.Array)
	other, both := b.Value.(*ast.Array)
	if ok && both && list.Len() == other.Len() && !(ast.IsConstant(a.Value) && ast.IsConstant(b.Value)) {
		for i := range list.Len() {
			v.checkEqual(f, s, e, list.Elem(i), other.Elem(i))
		}
		return
	}
	x, y := f.mean(a, s, start(e)), f.mean(b, s, start(e))
	one := func(t *ast.Term, y, x meaning) {
		if ast.IsConstant(t.Value) || len(x.nodes) > 0 {
			v.compare(e.Location, y, x)
		} else if !v.compareSome(e.Location, y, x) {
			v.hinting(func() { v.compare(e.Location, y, x) })
		}
	}
	one(b, x, y)
	one(a, y, x)
}

// hinting makes warnings of what f refuses.
func (v *vetting) hinting(f func()) {
	before := len(v.findings)
	f()
	for _, h := range v.findings[before:] {
		h.Severity = SeverityWarning
		v.hints = append(v.hints, h)
	}
	v.findings = v.findings[:before]
}

// checkPrefix refuses a beginning that none of the names has that m can be.
func (v *vetting) checkPrefix(l *ast.Location, m meaning, t *ast.Term, special string) {
	text, ok := t.Value.(ast.String)
	if !ok || !m.known || len(m.nodes) == 0 || len(m.consts) > 0 {
		return
	}
	begin := string(text)
	if i := strings.IndexAny(begin, special); i >= 0 {
		begin = begin[:i]
	}
	for _, n := range m.nodes {
		if n.Enum == nil || slices.ContainsFunc(n.names(), func(name string) bool { return strings.HasPrefix(name, begin) }) {
			return
		}
	}
	v.refuse(l, "constant_unknown", "%s never begins with %q: it is %s", m.nodes[0].path, begin, m.nodes[0].kindOf())
}

// checkReplaced refuses modifiers of fields that the input does not have.
func (v *vetting) checkReplaced(l *ast.Location, f *flow, ref ast.Ref, value meaning) {
	m := meaning{known: true, nodes: []*node{f.input}}
	for _, t := range ref[1:] {
		next := step(m, t.Value)
		if v.refuseField(l, m, next, t.Value) {
			return
		}
		m = next
	}
	if !m.known || !value.known || len(m.nodes) != 1 {
		return
	}
	for _, c := range value.consts {
		v.checkMadeInput(l, m.nodes[0], c)
	}
}

func (v *vetting) checkMadeInput(l *ast.Location, n *node, c ast.Value) {
	o, ok := c.(ast.Object)
	if !ok {
		return
	}
	m := meaning{known: true, nodes: []*node{n}}
	o.Foreach(func(k, field *ast.Term) {
		next := step(m, k.Value)
		if !v.refuseField(l, m, next, k.Value) && next.known && len(next.nodes) == 1 {
			v.checkMadeInput(l, next.nodes[0], field.Value)
		}
	})
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
