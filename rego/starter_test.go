package rego

import (
	"encoding/json"
	"maps"
	"os"
	"path"
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
	maps.DeleteFunc(fsys, func(name string, _ *fstest.MapFile) bool { return path.Base(name) == "data.json" })
	fsys["starter/data.json"] = &fstest.MapFile{Data: []byte(data)}
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
	all := `{"frozen": false, "blocked": [{"ids": ["bot-7"], "tenants": ["Acme Ltd."]}],
		"roles": {"Lead Auditor": ["t", "lab.*", "**"]}, "tools": {"t": {
		"who": [{"roles": ["analyst"], "kinds": ["agent", "service"]}, {"ids": ["Zoë"]}],
		"grant": {
			"fs": [{"root": "docs", "path": "a/b", "modes": ["read", "write"]}],
			"http": [{"hosts": ["api.example.com"], "ports": [443], "methods": ["GET"], "paths": ["/v1"], "networks": ["public"], "secret": {"name": "api", "as": "bearer"}}],
			"log": true, "bounds": {"calls": 3}
		},
		"args": {
			"amount": {"min": 1, "max": 1e3, "pinned": null}, "to": {"each": {"pattern": "[a-z]+", "max_length": 9}, "min_length": 1},
			"in": {"allowed": ["EUR", 7], "prefix": "E"}
		},
		"limits": ["calls", "units"], "approvals": ["four-eyes"],
		"frozen": false, "justify": true, "fields": ["id"], "rows": 10, "labels": ["x:y"], "not_after": ["secret"]
	}},
	"limits": {
		"calls": {"burst": 10, "per": "30m", "by": "tenant", "cost": 2},
		"units": {"at_most": 10, "per": "24h", "by": "session", "cost_of": "amount"}
	},
	"approvals": {"four-eyes": {
		"count": 2, "from": {"roles": ["lead"], "ids": ["uid:1000"]}, "ttl_s": 600, "reason": "Ask first.",
		"outside": {"days": ["mon"], "from": "08:00", "to": "17:30", "offset": "+01:00"}
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
	moved := maps.Clone(fsys)
	for name, file := range fsys {
		if rest, ours := strings.CutPrefix(name, "starter/"); ours && strings.HasSuffix(name, "data.json") {
			delete(moved, name)
			moved["startr/"+rest] = file
		}
	}
	if _, err := Open(t.Context(), moved, Options{}); err == nil || !strings.Contains(err.Error(), "data.starter: is missing") {
		t.Errorf("all of it gone: Open = %v", err)
	}
	delete(fsys, "starter/data.json")
	if _, err := Open(t.Context(), fsys, Options{}); err == nil || !strings.Contains(err.Error(), "starter/data.json: is missing") {
		t.Errorf("what is frozen and blocked gone: Open = %v", err)
	}
}

// The examples in the document are ones that load.
func TestStarterDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/starter.md")
	if err != nil {
		t.Fatal(err)
	}
	fsys := withBase(t, bundles.Starter())
	examples := regexp.MustCompile("(?s)`(starter/[a-z/]*data.json)`:\n\n```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	for _, x := range examples {
		if fsys[x[1]] == nil {
			t.Errorf("the document has %s, the bundle has not", x[1])
		}
		fsys[x[1]] = &fstest.MapFile{Data: []byte(x[2])}
	}
	if len(examples) != 5 {
		t.Fatalf("the document has %d examples", len(examples))
	}
	p := mustOpen(t, fsys)
	if got := answer(p.Decide(t.Context(), input(t, "refund", `{"amount": 5, "currency": "EUR"}`, "support"))); got != string(call.Ask) {
		t.Errorf("a refund: %s", got)
	}
	if got := answer(p.Decide(t.Context(), input(t, "refund", `{"amount": 5000, "currency": "EUR"}`, "support"))); got != string(call.Deny) {
		t.Errorf("a large refund: %s", got)
	}
}

func TestStarterDataIsClosed(t *testing.T) {
	tool := func(body string) string {
		return `{"tools": {"t": {"who": [{"ids": ["a"]}], "grant": {}` + body + `}}}`
	}
	limit := func(l string) string { return `{"tools": {}, "limits": {"a": ` + l + `}}` }
	approval := func(a string) string { return `{"tools": {}, "approvals": {"a": ` + a + `}}` }
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
		{"roles as a list", `{"tools": {}, "roles": ["analyst"]}`, "data.starter/roles", "object"},
		{"role without tools", `{"tools": {}, "roles": {"analyst": []}}`, "data.starter/roles/analyst", "minItems"},
		{"role with a tool that none can be", `{"tools": {}, "roles": {"analyst": ["Read File"]}}`, "data.starter/roles/analyst/0", "pattern"},
		{"approval as it was", tool(`, "approval": {}`), "data.starter/tools/t", "approval"},
		{"approval of no name", tool(`, "approvals": ["money"]`), "data.starter/tools/t/approvals/0", "money"},
		{"approval by nobody", approval(`{"count": 1, "from": {}}`), "data.starter/approvals/a/from", "minProperties"},
		{"approval by none", approval(`{"count": 0, "from": {"ids": ["b"]}}`), "data.starter/approvals/a/count", "minimum"},
		{"approval in no zone", approval(`{"count": 1, "from": {"ids": ["b"]}, "outside": {"days": ["mon"], "from": "08:00", "to": "18:00"}}`), "data.starter/approvals/a/outside", "offset"},
		{"approval by the name of a city", approval(`{"count": 1, "from": {"ids": ["b"]}, "outside": {"days": ["mon"], "from": "08:00", "to": "18:00", "offset": "Europe/Berlin"}}`), "data.starter/approvals/a/outside/offset", "pattern"},
		{"approval at half past nine", approval(`{"count": 1, "from": {"ids": ["b"]}, "outside": {"days": ["mon"], "from": "9:30", "to": "18:00", "offset": "Z"}}`), "data.starter/approvals/a/outside/from", "pattern"},
		{"limit of no name", tool(`, "limits": ["calls"]`), "data.starter/tools/t/limits/0", "calls"},
		{"limit without by", limit(`{"burst": 1, "per": "1h"}`), "data.starter/limits/a", "by"},
		{"limit without a number", limit(`{"per": "1h", "by": "tenant"}`), "data.starter/limits/a", "burst"},
		{"limit with two", limit(`{"burst": 1, "at_most": 1, "per": "1h", "by": "tenant"}`), "data.starter/limits/a", "oneOf"},
		{"limit with two costs", limit(`{"burst": 1, "cost": 1, "cost_of": "amount", "per": "1h", "by": "tenant"}`), "data.starter/limits/a", "not"},
		{"limit of a default's name", `{"tools": {}, "limits": {"class:read": {"burst": 1, "per": "1h", "by": "tenant"}}}`, "data.starter/limits", "class:read"},
		{"limit for ever", limit(`{"burst": 1, "per": "9999h", "by": "tenant"}`), "data.starter/limits/a/per", "pattern"},
		{"argument of nothing", tool(`, "args": {"amount": {}}`), "data.starter/tools/t/args/amount", "minProperties"},
		{"unknown constraint", tool(`, "args": {"amount": {"maximum": 1}}`), "data.starter/tools/t/args/amount", "maximum"},
		{"constraint of another type", tool(`, "args": {"amount": {"max": "1"}}`), "data.starter/tools/t/args/amount/max", "number"},
		{"items of items", tool(`, "args": {"to": {"each": {"each": {"max": 1}}}}`), "data.starter/tools/t/args/to/each", "each"},
		{"a pattern that is none", tool(`, "args": {"to": {"pattern": "a)|(b"}}`), "data.starter/tools/t/args/to/pattern", "parsing"},
		{"a pattern of items that is none", tool(`, "args": {"to": {"each": {"pattern": "("}}}`), "data.starter/tools/t/args/to/each/pattern", "parsing"},
		{"no rows", tool(`, "rows": 0`), "data.starter/tools/t/rows", "minimum"},
		{"justified in words", tool(`, "justify": "yes"`), "data.starter/tools/t/justify", "boolean"},
		{"label in words", tool(`, "labels": ["two words"]`), "data.starter/tools/t/labels/0", "pattern"},
		{"id with a space before", `{"tools": {"t": {"who": [{"ids": ["b", " a"]}], "grant": {}}}}`, "data.starter/tools/t/who/0/ids/1", "spaces around"},
		{"role with a space behind", `{"tools": {"t": {"who": [{"roles": ["a "]}], "grant": {}}}}`, "data.starter/tools/t/who/0/roles/0", "spaces around"},
		{"tenant that is taken apart", `{"tools": {}, "blocked": [{"tenants": ["Zoe\u0308"]}]}`, "data.starter/blocked/0/tenants/0", "form C"},
		{"approver with a space before", approval(`{"count": 1, "from": {"ids": [" b"]}}`), "data.starter/approvals/a/from/ids/0", "spaces around"},
		{"count with a point", approval(`{"count": 2.0, "from": {"ids": ["b"]}}`), "data.starter/approvals/a/count", "whole number"},
		{"burst with an exponent", limit(`{"burst": 1e3, "per": "1h", "by": "tenant"}`), "data.starter/limits/a/burst", "whole number"},
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
		"args": {"path": {"prefix": "/docs/", "max_length": 99, "pattern": "/[a-z/]+", "allowed": ["/docs/a"]}, "to": {"each": {"min_length": 1}}, "n": {"min": 1, "max": 3}},
		"limits": ["calls", "units"], "approvals": ["four-eyes"],
		"frozen": false, "justify": false, "fields": ["id"], "rows": 10, "labels": ["x"], "not_after": ["secret"]
	}},
	"roles": {"analyst": ["lab.*"]},
	"limits": {
		"calls": {"burst": 10, "per": "30m", "by": "tenant", "cost": 2},
		"units": {"at_most": 10, "per": "24h", "by": "session", "cost_of": "n"}
	},
	"approvals": {"four-eyes": {
		"count": 2, "from": {"roles": ["lead"], "ids": ["uid:1000"]}, "ttl_s": 600, "reason": "Ask first.",
		"outside": {"days": ["mon"], "from": "08:00", "to": "17:30", "offset": "+01:00"}
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
	asked := treeOf(t, input(t, "read-file", `{"path":"/docs/a","to":["x"],"n":2}`, "analyst"))
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
		return answer(decode(v, Permit))
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
	if refused < 400 {
		t.Errorf("only %d mutants are refused", refused)
	}
}

// As for the project: an input of which something is gone or of another type gets
// no more than it would have.
func TestStarterMutantsNeverGetMore(t *testing.T) {
	p, err := starterWith(t, `{"blocked": [{"roles": ["visitor"]}], "tools": {"tool": {
		"who": [{"roles": ["analyst"]}, {"ids": ["alice"]}], "grant": {}, "not_after": ["secret"], "limits": ["calls"]
	}}, "limits": {"calls": {"burst": 1, "per": "1h", "by": "principal"}}}`)
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
