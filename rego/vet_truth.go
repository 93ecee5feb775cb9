package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// checkTruth refuses expressions that hold for every call. A body fails only at
// false and at what is undefined, so that an empty set and a zero are true.
func (v *vetting) checkTruth() {
	f, err := newFlow(v)
	if err != nil {
		return // said already
	}
	v.authors(func(_ *module, r *ast.Rule) {
		walkBodies(r, func(e *ast.Expr, body ast.Body) {
			v.checkBare(f, r, e, body)
			v.checkOrder(f, r, e, body)
		})
		v.checkBoth(r)
	})
}

// checkBoth warns of a body that asks one field to be two things at once: a rule that
// is switched off is written so too.
func (v *vetting) checkBoth(r *ast.Rule) {
	ast.WalkBodies(r, func(b ast.Body) bool {
		first := map[string]ast.Value{}
		for _, e := range b {
			if !e.IsEquality() || e.Negated || len(e.With) > 0 {
				continue
			}
			for i := range 2 {
				ref, ok := e.Operand(i).Value.(ast.Ref)
				c := e.Operand(1 - i).Value
				if !ok || !ref.HasPrefix(ast.InputRootRef) || !ref.IsGround() || !ast.IsConstant(c) {
					continue
				}
				if before, ok := first[ref.String()]; ok && before.Compare(c) != 0 {
					v.hinting(func() {
						v.warn(e.Location, "never_both", "%s is not %s and %s at once; of several, write in {...}", ref, abridged(before), abridged(c))
					})
				}
				first[ref.String()] = c
			}
		}
		return false
	})
}

// walkBodies calls fn for each expression of r at any depth, with all that it can
// see: its body and those around it.
func walkBodies(r *ast.Rule, fn func(e *ast.Expr, body ast.Body)) {
	var walk func(b, around ast.Body)
	walk = func(b, around ast.Body) {
		all := slices.Concat(around, b)
		for _, e := range b {
			fn(e, all)
			ast.NewGenericVisitor(func(x any) bool {
				inner, ok := x.(ast.Body)
				if ok {
					walk(inner, all)
				}
				return ok
			}).Walk(e)
		}
	}
	walk(r.Body, nil)
}

func (v *vetting) checkBare(f *flow, r *ast.Rule, e *ast.Expr, body ast.Body) {
	if e.Generated {
		return
	}
	switch terms := e.Terms.(type) {
	case *ast.Term:
		switch x := terms.Value.(type) {
		case ast.Ref:
			v.checkBareRef(f, r, e, x)
		case ast.Var:
			if made := madeBy(x, body); made != "" {
				v.refuseBare(e, made, made)
			}
		case ast.Boolean:
		default:
			if made := comprehended(terms); made != "" {
				v.refuseBare(e, made, made)
			} else if ast.IsConstant(x) {
				v.refuseBare(e, abridged(x), ast.ValueName(x))
			}
		}
	case []*ast.Term:
		v.checkBareCall(e, terms)
	}
}

// madeBy is what kind of comprehension x is in body, "" for none.
func madeBy(x ast.Var, body ast.Body) string {
	for _, e := range body {
		if !e.IsEquality() || e.Negated {
			continue
		}
		for i := range 2 {
			if kind := comprehended(e.Operand(1 - i)); kind != "" && e.Operand(i).Value.Compare(x) == 0 {
				return kind
			}
		}
	}
	return ""
}

func comprehended(t *ast.Term) string {
	switch t.Value.(type) {
	case *ast.SetComprehension:
		return "set"
	case *ast.ArrayComprehension:
		return "array"
	case *ast.ObjectComprehension:
		return "object"
	default:
		return ""
	}
}

func (v *vetting) checkBareRef(f *flow, r *ast.Rule, e *ast.Expr, ref ast.Ref) {
	if ref.HasPrefix(ast.InputRootRef) {
		if n, always := f.input.always(ref[1:]); always && n.Type != "boolean" && n.Type != "" {
			v.refuseBare(e, ref.String(), n.Type)
		}
		return
	}
	if !ref.HasPrefix(ast.DefaultRootRef) || !ref.IsGround() || len(ref) < 2 {
		return
	}
	rules := v.compiler.GetRulesExact(ref)
	if len(rules) == 0 {
		if d, ok := document(v.bundle.Data, ref); ok && !v.isPackage(ref) {
			if _, flag := d.(bool); !flag {
				v.hinting(func() { v.refuseBare(e, ref.String(), "document that is neither true nor false") })
			}
		}
		return
	}
	if kinds := kindsOfType(v.compiler.TypeEnv.GetByValue(ref)); alwaysTrue(kinds) && slices.ContainsFunc(rules, unconditional) {
		v.refuseBare(e, ref[1:].String(), kinds[0])
	}
}

// unconditional says that what r defines is there whatever the input is.
func unconditional(r *ast.Rule) bool {
	if r.Head.RuleKind() == ast.MultiValue || !r.Ref().IsGround() || r.Default {
		return true
	}
	for _, e := range r.Body {
		t, ok := e.Terms.(*ast.Term)
		holds := ok && t.Value.Compare(ast.Boolean(true)) == 0
		collects := e.IsEquality() && (comprehended(e.Operand(0)) != "" || comprehended(e.Operand(1)) != "")
		if e.Negated || !holds && !collects {
			return false
		}
	}
	return true
}

// always is the place at path, and whether every input has it.
func (n *node) always(path []*ast.Term) (*node, bool) {
	for _, t := range path {
		name, ok := t.Value.(ast.String)
		if !ok || n.Type != "object" || !slices.Contains(n.Required, string(name)) || n.Properties[string(name)] == nil {
			return nil, false
		}
		n = n.Properties[string(name)]
	}
	return n, true
}

func (v *vetting) checkBareCall(e *ast.Expr, terms []*ast.Term) {
	op := e.Operator()
	if rules := v.compiler.GetRulesExact(op); len(rules) > 0 {
		if len(terms)-1 != len(rules[0].Head.Args) || !slices.ContainsFunc(rules, unconditional) {
			return
		}
		fn, ok := v.compiler.TypeEnv.GetByValue(op).(*types.Function)
		if !ok {
			return
		}
		if kinds := kindsOfType(fn.Result()); alwaysTrue(kinds) {
			v.refuseBare(e, op[1:].String(), kinds[0])
		}
		return
	}
	b := ast.BuiltinMap[op.String()]
	if b == nil || b.Relation || len(terms)-1 != len(b.Decl.FuncArgs().Args) || fails(b.Name) {
		return
	}
	if kinds := kindsOfType(b.Decl.Result()); alwaysTrue(kinds) {
		v.refuseBare(e, b.Name, kinds[0])
	}
}

// fails says that a builtin is undefined for some values, so that a call of it
// alone is a question.
func fails(name string) bool {
	for _, part := range []string{"parse", "decode", "unmarshal", "to_number", "cast_", "io.jwt", "max", "min", "print", "crypto.x509", "indexof", "semver", "format_int", "strings.", "substring", "lookup", "http."} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// alwaysTrue says that a value of one of these kinds is true wherever it stands.
func alwaysTrue(kinds []string) bool {
	return len(kinds) > 0 && !slices.Contains(kinds, "boolean")
}

func (v *vetting) refuseBare(e *ast.Expr, what, kind string) {
	advice := map[string]string{
		"set": "count(x) > 0 asks whether it holds any", "array": "count(x) > 0 asks whether it holds any", "object": "count(x) > 0 asks whether it holds any",
		"string": `x != "" asks whether it says anything`,
	}[kind]
	if advice == "" {
		advice = "compare it with something"
	}
	v.refuse(e.Location, "always_true", "%s alone is always true, for only false is not; %s", what, advice)
}

// checkOrder refuses < and its like between kinds of values that OPA only orders by
// their kind: every number is less than every text.
func (v *vetting) checkOrder(f *flow, r *ast.Rule, e *ast.Expr, body ast.Body) {
	if !e.IsCall() || len(e.Operands()) < 2 {
		return
	}
	op := e.Operator()
	if !slices.ContainsFunc([]*ast.Builtin{ast.LessThan, ast.LessThanEq, ast.GreaterThan, ast.GreaterThanEq}, func(b *ast.Builtin) bool { return op.Equal(b.Ref()) }) {
		return
	}
	here := func(f Finding) bool { return f.Where == placeOf(e.Location) }
	if slices.ContainsFunc(v.findings, here) {
		return // it comes of that
	}
	if v.checkNow(f, r, e) {
		return
	}
	x, y := v.kindsOf(f, r, e, e.Operand(0), body), v.kindsOf(f, r, e, e.Operand(1), body)
	if len(x) == 0 || len(y) == 0 || slices.ContainsFunc(x, func(k string) bool { return slices.Contains(y, k) }) {
		return
	}
	v.refuse(e.Location, "order_of_kinds", "one side is %s and the other %s; such values are ordered by what they are, whatever they say",
		strings.Join(x, " or "), strings.Join(y, " or "))
}

// checkNow refuses a time in other units than those of now_ns.
func (v *vetting) checkNow(f *flow, r *ast.Rule, e *ast.Expr) bool {
	const least = 100_000_000_000_000_000 // ns, in 1973
	for i := range 2 {
		now, then := f.mean(e.Operand(i), f.scopes[r], start(e)), f.mean(e.Operand(1-i), f.scopes[r], start(e))
		early := func(c ast.Value) bool {
			return c.Compare(ast.Number("0")) > 0 && c.Compare(ast.IntNumberTerm(least).Value) < 0
		}
		if isAt(now, "input.env.now_ns") && then.onlyConsts() && !slices.ContainsFunc(then.consts, func(c ast.Value) bool {
			_, number := c.(ast.Number)
			return !number || !early(c)
		}) {
			v.refuse(e.Location, "now_unit", "input.env.now_ns is in nanoseconds, and %s of them are long over", abridged(then.consts[0]))
			return true
		}
	}
	return false
}

// kindsOf is what t can be, by its types or by what it is made of; none is not known.
func (v *vetting) kindsOf(f *flow, r *ast.Rule, e *ast.Expr, t *ast.Term, body ast.Body) []string {
	if set, ok := v.compiler.TypeEnv.GetByValue(&ast.SetComprehension{Term: t, Body: body}).(*types.Set); ok {
		if kinds := kindsOfType(set.Of()); len(kinds) > 0 {
			return withoutNull(kinds)
		}
	}
	return kindsOfMeaning(f.mean(t, f.scopes[r], start(e)))
}

// kindsOfMeaning are the kinds of values that m can be; none is not known.
func kindsOfMeaning(m meaning) []string {
	if !m.known {
		return nil
	}
	var kinds []string
	for _, n := range m.nodes {
		if n.Type == "" {
			return nil
		}
		kinds = append(kinds, strings.Replace(n.Type, "integer", "number", 1))
	}
	for _, c := range m.consts {
		kinds = append(kinds, ast.ValueName(c))
	}
	for _, x := range m.made {
		kinds = append(kinds, x.kind)
	}
	slices.Sort(kinds)
	return withoutNull(slices.Compact(kinds))
}

// withoutNull is none for what may be null: a needless question, and an honest one.
func withoutNull(kinds []string) []string {
	if slices.Contains(kinds, "null") {
		return nil
	}
	return kinds
}

// kindsOfType are the kinds of values of type t, none if it says nothing.
func kindsOfType(t types.Type) []string {
	switch t := t.(type) {
	case types.Any:
		var out []string
		for _, x := range t {
			kinds := kindsOfType(x)
			if len(kinds) == 0 {
				return nil
			}
			out = append(out, kinds...)
		}
		slices.Sort(out)
		return slices.Compact(out)
	case types.String:
		return []string{"string"}
	case types.Number:
		return []string{"number"}
	case types.Boolean:
		return []string{"boolean"}
	case types.Null:
		return []string{"null"}
	case *types.Array:
		return []string{"array"}
	case *types.Set:
		return []string{"set"}
	case *types.Object:
		return []string{"object"}
	default:
		return nil
	}
}
