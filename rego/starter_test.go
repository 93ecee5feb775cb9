package rego

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// starterWith is the starter policy with other data.
func starterWith(t testing.TB, data string) (*Policy, error) {
	t.Helper()
	fsys := withBase(t, bundles.Starter())
	fsys["starter/data.json"].Data = []byte(data)
	return Open(t.Context(), fsys, Options{})
}

func TestStarterLoads(t *testing.T) {
	p := mustOpen(t, withBase(t, bundles.Starter()))
	d, err := p.Decide(t.Context(), input(t, "read-file", `{"path":"/docs/a"}`, "analyst"))
	if err != nil || d.Verdict != call.Allow || !slices.Equal(d.Labels, []string{"untrusted-input"}) {
		t.Errorf("an analyst reads: %+v, %v", d, err)
	}
	if d, err := p.Decide(t.Context(), input(t, "read-file", `{"path":"/docs/a"}`, "visitor")); err != nil || d.Verdict != call.Deny {
		t.Errorf("a visitor reads: %+v, %v", d, err)
	}
	all := `{"frozen": false, "blocked": [{"ids": ["bot-7"], "tenants": ["Acme Ltd."]}], "tools": {"t": {
		"who": [{"roles": ["analyst"], "kinds": ["agent", "service"]}, {"ids": ["Zoë"]}],
		"grant": {
			"fs": [{"root": "docs", "path": "a/b", "modes": ["read", "write"]}],
			"http": [{"hosts": ["api.example.com"], "ports": [443], "methods": ["GET"], "paths": ["/v1"], "networks": ["public"], "secret": {"name": "api", "as": "bearer"}}],
			"log": true, "bounds": {"calls": 3}
		},
		"limits": [{"name": "calls", "burst": 10, "per": "30m", "by": "tenant", "cost": 2}],
		"approval": {"count": 2, "from": {"roles": ["lead"], "ids": ["uid:1000"]}, "ttl_s": 600, "reason": "Ask first."},
		"frozen": false, "labels": ["x:y"], "not_after": ["secret"]
	}}}`
	if _, err := starterWith(t, all); err != nil {
		t.Errorf("everything that there is: %v", err)
	}
}

// Without its data the starter would keep no restriction, whatever else permits.
func TestStarterNeedsItsData(t *testing.T) {
	fsys := withBase(t, bundles.Starter())
	fsys["more.rego"] = &fstest.MapFile{Data: []byte("package callgate.rules\n\nimport rego.v2\n\nallow contains {\"id\": \"more\"} if input.tool.name == \"t\"\n")}
	mustOpen(t, fsys)
	fsys["startr/data.json"] = fsys["starter/data.json"]
	delete(fsys, "starter/data.json")
	if _, err := Open(t.Context(), fsys, Options{}); err == nil || !strings.Contains(err.Error(), "data.starter: is missing") {
		t.Errorf("Open = %v", err)
	}
}

// The example in the document is one that loads.
func TestStarterDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/starter.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("the document has no example")
	}
	p, err := starterWith(t, example)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer(p.Decide(t.Context(), input(t, "refund", `{}`, "support"))); got != string(call.Ask) {
		t.Errorf("a refund: %s", got)
	}
}

func TestStarterDataIsClosed(t *testing.T) {
	tool := func(body string) string {
		return `{"tools": {"t": {"who": [{"ids": ["a"]}], "grant": {}` + body + `}}}`
	}
	grant := func(g string) string { return `{"tools": {"t": {"who": [{"ids": ["a"]}], "grant": ` + g + `}}}` }
	for _, tt := range []struct{ name, give, place, want string }{
		{"no tools", `{}`, "data.starter", "tools"},
		{"unknown setting", `{"tools": {}, "frozne": true}`, "data.starter", "frozne"},
		{"a tool that no tool can be", `{"tools": {"Read File": {"who": [{"ids": ["a"]}], "grant": {}}}}`, "data.starter/tools", "Read File"},
		{"null", `{"tools": {"t": null}}`, "data.starter/tools/t", "object"},
		{"unknown key", tool(`, "aproval": {}`), "data.starter/tools/t", "aproval"},
		{"key in another case", tool(`, "Frozen": true`), "data.starter/tools/t", "Frozen"},
		{"frozen in words", tool(`, "frozen": "yes"`), "data.starter/tools/t/frozen", "boolean"},
		{"nobody", `{"tools": {"t": {"who": [], "grant": {}}}}`, "data.starter/tools/t/who", "minItems"},
		{"anybody", `{"tools": {"t": {"who": [{}], "grant": {}}}}`, "data.starter/tools/t/who/0", "minProperties"},
		{"no grant", `{"tools": {"t": {"who": [{"ids": ["a"]}]}}}`, "data.starter/tools/t", "grant"},
		{"unprintable id", `{"tools": {"t": {"who": [{"ids": ["a\u0000"]}], "grant": {}}}}`, "data.starter/tools/t/who/0/ids/0", "pattern"},
		{"blocked by nothing", `{"tools": {}, "blocked": [{}]}`, "data.starter/blocked/0", "minProperties"},
		{"approval by nobody", tool(`, "approval": {"count": 1, "from": {}}`), "data.starter/tools/t/approval/from", "minProperties"},
		{"approval by none", tool(`, "approval": {"count": 0, "from": {"ids": ["b"]}}`), "data.starter/tools/t/approval/count", "minimum"},
		{"limit without by", tool(`, "limits": [{"name": "a", "burst": 1, "per": "1h"}]`), "data.starter/tools/t/limits/0", "by"},
		{"limit of a default's name", tool(`, "limits": [{"name": "class:read", "burst": 1, "per": "1h", "by": "tenant"}]`), "data.starter/tools/t/limits/0/name", "pattern"},
		{"limit for ever", tool(`, "limits": [{"name": "a", "burst": 1, "per": "9999h", "by": "tenant"}]`), "data.starter/tools/t/limits/0/per", "pattern"},
		{"label in words", tool(`, "labels": ["two words"]`), "data.starter/tools/t/labels/0", "pattern"},
		{"id with a space before", `{"tools": {"t": {"who": [{"ids": ["b", " a"]}], "grant": {}}}}`, "data.starter/tools/t/who/0/ids/1", "spaces around"},
		{"role with a space behind", `{"tools": {"t": {"who": [{"roles": ["a "]}], "grant": {}}}}`, "data.starter/tools/t/who/0/roles/0", "spaces around"},
		{"tenant that is taken apart", `{"tools": {}, "blocked": [{"tenants": ["Zoe\u0308"]}]}`, "data.starter/blocked/0/tenants/0", "form C"},
		{"approver with a space before", tool(`, "approval": {"count": 1, "from": {"ids": [" b"]}}`), "data.starter/tools/t/approval/from/ids/0", "spaces around"},
		{"count with a point", tool(`, "approval": {"count": 2.0, "from": {"ids": ["b"]}}`), "data.starter/tools/t/approval/count", "whole number"},
		{"burst with an exponent", tool(`, "limits": [{"name": "a", "burst": 1e3, "per": "1h", "by": "tenant"}]`), "data.starter/tools/t/limits/0/burst", "whole number"},
		{"bound with a point", grant(`{"bounds": {"calls": 5.0}}`), "data.starter/tools/t/grant/bounds/calls", "whole number"},
		{"bound with an exponent", grant(`{"bounds": {"calls": 1E3}}`), "data.starter/tools/t/grant/bounds/calls", "whole number"},
		{"unknown capability", grant(`{"net": []}`), "data.starter/tools/t/grant", "net"},
		{"half a capability", grant(`{"http": [{"hosts": ["a.example"]}]}`), "data.starter/tools/t/grant/http/0", "ports"},
		{"unknown mode", grant(`{"fs": [{"root": "docs", "path": ".", "modes": ["rw"]}]}`), "data.starter/tools/t/grant/fs/0/modes/0", "read"},
		{"a path that leaves", grant(`{"fs": [{"root": "docs", "path": "../x", "modes": ["read"]}]}`), "data.starter/tools/t/grant", "fs[0].path"},
		{"a host for all", grant(`{"http": [{"hosts": ["*"], "ports": [443], "methods": ["GET"], "paths": ["/"], "networks": ["public"]}]}`), "data.starter/tools/t/grant", "http[0].hosts"},
	} {
		_, err := starterWith(t, tt.give)
		if err == nil || !strings.Contains(err.Error(), tt.place+": ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s and %q", tt.name, err, tt.place, tt.want)
		}
		at := func(p string) bool { return strings.HasPrefix(p, tt.place+": ") }
		if places := Places(err); !slices.ContainsFunc(places, at) {
			t.Errorf("%s: Places = %q", tt.name, places)
		}
	}
}

// Other bundles' data is theirs, in YAML as well.
func TestStarterDataElsewhere(t *testing.T) {
	if _, err := Open(t.Context(), files("p.rego", denies, "starters/data.json", `{"x": 1}`), Options{}); err != nil {
		t.Error(err)
	}
	_, err := Open(t.Context(), files("p.rego", denies, "starter/data.yaml", "tools: {}\nx: 1\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), "data.starter: ") {
		t.Errorf("Open = %v", err)
	}
}

// What the schema refuses, the rules alone do not permit: under plain OPA there is
// no schema.
func TestStarterRulesNeedNoSchema(t *testing.T) {
	const data = `{"frozen": false, "blocked": [{"ids": ["bot-7"]}], "tools": {"read-file": {
		"who": [{"roles": ["analyst"], "kinds": ["agent"]}, {"ids": ["alice"]}],
		"grant": {"fs": [{"root": "docs", "path": ".", "modes": ["read"]}], "log": true, "bounds": {"calls": 3}},
		"limits": [{"name": "calls", "burst": 10, "per": "30m", "by": "tenant", "cost": 2}],
		"approval": {"count": 2, "from": {"roles": ["lead"], "ids": ["uid:1000"]}, "ttl_s": 600, "reason": "Ask first."},
		"frozen": false, "labels": ["x"], "not_after": ["secret"]
	}}}`
	var tree map[string]any
	if err := json.Unmarshal([]byte(data), &tree); err != nil {
		t.Fatal(err)
	}
	// As opa eval does it: errors of builtins are undefined, and the data is what it is.
	options := []func(*oparego.Rego){oparego.Query("data.callgate.decision with data.starter as input.starter with input as input.call")}
	for name, f := range withBase(t, bundles.Starter()) {
		if strings.HasSuffix(name, ".rego") {
			options = append(options, oparego.Module(name, string(f.Data)))
		}
	}
	plain, err := oparego.New(options...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := treeOf(t, input(t, "read-file", `{"path":"/docs/a"}`, "analyst"))
	answerTo := func(data any) string {
		t.Helper()
		rs, err := plain.Eval(t.Context(), oparego.EvalParsedInput(valueOf(t, map[string]any{"starter": data, "call": asked})))
		if err != nil || len(rs) != 1 {
			t.Fatal(rs, err)
		}
		v, err := ast.InterfaceToValue(rs[0].Expressions[0].Value)
		if err != nil {
			t.Fatal(err)
		}
		return answer(decode(v))
	}
	if got := answerTo(tree); got != string(call.Ask) {
		t.Fatalf("as it is: %s", got)
	}
	refused := 0
	mutants(tree, func(what string, mutant any) {
		if checkStarter(&bundle.Bundle{Data: map[string]any{"starter": mutant}}) == nil {
			return
		}
		refused++
		if got := answerTo(mutant); got == string(call.Allow) || got == string(call.Ask) {
			t.Errorf("%s: the schema refuses it, the rules say %s", what, got)
		}
	})
	if refused < 150 {
		t.Errorf("only %d mutants are refused", refused)
	}
}

// As for the project: an input of which something is gone or of another type gets
// no more than it would have.
func TestStarterMutantsNeverGetMore(t *testing.T) {
	p, err := starterWith(t, `{"blocked": [{"roles": ["visitor"]}], "tools": {"tool": {
		"who": [{"roles": ["analyst"]}, {"ids": ["alice"]}], "grant": {}, "not_after": ["secret"],
		"limits": [{"name": "calls", "burst": 1, "per": "1h", "by": "principal"}]
	}}}`)
	if err != nil {
		t.Fatal(err)
	}
	// Other roles and labels are other facts.
	harmless := map[string]*regexp.Regexp{
		"blocked":   regexp.MustCompile(`^/principal/roles(/item gone| is (empty )?list)$`),
		"not after": regexp.MustCompile(`^/session/labels(/item gone| is (empty )?list)$`),
	}
	for name, in := range map[string]*call.Input{
		"blocked":   input(t, "tool", `{}`, "analyst", "visitor"),
		"not after": input(t, "tool", `{}`, "analyst"),
		"allowed":   input(t, "tool", `{}`, "analyst"),
	} {
		if name == "not after" {
			in.Session.Labels = []string{"secret"}
		}
		tree := treeOf(t, in)
		before, err := p.Decide(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		mutants(tree, func(what string, mutant any) {
			if harmless[name] != nil && harmless[name].MatchString(what) {
				return
			}
			d, err := p.decide(t.Context(), valueOf(t, mutant), in.Env.NowNS)
			if err != nil || d.Verdict == call.Deny {
				return
			}
			if before.Verdict == call.Deny {
				t.Errorf("%s: %s becomes %s", name, what, d.Verdict)
			}
			if !slices.ContainsFunc(d.Limits, func(l call.Limit) bool { return l.Name == "calls" }) {
				t.Errorf("%s: %s: the limit is gone", name, what)
			}
		})
	}
}
