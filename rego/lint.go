package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// lint adds warnings: what loads, and probably does not say what was meant.
func (v *vetting) lint(o CheckOptions) {
	v.findings = append(v.findings, v.hints...)
	v.lintNegation()
	v.lintPatterns()
	v.lintGuards()
	v.lintHeads(o)
	v.lintVanishing(o)
	v.lintLists()
	v.lintMetadata()
	v.lintWorld(o)
	v.lintGrants(o)
}

// written calls f for each rule that an author wrote, as it was written.
func (v *vetting) written(f func(m *module, r *ast.Rule)) {
	for _, m := range v.modules {
		if m.authored() {
			ast.WalkRules(m.parsed, func(r *ast.Rule) bool {
				f(m, r)
				return false
			})
		}
	}
}

// wordOf is the word that r says something of, "" for helpers.
func (v *vetting) wordOf(m *module, r *ast.Rule) string {
	if name := nameOf(r); v.library && m.pkg == rulesPath && v.words[name] {
		return name
	}
	return ""
}

// isEqual says that op compares, before the compiler makes one of the three.
func isEqual(op ast.Ref) bool {
	return slices.ContainsFunc([]*ast.Builtin{ast.Equal, ast.Equality, ast.Assign}, func(b *ast.Builtin) bool { return op.Equal(b.Ref()) })
}

// contains says that f holds somewhere in x.
func contains(x any, f func(ast.Value) bool) bool {
	found := false
	ast.WalkTerms(x, func(t *ast.Term) bool {
		found = found || f(t.Value)
		return found
	})
	return found
}

// texts are the strings among the constants that x is or holds.
func texts(x ast.Value) []string {
	var out []string
	switch x := x.(type) {
	case ast.String:
		out = append(out, string(x))
	case *ast.Array:
		x.Foreach(func(t *ast.Term) { out = append(out, texts(t.Value)...) })
	case ast.Set:
		x.Foreach(func(t *ast.Term) { out = append(out, texts(t.Value)...) })
	}
	return out
}
