package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// meaning is what a term can be: places of the input, constants, and what rules
// compose. Only if all that it can be is known does it say what the term cannot be.
type meaning struct {
	known  bool
	nodes  []*node
	consts []ast.Value
	made   []*made
	open   bool // the starter's data, which may leave out what its schema names
	data   bool // some of the constants stand in data, which may change
}

func (m *meaning) add(x meaning) {
	m.known = m.known && x.known
	m.open, m.data = m.open || x.open, m.data || x.data
	m.nodes = append(m.nodes, x.nodes...)
	m.consts = append(m.consts, x.consts...)
	m.made = append(m.made, x.made...)
	if m.size() > maxMeanings {
		*m = meaning{}
	}
}

func (m meaning) size() int { return len(m.nodes) + len(m.consts) + len(m.made) }

// onlyConsts says that m is known and nothing but constants.
func (m meaning) onlyConsts() bool { return m.known && len(m.consts) > 0 && m.size() == len(m.consts) }

const (
	maxMeanings = 1024
	maxHops     = 16
	maxSteps    = 4096
)

// trail is how a meaning is being found: the equalities used so far, which say
// nothing more, how many more hops to take, and how many steps in all.
type trail struct {
	exprs []*ast.Expr
	hops  int
	steps *int
}

func start(e *ast.Expr) trail { return trail{[]*ast.Expr{e}, maxHops, new(maxSteps)} }

// more says that there is a step left, and takes it.
func (t trail) more() bool {
	*t.steps--
	return t.hops > 0 && *t.steps >= 0
}

func (t trail) further(e *ast.Expr) trail {
	t.hops--
	if e != nil {
		t.exprs = append(slices.Clone(t.exprs), e)
	}
	return t
}

// mean is what t can be in s, by other expressions than those of the trail.
func (f *flow) mean(t *ast.Term, s scope, on trail) meaning {
	if !on.more() {
		return meaning{}
	}
	switch x := t.Value.(type) {
	case ast.Var:
		return f.meanVar(x, s, on)
	case ast.Ref:
		return f.meanRef(x, s, on)
	default:
		if ast.IsConstant(x) {
			return meaning{known: true, consts: []ast.Value{x}}
		}
		return f.meanMade(x, s, on.further(nil))
	}
}

// meanVar is all that the sources of x say. It is equal to each of them.
func (f *flow) meanVar(x ast.Var, s scope, on trail) meaning {
	for _, weak := range []bool{false, true} {
		m, found := meaning{known: true}, false
		for _, src := range s[x] {
			if src.weak != weak || src.expr != nil && slices.Contains(on.exprs, src.expr) {
				continue
			}
			found = true
			if m.add(src.read(s, on.further(src.expr))); !m.known {
				return meaning{}
			}
		}
		if found {
			return m
		}
	}
	return meaning{}
}

func (f *flow) meanRef(ref ast.Ref, s scope, on trail) meaning {
	switch {
	case ref.HasPrefix(ast.InputRootRef):
		return f.steps(meaning{known: true, nodes: []*node{f.input}}, ref[1:], s, on)
	case ref.HasPrefix(ast.DefaultRootRef):
		return f.meanData(ref, s, on)
	default:
		return f.steps(f.mean(ref[0], s, on), ref[1:], s, on)
	}
}

// meanPrefix is what the first n terms of ref mean.
func (f *flow) meanPrefix(ref ast.Ref, n int, s scope, on trail) meaning {
	if n == 1 && !ref.HasPrefix(ast.InputRootRef) {
		return f.mean(ref[0], s, on)
	}
	return f.meanRef(ref[:n], s, on)
}

// meanData is what a rule or a document can be.
func (f *flow) meanData(ref ast.Ref, s scope, on trail) meaning {
	prefix := ref.ConstantPrefix()
	for i := 2; i <= len(prefix); i++ {
		if rules := f.v.compiler.GetRulesExact(prefix[:i]); len(rules) > 0 {
			return f.steps(f.meanRules(rules, i, on), ref[i:], s, on)
		}
	}
	d, ok := document(f.v.bundle.Data, prefix)
	if !ok || len(prefix) < 2 || f.v.isPackage(prefix) {
		return meaning{}
	}
	value, err := ast.InterfaceToValue(d)
	if err != nil {
		return meaning{}
	}
	open := prefix[1].Equal(ast.StringTerm(starterRoot))
	return f.steps(meaning{known: true, consts: []ast.Value{value}, open: open, data: true}, ref[len(prefix):], s, on)
}

// meanRules is what the rules of one name make, whose names have n terms.
func (f *flow) meanRules(rules []*ast.Rule, n int, on trail) meaning {
	m, elems, kind := meaning{known: true}, meaning{known: true}, ""
	for _, r := range rules {
		switch {
		case f.opaque[r] || len(r.Head.Args) > 0:
			return meaning{}
		case r.Head.RuleKind() == ast.MultiValue && len(r.Ref()) == n:
			kind = "set"
			elems.add(f.mean(r.Head.Key, f.scopes[r], on.further(nil)))
		case r.Head.RuleKind() == ast.SingleValue && len(r.Ref()) == n+1:
			kind = "object"
			f.addValues(&elems, r, on)
		case r.Head.RuleKind() == ast.SingleValue && len(r.Ref()) == n:
			f.addValues(&m, r, on)
		default:
			return meaning{}
		}
	}
	if kind != "" && len(f.v.compiler.RuleTree.Find(rules[0].Ref()[:n]).Children) > 0 {
		return meaning{} // rules of constant keys stand beside those of a variable
	}
	if kind != "" {
		m.add(meaning{known: elems.known, made: []*made{{kind: kind, at: func(ast.Value) meaning { return ifAny(elems) }}}})
	}
	return m
}

// addValues adds what r says, and what is behind its else.
func (f *flow) addValues(m *meaning, r *ast.Rule, on trail) {
	for ; r != nil; r = r.Else {
		m.add(f.mean(r.Head.Value, f.scopes[r], on.further(nil)))
	}
}

// steps is what stands at the end of rest from m. A key that is a variable of known
// constants is one of them.
func (f *flow) steps(m meaning, rest []*ast.Term, s scope, on trail) meaning {
	for _, t := range rest {
		if m.size() == 0 {
			return m
		}
		keys, ok := f.keys(t, s, on)
		if !ok {
			m = step(m, t.Value)
			continue
		}
		out := meaning{known: m.known, open: m.open, data: m.data}
		for _, k := range keys {
			out.add(step(m, k))
		}
		m = out
	}
	return m
}

// keys are the constants that t is one of.
func (f *flow) keys(t *ast.Term, s scope, on trail) ([]ast.Value, bool) {
	switch t.Value.(type) {
	case ast.Var, ast.Ref:
		if m := f.mean(t, s, on); m.onlyConsts() {
			return m.consts, true
		}
	}
	return nil, false
}

// step is what stands at key of m, and nothing where m has no such place.
func step(m meaning, key ast.Value) meaning {
	out := meaning{known: m.known, open: m.open, data: m.data}
	for _, n := range m.nodes {
		next, missing := n.field(key)
		switch {
		case next != nil:
			out.nodes = append(out.nodes, next)
		case !missing:
			return meaning{}
		}
	}
	for _, c := range m.consts {
		out.consts = append(out.consts, below(c, key)...)
	}
	for _, x := range m.made {
		if out.add(x.at(key)); !out.known {
			return meaning{}
		}
	}
	if out.size() > maxMeanings {
		return meaning{}
	}
	return out
}

func below(c, key ast.Value) []ast.Value {
	var out []ast.Value
	all := !ast.IsConstant(key)
	take := func(k, v *ast.Term) {
		if all || k.Value.Compare(key) == 0 {
			out = append(out, v.Value)
		}
	}
	switch c := c.(type) {
	case *ast.Array:
		for i := range c.Len() {
			take(ast.IntNumberTerm(i), c.Elem(i))
		}
	case ast.Object:
		c.Foreach(take)
	case ast.Set:
		c.Foreach(func(t *ast.Term) { take(t, t) })
	}
	return out
}
