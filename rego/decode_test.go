package rego

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// decided decodes src as the answer of a permit layer. It is a Rego term, so sets
// and odd keys can be given.
func decided(t testing.TB, src string) (call.Decision, error) {
	t.Helper()
	return decidedAs(t, Permit, src)
}

func decidedAs(t testing.TB, role Role, src string) (call.Decision, error) {
	t.Helper()
	term, err := ast.ParseTerm(src)
	if err != nil {
		t.Fatal(err)
	}
	return decode(term.Value, role)
}

func TestDecodeSimpleForms(t *testing.T) {
	asks := call.Decision{
		Verdict:   call.Ask,
		Approvals: []call.ApprovalRule{{Name: "approval", Count: 1, From: call.From{Roles: []string{"approver"}}, Reason: "big"}},
	}
	denies := func(code, message string) call.Decision {
		return call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: code, Message: message}}}
	}
	tests := []struct {
		name, give string
		want       call.Decision
	}{
		{"true", `true`, call.Decision{Verdict: call.Allow}},
		{"false", `false`, denies("denied", "")},
		{"allow", `{"allow": true}`, call.Decision{Verdict: call.Allow}},
		{"allow with reason", `{"allow": true, "reason": "because"}`, call.Decision{Verdict: call.Allow}},
		{"not allow", `{"allow": false, "reason": "no"}`, denies("denied", "no")},
		{"decision allow", `{"decision": "allow"}`, call.Decision{Verdict: call.Allow}},
		{"decision deny", `{"decision": "deny", "reason": "no"}`, denies("denied", "no")},
		{"decision ask", `{"decision": "requires-approval", "reason": "big"}`, asks},
		{"not applicable", `{"decision": "not-applicable"}`, denies("not_applicable", "")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decided(t, tt.give)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeFullForm(t *testing.T) {
	got, err := decided(t, `{
		"decision": "requires-approval",
		"reasons": [{"code": "big", "message": "Big.", "rule": "r", "remedy": "ask", "hidden": true}],
		"grants": {{"id": "docs.read", "fs": {{"root": "docs", "path": ".", "modes": {"read"}}}, "bounds": {"timeout_ms": 5}}},
		"approvals": {{"name": "lead", "count": 2, "from": {"roles": {"lead"}, "ids": []}, "ttl_s": 60, "reason": "a"},
			{"name": "lead", "count": 2, "from": {"roles": {"lead"}}, "ttl_s": 60, "reason": "b"}},
		"limits": {{"name": "n", "key": "k", "burst": 5, "per": "1h", "cost": 1}, {"name": "n", "key": "k", "burst": 5, "per": "1h"},
			{"name": "n", "key": "other", "burst": 9007199254740991, "per": "1s", "cost": 2},
			{"name": "quota", "key": "", "burst": 5, "per": "month"}, {"name": "sent", "key": "", "burst": 5, "per": "1m", "charge": "http_bytes"},
			{"name": "money", "key": "", "burst": 5, "per": "day", "charge": "cents", "cost": 3}},
		"labels": {"private-data"},
		"redact": [{"path": "x"}],
		"result_labels": ["untrusted-input"],
	}`)
	if err != nil {
		t.Fatal(err)
	}
	want := call.Decision{
		Verdict: call.Ask,
		Reasons: []call.Reason{{Code: "big", Message: "Big.", Rule: "r", Remedy: "ask", Hidden: true}},
		Grants: []call.RuleGrant{{ID: "docs.read", Caps: call.Caps{
			FS:     []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}},
			Bounds: call.Bounds{TimeoutMS: 5},
		}}},
		Approvals: []call.ApprovalRule{{Name: "lead", Count: 2, From: call.From{Roles: []string{"lead"}, IDs: []string{}}, TTL: 60, Reason: "a"}},
		Limits: []call.Limit{
			{Name: "money", Burst: 5, Per: "day", Charge: "cents", Cost: 3},
			{Name: "sent", Burst: 5, Per: "1m", Charge: "http_bytes"},
			{Name: "n", Key: "k", Burst: 5, Per: "1h", Cost: 1},
			{Name: "quota", Burst: 5, Per: "month", Cost: 1},
			{Name: "n", Key: "other", Burst: 9007199254740991, Per: "1s", Cost: 2},
		},
		Labels:       []string{"private-data"},
		ResultLabels: []string{"untrusted-input"},
		Redact:       call.Obligation{[]byte(`[{"path":"x"}]`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeDropsWhatARefusalGives(t *testing.T) {
	got, err := decided(t, `{"decision": "deny", "labels": ["l"], "grants": [{"log": true}],
		"limits": [{"name": "n", "key": "k", "burst": 5, "per": "1h"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "denied"}}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeNotApplicableInFull(t *testing.T) {
	got, err := decided(t, `{"decision": "not-applicable", "reasons": []}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "not_applicable"}}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	limit := func(fields string) string {
		return `{"decision": "allow", "limits": [{"name": "n", "key": "k", ` + fields + `}]}`
	}
	ask := func(fields string) string {
		return `{"decision": "requires-approval", "approvals": [{` + fields + `}]}`
	}
	many := func(n int, item string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = strings.ReplaceAll(item, "%", fmt.Sprint(i))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	tests := []struct {
		name, give string
		want       call.Code // empty: policy_shape
	}{
		{name: "null", give: `null`},
		{name: "number", give: `1`},
		{name: "text", give: `"allow"`},
		{name: "list", give: `["allow"]`},
		{name: "set", give: `{"allow"}`},
		{name: "empty object", give: `{}`},
		{name: "no decision", give: `{"grants": []}`},
		{name: "pass", give: `{"decision": "pass"}`},
		{name: "pass in full", give: `{"decision": "pass", "reasons": []}`},
		{name: "unknown verdict", give: `{"decision": "permit"}`},
		{name: "verdict in capitals", give: `{"decision": "ALLOW"}`},
		{name: "key in capitals", give: `{"Allow": true}`},
		{name: "decision key in capitals", give: `{"Decision": "allow", "grants": []}`},
		{name: "allow is text", give: `{"allow": "true"}`},
		{name: "allow is one", give: `{"allow": 1}`},
		{name: "allow is null", give: `{"allow": null}`},
		{name: "decision is null", give: `{"decision": null}`},
		{name: "decision is a list", give: `{"decision": ["allow"]}`},
		{name: "allow and decision", give: `{"allow": true, "decision": "deny"}`},
		{name: "allow and grants", give: `{"allow": true, "grants": []}`},
		{name: "reason and reasons", give: `{"decision": "allow", "reason": "", "reasons": []}`},
		{name: "reason is null", give: `{"allow": true, "reason": null}`},
		{name: "reason too long", give: `{"allow": true, "reason": "` + strings.Repeat("x", maxText+1) + `"}`},
		{name: "unknown key", give: `{"decision": "allow", "grant": []}`},
		{name: "key of another type", give: `{"decision": "allow", 1: 2}`},
		{name: "null list", give: `{"decision": "allow", "grants": null}`},
		{name: "null deep inside", give: `{"decision": "allow", "redact": [{"x": [null]}]}`},
		{name: "revisions", give: `{"decision": "allow", "Revisions": []}`},

		{name: "reason without code", give: `{"decision": "deny", "reasons": [{"message": "x"}]}`},
		{name: "code with free text", give: `{"decision": "deny", "reasons": [{"code": "Not so!"}]}`},
		{name: "code with a line break", give: `{"decision": "deny", "reasons": [{"code": "a\n"}]}`},
		{name: "rule with free text", give: `{"decision": "deny", "reasons": [{"code": "a", "rule": "Bob's"}]}`},
		{name: "too many reasons", give: `{"decision": "deny", "reasons": ` + many(maxReasons+1, `{"code": "c%"}`) + `}`},
		{name: "message too long", give: `{"decision": "deny", "reasons": [{"code": "a", "message": "` + strings.Repeat("x", maxText+1) + `"}]}`},
		{name: "label with free text", give: `{"decision": "allow", "labels": ["Bob was here"]}`},
		{name: "too many labels", give: `{"decision": "allow", "labels": ` + many(maxLabels+1, `"l%"`) + `}`},
		{name: "result label with free text", give: `{"decision": "allow", "result_labels": ["a b"]}`},

		{name: "unknown capability", give: `{"decision": "allow", "grants": [{"net": []}]}`},
		{name: "unknown field of a capability", give: `{"decision": "allow", "grants": [{"fs": [{"root": "docs", "path": ".", "mode": "read"}]}]}`},
		{name: "unknown bound", give: `{"decision": "allow", "grants": [{"bounds": {"time": 1}}]}`},
		{name: "bound of zero", give: `{"decision": "allow", "grants": [{"bounds": {"timeout_ms": 0}}]}`},
		{name: "grant with free text for id", give: `{"decision": "allow", "grants": [{"id": "Bob's"}]}`},
		{name: "too many grants", give: `{"decision": "allow", "grants": ` + many(maxGrants+1, `{"id": "g%"}`) + `}`},
		{name: "malformed capability", give: `{"decision": "allow", "grants": [{"fs": [{"root": "docs", "path": "../x", "modes": ["read"]}]}]}`, want: call.CodeCapsInvalid},
		{name: "any host", give: `{"decision": "allow", "grants": [{"http": [{"hosts": ["*"], "ports": [443], "methods": ["GET"], "paths": ["/"], "networks": ["public"]}]}]}`, want: call.CodeCapsInvalid},
		{name: "too many entries", give: `{"decision": "allow", "grants": [{"secrets": ` + many(call.MaxCapsEntries+1, `"s%"`) + `}]}`, want: call.CodeCapsTooMany},

		{name: "asks nobody", give: `{"decision": "requires-approval", "approvals": []}`},
		{name: "allows and asks", give: `{"decision": "allow", "approvals": [{"name": "a", "count": 1, "from": {"ids": ["bob"]}}]}`},
		{name: "approval without name", give: ask(`"count": 1, "from": {"ids": ["bob"]}`)},
		{name: "approval by none", give: ask(`"name": "a", "count": 0, "from": {"ids": ["bob"]}`)},
		{name: "approval by a half", give: ask(`"name": "a", "count": 1.5, "from": {"ids": ["bob"]}`)},
		{name: "approval from nobody", give: ask(`"name": "a", "count": 1, "from": {"ids": [], "roles": []}`)},
		{name: "approval from an empty role", give: ask(`"name": "a", "count": 1, "from": {"roles": [""]}`)},
		{name: "approval from groups", give: ask(`"name": "a", "count": 1, "from": {"groups": ["x"]}`)},
		{name: "approval for no time", give: ask(`"name": "a", "count": 1, "ttl_s": 0, "from": {"ids": ["bob"]}`)},
		{name: "approval for ever", give: ask(`"name": "a", "count": 1, "ttl_s": 1e12, "from": {"ids": ["bob"]}`)},
		{name: "approval with a long reason", give: ask(`"name": "a", "count": 1, "from": {"ids": ["bob"]}, "reason": "` + strings.Repeat("x", maxText+1) + `"`)},
		{name: "too many approvals", give: `{"decision": "requires-approval", "approvals": ` + many(maxApprovals+1, `{"name": "a%", "count": 1, "from": {"ids": ["bob"]}}`) + `}`},
		{name: "too many result labels", give: `{"decision": "allow", "result_labels": ` + many(maxLabels+1, `"l%"`) + `}`},
		{name: "two of one name", give: `{"decision": "requires-approval", "approvals": [
			{"name": "a", "count": 1, "from": {"roles": ["x y"]}}, {"name": "a", "count": 1, "from": {"roles": ["x", "y"]}}]}`},

		{name: "limit without burst", give: limit(`"per": "1m"`)},
		{name: "limit of zero", give: limit(`"burst": 0, "per": "1m"`)},
		{name: "limit of a half", give: limit(`"burst": 0.5, "per": "1m"`)},
		{name: "limit as text", give: limit(`"burst": "5", "per": "1m"`)},
		{name: "limit beyond exact numbers", give: limit(`"burst": 9007199254740992, "per": "1m"`)},
		{name: "limit at no cost", give: limit(`"burst": 5, "cost": 0, "per": "1m"`)},
		{name: "limit that gives back", give: limit(`"burst": 5, "cost": -1, "per": "1m"`)},
		{name: "limit without per", give: limit(`"burst": 5`)},
		{name: "limit per week in words", give: limit(`"burst": 5, "per": "week"`)},
		{name: "limit per no time", give: limit(`"burst": 5, "per": "0s"`)},
		{name: "limit per negative time", give: limit(`"burst": 5, "per": "-1m"`)},
		{name: "limit per two years", give: limit(`"burst": 5, "per": "17520h"`)},
		{name: "limit with free text for name", give: `{"decision": "allow", "limits": [{"name": "A b", "key": "k", "burst": 1, "per": "1m"}]}`},
		{name: "limit with a long key", give: `{"decision": "allow", "limits": [{"name": "n", "key": "` + strings.Repeat("x", maxID+1) + `", "burst": 1, "per": "1m"}]}`},
		{name: "one limit twice, differing", give: `{"decision": "allow", "limits": [
			{"name": "n", "key": "k", "burst": 1, "per": "1m"}, {"name": "n", "key": "k", "burst": 2, "per": "1m"}]}`},
		{name: "one limit with two charges", give: `{"decision": "allow", "limits": [
			{"name": "n", "key": "k", "burst": 1, "per": "day", "charge": "fuel"}, {"name": "n", "key": "k", "burst": 1, "per": "day", "charge": "time_ms"}]}`},
		{name: "too many limits", give: `{"decision": "allow", "limits": ` + many(maxLimits+1, `{"name": "n", "key": "%", "burst": 1, "per": "1m"}`) + `}`},
		{name: "approval of another layer", give: ask(`"layer": "org", "name": "a", "count": 1, "from": {"ids": ["bob"]}`)},
		{name: "limit of another layer", give: limit(`"burst": 5, "per": "1m", "layer": "org"`)},
		{name: "reason of another layer", give: `{"decision": "deny", "reasons": [{"code": "a", "layer": ""}]}`},
		{name: "charge that nobody measures", give: limit(`"burst": 5, "per": "1m", "charge": "write_bytes"`), want: call.CodeObligationUnsupported},
		{name: "charge of a tool's without a cost", give: limit(`"burst": 5, "per": "day", "charge": "tokens"`)},
		{name: "charge of the engine's with a cost", give: limit(`"burst": 5, "per": "day", "charge": "fuel", "cost": 1`)},
		{name: "charge of nothing", give: limit(`"burst": 5, "per": "day", "charge": ""`)},
		{name: "charge as a number", give: limit(`"burst": 5, "per": "day", "charge": 7`)},
		{name: "charge with free text", give: limit(`"burst": 5, "per": "day", "cost": 1, "charge": "A b"`)},
		{name: "charge in windows of a second", give: limit(`"burst": 5, "per": "1s", "charge": "fuel"`)},

		{name: "huge", give: `{"decision": "allow", "redact": ["` + strings.Repeat("x", maxDecision) + `"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = call.CodePolicyShape
			}
			d, err := decided(t, tt.give)
			if got := answer(d, err); got != string(want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if diff := cmp.Diff(call.Decision{}, d); diff != "" {
				t.Errorf("an error comes with a decision: %s", diff)
			}
		})
	}
}

func TestDecodeRefusesDepth(t *testing.T) {
	if got := answer(decode(nested(10_001), Permit)); got != string(call.CodePolicyShape) {
		t.Errorf("got %s", got)
	}
}

// nested is an allow with a list of that depth in it; the parser of terms has a
// limit of its own.
func nested(depth int) ast.Value {
	list := ast.ArrayTerm()
	for range depth {
		list = ast.ArrayTerm(list)
	}
	return ast.NewObject(
		[2]*ast.Term{ast.StringTerm("decision"), ast.StringTerm("allow")},
		[2]*ast.Term{ast.StringTerm("redact"), list},
	)
}

// Nothing but one of the three explicit forms ever allows.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`true`, `null`, `{"allow":true}`, `{"allow":false,"reason":"no"}`, `{"decision":"allow"}`, `{"decision":"pass"}`,
		`{"decision":"not-applicable"}`, `{"Decision":"allow"}`, `{"decision":"allow","grants":[{"fs":[{"root":"d","path":".","modes":["read"]}]}]}`,
		`{"decision":"requires-approval","approvals":[{"name":"a","count":1,"from":{"roles":["r"]}}]}`,
		`{"decision":"allow","limits":[{"name":"n","key":"k","burst":1,"per":"1m"}],"labels":["l"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseValue(b)
		if err != nil {
			return
		}
		d, err := decode(v, Permit)
		if err != nil {
			if diff := cmp.Diff(call.Decision{}, d); diff != "" {
				t.Errorf("an error comes with a decision: %s", diff)
			}
			if !strings.HasPrefix(answer(d, err), "policy_") && !strings.HasPrefix(answer(d, err), "caps_") && answer(d, err) != "obligation_unsupported" {
				t.Errorf("no code of policies: %v", err)
			}
			return
		}
		if d.Verdict != call.Allow && d.Verdict != call.Ask && d.Verdict != call.Deny {
			t.Errorf("verdict %q", d.Verdict)
		}
		if d.Verdict == call.Ask && len(d.Approvals) == 0 {
			t.Error("asks nobody")
		}
		if d.Verdict == call.Allow && !saysAllow(v) {
			t.Errorf("%s allows", b)
		}
		for _, r := range d.Reasons {
			if !isName(r.Code) {
				t.Errorf("free text in the code %q", r.Code)
			}
		}
	})
}

func saysAllow(v ast.Value) bool {
	if v.Compare(ast.Boolean(true)) == 0 {
		return true
	}
	o, ok := v.(ast.Object)
	if !ok {
		return false
	}
	if a := o.Get(ast.StringTerm("allow")); a != nil {
		return a.Value.Compare(ast.Boolean(true)) == 0
	}
	a := o.Get(ast.StringTerm("decision"))
	return a != nil && a.Value.Compare(ast.String("allow")) == 0
}
