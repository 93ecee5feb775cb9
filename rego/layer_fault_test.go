package rego

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
)

// Whatever goes wrong in any layer refuses the call, with the code of what went
// wrong and the name of the layer. %s is decision or restriction.
func TestFaultsOfAnyLayerDeny(t *testing.T) {
	const shape = call.CodePolicyShape
	base := "\n\n%[1]s := false if input.tool.name != \"t\"\n"
	when := func(value string) string { return "%[1]s := " + value + " if input.tool.name == \"t\"" + base }
	tests := []struct {
		name, src string
		want      call.Code
	}{
		{"undefined", "%[1]s := true if input.args.never" + base, call.CodePolicyUndefined},
		{"undefined deep inside", "%[1]s := {\"allow\": x} if input.tool.name == \"t\"\n\nx if input.args.never" + base, call.CodePolicyUndefined},
		{"conflict", "%[1]s := true if input.tool.name == \"t\"\n\n%[1]s := false if input.principal.id == \"alice\"" + base, call.CodePolicyError},
		{"conflict in a helper", "%[1]s := c if input.tool.name == \"t\"\n\nc := true if input.args.n\n\nc := false if input.tool.name == \"t\"" + base, call.CodePolicyError},
		{"a builtin's error", when(`to_number(input.args.text) > 3`), call.CodePolicyError},
		{"a builtin's error under not", "%[1]s := true if {\n\tinput.tool.name == \"t\"\n\tnot to_number(input.args.text)\n}" + base, call.CodePolicyError},
		{"division by zero", when(`1 / input.args.zero == 1`), call.CodePolicyError},
		{"data of another type", when(`startswith(input.args.text, data.prefix)`), call.CodePolicyError},
		{"data of another type counted", when(`count(data.limit) < 3`), call.CodePolicyError},
		{"timeout", "n := numbers.range(1, 3000)\n\n%[1]s := count([1 | some x in n; some y in n; some z in n; x + y + z < 0]) == 0 if input.tool.name == \"t\"" + base, call.CodePolicyTimeout},
		{"null", when(`null`), shape},
		{"text", when(`"allow"`), shape},
		{"a number", when(`1`), shape},
		{"a list", when(`[true]`), shape},
		{"a set", when(`{"allow"}`), shape},
		{"an empty object", when(`{}`), shape},
		{"an unknown key", when(`{"decision": "deny", "reason": "x", "why": "y"}`), shape},
		{"a key in capitals", when(`{"Decision": "deny"}`), shape},
		{"a key that is no text", when(`{1: 2}`), shape},
		{"an unknown verdict", when(`{"decision": "maybe"}`), shape},
		{"a verdict of another type", when(`{"decision": true}`), shape},
		{"nulls inside", when(`{"decision": "deny", "reasons": [null]}`), shape},
		{"an unknown key of a limit", when(`{"decision": "deny", "limits": [{"name": "n", "key": "", "burst": 1, "per": "1m", "of": 1}]}`), shape},
		{"a decision of 2 MiB", when(`{"decision": "deny", "reasons": [], "redact": [sprintf("%%01048577d", [1]), sprintf("%%01048577d", [2])]}`), shape},
		{"a decision of many reasons", when(`{"decision": "deny", "reasons": [{"code": sprintf("c%%d", [x])} | some x in numbers.range(1, 1000)]}`), shape},
		{"a deep decision", when(`{"decision": "deny", "redact": json.unmarshal(concat("", [concat("", ["[" | some x in numbers.range(1, 10001)]), concat("", ["]" | some x in numbers.range(1, 10001)])]))}`), call.CodePolicyError},
		{"malformed capabilities", when(`{"decision": "deny", "cap": {"secrets": ["Not a name"]}}`), call.CodeCapsInvalid},
		{"too many capabilities", when(`{"decision": "deny", "cap": {"secrets": [sprintf("s%%d", [x]) | some x in numbers.range(1, 33)]}}`), call.CodeCapsTooMany},
		{"what nobody can do", when(`{"decision": "deny", "limits": [{"name": "n", "charge": "write_bytes"}]}`), call.CodeObligationUnsupported},
	}
	good := "package callgate\n\n%[1]s := true if input.tool.name == \"t\"\n\n%[1]s := false if input.tool.name != \"t\"\n"
	open := func(t *testing.T, name string, role Role, src string) *Policy {
		t.Helper()
		rule := strings.TrimPrefix(entrypoints[role], "data.callgate.")
		p, err := Open(t.Context(), files("p.rego", fmt.Sprintf(src, rule), "data.json", `{"prefix": ["x"], "limit": 7}`), Options{Name: name, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tt := range tests {
		for _, role := range []Role{Permit, Restrict} {
			t.Run(tt.name+" in a "+string(role)+" layer", func(t *testing.T) {
				broken := open(t, "broken", role, "package callgate\n\n"+tt.src)
				alone := mustSet(t, open(t, "a", Permit, good), broken)
				both := mustSet(t, open(t, "z", Permit, good), broken, open(t, "org", Restrict, good))
				in := input(t, "t", `{"text":"hunter2","zero":0,"n":1}`)
				for _, s := range []*Set{alone, both} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if tt.want == call.CodePolicyTimeout {
						ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
					}
					d, err := s.Decide(ctx, in)
					cancel()
					e, ok := errors.AsType[*call.Error](err)
					if !ok {
						t.Fatalf("answers %+v, %v", d, err)
					}
					if e.Code != tt.want || !strings.HasPrefix(e.Detail, "layer broken") && tt.want != call.CodePolicyTimeout {
						t.Errorf("got %s, %q, want %s", e.Code, e.Detail, tt.want)
					}
					if diff := cmp.Diff(call.Decision{}, d); diff != "" {
						t.Error("an error comes with a decision")
					}
					if strings.Contains(e.Detail+e.Where, "hunter2") {
						t.Errorf("quotes the arguments: %s %s", e.Detail, e.Where)
					}
				}
			})
		}
	}
}

// What cannot be decided on does not load, in either role.
func TestFaultsThatDoNotLoad(t *testing.T) {
	const rule = "package callgate\n\n%[1]s := false\n"
	tests := []struct {
		name  string
		files []string
		want  string
	}{
		{"recursion", []string{"p.rego", "package callgate\n\n%[1]s if x\n\nx if y\n\ny if x\n"}, "recursive"},
		{"recursion of functions", []string{"p.rego", rule + "\nf(x) := f(x)\n"}, "recursive"},
		{"no entrypoint", []string{"p.rego", "package callgate\n\nother := false\n"}, "no rule data.callgate."},
		{"the entrypoint is data", []string{"p.rego", "package x\n\ny := 1\n", "callgate/data.json", `{"decision": true, "restriction": true}`}, "no rule data.callgate."},
		{"roots that overlap", []string{"p.rego", rule, ".manifest", `{"roots": ["callgate", "callgate/x"]}`}, "overlap"},
		{"a root twice", []string{"p.rego", rule, ".manifest", `{"roots": ["callgate", "callgate"]}`}, "overlap"},
		{"rules outside the roots", []string{"p.rego", rule, ".manifest", `{"roots": ["x"]}`}, "roots"},
		{"data under a rule", []string{"p.rego", rule, "callgate/data.json", `{"decision": true, "restriction": true}`}, "conflicting"},
		{"a function for an entrypoint", []string{"p.rego", "package callgate\n\n%[1]s(x) := false\n"}, ""},
	}
	for _, tt := range tests {
		for role, entry := range entrypoints {
			t.Run(tt.name+" in a "+string(role)+" layer", func(t *testing.T) {
				fsys := files(tt.files...)
				for _, f := range fsys {
					f.Data = []byte(strings.ReplaceAll(string(f.Data), "%[1]s", strings.TrimPrefix(entry, "data.callgate.")))
				}
				_, err := Open(t.Context(), fsys, Options{Role: role})
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Open = %v, want it to say %q", err, tt.want)
				}
			})
		}
	}
}

// Roots may repeat in different layers: none sees what another has.
func TestLayersShareNothing(t *testing.T) {
	p, err := Open(t.Context(), files("p.rego", "package callgate\n\ndecision := data.shared.on if input.tool.name == \"t\"\n", "data.json", `{"shared": {"on": true}}`, ".manifest", `{"roots": [""]}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), files("p.rego", "package callgate\n\ndefault restriction := true\n\nrestriction := false if data.shared.on\n", "data.json", `{"shared": {"on": false}}`, ".manifest", `{"roots": [""]}`), Options{Name: "org", Role: Restrict})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer(mustSet(t, p, r).Decide(t.Context(), input(t, "t", `{}`))); got != "allow" {
		t.Error(got)
	}
}

// Rules find every number less than any text, so data that alone changes its type
// is refused where the last good is known.
func TestRetyped(t *testing.T) {
	open := func(src, data string) *Policy {
		t.Helper()
		return mustOpen(t, files("p.rego", src, "data.json", data))
	}
	const src = "package callgate\n\ndecision if {\n\tinput.tool.name == \"t\"\n\tinput.args.amount <= data.max\n}\n"
	was := open(src, `{"max": 100, "hosts": ["a"], "none": [], "by": {"x": {"y": 1}}, "off": null}`)
	tests := []struct {
		name, data string
		want       []string // nil: taken
	}{
		{"the same", `{"max": 100, "hosts": ["a"], "none": [], "by": {"x": {"y": 1}}, "off": null}`, nil},
		{"other values", `{"max": 1, "hosts": ["b", "c"], "none": [], "by": {"x": {"y": 2}}, "off": null}`, nil},
		{"more and less", `{"max": 1, "more": "x", "hosts": [], "none": [{"a": 1}], "by": {"z": {}}}`, nil},
		{"text for a number", `{"max": "100"}`, []string{"data/max: is of type string and was of type number"}},
		{"null for a number", `{"max": null}`, []string{"data/max"}},
		{"a value for null", `{"max": 1, "off": "x"}`, []string{"data/off"}},
		{"a list for an object", `{"max": 1, "by": ["x"]}`, []string{"data/by"}},
		{"deep inside", `{"max": 1, "by": {"x": {"y": true}}}`, []string{"data/by/x/y"}},
		{"other elements", `{"max": 1, "hosts": ["a", 7]}`, []string{"data/hosts[]: is of type number and was of type string"}},
		{"several", `{"max": "x", "hosts": "a"}`, []string{"data/max", "data/hosts"}},
	}
	for _, tt := range tests {
		err := was.Retyped(t.Context(), open(src, tt.data))
		if err == nil != (len(tt.want) == 0) {
			t.Errorf("%s: %v", tt.name, err)
		}
		places := strings.Join(Places(err), "\n")
		for _, w := range tt.want {
			if !strings.Contains(places, w) {
				t.Errorf("%s: %q, want %q", tt.name, places, w)
			}
		}
		if err := was.Retyped(t.Context(), open(src+"\n# and the rules\n", tt.data)); err != nil {
			t.Errorf("%s, with the rules: %v", tt.name, err)
		}
	}
	if got := answer(open(src, `{"max": "100"}`).Decide(t.Context(), input(t, "t", `{"amount":1000000}`))); got != "allow" {
		t.Errorf("%s: OPA no longer finds numbers less than text, and all of this is not needed", got)
	}
}
