package rego

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

func TestDecideWithBase(t *testing.T) {
	p := mustOpen(t, withBase(t, bundles.Project()))
	tests := []struct {
		name  string
		tool  string
		roles []string
		give  func(*call.Input)
		want  string
	}{
		{name: "reads docs", tool: "read-file", roles: []string{"analyst"}, want: "allow"},
		{name: "runs the lab", tool: "spin", roles: []string{"visitor", "analyst"}, want: "allow"},
		{name: "another role", tool: "read-file", roles: []string{"visitor"}, want: "deny"},
		{name: "no role", tool: "read-file", want: "deny"},
		{name: "another tool", tool: "refund", roles: []string{"analyst"}, want: "deny"},
		{name: "findings", tool: "spin", roles: []string{"analyst"}, give: func(in *call.Input) { in.Tool.Findings = []string{"f"} }, want: "deny"},
		{name: "destructive asks", tool: "spin", roles: []string{"analyst"}, give: func(in *call.Input) { in.Tool.Class = "destructive" }, want: "requires-approval"},
		{name: "unknown class asks", tool: "spin", roles: []string{"analyst"}, give: func(in *call.Input) { in.Tool.Class = "" }, want: "requires-approval"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := input(t, tt.tool, `{"path":"a.txt"}`, tt.roles...)
			if tt.give != nil {
				tt.give(in)
			}
			if got := answer(p.Decide(t.Context(), in)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}

	got, err := p.Decide(t.Context(), input(t, "read-file", `{}`, "analyst"))
	want := call.Decision{
		Verdict:   call.Allow,
		Grants:    []call.RuleGrant{{ID: "docs.read", Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}}}}},
		Limits:    []call.Limit{{Layer: "policy", Name: "class:read", Key: `["acme","agent","alice"]`, Burst: 60, Per: "1m", Cost: 1}},
		Labels:    []string{"untrusted-input"}, // no path is no curated path
		Revisions: []call.Revision{p.Revision()},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// A word said wrongly refuses the call or does not load. It never vanishes
// beside a rule that allows.
func TestMistakesInRulesNeverAllow(t *testing.T) {
	tests := []struct{ name, give, want string }{
		{"allow is true", "allow if true", "conflicting rules"},
		{"allow of a bare true", "allow contains true", "rules_malformed"},
		{"misspelt capability", `allow contains {"ffs": []}`, "rules_malformed"},
		{"deny of a number", "deny contains 7", "rules_malformed"},
		{"deny without code", `deny contains {"message": "no"}`, "rules_malformed"},
		{"ask without from", `ask contains {"name": "lead", "count": 1}`, "rules_malformed"},
		{"limit per nothing", `limit contains {"name": "n", "key": "k", "burst": 1}`, "rules_malformed"},
		{"waive of a list", `waive contains ["ask"]`, "rules_malformed"},
		{"limit of null", `limit contains {"name": "n", "key": null, "burst": 1, "per": "1m"}`, "policy_shape"},
		{"code with free text", `deny contains {"code": "Not so!"}`, "policy_shape"},
	}
	const allow = "\n\nallow contains {\"id\": \"g\"} if input.tool.name == \"t\"\n"
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := "package callgate.rules\n\n" + tt.give + allow
			p, err := Open(t.Context(), withBase(t, files("rules.rego", src)), Options{})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) && !strings.Contains(err.Error(), ": entry_") {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			d, err := p.Decide(t.Context(), input(t, "t", `{}`))
			if err == nil && d.Verdict != call.Deny {
				t.Fatalf("answers %s", d.Verdict)
			}
			if got := fmt.Sprintf("%v %v", err, d.Reasons); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// In plain OPA a builtin's error makes its expression undefined, which a deny
// rule does not survive and a safe negation turns into true.
func TestErrorsDeny(t *testing.T) {
	tests := []struct{ name, give string }{
		{"in allow", `allow contains {"id": "g"} if to_number(input.args.amount) > 3`},
		{"under not", `allow contains {"id": "g"} if {
	input.tool.name == "t"
	not to_number(input.args.amount) > 3
}`},
		{"in deny", `deny contains "big" if to_number(input.args.amount) > 3`},
		{"division", `deny contains "odd" if 1 / input.args.zero == 1`},
		{"in a function nobody captures", "deny contains \"f\" if f(input.args.amount)\n\nf(x) if to_number(x) > 3"},
		{"conflict", "deny contains \"c\" if c == 1\n\nc := 1 if input.args.amount\n\nc := 2 if input.args.zero == 0"},
		{"conflict in a function", "deny contains \"c\" if c(input.args.zero) == 1\n\nc(x) := 1 if x == 0\n\nc(x) := 2 if x < 1"},
		{"roles graph is no graph", `deny contains "x" if count(graph.reachable(input.args.amount, {"a"})) > 0`},
		{"after a rule that allows early", "allow contains {\"id\": \"z\"} if b\n\nb if input.tool.name == \"t\"\n\nb if to_number(input.args.amount) == 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := rules(t, "allow contains {\"id\": \"base\"} if input.tool.name == \"t\"\n\n"+tt.give+"\n")
			d, err := p.Decide(t.Context(), input(t, "t", `{"amount":"abc secret","zero":0}`))
			e, ok := errors.AsType[*call.Error](err)
			if !ok || e.Code != call.CodePolicyError {
				t.Fatalf("got %s", answer(d, err))
			}
			if strings.Contains(e.Detail, "secret") {
				t.Errorf("the detail quotes the arguments: %s", e.Detail)
			}
		})
	}
}

func TestUndefinedDenies(t *testing.T) {
	p := mustOpen(t, files("p.rego", "package callgate\n\ndecision := true if input.args.ok == true\n"))
	for args, want := range map[string]string{
		`{"ok":true}`:   "allow",
		`{"ok":"true"}`: "policy_undefined",
		`{}`:            "policy_undefined",
	} {
		if got := answer(p.Decide(t.Context(), input(t, "t", args))); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	if got := answer(p.Decide(t.Context(), nil)); got != "policy_error" {
		t.Errorf("no input: %s", got)
	}
	if got := answer(p.Decide(t.Context(), &call.Input{})); got != "policy_error" {
		t.Errorf("input without arguments: %s", got)
	}
}

// The zero Policy makes OPA panic. Even that is a no.
func TestPanicsDeny(t *testing.T) {
	if got := answer(new(Policy).Decide(t.Context(), input(t, "t", `{}`))); got != "policy_error" {
		t.Errorf("got %s", got)
	}
}

func TestTimeIsPinned(t *testing.T) {
	p := mustOpen(t, files("p.rego", "package callgate\n\ndecision := time.now_ns() == input.env.now_ns if input.tool.name != \"\"\n\ndecision := false if input.tool.name == \"\"\n"))
	for _, now := range []int64{0, 1, 1_800_000_000_000_000_001, -5} {
		in := input(t, "t", `{}`)
		in.Env.NowNS = now
		if got := answer(p.Decide(t.Context(), in)); got != "allow" {
			t.Errorf("at %d: %s", now, got)
		}
	}
}

func TestNumbersAreExact(t *testing.T) {
	p := mustOpen(t, files("p.rego", "package callgate\n\ndecision := input.principal.claims.id == 9007199254740993 if input.tool.name != \"\"\n\ndecision := false if input.tool.name == \"\"\n"))
	for id, want := range map[string]string{"9007199254740993": "allow", "9007199254740992": "deny"} {
		in := input(t, "t", `{}`)
		in.Principal.Claims = map[string]jsontext.Value{"id": jsontext.Value(id)}
		if got := answer(p.Decide(t.Context(), in)); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// slow takes far longer than any deadline when it is asked about the tool
// "slow", and answers at once about others.
const slow = `package callgate

n := numbers.range(1, 3000)

decision := count([1 | some x in n; some y in n; some z in n; x + y + z < 0]) > 0 if {
	input.tool.name == "slow"
} else := false
`

func TestSlowPolicies(t *testing.T) {
	p := mustOpen(t, files("p.rego", slow))
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		d, err := p.Decide(ctx, input(t, "slow", `{}`))
		if got := answer(d, err); got != "policy_timeout" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("cancelled while it runs", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		d, err := p.Decide(ctx, input(t, "slow", `{}`))
		if got := answer(d, err); got != "policy_timeout" || !errors.Is(err, context.Canceled) {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := answer(p.Decide(ctx, input(t, "quick", `{}`))); got != "policy_timeout" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("works on afterwards", func(t *testing.T) {
		if got := answer(p.Decide(t.Context(), input(t, "quick", `{}`))); got != "deny" {
			t.Errorf("got %s", got)
		}
	})
}

// A recorded decision can be made again: the same bytes, from another policy
// of the same bundle, and whoever else asks at the same time.
func TestReplay(t *testing.T) {
	project := withBase(t, bundles.Project())
	p := mustOpen(t, project)
	var inputs []*call.Input
	var want [][]byte
	for _, tool := range []string{"read-file", "list-dir", "echo", "nothing"} {
		for _, role := range []string{"analyst", "visitor"} {
			in := input(t, tool, `{"path":"a","n":[1,2,{"x":null}]}`, role)
			in.Principal.Claims = map[string]jsontext.Value{"a": jsontext.Value(`1`), "b": jsontext.Value(`{"c":2}`)}
			inputs = append(inputs, in)
			want = append(want, bytesOf(t, p, in))
		}
	}
	again := mustOpen(t, project)
	var wg sync.WaitGroup
	for _, q := range []*Policy{p, again, p, again} {
		wg.Go(func() {
			for range 8 {
				for i, in := range inputs {
					if got := bytesOf(t, q, in); string(got) != string(want[i]) {
						t.Errorf("%s\nbefore: %s", got, want[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func bytesOf(t *testing.T, p *Policy, in *call.Input) []byte {
	d, err := p.Decide(t.Context(), in)
	if err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(struct {
		D call.Decision
		R []call.Revision
	}{d, d.Revisions}, json.Deterministic(true))
	if err != nil {
		t.Error(err)
	}
	return b
}

// A policy as authors write it for other adapters, unchanged.
func TestAdapterPolicy(t *testing.T) {
	p := mustOpen(t, files("agents.rego", `package callgate

default decision := {"decision": "not-applicable", "reason": "no rule for this tool"}

decision := {"decision": "allow"} if input.tool.name == "search"

decision := {"decision": "requires-approval", "reason": "sends mail"} if input.tool.name == "mail"

decision := {"decision": "deny", "reason": "outside"} if {
	input.tool.name == "read"
	not startswith(input.args.path, "/work/")
}
`))
	for tool, want := range map[string]string{"search": "allow", "mail": "requires-approval", "read": "deny", "x": "deny"} {
		d, err := p.Decide(t.Context(), input(t, tool, `{"path":"/etc/passwd"}`))
		if got := answer(d, err); got != want {
			t.Errorf("%s: %s, want %s", tool, got, want)
		}
		if len(d.Grants) > 0 {
			t.Errorf("%s: grants %v", tool, d.Grants)
		}
	}
}

// An operator learns which line failed; nobody learns on what.
func TestErrorsSayWhere(t *testing.T) {
	p := mustOpen(t, files("p.rego", "package callgate\n\ndecision := {\"allow\": to_number(input.args.n) > 3} if input.tool.name == \"t\"\n"))
	_, err := p.Decide(t.Context(), input(t, "t", `{"n":"canary"}`))
	e, ok := errors.AsType[*call.Error](err)
	if !ok || e.Code != call.CodePolicyError || e.Where != "eval_builtin_error at p.rego:3" || strings.Contains(e.Where+e.Detail, "canary") {
		t.Errorf("Decide = %+v", e)
	}
}
