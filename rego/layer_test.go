package rego

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// What each answer means in each role.
func TestAnswersByRole(t *testing.T) {
	const deny, allow, ask, pass, shape = "deny", "allow", "requires-approval", "pass", "policy_shape"
	const asks = `"approvals": [{"name": "a", "count": 1, "from": {"roles": ["r"]}}]`
	tests := []struct{ name, give, permit, restrict string }{
		{"true", `true`, allow, pass},
		{"false", `false`, deny, deny},
		{"allow", `{"allow": true}`, allow, shape},
		{"allow with a reason", `{"allow": true, "reason": "x"}`, allow, shape},
		{"not allow", `{"allow": false, "reason": "x"}`, deny, deny},
		{"decision allow", `{"decision": "allow"}`, allow, shape},
		{"decision allow with a reason", `{"decision": "allow", "reason": "x"}`, allow, shape},
		{"decision deny", `{"decision": "deny", "reason": "x"}`, deny, deny},
		{"decision ask", `{"decision": "requires-approval", "reason": "x"}`, ask, ask},
		{"not applicable", `{"decision": "not-applicable", "reason": "x"}`, deny, pass},
		{"pass", `{"decision": "pass"}`, shape, pass},
		{"no verdict of ours", `{"decision": "permit"}`, shape, shape},
		{"null", `null`, shape, shape},
		{"nothing", `{}`, shape, shape},
		{"text", `"pass"`, shape, shape},
		{"a list", `["pass"]`, shape, shape},
		{"a set", `{"pass"}`, shape, shape},
		{"a number", `1`, shape, shape},
		{"full allow", `{"decision": "allow", "labels": []}`, allow, shape},
		{"full pass", `{"decision": "pass", "labels": ["l"]}`, shape, pass},
		{"full deny", `{"decision": "deny", "reasons": [{"code": "c"}]}`, deny, deny},
		{"full not applicable", `{"decision": "not-applicable", "reasons": []}`, deny, pass},
		{"asks somebody", `{"decision": "requires-approval", ` + asks + `}`, ask, ask},
		{"asks nobody", `{"decision": "requires-approval", "approvals": []}`, shape, shape},
		{"passes and asks", `{"decision": "pass", ` + asks + `}`, shape, shape},
		{"grants", `{"decision": "pass", "grants": [{"log": true}]}`, shape, shape},
		{"grants and asks", `{"decision": "requires-approval", "grants": [{"log": true}], ` + asks + `}`, ask, shape},
		{"unknown key", `{"decision": "pass", "limit": []}`, shape, shape},

		{"cap", `{"decision": "pass", "cap": {"fs": [], "log": false, "bounds": {"calls": 3}}}`, shape, pass},
		{"caps", `{"decision": "pass", "cap": {{"fs": []}, {"secrets": ["s"]}}}`, shape, pass},
		{"cap of a permit layer", `{"decision": "allow", "cap": [{"http": []}]}`, allow, shape},
		{"no caps", `{"decision": "pass", "cap": set()}`, shape, pass},
		{"cap is text", `{"decision": "pass", "cap": "none"}`, shape, shape},
		{"cap is a number", `{"decision": "pass", "cap": 0}`, shape, shape},
		{"cap is null", `{"decision": "pass", "cap": null}`, shape, shape},
		{"cap of nothing known", `{"decision": "pass", "cap": {"net": []}}`, shape, shape},
		{"cap with an id", `{"decision": "pass", "cap": {"id": "x", "fs": []}}`, shape, shape},
		{"a family is null", `{"decision": "pass", "cap": {"fs": null}}`, shape, shape},
		{"a family is an object", `{"decision": "pass", "cap": {"fs": {}}}`, shape, shape},
		{"a flag is text", `{"decision": "pass", "cap": {"log": "false"}}`, shape, shape},
		{"a bound of zero", `{"decision": "pass", "cap": {"bounds": {"calls": 0}}}`, shape, shape},
		{"a malformed path", `{"decision": "pass", "cap": {"fs": [{"root": "docs", "path": "..", "modes": ["read"]}]}}`, "caps_invalid", "caps_invalid"},
		{"too many entries", `{"decision": "pass", "cap": {"secrets": ["s"` + strings.Repeat(`, "s"`, call.MaxCapsEntries) + `]}}`, "caps_too_many", "caps_too_many"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for role, want := range map[Role]string{Permit: tt.permit, Restrict: tt.restrict} {
				d, err := decidedAs(t, role, tt.give)
				if got := answer(d, err); got != want {
					t.Errorf("%s: %s, want %s", role, got, want)
				}
				if err != nil && gocmp.Diff(call.Decision{}, d) != "" {
					t.Errorf("%s: an error comes with a decision", role)
				}
			}
		})
	}
}

func TestCapOfALayer(t *testing.T) {
	d, err := decidedAs(t, Restrict, `{"decision": "pass", "cap": [
		{"secrets": ["a", "b"], "log": true, "bounds": {"calls": 9}},
		{"secrets": ["b", "c"], "http": [], "bounds": {"calls": 5, "fuel": 7}}]}`)
	yes := true
	want := &call.Cap{Secrets: []string{"b"}, HTTP: []call.HTTP{}, Log: &yes, Bounds: call.Bounds{Calls: 5, Fuel: 7}}
	if diff := gocmp.Diff(want, d.Cap); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	many := `[` + strings.Repeat(`{"fs": []},`, maxCapsSaid) + `{}]`
	if d, err := decidedAs(t, Restrict, `{"decision": "pass", "cap": `+many+`}`); answer(d, err) != "policy_shape" {
		t.Errorf("%d caps: %s", maxCapsSaid+1, answer(d, err))
	}
	d, err = decidedAs(t, Restrict, `{"decision": "deny", "cap": {"fs": []}, "limits": [{"name": "n", "key": "", "burst": 1, "per": "1m"}]}`)
	if err != nil || d.Cap != nil || d.Limits != nil {
		t.Errorf("a refusal narrows or takes: %+v, %v", d, err)
	}
}

// A restrict layer never permits, whatever it answers.
func FuzzDecodeRestriction(f *testing.F) {
	for _, s := range []string{
		`true`, `false`, `{"allow":true}`, `{"decision":"pass"}`, `{"decision":"not-applicable","reason":"x"}`,
		`{"decision":"pass","cap":{"fs":[]}}`, `{"decision":"pass","cap":[{"log":false},{"bounds":{"calls":1}}]}`,
		`{"decision":"requires-approval","approvals":[{"name":"a","count":1,"from":{"roles":["r"]}}],"cap":{"secrets":["s"]}}`,
		`{"decision":"pass","limits":[{"name":"n","key":"k","burst":1,"per":"1m"}],"labels":["l"],"redact":[1],"rows":5}`,
		`{"decision":"pass","grants":[{"log":true}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseValue(b)
		if err != nil {
			return
		}
		d, err := decode(v, Restrict)
		switch {
		case err != nil:
			if gocmp.Diff(call.Decision{}, d) != "" {
				t.Error("an error comes with a decision")
			}
			return
		case d.Verdict != call.Pass && d.Verdict != call.Ask && d.Verdict != call.Deny:
			t.Errorf("verdict %q", d.Verdict)
		case len(d.Grants) > 0:
			t.Error("grants")
		case (d.Verdict == call.Ask) != (len(d.Approvals) > 0):
			t.Errorf("%s, approvals %v", d.Verdict, d.Approvals)
		}
		if o, ok := v.(ast.Object); ok && d.Verdict != call.Deny {
			if w := o.Get(ast.StringTerm("decision")); w == nil || w.Value.Compare(ast.String("allow")) == 0 {
				t.Errorf("%s is let through", b)
			}
		}
		if d.Cap == nil {
			return
		}
		if err := d.Cap.Validate(); err != nil && call.CodeOf(err, "") != call.CodeCapsTooMany {
			t.Errorf("a malformed cap: %v", err)
		}
		all := call.Caps{Secrets: []string{"s"}, Workspace: true, Plan: true, Log: true}
		if left, err := all.Capped(*d.Cap); err == nil && !all.Covers(left) {
			t.Errorf("%s widens: %+v", b, left)
		}
	})
}

// A policy as its authors write it for another adapter, in a package of its own.
const adapterPolicy = `package agent.tool

import rego.v1

default decision := {"decision": "not-applicable", "reason": "no rule for this tool"}

dangerous := {"delete_account", "transfer"}

decision := {"decision": "deny", "reason": sprintf("%s is switched off", [input.tool.name])} if {
	input.tool.name in dangerous
}

decision := {"decision": "requires-approval", "reason": "leaves the company"} if {
	input.tool.name == "send_mail"
	not endswith(input.args.to, "@example.com")
}

decision := {"decision": "allow", "reason": "inside"} if {
	input.tool.name == "send_mail"
	endswith(input.args.to, "@example.com")
}
`

func TestAdapterPoliciesByEntrypoint(t *testing.T) {
	allows := "package agent.authz\n\ndefault allow := false\n\nallow if {\n\tinput.tool.name == \"search\"\n\tinput.args.query != \"\"\n}\n"
	object := "package agent.authz\n\ndefault result := {\"allow\": false, \"reason\": \"unknown\"}\n\nresult := {\"allow\": true, \"reason\": \"fine\"} if input.tool.name == \"search\"\n"
	pack := "package agent.authz\n\ndefault allow := false\n\nallow if input.tool.name == \"search\"\n\nreason := \"because\" if allow\n\nreason := \"unknown\" if not allow\n"
	tests := []struct {
		name, src, entry string
		role             Role
		tool, args       string
		want, message    string
	}{
		{"switched off", adapterPolicy, "data.agent.tool.decision", Permit, "transfer", `{}`, "deny", "transfer is switched off"},
		{"asks", adapterPolicy, "data.agent.tool.decision", Permit, "send_mail", `{"to":"x@elsewhere.org"}`, "requires-approval", "leaves the company"},
		{"allows", adapterPolicy, "data.agent.tool.decision", Permit, "send_mail", `{"to":"x@example.com"}`, "allow", ""},
		{"says nothing", adapterPolicy, "data.agent.tool.decision", Permit, "search", `{}`, "deny", "no rule for this tool"},
		{"restricts", adapterPolicy, "data.agent.tool.decision", Restrict, "transfer", `{}`, "deny", "transfer is switched off"},
		{"restricts by asking", adapterPolicy, "data.agent.tool.decision", Restrict, "send_mail", `{"to":"x@elsewhere.org"}`, "requires-approval", "leaves the company"},
		{"restricts, and allows", adapterPolicy, "data.agent.tool.decision", Restrict, "send_mail", `{"to":"x@example.com"}`, "policy_shape", ""},
		{"restricts, and says nothing", adapterPolicy, "data.agent.tool.decision", Restrict, "search", `{}`, "pass", ""},
		{"a boolean", allows, "data.agent.authz.allow", Permit, "search", `{"query":"x"}`, "allow", ""},
		{"a boolean that is false", allows, "data.agent.authz.allow", Permit, "search", `{"query":""}`, "deny", ""},
		{"a boolean that restricts", allows, "data.agent.authz.allow", Restrict, "search", `{"query":"x"}`, "pass", ""},
		{"an object", object, "data.agent.authz.result", Permit, "search", `{}`, "allow", ""},
		{"an object that is false", object, "data.agent.authz.result", Permit, "x", `{}`, "deny", "unknown"},
		{"a package", pack, "data.agent.authz", Permit, "search", `{}`, "allow", ""},
		{"a package that refuses", pack, "data.agent.authz", Permit, "x", `{}`, "deny", "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Open(t.Context(), files("policy.rego", tt.src), Options{Name: "agents", Role: tt.role, Entrypoint: tt.entry})
			if err != nil {
				t.Fatal(err)
			}
			d, err := p.Decide(t.Context(), input(t, tt.tool, tt.args))
			if got := answer(d, err); got != tt.want {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
			said := ""
			for _, r := range d.Reasons {
				said += r.Message
			}
			for _, a := range d.Approvals {
				said += a.Reason
			}
			if said != tt.message || len(d.Grants) > 0 {
				t.Errorf("says %q, want %q; grants %v", said, tt.message, d.Grants)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	const restricts = "package callgate\n\nrestriction := {\"decision\": \"pass\"}\n"
	tests := []struct {
		name string
		src  string
		give Options
		want string // "" loads
	}{
		{"permit by default", denies, Options{}, ""},
		{"permit", denies, Options{Role: Permit}, ""},
		{"restrict", restricts, Options{Role: Restrict}, ""},
		{"both in one bundle", denies + "\nrestriction := true\n", Options{Role: Restrict}, ""},
		{"no such role", denies, Options{Role: "allow"}, "role"},
		{"no restriction", denies, Options{Role: Restrict}, "no rule data.callgate.restriction"},
		{"no decision", restricts, Options{}, "no rule data.callgate.decision"},
		{"no such entrypoint", denies, Options{Entrypoint: "data.agent.decision"}, "no rule data.agent.decision"},
		{"a restriction that permits", "package callgate\n\nrestriction := {\"decision\": \"allow\"}\n", Options{Role: Restrict}, "policy_shape"},
		{"a restriction that is silent", "package callgate\n\nrestriction := false if input.tool.name == \"x\"\n", Options{Role: Restrict}, "gives no answer"},
		{"a restriction that refuses all", "package callgate\n\nrestriction := false\n", Options{Role: Restrict}, ""},
		{"a permit layer that passes", "package callgate\n\ndecision := {\"decision\": \"pass\"}\n", Options{}, "policy_shape"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Open(t.Context(), files("p.rego", tt.src), tt.give)
			if err == nil != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Open = %v, want it to say %q", err, tt.want)
			}
			if err == nil && p.Role() != cmp.Or(tt.give.Role, Permit) {
				t.Errorf("role %s", p.Role())
			}
		})
	}
	for _, e := range []string{
		"data", "data.", "input.args.x", "data.x[_]", `data["x"]`, "data.x; true", "data.x == 1", "data.x\n", "data..x", "data.1x", "data.x y",
		"true", "count(data.x)", "data.callgate.decision with input as {}", "data." + strings.Repeat("x", 1000), "data.in", "data.agent.not.x",
	} {
		if p, err := Open(t.Context(), files("p.rego", denies), Options{Entrypoint: e}); err == nil {
			t.Errorf("%q is an entrypoint: %v", e, p.Revision())
		}
	}
}

// Everything that has an identity says whose it is.
func TestDecisionsAreSigned(t *testing.T) {
	src := `package callgate

decision := {
	"decision": "requires-approval",
	"reasons": [{"code": "r"}],
	"approvals": [{"name": "a", "count": 1, "from": {"roles": ["x"]}}],
	"limits": [{"name": "l", "key": "", "burst": 1, "per": "1m"}],
} if {
	input.tool.name == "t"
} else := false
`
	for name, want := range map[string]string{"": "policy", "org": "org"} {
		p, err := Open(t.Context(), files("p.rego", src), Options{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		d, err := p.Decide(t.Context(), input(t, "t", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{d.Reasons[0].Layer, d.Approvals[0].Layer, d.Limits[0].Layer, d.Revisions[0].Name}
		if !slices.Equal(got, []string{want, want, want, want}) {
			t.Errorf("layers %q, want %s", got, want)
		}
	}
}
