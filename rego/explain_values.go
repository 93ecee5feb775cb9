package rego

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
)

// maxShown is how many bytes of a value are shown.
const maxShown = 40

// values are the parts of the expression that were something else than what stands
// there: places of the input, variables, and what helpers gave.
func (m *miss) values(hide redactor) []ShownValue {
	var out []ShownValue
	add := func(name string, v ast.Value) {
		if !slices.ContainsFunc(out, func(s ShownValue) bool { return s.Name == name }) {
			out = append(out, ShownValue{name, hide.shown(name, v)})
		}
	}
	base := m.expr.BaseCogeneratedExpr()
	exprs := append([]*ast.Expr{m.expr, base}, base.CogeneratedExprs()...)
	for _, x := range exprs {
		m.generated(x, add)
		ast.WalkTerms(x, func(t *ast.Term) bool {
			switch v := t.Value.(type) {
			case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
				return true // their variables are not known here
			case ast.Ref:
				if v.HasPrefix(ast.InputRootRef) && len(v) > 1 {
					m.place(v, add)
				}
			case ast.Var:
				if meta, ok := m.event.LocalMetadata[v]; ok && !strings.HasPrefix(string(meta.Name), "__") {
					if val := m.event.Locals.Get(v); val != nil {
						add(string(meta.Name), val)
					}
				}
			}
			return false
		})
	}
	return out
}

// generated adds what a rule gave that the compiler put into a variable.
func (m *miss) generated(x *ast.Expr, add func(string, ast.Value)) {
	if !x.IsEquality() {
		return
	}
	for i := range 2 {
		name, ok := x.Operand(i).Value.(ast.Var)
		ref, isRef := x.Operand(1 - i).Value.(ast.Ref)
		if !ok || !isRef || !ref.HasPrefix(ast.DefaultRootRef) {
			continue
		}
		if val := m.event.Locals.Get(name); val != nil {
			add(strings.TrimPrefix(ref.String(), "data."), val)
		}
	}
}

// place adds what stood at a place of the input, also if nothing did.
func (m *miss) place(ref ast.Ref, add func(string, ast.Value)) {
	in := m.event.Input()
	if in == nil {
		return
	}
	path := ref.Copy()
	for i, t := range path[1:] {
		if v, ok := t.Value.(ast.Var); ok {
			val := m.event.Locals.Get(v)
			if val == nil {
				return
			}
			path[i+1] = ast.NewTerm(val)
		}
	}
	if !path.IsGround() {
		return
	}
	v, err := in.Value.Find(path[1:])
	if err != nil {
		v = nil
	}
	add(path.String(), v)
}

// shown is v as JSON, cut and without secrets. Nil is what is not there.
func (r redactor) shown(name string, v ast.Value) string {
	if v == nil {
		return "undefined"
	}
	if secretName(name) {
		return hidden
	}
	b := bounded{max: 64 << 10}
	if err := writeValue(jsontext.NewEncoder(&b, jsontext.AllowDuplicateNames(true)), r.value(v), true); err != nil {
		return ast.ValueName(v)
	}
	return cutText(string(bytes.TrimSpace(b.b)), maxShown)
}

// cutText is at most most bytes of s, and says that it is cut.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const mark = "..."
	s = s[:most-len(mark)]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + mark
}
