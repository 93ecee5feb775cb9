package bundles_test

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Every rule that others may read has a title, once for all of its name, and
// every rule that says a word has its own.
func TestEveryPublicRuleHasATitle(t *testing.T) {
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".rego" || strings.HasSuffix(name, "_test.rego") {
			return err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		m, err := ast.ParseModuleWithOpts(name, string(src), ast.ParserOptions{ProcessAnnotation: true})
		if err != nil {
			t.Error(err)
			return nil
		}
		said := m.Package.Path.String() == "data.callgate.rules"
		titled := map[int]bool{} // line of what the title is for
		for _, a := range m.Annotations {
			if a.Title != "" {
				titled[a.EndLoc().Row+1] = true
			}
		}
		documented := map[string]bool{}
		for _, r := range m.Rules {
			if titled[r.Loc().Row] {
				documented[r.Head.Ref().String()] = true
			}
		}
		for _, r := range m.Rules {
			ref := r.Head.Ref().String()
			each := said && r.Head.RuleKind() == ast.MultiValue
			if !strings.HasPrefix(ref, "_") && (!documented[ref] || each && !titled[r.Loc().Row]) {
				t.Errorf("%s: %s has no title", r.Loc(), ref)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
