package rego

import (
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkEqual compares two terms, and what is in them.
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
	before := len(v.findings)
	one := func(t *ast.Term, y, x meaning) {
		switch {
		case !ast.IsConstant(t.Value) && isLiteral(t):
			v.checkParts(e.Location, t, y)
		case ast.IsConstant(t.Value) || len(x.nodes) > 0:
			v.compare(e.Location, y, x)
		case !v.compareSome(e.Location, y, x):
			v.hinting(func() { v.compare(e.Location, y, x) })
		}
	}
	one(b, x, y)
	one(a, y, x)
	if len(v.findings) == before {
		v.checkKinds(e.Location, x, y)
	}
}

func isLiteral(t *ast.Term) bool {
	switch t.Value.(type) {
	case *ast.Array, ast.Object:
		return true
	default:
		return false
	}
}

// checkParts refuses what is constant in t, a literal, where m has something else.
func (v *vetting) checkParts(l *ast.Location, t *ast.Term, m meaning) {
	if ast.IsConstant(t.Value) {
		if m.known && len(m.nodes) > 0 {
			v.compareOne(l, m, t.Value)
		}
		return
	}
	part := func(key, t *ast.Term) {
		if ast.IsConstant(key.Value) {
			if next := step(m, key.Value); !v.refuseField(l, m, next, key.Value) {
				v.checkParts(l, t, next)
			}
		}
	}
	switch x := t.Value.(type) {
	case *ast.Array:
		for i := range x.Len() {
			part(ast.IntNumberTerm(i), x.Elem(i))
		}
	case ast.Object:
		x.Foreach(part)
	}
}

// checkKinds refuses values of kinds that are never equal, as a list and a set.
func (v *vetting) checkKinds(l *ast.Location, x, y meaning) {
	a, b := kindsOfMeaning(x), kindsOfMeaning(y)
	none := len(x.nodes)+len(y.nodes) == 0
	if none && (x.data || y.data) { // whoever writes the data may mend it
		none = false
		defer v.hinted(len(v.findings))
	}
	if len(a) == 0 || len(b) == 0 || none || slices.ContainsFunc(a, func(k string) bool { return slices.Contains(b, k) }) {
		return
	}
	v.refuse(l, "type", "one side is %s and the other %s, and such values are never equal", strings.Join(a, " or "), strings.Join(b, " or "))
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
	if y.admits(c) {
		return
	}
	n, at := y.nodes[0].fault(c)
	switch next, ok := at.(ast.Object); {
	case ok && n.closed() && n.Type == "object":
		v.refuse(l, "constant_unknown", "%s is never %s: it has %s, and all of them", n.path, abridged(next), strings.Join(n.names(), ", "))
	default:
		v.refuse(l, "constant_unknown", "%s is never %s: it is %s%s", n.path, abridged(at), n.kindOf(), didYouMean(strings.Trim(at.String(), `"`), n.names()))
	}
}

// admits says that something that m is can be c.
func (m meaning) admits(c ast.Value) bool {
	return slices.ContainsFunc(m.nodes, func(n *node) bool { return n.admits(c) }) ||
		slices.ContainsFunc(m.consts, func(o ast.Value) bool { return o.Compare(c) == 0 }) ||
		slices.ContainsFunc(m.made, func(x *made) bool { return x.kind == ast.ValueName(c) })
}

// compareSome refuses x if y can be none of its constants. Of a table, or of what is
// iterated over, some need not fit.
func (v *vetting) compareSome(l *ast.Location, y, x meaning) bool {
	if !x.onlyConsts() || !y.known || len(y.nodes) == 0 || slices.ContainsFunc(x.consts, y.admits) {
		return false
	}
	v.compareOne(l, y, x.consts[0])
	return true
}

// hinting makes warnings of what f refuses.
func (v *vetting) hinting(f func()) {
	before := len(v.findings)
	f()
	v.hinted(before)
}

// hinted makes warnings of the findings from this one on.
func (v *vetting) hinted(before int) {
	for _, h := range v.findings[before:] {
		h.Severity = SeverityWarning
		v.hints = append(v.hints, h)
	}
	v.findings = v.findings[:before]
}

// checkSubset refuses what is asked for in m and cannot be there.
func (v *vetting) checkSubset(l *ast.Location, m meaning, sub ast.Value) {
	switch sub := sub.(type) {
	case ast.Object:
		sub.Foreach(func(k, t *ast.Term) {
			if next := step(m, k.Value); ast.IsConstant(k.Value) && !v.refuseField(l, m, next, k.Value) {
				v.checkSubset(l, next, t.Value)
			}
		})
	case *ast.Array, ast.Set:
		elems := step(m, ast.Wildcard.Value)
		for _, c := range below(sub, ast.Wildcard.Value) {
			v.checkSubset(l, elems, c)
		}
	default:
		if ast.IsConstant(sub) {
			v.compare(l, m, meaning{known: true, consts: []ast.Value{sub}})
		}
	}
}

// checkText refuses a beginning, an end or a part that none of the texts has that
// the operand of e can be.
func (v *vetting) checkText(e *ast.Expr, of func(int) meaning) {
	var m meaning
	var text ast.Value
	var holds func(s, part string) bool
	how := ""
	switch op := e.Operator(); {
	case op.Equal(ast.StartsWith.Ref()):
		m, text, how, holds = of(0), e.Operand(1).Value, "begins with", strings.HasPrefix
	case op.Equal(ast.EndsWith.Ref()):
		m, text, how, holds = of(0), e.Operand(1).Value, "ends with", strings.HasSuffix
	case op.Equal(ast.Contains.Ref()):
		m, text, how, holds = of(0), e.Operand(1).Value, "contains", strings.Contains
	case op.Equal(ast.GlobMatch.Ref()):
		m, text, how, holds = of(2), e.Operand(0).Value, "begins with", strings.HasPrefix
		if s, ok := text.(ast.String); ok {
			if i := strings.IndexAny(string(s), `*?[{\!`); i >= 0 {
				text = s[:i]
			}
		}
	case op.String() == "regex.match":
		m, text, how, holds = of(1), e.Operand(0).Value, "matches", matchesForm
	default:
		return
	}
	part, ok := text.(ast.String)
	if !ok || !m.known || len(m.nodes) == 0 || len(m.nodes) < m.size() {
		return
	}
	for _, n := range m.nodes {
		if n.mayHold(string(part), holds) {
			return
		}
	}
	v.refuse(e.Location, "constant_unknown", "%s never %s %q: it is %s", m.nodes[0].path, how, string(part), m.nodes[0].kindOf())
}

// matchesForm says that s has the form of pattern, also if this is none.
func matchesForm(s, pattern string) bool {
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(s)
}
