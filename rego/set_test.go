package rego

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

// told is a layer that answers what the argument of its name says.
func told(t testing.TB, name string, role Role) *Policy {
	t.Helper()
	src := fmt.Sprintf("package callgate\n\ndecision := input.args.%[1]s if input.tool.name == \"t\"\n\nrestriction := input.args.%[1]s if input.tool.name == \"t\"\n\nrestriction := true if input.tool.name != \"t\"\n", name)
	p, err := Open(t.Context(), files("p.rego", src+strings.Repeat("#", len(name))), Options{Name: name, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustSet(t testing.TB, layers ...*Policy) *Set {
	t.Helper()
	s, err := NewSet(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSetRefuses(t *testing.T) {
	a, b, r := told(t, "a", Permit), told(t, "b", Permit), told(t, "r", Restrict)
	var many []*Policy
	for i := range maxLayers + 1 {
		many = append(many, told(t, fmt.Sprintf("l%d", i), Permit))
	}
	for name, give := range map[string][]*Policy{
		"nothing": nil, "no permit layer": {r}, "nil": {a, nil}, "twice": {a, b, a}, "one name": {a, told(t, "a", Restrict)}, "too many": many,
	} {
		if _, err := NewSet(give...); err == nil {
			t.Errorf("%s: a set", name)
		}
	}
	if s := mustSet(t, many[1:]...); len(s.Layers()) != maxLayers {
		t.Error(len(s.Layers()))
	}
	if got := answer(new(Set).Decide(t.Context(), input(t, "t", `{}`))); got != "policy_undefined" {
		t.Errorf("the zero set: %s", got)
	}
	if got := answer(mustSet(t, a, b).Decide(t.Context(), nil)); got != "policy_error" {
		t.Errorf("no input: %s", got)
	}
}

// A set of one layer decides as the layer does.
func TestSetOfOne(t *testing.T) {
	p := told(t, "a", Permit)
	for _, give := range []string{`true`, `false`, `7`, `{"decision":"allow","grants":[{"log":true}],"cap":{"log":false}}`} {
		in := input(t, "t", `{"a":`+give+`}`)
		d1, err1 := p.Decide(t.Context(), in)
		d2, err2 := mustSet(t, p).Decide(t.Context(), in)
		if diff := cmp.Diff(d1, d2); diff != "" || fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Errorf("%s: %v, %v %s", give, err1, err2, diff)
		}
	}
}

func TestSetDecides(t *testing.T) {
	s := mustSet(t, told(t, "team", Permit), told(t, "app", Permit), told(t, "org", Restrict))
	ask := func(role string) string {
		return `{"decision":"requires-approval","approvals":[{"name":"a","count":1,"from":{"roles":["` + role + `"]}}]}`
	}
	tests := []struct{ name, team, app, org, want string }{
		{"all let it through", `true`, `true`, `true`, "allow"},
		{"nothing to say", `true`, `true`, `{"decision":"not-applicable"}`, "allow"},
		{"one permit layer has nothing to say", `true`, `{"decision":"not-applicable"}`, `true`, "deny"},
		{"one permit layer denies", `false`, `true`, `true`, "deny"},
		{"the restrict layer denies", `true`, `true`, `false`, "deny"},
		{"one permit layer asks", `true`, ask("x"), `true`, "requires-approval"},
		{"the restrict layer asks", `true`, `true`, ask("x"), "requires-approval"},
		{"one asks, one denies", ask("x"), `false`, `true`, "deny"},
		{"the restrict layer permits", `true`, `true`, `{"decision":"allow"}`, "policy_shape"},
		{"a fault outranks a no", `false`, `7`, `false`, "policy_shape"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := s.Decide(t.Context(), input(t, "t", fmt.Sprintf(`{"team":%s,"app":%s,"org":%s}`, tt.team, tt.app, tt.org)))
			if got := answer(d, err); got != tt.want {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
			if err == nil && len(d.Revisions) != 3 {
				t.Errorf("decided by %v", d.Revisions)
			}
			if d.Verdict == call.Deny && (len(d.Grants) > 0 || len(d.Approvals) > 0) {
				t.Errorf("refused, and gives %+v", d)
			}
		})
	}
}

// All layers that deny say why, each in its own name, and no other layer does.
func TestSetTellsAllDenials(t *testing.T) {
	s := mustSet(t, told(t, "team", Permit), told(t, "app", Permit), told(t, "org", Restrict))
	args := `{"team": {"decision": "deny", "reasons": [{"code": "x"}, {"code": "y"}]},
		"app": {"decision": "allow", "reasons": [{"code": "fine"}]}, "org": {"decision": "deny", "reasons": [{"code": "x"}]}}`
	d, err := s.Decide(t.Context(), input(t, "t", args))
	want := []call.Reason{{Code: "x", Layer: "org"}, {Code: "x", Layer: "team"}, {Code: "y", Layer: "team"}}
	if diff := cmp.Diff(want, d.Reasons); diff != "" || d.Verdict != call.Deny || err != nil {
		t.Errorf("%s, %v %s", d.Verdict, err, diff)
	}
}

// The union, in full.
func TestSetUnites(t *testing.T) {
	s := mustSet(t, told(t, "org", Restrict), told(t, "team", Permit), told(t, "app", Permit))
	args := `{
	"team": {"decision": "requires-approval", "reasons": [{"code": "t"}], "grants": [{"id": "a", "secrets": ["a"]}, {"id": "b", "secrets": ["b", "c"]}],
		"approvals": [{"name": "lead", "count": 1, "from": {"roles": ["lead"]}}],
		"limits": [{"name": "n", "key": "k", "burst": 5, "per": "1h"}], "labels": ["y", "x"], "redact": [1], "rows": 5},
	"app": {"decision": "allow", "grants": [{"secrets": ["b", "c", "d"], "bounds": {"calls": 9}}], "labels": ["x"], "result_labels": ["u"]},
	"org": {"decision": "pass", "limits": [{"name": "n", "key": "k", "burst": 7, "per": "1h"}], "cap": [{"secrets": ["a", "b"]}, {"bounds": {"calls": 3}}],
		"labels": ["z"], "redact": [2, 3], "fields": ["f"]}}`
	d, err := s.Decide(t.Context(), input(t, "t", args))
	if err != nil {
		t.Fatal(err)
	}
	var revisions []call.Revision
	for _, p := range s.Layers() {
		revisions = append(revisions, p.Revision())
	}
	want := call.Decision{
		Verdict:   call.Ask,
		Reasons:   []call.Reason{{Code: "t", Layer: "team"}},
		Grants:    []call.RuleGrant{{Caps: call.Caps{Secrets: []string{"b"}, Bounds: call.Bounds{Calls: 3}}}},
		Approvals: []call.ApprovalRule{{Layer: "team", Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}},
		Limits: []call.Limit{
			{Layer: "org", Name: "n", Key: "k", Burst: 7, Per: "1h", Cost: 1}, {Layer: "team", Name: "n", Key: "k", Burst: 5, Per: "1h", Cost: 1},
		},
		Labels: []string{"x", "y", "z"}, ResultLabels: []string{"u"},
		Redact: call.Obligation{[]byte(`[2,3]`), []byte(`[1]`)}, Fields: call.Obligation{[]byte(`["f"]`)}, Rows: call.Obligation{[]byte(`5`)},
		Revisions: revisions,
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
}

// said is one layer's answer, for the model.
type said struct {
	verdict string // or a fault
	grants  [][]string
	cap     []string // nil: none said
	labels  []string
	limits  []string
	asks    []string
}

var faults = map[string]string{"undefined": "policy_undefined", "shape": "policy_shape", "caps": "caps_invalid", "charge": "obligation_unsupported"}

func drawSaid(t *rapid.T, name string, role Role) said {
	good := []string{"let", "let", "let", "let", "ask", "deny"}
	some := func(what string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 3, rapid.ID).Draw(t, name+" "+what)
	}
	s := said{verdict: rapid.SampledFrom(append(good, good...)).Draw(t, name)}
	if rapid.IntRange(0, 19).Draw(t, name+" fails") == 0 {
		s.verdict = rapid.SampledFrom(slices.Sorted(maps.Keys(faults))).Draw(t, name+" fault")
	}
	if role == Permit {
		for range rapid.IntRange(0, 2).Draw(t, name+" grants") {
			s.grants = append(s.grants, some("grant"))
		}
	}
	if rapid.Bool().Draw(t, name+" caps") {
		s.cap = append([]string{}, some("cap")...)
	}
	s.labels, s.limits = some("labels"), some("limits")
	if s.verdict == "ask" {
		s.asks = append([]string{"a"}, some("asks")...)
	}
	return s
}

// wire is the answer as a policy writes it; nil is none.
func (s said) wire(role Role) any {
	switch s.verdict {
	case "undefined":
		return nil
	case "shape":
		return "allow"
	case "caps":
		return map[string]any{"decision": string(role.lets()), "cap": map[string]any{"secrets": []string{"Not a name"}}}
	case "charge":
		return map[string]any{"decision": "deny", "limits": []any{map[string]any{"name": "n", "charge": "write_bytes"}}}
	}
	out := map[string]any{
		"decision": map[string]string{"let": string(role.lets()), "ask": "requires-approval", "deny": "deny"}[s.verdict],
		"labels":   s.labels,
	}
	var grants, limits, asks []any
	for _, g := range s.grants {
		grants = append(grants, map[string]any{"secrets": g})
	}
	for _, l := range s.limits {
		limits = append(limits, map[string]any{"name": l, "key": "", "burst": 1, "per": "1m"})
	}
	for _, a := range s.asks {
		asks = append(asks, map[string]any{"name": a, "count": 1, "from": map[string]any{"roles": []string{"r"}}})
	}
	out["grants"], out["limits"], out["approvals"] = append([]any{}, grants...), append([]any{}, limits...), append([]any{}, asks...)
	if s.cap != nil {
		out["cap"] = map[string]any{"secrets": s.cap}
	}
	return out
}

// model is what the layers say together, said plainly.
func model(names []string, roles map[string]Role, all map[string]said) (verdict string, secrets, labels, limits, asks map[string]bool) {
	verdict = "allow"
	secrets, labels, limits, asks = map[string]bool{"a": true, "b": true, "c": true, "d": true}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, n := range names { // sorted
		s := all[n]
		if code := faults[s.verdict]; code != "" {
			return code, nil, nil, nil, nil
		}
	}
	for _, n := range names {
		s := all[n]
		switch {
		case s.verdict == "deny":
			verdict = "deny"
		case s.verdict == "ask" && verdict == "allow":
			verdict = "requires-approval"
		}
		for _, secret := range []string{"a", "b", "c", "d"} {
			if roles[n] == Permit && !slices.ContainsFunc(s.grants, func(g []string) bool { return slices.Contains(g, secret) }) {
				delete(secrets, secret)
			}
			if s.cap != nil && !slices.Contains(s.cap, secret) {
				delete(secrets, secret)
			}
		}
		for _, l := range s.labels {
			labels[l] = true
		}
		for _, l := range s.limits {
			limits[n+"/"+l] = true
		}
		for _, a := range s.asks {
			asks[n+"/"+a] = true
		}
	}
	if verdict == "deny" {
		return verdict, nil, nil, nil, nil
	}
	return verdict, secrets, labels, limits, asks
}

// Any layers say together what the model says, in whatever order they are given.
func TestSetFollowsTheModel(t *testing.T) {
	roles := map[string]Role{"p": Permit, "q": Permit, "r": Restrict, "s": Restrict}
	layers := map[string]*Policy{}
	for n, role := range roles {
		layers[n] = told(t, n, role)
	}
	rapid.Check(t, func(rt *rapid.T) {
		names := append([]string{"p"}, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"q", "r", "s"}), 1, 3, rapid.ID).Draw(rt, "layers")...)
		slices.Sort(names)
		all, args := map[string]said{}, map[string]any{}
		var given []*Policy
		for _, n := range names {
			all[n] = drawSaid(rt, n, roles[n])
			if w := all[n].wire(roles[n]); w != nil {
				args[n] = w
			} // else there is no such argument
			given = append(given, layers[n])
		}
		b, err := json.Marshal(args)
		if err != nil {
			rt.Fatal(err)
		}
		in := input(t, "t", string(b))
		first, err1 := mustSet(t, given...).Decide(context.Background(), in)
		second, err2 := mustSet(t, rapid.Permutation(given).Draw(rt, "order")...).Decide(context.Background(), in)
		if diff := cmp.Diff(first, second); diff != "" || fmt.Sprint(err1) != fmt.Sprint(err2) {
			rt.Fatalf("order matters: %v, %v %s", err1, err2, diff)
		}
		verdict, secrets, labels, limits, asks := model(names, roles, all)
		if got := answer(first, err1); got != verdict {
			rt.Fatalf("%s, want %s, %v", got, verdict, err1)
		}
		if err1 != nil {
			if e, ok := errors.AsType[*call.Error](err1); !ok || !strings.HasPrefix(e.Detail, "layer ") {
				rt.Errorf("does not say whose: %v", err1)
			}
			return
		}
		got := map[string]map[string]bool{"secrets": {}, "labels": {}, "limits": {}, "asks": {}}
		for _, g := range first.Grants {
			for _, s := range g.Secrets {
				got["secrets"][s] = true
			}
		}
		for _, l := range first.Labels {
			got["labels"][l] = true
		}
		for _, l := range first.Limits {
			got["limits"][l.Layer+"/"+l.Name] = true
		}
		for _, a := range first.Approvals {
			got["asks"][a.Layer+"/"+a.Name] = true
		}
		for what, want := range map[string]map[string]bool{"secrets": secrets, "labels": labels, "limits": limits, "asks": asks} {
			if len(want) != len(got[what]) || !maps.Equal(want, got[what]) && len(want) > 0 {
				rt.Errorf("%s: %v, want %v", what, got[what], want)
			}
		}
	})
}

// The layers share one deadline.
func TestSetDeadline(t *testing.T) {
	p := mustOpen(t, files("p.rego", slow))
	r, err := Open(t.Context(), files("p.rego", strings.ReplaceAll(slow, "decision", "restriction")), Options{Name: "org", Role: Restrict})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = mustSet(t, p, r).Decide(ctx, input(t, "slow", `{}`))
	e, ok := errors.AsType[*call.Error](err)
	if !ok || e.Code != call.CodePolicyTimeout || e.Detail != "layer org" {
		t.Errorf("got %+v", e)
	}
}
