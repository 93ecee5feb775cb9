package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// lintHeads warns of an argument in the head of a rule that takes away, unless all
// the tools that the rule is for require it.
func (v *vetting) lintHeads(o CheckOptions) {
	v.optionalHeads(func(m *module, r *ast.Rule, ref ast.Ref, g guard) {
		if mayBeRequired(ref, g) && !v.required(o, r, ref) {
			v.warn(r.Location, "head_optional", headAdvice, ref, v.wordOf(m, r))
		}
	})
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
