package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// made is a value that a rule composes of others.
type made struct {
	kind string                      // object, array or set
	at   func(key ast.Value) meaning // what stands at key; known and nothing where it has none
}

// meanMade is what a literal or a comprehension makes.
func (f *flow) meanMade(x ast.Value, s scope, on trail) meaning {
	one := func(kind string, at func(key ast.Value) meaning) meaning {
		return meaning{known: true, made: []*made{{kind, at}}}
	}
	switch x := x.(type) {
	case *ast.Array:
		return one("array", func(key ast.Value) meaning { return f.inArray(x, key, s, on) })
	case ast.Object:
		return one("object", func(key ast.Value) meaning { return f.inObject(x, key, s, on) })
	case ast.Set:
		return one("set", func(ast.Value) meaning {
			m := meaning{known: true}
			x.Foreach(func(t *ast.Term) { m.add(f.mean(t, s, on)) })
			return ifAny(m)
		})
	case *ast.ArrayComprehension:
		return one("array", func(key ast.Value) meaning { return ofArray(f.mean(x.Term, s, on), key) })
	case *ast.SetComprehension:
		return one("set", func(ast.Value) meaning { return ifAny(f.mean(x.Term, s, on)) })
	case *ast.ObjectComprehension:
		return one("object", func(ast.Value) meaning { return ifAny(f.mean(x.Value, s, on)) })
	case *ast.TemplateString:
		return meaning{known: true, nodes: []*node{{Type: "string", path: "the text"}}}
	default:
		return meaning{}
	}
}

// ofArray is what stands at key of a list that holds elems.
func ofArray(elems meaning, key ast.Value) meaning {
	if _, number := key.(ast.Number); ast.IsConstant(key) && !number {
		return meaning{known: elems.known}
	}
	return ifAny(elems)
}

// ifAny is m, and not known where m is nothing: a list without elements, or data that
// is empty, says nothing of what will be there.
func ifAny(m meaning) meaning {
	m.known = m.known && m.size() > 0
	return m
}

func (f *flow) inArray(x *ast.Array, key ast.Value, s scope, on trail) meaning {
	m := meaning{known: true}
	for i := range x.Len() {
		if !ast.IsConstant(key) || ast.IntNumberTerm(i).Value.Compare(key) == 0 {
			m.add(ifAny(f.mean(x.Elem(i), s, on)))
		}
	}
	return m
}

func (f *flow) inObject(x ast.Object, key ast.Value, s scope, on trail) meaning {
	m := meaning{known: true}
	x.Foreach(func(k, field *ast.Term) {
		if !ast.IsConstant(key) || !ast.IsConstant(k.Value) || k.Value.Compare(key) == 0 {
			m.add(ifAny(f.mean(field, s, on)))
		}
	})
	return m
}

// keysIn is what the keys of m can be, if they are names.
func keysIn(m meaning) meaning {
	out := meaning{known: m.known && !m.open, data: m.data}
	for _, n := range m.nodes {
		if !n.closed() {
			return meaning{}
		}
		out.nodes = append(out.nodes, keyNode(n))
	}
	for _, c := range m.consts {
		switch c := c.(type) {
		case ast.Object:
			c.Foreach(func(k, _ *ast.Term) { out.consts = append(out.consts, k.Value) })
		case ast.Set:
			c.Foreach(func(t *ast.Term) { out.consts = append(out.consts, t.Value) })
		default:
			return meaning{}
		}
	}
	for _, x := range m.made {
		if x.kind != "set" {
			return meaning{}
		}
		out.add(x.at(ast.Wildcard.Value))
	}
	if out.size() > maxMeanings {
		return meaning{}
	}
	return out
}

// keyNode is the keys of an object that has no others than its schema says.
func keyNode(n *node) *node {
	names := make([]any, 0, len(n.Properties))
	for _, name := range sortedKeys(n.Properties) {
		names = append(names, name)
	}
	return &node{Type: "string", Enum: names, path: "a key of " + n.path}
}
