package rego

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// world is what the samples of lint.txtar are for.
func world() CheckOptions {
	docs := call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read", "write"}}}}
	web := call.Caps{HTTP: []call.HTTP{{Hosts: []string{"a.example", "*.a.example"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/"}, Networks: []string{"public"}}}}
	sh := call.Caps{Exec: []call.Exec{{Command: "bash", Args: []string{"-c", "*"}}}}
	return CheckOptions{
		Lint: true,
		Tools: []ToolInfo{
			{Name: "x", Caps: docs, Args: jsontext.Value(`{
				"type": "object", "additionalProperties": false, "required": ["amount"],
				"properties": {"path": {"type": "string"}, "amount": {"type": "integer"}, "force": {"type": "boolean"}, "pattern": {"type": "string"}}
			}`)},
			{Name: "y", Caps: sh},
			{Name: "web.get", Caps: web},
		},
		Roles: []string{"lead", "staff"},
	}
}

func TestLint(t *testing.T) {
	n := 0
	for _, s := range samples(t, "testdata/vet/lint.txtar") {
		n++
		t.Run(s.name, func(t *testing.T) {
			found, err := Check(t.Context(), s.give, world())
			if err != nil {
				t.Fatal(err)
			}
			if got := codesOf(found, SeverityError); len(got) > 0 {
				t.Errorf("does not load: %v", found)
			}
			got := codesOf(found, SeverityWarning)
			if !strings.Contains(s.name, "metadata") {
				got = slices.DeleteFunc(got, func(c string) bool { return c == "metadata_missing" })
			}
			slices.Sort(s.want)
			if !slices.Equal(got, s.want) {
				t.Errorf("codes %v, want %v\n%v", got, s.want, found)
			}
		})
	}
	t.Log(n, "policies")
}

// Without knowledge of tools and roles there is nothing to say of them.
func TestLintOfAnUnknownWorld(t *testing.T) {
	worldly := []string{"tool_unknown", "role_unknown", "argument_unknown", "grant_vain"}
	isWorldly := func(c string) bool { return slices.Contains(worldly, c) }
	for _, s := range samples(t, "testdata/vet/lint.txtar") {
		if !slices.ContainsFunc(s.want, isWorldly) {
			continue
		}
		found, err := Check(t.Context(), s.give, CheckOptions{Lint: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := codesOf(found, SeverityWarning); slices.ContainsFunc(got, isWorldly) {
			t.Errorf("%s: %v", s.name, found)
		}
	}
}

// The rules of data-driven policies have no tool to begin with; else there is
// nothing to warn of.
func TestShippedPoliciesHaveFewWarnings(t *testing.T) {
	for name, fsys := range map[string]fs.FS{
		"project": withBase(t, bundles.Project()), "starter": withBase(t, bundles.Starter()),
	} {
		found, err := Check(t.Context(), fsys, CheckOptions{Lint: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Code != "guard_unindexed" {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
}

// What lint takes for indexed, OPA's index finds: a rule for another tool, label or
// argument is not tried.
func TestIndexedGuardsAreIndexed(t *testing.T) {
	for guard, want := range map[string]bool{
		`input.tool.name == "x"`:                            true,
		`"x" == input.tool.name`:                            true,
		`input.tool.name in {"x", "y"}`:                     true,
		`input.tool.name in ["x", "y"]`:                     true,
		`startswith(input.tool.name, "x")`:                  true,
		`glob.match("x.*", ["."], input.tool.name)`:         true,
		`"x" in input.session.labels`:                       true,
		`input.args.mode == "x"`:                            true,
		`contains(input.tool.name, "x")`:                    false,
		`input.tool.name in data.names`:                     false,
		`_helper`:                                           false,
		`some l in input.session.labels; l == "x"`:          false,
		`glob.match("x.*", ["."], input.tool.name) == true`: false,
		`not input.tool.name == "x"`:                        false,
		`endswith(input.tool.name, "x")`:                    false,
	} {
		m := ast.MustParseModuleWithOpts("package p\n\nimport rego.v2\n\nr contains 1 if { "+guard+" }\n\nr contains 2 if input.tool.name == \"z\"\n\n_helper if input.tool.name == \"x\"\n",
			ast.ParserOptions{Capabilities: Capabilities()})
		if got := indexed(m.Rules[0].Body[0]); got != want {
			t.Errorf("indexed(%s) = %t", guard, got)
		}
		c := ast.NewCompiler()
		if c.Compile(map[string]*ast.Module{"p.rego": m}); c.Failed() {
			t.Fatal(guard, c.Errors)
		}
		index := c.RuleIndex(ast.MustParseRef("data.p.r"))
		res, err := index.Lookup(elsewhere{})
		if err != nil {
			t.Fatal(err)
		}
		tried := slices.ContainsFunc(res.Rules, func(r *ast.Rule) bool { return r.Head.Key.Value.Compare(ast.Number("1")) == 0 })
		if want && tried {
			t.Errorf("%s: OPA tries the rule nevertheless", guard)
		}
	}
}

// elsewhere is an input that no guard of the test is about.
type elsewhere struct{}

func (elsewhere) Resolve(ref ast.Ref) (ast.Value, error) {
	if ref.String() == "input.session.labels" {
		return ast.NewArray(ast.StringTerm("none")), nil
	}
	return ast.String("none"), nil
}
