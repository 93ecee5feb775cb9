package rego

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

func explained(t testing.TB, p *Policy, in *call.Input) *Explanation {
	t.Helper()
	x, err := p.Explain(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func missOf(x *Explanation, title string) *NearMiss {
	for i, m := range x.Nearly {
		if strings.Contains(m.Title, title) {
			return &x.Nearly[i]
		}
	}
	return nil
}

// Somebody without the role is told which rule nearly held, and what failed in it.
func TestExplainNamesTheNearMiss(t *testing.T) {
	p := mustOpen(t, withBase(t, bundles.Project()))
	x := explained(t, p, input(t, "refund", `{"amount": 5}`, "visitor"))
	if x.Verdict != call.Deny || x.Decision == nil || x.Decision.Reasons[0].Code != "no_rule_allows" {
		t.Fatalf("answered %+v", x)
	}
	m := missOf(x, "Support refunds")
	if m == nil {
		t.Fatalf("does not tell the rule: %+v", x.Nearly)
	}
	if m.Held != 1 || m.Of != 2 || m.Failed.Expr != `lib.role("support")` || m.Rule != "callgate.rules.allow" || !strings.HasPrefix(m.Where, "office.rego:") {
		t.Errorf("told %+v", *m)
	}
	// Why the helper failed is told too.
	if len(m.Inside) == 0 || !strings.Contains(m.Inside[0].Rule, "lib.role") {
		t.Fatalf("inside: %+v", m.Inside)
	}
	if want := (ShownValue{"callgate.lib.roles", `["visitor"]`}); !slices.Contains(m.Inside[0].Failed.Values, want) {
		t.Errorf("values %+v, want %+v", m.Inside[0].Failed.Values, want)
	}
}

func TestExplainNamesTheRulesThatHeld(t *testing.T) {
	p := mustOpen(t, withBase(t, bundles.Project()))
	x := explained(t, p, input(t, "list-dir", `{"path": "/docs"}`, "analyst"))
	var got []string
	for _, r := range x.Fired {
		got = append(got, r.Rule+": "+r.Title)
	}
	for _, want := range []string{
		"callgate.rules.limit: Two listings an hour",
		"callgate.defaults.limit: A minute's worth of calls by class",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if x.Verdict != call.Allow || len(x.Decision.Grants) != 1 {
		t.Errorf("decided %+v", x.Decision)
	}
}

// A failing comparison shows what stood in it; what is not there is undefined.
func TestExplainShowsValues(t *testing.T) {
	p := rules(t, `
allow contains {"id": "x"} if {
	input.tool.name == "x"
	limit := 100
	input.args.amount <= limit
}

allow contains {"id": "y"} if {
	input.tool.name == "x"
	input.args.path == "a"
}

allow contains {"id": "z"} if {
	input.tool.name == "x"
	some i, p in input.facts.paths
	p.path == "docs"
}
`)
	in := input(t, "x", `{"amount": 250, "text": "`+strings.Repeat("long", 40)+`"}`)
	in.Facts.Paths = []call.Path{{Root: "r", Path: "secret-plan", Segments: []string{"a"}, Mode: "read"}}
	x := explained(t, p, in)
	var all []string
	for _, m := range x.Nearly {
		for _, v := range m.Failed.Values {
			all = append(all, v.Name+"="+v.Value)
		}
	}
	for _, want := range []string{"limit=100", "input.args.amount=250", "input.args.path=undefined"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is missing in %q", want, all)
		}
	}
}

// What looks like a secret is nowhere in an explanation, whatever rules do with it,
// and no value is longer than 40 bytes.
func TestExplainHidesSecrets(t *testing.T) {
	p := rules(t, `
allow contains {"id": "x"} if {
	input.tool.name == "x"
	input.args.password == "other"
}

allow contains {"id": "y"} if {
	input.tool.name == "x"
	joined := concat(":", [input.args.user, input.args.password])
	joined == "root:toor"
}

allow contains {"id": "z"} if {
	input.tool.name == "x"
	every h in input.args.headers { startswith(h, "X-") }
}

allow contains {"id": "part"} if {
	input.tool.name == "x"
	part := substring(input.args.password, 0, 8)
	part == "none"
}

deny contains {"code": "no", "message": sprintf("not with %s", [input.args.password])} if input.tool.name == "x"
limit contains {"name": "p", "key": input.args.password, "burst": 1, "per": "1m"} if input.tool.name == "x"
`)
	const password, token = "hunter2-hunter2-hunter2", "ghp_0123456789abcdefghij0123456789abcdef"
	x := explained(t, p, input(t, "x", `{"user":"u","password":"`+password+`","headers":["Authorization: Bearer abcdefgh12345678","`+token+`"]}`))
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{password, password[:8], token, "abcdefgh12345678"} {
		if strings.Contains(string(b), s) {
			t.Errorf("shows %q: %s", s, b)
		}
	}
	if !strings.Contains(string(b), hidden) {
		t.Errorf("does not say that something is hidden: %s", b)
	}
	for _, m := range x.Nearly {
		for _, v := range m.Failed.Values {
			if len(v.Value) > maxShown {
				t.Errorf("%s: %d bytes", v.Name, len(v.Value))
			}
		}
	}
}

// A policy that has no answer is explained with its code, not its values.
func TestExplainFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		src  string
		code call.Code
	}{
		"undefined": {`decision := "x" if input.tool.name == "other"`, call.CodePolicyUndefined},
		"conflict":  {"decision := {\"decision\": \"deny\", \"reason\": \"a\"} if input.tool.name != \"\"\n\ndecision := {\"decision\": \"deny\", \"reason\": \"b\"} if input.tool.name == \"x\"", call.CodePolicyError},
		"shape":     {`decision := {"decision": "deny", "x": 1} if input.tool.name == "x"`, call.CodePolicyShape},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustOpen(t, files("p.rego", "package callgate\n\n"+tt.src+"\n"))
			in := input(t, "x", "{}")
			x := explained(t, p, in)
			if x.Code != tt.code || x.Verdict != call.Deny || x.Decision != nil {
				t.Errorf("explained %+v, want %s", x, tt.code)
			}
		})
	}
}

func TestExplainEnds(t *testing.T) {
	p := mustOpen(t, withBase(t, bundles.Project()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if x, err := p.Explain(ctx, input(t, "x", "{}")); call.CodeOf(err, "") != call.CodePolicyTimeout {
		t.Errorf("explained %v, %v", x, err)
	}
	if _, err := p.Explain(t.Context(), nil); err == nil {
		t.Error("explains no call")
	}
}

// Watching changes nothing: the explanation has the decision that the engine gets.
func TestExplainDecidesAsDecide(t *testing.T) {
	for name, b := range map[string]fs.FS{"project": bundles.Project(), "starter": bundles.Starter()} {
		p := mustOpen(t, withBase(t, b))
		rapid.Check(t, func(rt *rapid.T) {
			in := input(t, rapid.SampledFrom([]string{"read-file", "list-dir", "refund", "publish", "fib", "x"}).Draw(rt, "tool"),
				rapid.SampledFrom([]string{`{"path":"/docs/welcome.txt"}`, `{"amount":5}`, `{}`}).Draw(rt, "args"),
				rapid.SliceOfN(rapid.SampledFrom([]string{"analyst", "support", "pii_reader"}), 0, 2).Draw(rt, "roles")...)
			in.Tool.Class = rapid.SampledFrom([]string{"read", "write", "destructive", ""}).Draw(rt, "class")
			in.Session.Labels = rapid.SampledFrom([][]string{nil, {"untrusted-input"}}).Draw(rt, "labels")
			d, err := p.Decide(t.Context(), in)
			x := explained(t, p, in)
			if err != nil {
				if x.Code != call.CodeOf(err, "") {
					rt.Fatalf("%s: explained %s, decided %v", name, x.Code, err)
				}
				return
			}
			if diff := cmp.Diff(d, *x.Decision); diff != "" {
				rt.Fatalf("%s: -decided +explained\n%s", name, diff)
			}
		})
	}
}

// Whatever the arguments are, the tracer reads them without harm, and no text at a
// name of a secret is shown.
func FuzzExplain(f *testing.F) {
	for _, s := range []string{`{"path":"/docs/a.txt"}`, `{"password":"aaaa"}`, `{"token":{"a":["bbbbbbb"]}}`, `{"path":"\u202e`, `[]`} {
		f.Add([]byte(s))
	}
	p, err := Open(f.Context(), withBase(f, fstest.MapFS{"r.rego": {Data: []byte(`package callgate.rules

import rego.v2

allow contains {"id": "a"} if {
	input.tool.name == "x"
	x := input.args[k]
	y := json.marshal(x)
	y == "none"
}
deny contains sprintf("%v", [input.args]) if input.tool.name == "x"
`)}}), Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, err := call.Canonical(raw)
		if err != nil {
			return
		}
		in := input(t, "x", "{}")
		in.Args = args
		x, err := p.Explain(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(x)
		if err != nil || !jsontext.Value(b).IsValid() {
			t.Fatalf("no JSON: %v", err)
		}
		var doc map[string]jsontext.Value
		var secret string
		if json.Unmarshal(args.Bytes(), &doc) == nil && json.Unmarshal(doc["password"], &secret) == nil && len(secret) >= 8 &&
			strings.Trim(secret, "abcdefghijklmnopqrstuvwxyz") != "" && strings.Contains(string(b), secret) {
			t.Fatalf("shows %q in %s", secret, b)
		}
	})
}
