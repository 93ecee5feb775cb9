package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// lintHeads warns of a field in the head of a rule that takes away, which a call
// need not have: without it the rule is undefined and takes nothing away.
func (v *vetting) lintHeads(o CheckOptions) {
	v.written(func(m *module, r *ast.Rule) {
		word := v.wordOf(m, r)
		if r.Head.Key == nil || !slices.Contains([]string{"deny", "ask", "limit"}, word) {
			return
		}
		needed := neededBy(r.Body)
		walkStrict(r.Head.Key, func(ref ast.Ref) {
			if optional(ref) && !needed[ref.String()] && !v.required(o, r, ref) {
				v.warn(r.Location, "head_optional",
					"without %s this %s is no more; ask for it in the body, write a template string, or object.get with a default", ref, word)
			}
		})
	})
}

// optional says that an input may lack ref.
func optional(ref ast.Ref) bool {
	s := ref.String()
	for _, open := range []string{"input.args.", "input.args[", "input.principal.claims.", "input.principal.claims[", "input.asserted.context.", "input.asserted.context[", "input.facts."} {
		if strings.HasPrefix(s, open) {
			return true
		}
	}
	return false
}

// neededBy are the references without which the body does not hold anyway.
func neededBy(b ast.Body) map[string]bool {
	out := map[string]bool{}
	for _, e := range b {
		if e.IsNegated() || e.IsEvery() || e.IsOr() {
			continue
		}
		walkStrict(e, func(ref ast.Ref) { out[ref.String()] = true })
	}
	return out
}

// walkStrict calls f for the references in x that must be defined for x to be:
// not those in template strings and comprehensions, nor in a get with a default.
func walkStrict(x any, f func(ast.Ref)) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.TemplateString, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		case ast.Ref:
			f(x)
		}
		return false
	}).Walk(x)
}

// lintMetadata warns of public rules without a title. Each rule of a word has one;
// of a helper, one rule.
func (v *vetting) lintMetadata() {
	titled, first := map[string]bool{}, map[string]*ast.Rule{}
	var names []string
	for _, m := range v.modules {
		if !m.authored() {
			continue
		}
		for _, r := range m.parsed.Rules {
			name := nameOf(r)
			if strings.HasPrefix(name, "_") {
				continue
			}
			has := slices.ContainsFunc(r.Annotations, func(a *ast.Annotations) bool { return a.Title != "" })
			if v.wordOf(m, r) != "" {
				if !has {
					v.warnUntitled(r, name)
				}
				continue
			}
			full := m.pkg + "." + name
			if first[full] == nil {
				first[full] = r
				names = append(names, full)
			}
			titled[full] = titled[full] || has
		}
	}
	for _, full := range names {
		if !titled[full] {
			v.warnUntitled(first[full], nameOf(first[full]))
		}
	}
}

func (v *vetting) warnUntitled(r *ast.Rule, name string) {
	v.warn(r.Location, "metadata_missing", "%s has no title; put # METADATA and # title: ... above it, or begin its name with _", name)
}
