package rego

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// given is what the call e gives: of a function, what its rules say with these
// operands for arguments.
func (f *flow) given(rules []*ast.Rule, e *ast.Expr, s scope, on trail) meaning {
	if len(rules) == 0 {
		return f.built(e, s, on)
	}
	m := meaning{known: true}
	for _, r := range rules {
		for ; r != nil; r = r.Else {
			if f.opaque[r] || !on.more() {
				return meaning{}
			}
			inner := maps.Clone(f.scopes[r])
			for i := range r.Head.Args {
				inner[argumentAt(i)] = []source{{nil, func(_ scope, on trail) meaning { return f.mean(e.Operand(i), s, on) }, false}}
			}
			m.add(f.mean(r.Head.Value, inner, on.further(nil)))
		}
	}
	return m
}

// built is what a call of a builtin gives.
func (f *flow) built(e *ast.Expr, s scope, on trail) meaning {
	of := func(i int) meaning { return f.mean(e.Operand(i), s, on) }
	elems := func(i int) meaning { return f.elements(e.Operand(i), s, on) }
	one := func(kind string, at func(key ast.Value) meaning) meaning {
		return meaning{known: true, made: []*made{{kind, at}}}
	}
	list := func(m meaning) meaning {
		return one("array", func(key ast.Value) meaning { return ofArray(m, key) })
	}
	set := func(m meaning) meaning { return one("set", func(ast.Value) meaning { return ifAny(m) }) }
	switch e.Operator().String() {
	case ast.ObjectGet.Name:
		m := f.got(e, s, on)
		m.add(of(2))
		return m
	case ast.ObjectUnion.Name:
		m := of(0)
		m.add(of(1))
		return united(m)
	case ast.ObjectUnionN.Name:
		return united(elems(0))
	case ast.ObjectRemove.Name:
		return without(of(0), texts(e.Operand(1).Value))
	case ast.ObjectFilter.Name:
		names, ok := constantKeys(e.Operand(1).Value)
		return filtered(of(0), pathsOf(names), ok)
	case ast.JSONFilter.Name:
		paths, ok := constantPaths(e.Operand(1).Value)
		return filtered(of(0), paths, ok)
	case ast.JSONRemove.Name:
		return united(of(0))
	case ast.ObjectKeys.Name:
		return set(keysIn(of(0)))
	case ast.Or.Name, ast.ArrayConcat.Name:
		m := elems(0)
		m.add(elems(1))
		if e.Operator().Equal(ast.Or.Ref()) {
			return set(m)
		}
		return list(m)
	case ast.And.Name:
		if m := elems(0); m.known && len(m.nodes) > 0 {
			return set(m)
		}
		return set(elems(1))
	case ast.Minus.Name:
		if m := of(0); !isSet(m) {
			return meaning{} // a number, or not known
		}
		return set(elems(0))
	case ast.Union.Name, ast.Intersection.Name:
		return set(step(elems(0), ast.Wildcard.Value))
	case ast.ArraySlice.Name, ast.ArrayReverse.Name, ast.Sort.Name:
		return list(elems(0))
	case ast.Lower.Name:
		return cased(of(0), "lower", strings.ToLower)
	case ast.Upper.Name:
		return cased(of(0), "upper", strings.ToUpper)
	case ast.NowNanos.Name:
		return step(step(meaning{known: true, nodes: []*node{f.input}}, ast.String("env")), ast.String("now_ns"))
	case "time.weekday":
		return oneOf("the day of the week", "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
	case ast.TypeNameBuiltin.Name:
		return oneOf("the name of a type", "null", "boolean", "number", "string", "array", "object", "set")
	default:
		return meaning{}
	}
}

func oneOf(what string, names ...any) meaning {
	return meaning{known: true, nodes: []*node{{Type: "string", Enum: names, path: what}}}
}

// got is what an object.get finds, without its default.
func (f *flow) got(e *ast.Expr, s scope, on trail) meaning {
	m := f.mean(e.Operand(0), s, on)
	if path, ok := e.Operand(1).Value.(*ast.Array); ok {
		var rest []*ast.Term
		path.Foreach(func(t *ast.Term) { rest = append(rest, t) })
		return f.steps(m, rest, s, on)
	}
	return f.steps(m, []*ast.Term{e.Operand(1)}, s, on)
}

func isSet(m meaning) bool {
	return m.known && m.size() > 0 && len(m.nodes) == 0 &&
		!slices.ContainsFunc(m.consts, func(c ast.Value) bool { _, ok := c.(ast.Set); return !ok }) &&
		!slices.ContainsFunc(m.made, func(x *made) bool { return x.kind != "set" })
}

// united is an object with what any of m has.
func united(m meaning) meaning {
	if !m.known {
		return m
	}
	return meaning{known: true, open: m.open, data: m.data, made: []*made{{"object", func(key ast.Value) meaning { return step(m, key) }}}}
}

func without(m meaning, names []string) meaning {
	if !m.known {
		return m
	}
	return meaning{known: true, open: m.open, data: m.data, made: []*made{{"object", func(key ast.Value) meaning {
		if name, ok := key.(ast.String); ok && slices.Contains(names, string(name)) {
			return meaning{known: true}
		}
		return step(m, key)
	}}}}
}

// filtered is the part of m at these paths, all of m if they are not known.
func filtered(m meaning, paths [][]string, known bool) meaning {
	if !m.known || !known {
		return united(m)
	}
	return meaning{known: true, open: m.open, data: m.data, made: []*made{{"object", func(key ast.Value) meaning {
		name, ok := key.(ast.String)
		if !ok {
			return step(m, key)
		}
		var rest [][]string
		for _, p := range paths {
			if p[0] != string(name) {
				continue
			}
			if len(p) == 1 {
				return step(m, key)
			}
			rest = append(rest, p[1:])
		}
		if len(rest) == 0 {
			return meaning{known: true}
		}
		return filtered(step(m, key), rest, true)
	}}}}
}

// constantKeys are the keys that a builtin is given: a list, a set or an object.
func constantKeys(x ast.Value) ([]string, bool) {
	var out []string
	if o, ok := x.(ast.Object); ok {
		x = ast.NewArray(o.Keys()...)
	}
	for _, c := range below(x, ast.Wildcard.Value) {
		s, ok := c.(ast.String)
		if !ok {
			return nil, false
		}
		out = append(out, string(s))
	}
	return out, len(out) > 0
}

func pathsOf(names []string) [][]string {
	var out [][]string
	for _, n := range names {
		out = append(out, []string{n})
	}
	return out
}

// constantPaths are the paths that a builtin is given, in either form.
func constantPaths(x ast.Value) ([][]string, bool) {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	var out [][]string
	for _, c := range below(x, ast.Wildcard.Value) {
		var path []string
		switch c := c.(type) {
		case ast.String:
			for part := range strings.SplitSeq(strings.TrimLeft(string(c), "/"), "/") {
				path = append(path, unescape.Replace(part))
			}
		case *ast.Array:
			for _, part := range below(c, ast.Wildcard.Value) {
				s, ok := part.(ast.String)
				if !ok {
					return nil, false
				}
				path = append(path, string(s))
			}
		}
		if len(path) == 0 {
			return nil, false
		}
		out = append(out, path)
	}
	return out, len(out) > 0
}

// cased is the text m in lower or upper case.
func cased(m meaning, name string, of func(string) string) meaning {
	n := &node{Type: "string", path: "what " + name + " gives", cased: of}
	if m.known && len(m.nodes) == 1 && m.size() == 1 {
		n.path = name + "(" + m.nodes[0].path + ")"
		for _, e := range m.nodes[0].Enum {
			if s, ok := e.(string); ok {
				n.Enum = append(n.Enum, of(s))
			}
		}
	}
	return meaning{known: true, nodes: []*node{n}}
}
