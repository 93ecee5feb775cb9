package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// meaning is what a term can be: places of the input, and constants. Only if all
// that it can be is known does it say what the term cannot be.
type meaning struct {
	known  bool
	nodes  []*node
	consts []ast.Value
	open   bool // the starter's data, which may leave out what its schema names
}

func (m *meaning) add(x meaning) {
	m.known = m.known && x.known
	m.open = m.open || x.open
	m.nodes = append(m.nodes, x.nodes...)
	m.consts = append(m.consts, x.consts...)
	if len(m.nodes)+len(m.consts) > maxMeanings {
		*m = meaning{}
	}
}

const (
	maxMeanings = 1024
	maxHops     = 16
)

// trail is how a meaning is being found: the equalities used so far, which say
// nothing more, and how many more steps to take.
type trail struct {
	exprs []*ast.Expr
	hops  int
}

func start(e *ast.Expr) trail { return trail{[]*ast.Expr{e}, maxHops} }

func (t trail) further(e *ast.Expr) trail {
	t.hops--
	if e != nil {
		t.exprs = append(slices.Clone(t.exprs), e)
	}
	return t
}

// passed is all that calls pass to r as argument i.
func (f *flow) passed(r *ast.Rule, i int, on trail) meaning {
	calls := f.args[r][i]
	m := meaning{known: len(calls) > 0 && !f.opaque[r] && on.hops > 0}
	for _, read := range calls {
		if !m.known {
			return meaning{}
		}
		m.add(read(on.further(nil)))
	}
	return m
}

// mean is what t can be in s, by other expressions than those of the trail.
func (f *flow) mean(t *ast.Term, s scope, on trail) meaning {
	if on.hops <= 0 {
		return meaning{}
	}
	switch x := t.Value.(type) {
	case ast.Var:
		return meanVar(s[x], on)
	case ast.Ref:
		return f.meanRef(x, s, on)
	case ast.Call, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.TemplateString:
		return meaning{}
	default:
		if !ast.IsConstant(x) {
			return meaning{}
		}
		return meaning{known: true, consts: []ast.Value{x}}
	}
}

func meanVar(sources []source, on trail) meaning {
	m, found := meaning{known: true}, false
	for _, src := range sources {
		if src.expr != nil && slices.Contains(on.exprs, src.expr) {
			continue
		}
		found = true
		if m.add(src.read(on.further(src.expr))); !m.known {
			return meaning{}
		}
	}
	m.known = found
	return m
}

func (f *flow) meanRef(ref ast.Ref, s scope, on trail) meaning {
	switch {
	case ref.HasPrefix(ast.InputRootRef):
		return steps(meaning{known: true, nodes: []*node{f.input}}, ref[1:])
	case ref.HasPrefix(ast.DefaultRootRef):
		return f.meanData(ref, on)
	default:
		return steps(f.mean(ref[0], s, on), ref[1:])
	}
}

// meanData is what a rule or a document can be.
func (f *flow) meanData(ref ast.Ref, on trail) meaning {
	prefix := ref.ConstantPrefix()
	for i := 2; i <= len(prefix); i++ {
		rules := f.v.compiler.GetRulesExact(prefix[:i])
		if len(rules) == 0 {
			continue
		}
		m := meaning{known: true}
		rest := i
		for _, r := range rules {
			if f.opaque[r] || len(r.Head.Args) > 0 || len(r.Ref()) != i {
				return meaning{}
			}
			if r.Head.RuleKind() == ast.MultiValue {
				if len(ref) == i {
					return meaning{}
				}
				rest = i + 1
				m.add(f.mean(r.Head.Key, f.scopes[r], on.further(nil)))
				continue
			}
			for ; r != nil; r = r.Else {
				m.add(f.mean(r.Head.Value, f.scopes[r], on.further(nil)))
			}
		}
		return steps(m, ref[rest:])
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
	return steps(meaning{known: true, consts: []ast.Value{value}, open: open}, ref[len(prefix):])
}

func steps(m meaning, rest []*ast.Term) meaning {
	for _, t := range rest {
		m = step(m, t.Value)
	}
	return m
}

// step is what stands at key of m, and nothing where m has no such place.
func step(m meaning, key ast.Value) meaning {
	out := meaning{known: m.known, open: m.open}
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
	if len(out.nodes)+len(out.consts) > maxMeanings {
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
