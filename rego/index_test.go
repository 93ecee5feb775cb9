package rego

import (
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// ways are the evaluator's short cuts in other combinations than ours, which is with
// the index and without early exit: no answer may depend on them.
var ways = map[string][]oparego.EvalOption{
	"without the index":                     {oparego.EvalRuleIndexing(false), oparego.EvalEarlyExit(false)},
	"with early exit":                       {oparego.EvalEarlyExit(true)},
	"with early exit and without the index": {oparego.EvalRuleIndexing(false), oparego.EvalEarlyExit(true)},
}

// unlike asks p in all ways about v, and says where the answers differ. An error is
// an answer of its own, but that early exit may pass one by.
func unlike(t *testing.T, p *Policy, v ast.Value, nowNS int64) string {
	t.Helper()
	want, wantErr := p.decide(t.Context(), v, nowNS)
	for name, way := range ways {
		rs, err := p.query.Eval(t.Context(), append(slices.Clone(way),
			oparego.EvalParsedInput(v), oparego.EvalTime(time.Unix(0, nowNS).UTC()), oparego.EvalTransaction(p.txn),
			oparego.EvalGenerateJSON(func(t *ast.Term, _ *oparego.EvalContext) (any, error) { return t.Value, nil }))...)
		if err != nil {
			if call.CodeOf(wantErr, "") != call.CodePolicyError {
				return name + ": " + err.Error()
			}
			continue
		}
		if len(rs) == 0 {
			if code := call.CodeOf(wantErr, ""); code != call.CodePolicyUndefined && code != call.CodePolicyError {
				return name + ": undefined"
			}
			continue
		}
		answer, ok := rs[0].Expressions[0].Value.(ast.Value)
		if !ok {
			t.Fatalf("%T", rs[0].Expressions[0].Value)
		}
		got, gotErr := decode(answer, p.role)
		p.sign(&got)
		switch {
		case strings.Contains(name, "early") && call.CodeOf(wantErr, "") == call.CodePolicyError:
		case call.CodeOf(gotErr, "") != call.CodeOf(wantErr, ""):
			return name + ": " + string(call.CodeOf(gotErr, "ok"))
		case wantErr == nil && !cmp.Equal(want, got):
			return name + "\n" + cmp.Diff(want, got)
		}
	}
	return ""
}

// One release of OPA lost rules whose guard the index did not understand, and what was
// allowed became undefined.
func TestGuardsHoldWithoutTheIndex(t *testing.T) {
	for _, guard := range []string{
		`input.tool.name == "t"`,
		`"t" == input.tool.name`,
		`input.tool.name in {"t", input.args.y}`,
		`input.tool.name in {"a", input.args.y}`,
		`input.tool.name in ["a", input.args.y]`,
		`input.tool.name in {"a", "t"}`,
		`input.tool.name in data.names`,
		`input.args.y in {"t", input.principal.id}`,
		`startswith(input.tool.name, "t")`,
		`glob.match("t*", ["."], input.tool.name)`,
		`some x in {"a", input.args.y}; x == input.tool.name`,
		`x := input.tool.name; x in {"t", "u"}`,
		`input.args.list[_] == "t"`,
		`input.args.list == ["s", "t"]`,
		`[_, "t"] = input.args.list`,
		`input.args.n == 1`,
		`input.args.none == null`,
		`input.args.o[input.tool.name] == true`,
		`not input.tool.name == "u"`,
		`input.tool.name != "u"`,
		`data.tools[input.tool.name].on == true`,
		`every x in input.args.list { x in {"s", input.args.y} }`,
	} {
		p := mustOpen(t, files(
			"p.rego", "package callgate\n\ndecision if {\n\tinput.tool.class == \"read\"\n\t"+strings.ReplaceAll(guard, "; ", "\n\t")+
				"\n}\n\ndecision if {\n\t"+strings.ReplaceAll(guard, "; ", "\n\t")+"\n\tinput.tool.class == \"write\"\n}\n",
			"data.json", `{"names": ["a", "t"], "tools": {"t": {"on": true}}}`))
		for _, class := range []string{"read", "write"} {
			in := input(t, "t", `{"y": "t", "list": ["s", "t"], "n": 1, "none": null, "o": {"t": true}}`)
			in.Tool.Class = class
			v, err := inputValue(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := answer(p.Decide(t.Context(), in)); got != "allow" {
				t.Errorf("%s: %s", guard, got)
			}
			if diff := unlike(t, p, v, in.Env.NowNS); diff != "" {
				t.Errorf("%s: %s", guard, diff)
			}
			in.Tool.Name, in.Args = "x", input(t, "x", `{}`).Args
			if v, err = inputValue(in); err != nil {
				t.Fatal(err)
			}
			if diff := unlike(t, p, v, in.Env.NowNS); diff != "" {
				t.Errorf("%s, of another tool: %s", guard, diff)
			}
		}
	}
}

// So it is for what we ship, asked about ordinary calls and about broken ones. Package
// story asks about those of all stories.
func TestShippedPoliciesWithoutTheIndex(t *testing.T) {
	tools := map[string]func(*call.Input){
		"read-file": func(in *call.Input) {
			in.Facts.Paths = []call.Path{{Root: "docs", Path: "a", Segments: []string{"a"}, Mode: "read"}}
		},
		"echo": func(*call.Input) {},
		"refund": func(in *call.Input) {
			in.Tool.Class, in.Asserted.Justification = "write", "because of ticket 42"
			in.Session.Labels = []string{"private-data", "untrusted-input"}
		},
		"shell": func(in *call.Input) {
			in.Facts.Commands = []call.Command{{Name: "git", Argv: []string{"git", "push"}, Via: []string{}, Reads: []string{}, Writes: []string{"a"}}}
		},
		"t.pay": func(in *call.Input) { in.Tool.Tags, in.Tool.Sensitivity = []string{"outbound"}, []string{"pii"} },
	}
	for name, b := range map[string]fs.FS{
		"project": bundles.Project(), "starter": bundles.Starter(), "coding-agent": bundles.CodingAgent(),
		"org-baseline": bundles.OrgBaseline(), "all helpers": files("rules.rego", helped),
	} {
		role := Permit
		if name == "org-baseline" {
			role = Restrict
		}
		p, err := Open(t.Context(), withBase(t, b), Options{Name: "x", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for tool, set := range tools {
			in := input(t, tool, `{"path":"a","text":"x","amount":5,"command":"git push"}`, "analyst", "developer", "support")
			set(in)
			v, err := inputValue(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := unlike(t, p, v, in.Env.NowNS); diff != "" {
				t.Errorf("%s: %s: %s", name, tool, diff)
			}
			mutants(treeOf(t, in), func(what string, mutant any) {
				if crc32.ChecksumIEEE([]byte(name+tool+what))%240 != 0 {
					return
				}
				n++
				if diff := unlike(t, p, valueOf(t, mutant), in.Env.NowNS); diff != "" {
					t.Errorf("%s: %s: %s: %s", name, tool, what, diff)
				}
			})
		}
		if n < 5 {
			t.Errorf("%s: only %d mutants", name, n)
		}
	}
}
