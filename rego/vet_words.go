package rego

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/callgate/callgate/engine/call"
)

// checkWords refuses entries that their word does not know. The library refuses
// them too, but only once the rule fires, and then it refuses the call.
func (v *vetting) checkWords() {
	v.authors(func(m *module, r *ast.Rule) {
		word := v.wordOf(m, r)
		if word == "" || r.Head.Key == nil {
			return
		}
		if v.entry == entrypoints[Restrict] && (word == "allow" || word == "waive") {
			v.refuse(r.Location, "word_misplaced", "a restrict layer cannot permit, so %s has no meaning in it; a permit layer may say it", word)
		}
		if f := forms()[word]; f != nil {
			v.checkEntry(word, f, r)
		}
	})
}

func (v *vetting) checkEntry(word string, f *form, r *ast.Rule) {
	parts := partsOf(r.Head.Key, r, maxHops)
	before := len(v.findings)
	for _, p := range parts {
		// The type of an entry is that of a set of it, by the rule's own body.
		set, ok := v.compiler.TypeEnv.GetByValue(&ast.SetComprehension{Term: p, Body: r.Body}).(*types.Set)
		if ok && set.Of() != nil {
			v.checkForm(r.Location, word, f, set.Of(), len(parts) == 1)
		}
	}
	if len(parts) == 1 && len(v.findings) == before && ast.IsConstant(parts[0].Value) {
		if err := validEntry(word, parts[0].Value); err != nil {
			v.refuse(r.Location, "entry_invalid", "%s: %v", word, err)
		}
	}
}

// partsOf are the objects that t is made of: itself, or what it unites.
func partsOf(t *ast.Term, r *ast.Rule, hops int) []*ast.Term {
	name, ok := t.Value.(ast.Var)
	if !ok || hops == 0 {
		return []*ast.Term{t}
	}
	for _, e := range r.Body {
		switch {
		case !e.IsCall() || e.Negated:
		case e.IsEquality():
			for i := range 2 {
				if e.Operand(i).Value.Compare(name) == 0 && e.Operand(1-i).Value.Compare(name) != 0 && !backwards(e.Operand(1-i), r, name) {
					return partsOf(e.Operand(1-i), r, hops-1)
				}
			}
		case e.Operator().Equal(ast.ObjectUnion.Ref()) && len(e.Operands()) == 3 && e.Operand(2).Value.Compare(name) == 0:
			return append(partsOf(e.Operand(0), r, hops-1), partsOf(e.Operand(1), r, hops-1)...)
		}
	}
	return []*ast.Term{t}
}

// backwards says that t is a variable of its own that is made of name, and not the
// other way round.
func backwards(t *ast.Term, r *ast.Rule, name ast.Var) bool {
	x, ok := t.Value.(ast.Var)
	if !ok {
		return false
	}
	return slices.ContainsFunc(r.Body, func(e *ast.Expr) bool {
		return e.IsEquality() && e.Operand(0).Value.Compare(x) == 0 && e.Operand(1).Value.Compare(name) == 0
	})
}

func (v *vetting) checkForm(l *ast.Location, at string, f *form, t types.Type, whole bool) {
	if !f.fits(t) {
		v.refuse(l, "entry_type", "%s must be %s", at, f.article())
		return
	}
	switch t := t.(type) {
	case types.Any:
		for _, x := range t {
			if f.fits(x) {
				v.checkForm(l, at, f, x, whole)
			}
		}
	case *types.Array:
		if f.elem != nil {
			for i := range t.Len() {
				v.checkForm(l, at, f.elem, t.Select(i), false)
			}
			v.checkElem(l, at, f, t.Dynamic())
		}
	case *types.Set:
		v.checkElem(l, at, f, t.Of())
	case *types.Object:
		v.checkObject(l, at, f, t, whole)
	}
}

func (v *vetting) checkElem(l *ast.Location, at string, f *form, t types.Type) {
	if f.elem != nil && t != nil {
		v.checkForm(l, at, f.elem, t, false)
	}
}

func (v *vetting) checkObject(l *ast.Location, at string, f *form, t *types.Object, whole bool) {
	if f.fields == nil {
		return
	}
	for _, p := range t.StaticProperties() {
		name, ok := p.Key.(string)
		field := f.fields[name]
		if !ok || field == nil {
			v.refuse(l, "entry_key", "%s has no %v; it has %s%s", at, p.Key, strings.Join(sortedKeys(f.fields), ", "), didYouMean(name, sortedKeys(f.fields)))
			continue
		}
		v.checkForm(l, at+"."+name, field, p.Value, false)
	}
	if !whole || t.DynamicProperties() != nil {
		return
	}
	for _, name := range f.required {
		if t.Select(name) == nil {
			v.refuse(l, "entry_incomplete", "%s needs %s", at, name)
		}
	}
}

// validEntry says what is wrong with an entry that is a constant.
func validEntry(word string, entry ast.Value) error {
	var b bytes.Buffer
	if err := writeValue(jsontext.NewEncoder(&b), entry, true); err != nil {
		return err
	}
	switch word {
	case "allow", "cap":
		var g call.RuleGrant
		if err := json.Unmarshal(b.Bytes(), &g, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("not capabilities: %w", err)
		}
		if g.ID != "" && !isName(g.ID) {
			return bad("grants", 0, "id")
		}
		return g.Validate()
	case "ask":
		var w wireApproval
		if err := json.Unmarshal(b.Bytes(), &w); err != nil {
			return err
		}
		_, err := approvals([]wireApproval{w})
		return err
	case "limit":
		var w wireLimit
		if err := json.Unmarshal(b.Bytes(), &w); err != nil {
			return err
		}
		_, err := limits([]wireLimit{w})
		return err
	default:
		return validConstant(word, entry)
	}
}

func validConstant(word string, entry ast.Value) error {
	text := func(v ast.Value) string { s, _ := v.(ast.String); return string(s) }
	switch word {
	case "deny":
		if o, ok := entry.(ast.Object); ok {
			if code := o.Get(ast.StringTerm("code")); code == nil || !isName(text(code.Value)) {
				return fmt.Errorf("a code is written like not_today: %s", abridged(entry))
			}
		}
	case "waive":
		if s := text(entry); s != "ask" && s != "limit" && s != "raw" {
			return fmt.Errorf("%s is not a default; there are ask, limit and raw", abridged(entry))
		}
	case "label", "result_label", "frame":
		if !isName(text(entry)) {
			return fmt.Errorf("a name is written like private-data: %s", abridged(entry))
		}
	}
	return nil
}
