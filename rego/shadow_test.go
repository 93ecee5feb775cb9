package rego

import (
	"context"

	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

func newShadow(t testing.TB) *Shadow {
	t.Helper()
	s := NewShadow(time.Minute)
	t.Cleanup(func() { s.Close() })
	return s
}

func beside(t testing.TB, s *Set, sh *Shadow, layers ...*Policy) *Set {
	t.Helper()
	b, err := s.Beside(sh, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// settled are the reports once n answers were compared or left out for each bundle.
func settled(t testing.TB, sh *Shadow, bundles int, n int64) []ShadowReport {
	t.Helper()
	for {
		reports := sh.Reports()
		done := len(reports) == bundles
		for _, r := range reports {
			done = done && r.Asked+r.Dropped >= n
		}
		if done {
			return reports
		}
		runtime.Gosched()
	}
}

func TestShadowComparesAnswers(t *testing.T) {
	const ask = `{"decision":"requires-approval","approvals":[{"name":"a","count":1,"from":{"roles":["r"]},"reason":"%s"}]}`
	grants := func(secret string) string { return `{"decision":"allow","grants":[{"secrets":["` + secret + `"]}]}` }
	verdict := func(was, would ShadowAnswer) map[ShadowKind][2]ShadowAnswer {
		return map[ShadowKind][2]ShadowAnswer{ShadowVerdict: {was, would}}
	}
	allowed, asked := ShadowAnswer{Verdict: call.Allow}, ShadowAnswer{Verdict: call.Ask}
	denied := func(reasons ...string) ShadowAnswer {
		return ShadowAnswer{Verdict: call.Deny, Code: call.CodePolicyDenied, Reasons: reasons}
	}
	failed := func(code call.Code) ShadowAnswer { return ShadowAnswer{Verdict: call.Deny, Code: code} }
	tests := []struct {
		name, team, org, tried string
		want                   map[ShadowKind][2]ShadowAnswer
	}{
		{"the same", `true`, `true`, `true`, nil},
		{"would refuse", `true`, `true`, `{"decision":"deny","reasons":[{"code":"frozen"}]}`, verdict(allowed, denied("new/frozen"))},
		{"would ask", `true`, `true`, fmt.Sprintf(ask, ""), verdict(allowed, asked)},
		{"would fail", `true`, `true`, `7`, verdict(allowed, failed(call.CodePolicyShape))},
		{"another reason", `true`, `false`, `false`, map[ShadowKind][2]ShadowAnswer{ShadowCode: {denied("org/denied"), denied("new/denied", "org/denied")}}},
		{"refused anyway", `false`, `true`, `true`, nil},
		{"fails instead", `true`, `false`, `"x"`, map[ShadowKind][2]ShadowAnswer{ShadowCode: {denied("org/denied"), failed(call.CodePolicyShape)}}},
		{"fails anyway", `7`, `true`, `true`, nil},
		{"caps", grants("a"), `true`, `{"decision":"pass","cap":{"secrets":[]}}`, map[ShadowKind][2]ShadowAnswer{ShadowGrants: {allowed, allowed}}},
		{"caps nothing that was there", grants("a"), `true`, `{"decision":"pass","cap":{"fs":[]}}`, nil},
		{"labels", `true`, `true`, `{"decision":"pass","labels":["x"]}`, map[ShadowKind][2]ShadowAnswer{ShadowObligations: {allowed, allowed}}},
		{"both", grants("a"), `true`, `{"decision":"pass","rows":5,"cap":{"secrets":[]}}`, map[ShadowKind][2]ShadowAnswer{ShadowGrants: {allowed, allowed}, ShadowObligations: {allowed, allowed}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sh := newShadow(t)
			plain := mustSet(t, told(t, "team", Permit), told(t, "org", Restrict))
			s := beside(t, plain, sh, told(t, "new", Restrict))
			in := input(t, "t", fmt.Sprintf(`{"team":%s,"org":%s,"new":%s,"text":"hunter2"}`, tt.team, tt.org, tt.tried))
			d1, err1 := plain.Decide(t.Context(), in)
			d2, err2 := s.Decide(t.Context(), in)
			if diff := cmp.Diff(d1, d2); diff != "" || fmt.Sprint(err1) != fmt.Sprint(err2) {
				t.Errorf("the shadow changes the answer: %v, %v %s", err1, err2, diff)
			}
			r := settled(t, sh, 1, 1)[0]
			if r.Bundle.Name != "new" || r.Role != Restrict || r.Asked != 1 || r.Dropped != 0 || (r.Same == 1) != (tt.want == nil) {
				t.Errorf("%+v", r)
			}
			got := map[ShadowKind][2]ShadowAnswer{}
			for _, d := range r.Last {
				got[d.Kind] = [2]ShadowAnswer{d.Was, d.Would}
				if r.Differences[d.Kind] != 1 || d.Tool != "t" || d.Principal != "alice" || d.TimeNS != in.Env.NowNS {
					t.Errorf("%+v, %v", d, r.Differences)
				}
			}
			if len(tt.want)+len(got) > 0 && cmp.Diff(tt.want, got) != "" {
				t.Error(cmp.Diff(tt.want, got))
			}
			if b, err := json.Marshal(r); err != nil || strings.Contains(string(b), "hunter2") {
				t.Errorf("%s %v", b, err)
			}
		})
	}
}

// A layer in shadow that has the name of one that decides stands in its place.
func TestShadowCandidate(t *testing.T) {
	sh := newShadow(t)
	active, org := told(t, "team", Permit), told(t, "org", Restrict)
	next, err := Open(t.Context(), files("p.rego", "package callgate\n\ndecision := input.args.next if input.tool.name == \"t\"\n"), Options{Name: "team"})
	if err != nil {
		t.Fatal(err)
	}
	s := beside(t, mustSet(t, active, org), sh, next)
	for _, args := range []string{`{"team":false,"next":true,"org":true}`, `{"team":false,"next":true,"org":false}`, `{"team":true,"next":false,"org":true}`, `{"team":true,"next":true,"org":true}`} {
		_, _ = s.Decide(t.Context(), input(t, "t", args))
	}
	r := settled(t, sh, 1, 4)[0]
	var got []string
	for _, d := range r.Last {
		got = append(got, fmt.Sprintf("%s: %s, %s", d.Kind, d.Was.Verdict, d.Would.Verdict))
	}
	if want := []string{"verdict: deny, allow", "code: deny, deny", "verdict: allow, deny"}; !slices.Equal(got, want) || r.Same != 1 || r.Bundle != next.Revision() {
		t.Errorf("%q, %+v", got, r)
	}
}

func TestBesideRefuses(t *testing.T) {
	a, r := told(t, "a", Permit), told(t, "r", Restrict)
	sh := newShadow(t)
	for name, give := range map[string][]*Policy{
		"another role": {told(t, "a", Restrict)}, "nil": {nil}, "twice": {r, told(t, "r", Restrict)},
	} {
		if _, err := mustSet(t, a).Beside(sh, give...); err == nil {
			t.Errorf("%s: tried", name)
		}
	}
	s := beside(t, mustSet(t, a), sh)
	if got := answer(s.Decide(t.Context(), input(t, "t", `{"a":true}`))); got != "allow" || len(sh.Reports()) > 0 {
		t.Errorf("%s, %v", got, sh.Reports())
	}
}

// Whatever is tried, and however it fails, answers are those without it.
func TestShadowInfluencesNothing(t *testing.T) {
	sh := newShadow(t)
	plain := mustSet(t, told(t, "p", Permit), told(t, "r", Restrict))
	s := beside(t, plain, sh, told(t, "q", Permit), told(t, "s", Restrict), &Policy{role: Restrict, revision: call.Revision{Name: "zero"}})
	rapid.Check(t, func(rt *rapid.T) {
		args := map[string]any{}
		for n, role := range map[string]Role{"p": Permit, "q": Permit, "r": Restrict, "s": Restrict} {
			if w := drawSaid(rt, n, role).wire(role); w != nil {
				args[n] = w
			}
		}
		b, err := json.Marshal(args)
		if err != nil {
			rt.Fatal(err)
		}
		in := input(t, "t", string(b))
		d1, err1 := plain.Decide(context.Background(), in)
		d2, err2 := s.Decide(context.Background(), in)
		if diff := cmp.Diff(d1, d2); diff != "" || fmt.Sprint(err1) != fmt.Sprint(err2) {
			rt.Fatalf("%v, %v %s", err1, err2, diff)
		}
	})
	if got := len(settled(t, sh, 3, 1)); got != 3 {
		t.Error(got)
	}
}

// Calls that find no place are counted and left out; the caller never waits.
func TestShadowQueueIsBounded(t *testing.T) {
	const large = 1_000_000
	for size, places := range map[int]int64{1: maxShadowQueue, large: maxShadowBytes / large} {
		sh := idleShadow(time.Minute)
		s := beside(t, mustSet(t, told(t, "a", Permit)), sh, told(t, "b", Restrict))
		in := input(t, "t", `{"a":true,"b":true,"text":"`+strings.Repeat("x", size)+`"}`)
		calls := places + 7
		for range calls {
			if got := answer(s.Decide(t.Context(), in)); got != "allow" {
				t.Error(got)
			}
		}
		if got := sh.waiting.Load(); got > maxShadowBytes || int64(len(sh.queue)) != places {
			t.Errorf("%d calls of %d bytes wait, want %d", len(sh.queue), got, places)
		}
		sh.wg.Go(sh.work)
		r := settled(t, sh, 1, calls)[0]
		if r.Asked != places || r.Same != places || r.Dropped != 7 || sh.waiting.Load() != 0 {
			t.Errorf("%+v, %d bytes left", r, sh.waiting.Load())
		}
		sh.Close()
	}
}

func TestShadowKeepsTheLast(t *testing.T) {
	sh := newShadow(t)
	s := beside(t, mustSet(t, told(t, "a", Permit)), sh, told(t, "b", Restrict))
	for i := range maxShadowLast + 20 {
		in := input(t, "t", `{"a":true,"b":false}`)
		in.Env.NowNS = int64(i)
		_, _ = s.Decide(t.Context(), in)
		settled(t, sh, 1, int64(i)+1)
	}
	r := sh.Reports()[0]
	if r.Differences[ShadowVerdict] != maxShadowLast+20 || len(r.Last) != maxShadowLast || r.Last[0].TimeNS != 20 || r.Last[maxShadowLast-1].TimeNS != maxShadowLast+19 {
		t.Errorf("%d, %d", r.Differences[ShadowVerdict], len(r.Last))
	}
	r.Last[0].Tool, r.Differences[ShadowVerdict] = "x", 0
	if again := sh.Reports()[0]; again.Last[0].Tool != "t" || again.Differences[ShadowVerdict] == 0 {
		t.Error("a report shares its parts")
	}
}

// What was found about a bundle stays while others take over, and old ones go.
func TestShadowReportsByBundle(t *testing.T) {
	sh := newShadow(t)
	a := mustSet(t, told(t, "a", Permit))
	for i := range maxShadowReports + 2 {
		p, err := Open(t.Context(), files("p.rego", fmt.Sprintf("package callgate\n\nrestriction := true\n# %d\n", i)), Options{Name: "b", Role: Restrict})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = beside(t, a, sh, p).Decide(t.Context(), input(t, "t", `{"a":true}`))
		settled(t, sh, min(i+1, maxShadowReports), 1)
		for reports := sh.Reports(); reports[len(reports)-1].Bundle != p.Revision(); reports = sh.Reports() {
			runtime.Gosched()
		}
	}
}

func TestShadowTimeout(t *testing.T) {
	sh := NewShadow(time.Millisecond)
	defer sh.Close()
	p := mustOpen(t, files("p.rego", slow))
	r, err := Open(t.Context(), files("p.rego", strings.ReplaceAll(slow, "decision", "restriction")), Options{Name: "org", Role: Restrict})
	if err != nil {
		t.Fatal(err)
	}
	in := input(t, "slow", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = beside(t, mustSet(t, p), sh, r).Decide(ctx, in)
	if d := settled(t, sh, 1, 1)[0]; d.Same != 1 {
		t.Errorf("both are too slow, and yet %+v", d)
	}
	quick := mustOpen(t, files("p.rego", "package callgate\n\ndecision if input.tool.name == \"slow\"\n"))
	_, _ = beside(t, mustSet(t, quick), sh, r).Decide(t.Context(), in)
	d := settled(t, sh, 1, 2)[0]
	if len(d.Last) != 1 || d.Last[0].Would.Code != call.CodePolicyTimeout {
		t.Errorf("%+v", d)
	}
}

// Close ends the evaluation under way, and nothing is taken any more.
func TestShadowCloses(t *testing.T) {
	sh := NewShadow(time.Hour)
	r, err := Open(t.Context(), files("p.rego", strings.ReplaceAll(slow, "decision", "restriction")), Options{Name: "org", Role: Restrict})
	if err != nil {
		t.Fatal(err)
	}
	s := beside(t, mustSet(t, told(t, "a", Permit)), sh, r)
	for range 3 {
		_, _ = s.Decide(t.Context(), input(t, "slow", `{}`))
	}
	for len(sh.queue) > 2 {
		runtime.Gosched() // until one is under way
	}
	sh.Close()
	sh.Close()
	_, _ = s.Decide(t.Context(), input(t, "slow", `{}`))
	if len(sh.queue) > 2 || len(sh.Reports()) > 0 {
		t.Errorf("%d wait, %v", len(sh.queue), sh.Reports())
	}
}
