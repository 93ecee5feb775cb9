package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// slow is a policy that thinks until its time is up.
type slow struct{}

func (slow) Decide(ctx context.Context, _ *call.Input) (call.Decision, error) {
	<-ctx.Done()
	return call.Decision{}, ctx.Err()
}

// tester is what a test and one of rapid's have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

func explain(t tester, e *engine.Engine, c call.Call) *engine.Explanation {
	t.Helper()
	x, err := e.Explain(t.Context(), c)
	if err != nil || x == nil {
		t.Fatalf("Explain = %v, %v", x, err)
	}
	return x
}

// Whatever refuses a call before its record is what the explanation said, and the
// explanation leaves nothing behind and says nothing that it must not.
func TestExplainRefusals(t *testing.T) {
	failing := func(code call.Code) engine.Policy {
		return policy(func(*call.Input) (call.Decision, error) {
			return call.Decision{}, &call.Error{Code: code, Err: errors.New("canary-cause")}
		})
	}
	with := func(change func(*call.Decision)) engine.Policy {
		d := allow
		change(&d)
		return always(d)
	}
	args := func(s string) func(*call.Call) { return func(c *call.Call) { c.Args = []byte(s) } }
	deny := call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "not_you", Message: "no"}, {Code: "inner", Message: "inner", Hidden: true}}}
	tests := []struct {
		name   string
		o      engine.Options
		change func(*call.Call)
		before func(*testing.T, *engine.Engine) // what happens before
		want   call.Code
	}{
		{name: "nobody", change: func(c *call.Call) { c.Principal = call.Principal{} }, want: call.CodePrincipalInvalid},
		{name: "a client with a line break", change: func(c *call.Call) { c.Client = "a\nb" }, want: call.CodePrincipalInvalid},
		{name: "duplicate keys", change: args(`{"text":"canary","text":"canary"}`), want: call.CodeArgsInvalid},
		{name: "a number that no float64 holds", change: args(`{"n":9007199254740993}`), want: call.CodeArgsInexact},
		{name: "too large", change: args(`{"text":"` + strings.Repeat("x", call.MaxArgsBytes) + `"}`), want: call.CodeArgsTooLarge},
		{name: "asserted is no object", change: func(c *call.Call) { c.Asserted = []byte(`7`) }, want: call.CodeAssertedInvalid},
		{name: "an unknown tool", change: func(c *call.Call) { c.Tool = "canary-tool" }, want: call.CodeToolUnknown},
		{name: "a schema violation", change: args(`{"text":7}`), want: call.CodeArgsSchema},
		{name: "a session of nobody's", change: func(c *call.Call) { c.Session = "canary-session" }, want: call.CodeSessionInvalid},
		{name: "no key", o: engine.Options{Salts: noSalts{}}, change: func(c *call.Call) { c.Principal.Tenant = "keyless" }, want: call.CodeStateUnavailable},

		{name: "denied", o: engine.Options{Policy: always(deny)}, want: call.CodePolicyDenied},
		{name: "the zero decision", o: engine.Options{Policy: always(call.Decision{})}, want: call.CodePolicyDenied},
		{name: "no answer", o: engine.Options{Policy: failing(call.CodePolicyUndefined)}, want: call.CodePolicyUndefined},
		{name: "policy fails", o: engine.Options{Policy: failing("")}, want: call.CodePolicyError},
		{name: "a code that policies do not have", o: engine.Options{Policy: failing(call.CodeInternal)}, want: call.CodePolicyError},
		{name: "no decision", o: engine.Options{Policy: failing(call.CodePolicyShape)}, want: call.CodePolicyShape},
		{name: "policy takes too long", o: engine.Options{Policy: slow{}, DecideTimeout: time.Millisecond}, want: call.CodePolicyTimeout},
		{name: "an obligation", o: engine.Options{Policy: with(func(d *call.Decision) { d.Redact = call.Obligation{jsontext.Value(`[]`)} })}, want: call.CodeObligationUnsupported},
		{name: "too many grants", o: engine.Options{Policy: with(func(d *call.Decision) {
			for i := range 65 {
				d.Grants = append(d.Grants, call.RuleGrant{Caps: call.Caps{Secrets: []string{fmt.Sprint("s", i)}}})
			}
		})}, want: call.CodeCapsTooMany},
		{name: "grants that make no sense", o: engine.Options{Policy: failing(call.CodeCapsInvalid)}, want: call.CodeCapsInvalid},
		{name: "a limit without a time", o: engine.Options{Policy: with(func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: 1, Per: "soon"}} })}, want: call.CodePolicyShape},

		{name: "a revoked principal", before: func(t *testing.T, e *engine.Engine) {
			if err := e.Revoke(t.Context(), call.Revocation{Principal: engine.PrincipalDigest(alice)}); err != nil {
				t.Fatal(err)
			}
		}, want: call.CodeRevoked},
		{name: "a revoked tool", before: func(t *testing.T, e *engine.Engine) {
			if err := e.Revoke(t.Context(), call.Revocation{Tool: "echo"}); err != nil {
				t.Fatal(err)
			}
		}, want: call.CodeRevoked},
		{name: "over the limit", o: engine.Options{Policy: with(func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Key: "canary-key", Burst: 1, Per: "1h"}} })},
			before: func(t *testing.T, e *engine.Engine) {
				if _, err := e.Do(t.Context(), echo("before")); err != nil {
					t.Fatal(err)
				}
			}, want: call.CodeRateLimited},
		{name: "nobody was asked", o: engine.Options{Policy: always(asking(oneLead))}, want: call.CodeRequiresApproval},
		{name: "somebody was asked", o: engine.Options{Policy: always(asking(oneLead))},
			before: func(t *testing.T, e *engine.Engine) { asked(t, e, echo("canary-argument")) }, want: call.CodeRequiresApproval},
		{name: "somebody said no", o: engine.Options{Policy: always(asking(oneLead))}, before: func(t *testing.T, e *engine.Engine) {
			mustVote(t, e, asked(t, e, echo("canary-argument")), lead, true)
		}, want: call.CodeApprovalDenied},
		{name: "somebody said yes", o: engine.Options{Policy: always(asking(oneLead))}, before: func(t *testing.T, e *engine.Engine) {
			mustVote(t, e, asked(t, e, echo("canary-argument")), lead, false)
		}, want: call.CodeOK},
		{name: "nothing refuses it", want: call.CodeOK},
		{name: "the session keeps changing", o: engine.Options{State: brokenState{err: state.ErrSessionChanged}}, want: call.CodeSessionChanged},
		{name: "the session is another's by now", o: engine.Options{State: brokenState{err: state.ErrSessionForeign}}, want: call.CodeSessionInvalid},
		{name: "the state cannot tell", o: engine.Options{State: brokenState{err: errors.New("down")}}, want: call.CodeStateUnavailable},
		{name: "the state says nothing", o: engine.Options{State: brokenState{}}, want: call.CodeStateUnavailable},
		{name: "the session cannot be read", o: engine.Options{State: brokenState{sessionErr: errors.New("down")}}, want: call.CodeStateUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, tool := &memory{}, &counted{}
			var operator strings.Builder
			tt.o.Log, tt.o.Tools, tt.o.Logger = log, []engine.Tool{tool.tool()}, zerolog.New(&operator)
			if tt.o.Policy == nil {
				tt.o.Policy = always(allow)
			}
			e := open(t, tt.o)
			if tt.before != nil {
				tt.before(t, e)
			}
			c := echo("canary-argument")
			if tt.change != nil {
				tt.change(&c)
			}
			records, runs := recorded(t, log), tool.count()
			operator.Reset()
			x := explain(t, e, c)
			if x.Code != tt.want {
				t.Errorf("code %s, want %s", x.Code, tt.want)
			}
			if (x.Verdict == call.Allow) != (tt.want == call.CodeOK) || (x.Verdict == call.Ask) != (tt.want == call.CodeRequiresApproval) {
				t.Errorf("%s is a %s", x.Code, x.Verdict)
			}
			if got := recorded(t, log); got != records || tool.count() != runs {
				t.Errorf("%d records and %d runs of a tool more", got-records, tool.count()-runs)
			}
			b, err := json.Marshal(x)
			if s := string(b); err != nil || strings.Contains(s, "inner") || strings.Contains(s, "canary-key") || strings.Contains(s, "canary-cause") || strings.Contains(s, "canary-tool") || strings.Contains(s, "canary-session") || strings.Contains(s, "null") {
				t.Errorf("says too much, or null: %s, %v", s, err)
			}
			if s := operator.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, string(tt.want)) || strings.Contains(s, "canary") {
				t.Errorf("the operator's log: %s", s)
			}
			_, err = e.Do(t.Context(), c)
			if got := code(err); got != tt.want && !(err == nil && tt.want == call.CodeOK) {
				t.Errorf("Do = %v, explained was %s", err, tt.want)
			}
			if d, ok := errors.AsType[*engine.Denial](err); ok && x.Detail != d.Detail {
				t.Errorf("detail %q, that of the refusal %q", x.Detail, d.Detail)
			}
		})
	}
}

// recorded is how many records there are but outcomes, which come when they come.
func recorded(t tester, log *memory) (n int) {
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, line := range log.records {
		r, err := call.DecodeRecord(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Type != call.TypeOutcome {
			n++
		}
	}
	return n
}

func TestExplanation(t *testing.T) {
	d := call.Decision{
		Verdict: call.Ask, Revisions: []call.Revision{{Name: "b", Revision: "7", Digest: "sha256:0"}},
		Reasons:   []call.Reason{{Code: "large", Message: "a large one"}, {Code: "inner", Hidden: true}},
		Grants:    []call.RuleGrant{{Caps: call.Caps{Log: true, Bounds: call.Bounds{TimeoutMS: 900}}}},
		Approvals: []call.ApprovalRule{oneLead}, Labels: []string{"seen"},
		Limits: []call.Limit{{Name: "few", Key: "k", Burst: 3, Per: "1h"}, {Name: "many", Key: "k", Burst: 100, Cost: 5, Per: "1m"}},
	}
	tool := &counted{}
	e := open(t, engine.Options{Policy: always(d), Log: &memory{}, Tools: []engine.Tool{tool.tool()}})
	c := echo("x")
	c.Args = []byte(` { "text" : "x", "n" : 1.0 } `)
	want := &engine.Explanation{
		Verdict: call.Ask, Code: call.CodeRequiresApproval, Reasons: d.Reasons[:1], Args: []byte(`{"n":1,"text":"x"}`),
		Tool: engine.ExplainedTool{Name: "echo", Kind: "host", Class: "read", Digest: tool.digest(t)}, Session: "s-" + engine.PrincipalDigest(alice),
		Caps: &call.Caps{Bounds: call.Bounds{TimeoutMS: 900, OutputBytes: 1000}}, Labels: []string{"seen"}, Approvals: d.Approvals,
		Limits: []engine.ExplainedLimit{{Name: "few", Limit: 3, Remaining: 2}, {Name: "many", Limit: 100, Remaining: 95}}, Policy: slices.Clone(d.Revisions),
	}
	if diff := cmp.Diff(want, explain(t, e, c)); diff != "" {
		t.Errorf("nobody asked: %s", diff)
	}
	explain(t, e, c).Policy[0].Name = "forged" // which is the caller's copy
	want.ApprovalID, want.Standing = asked(t, e, c), state.Open
	if diff := cmp.Diff(want, explain(t, e, c)); diff != "" {
		t.Errorf("asked: %s", diff)
	}
	mustVote(t, e, want.ApprovalID, lead, false)
	want.Verdict, want.Code, want.Standing = call.Allow, call.CodeOK, state.Approved
	if diff := cmp.Diff(want, explain(t, e, c)); diff != "" {
		t.Errorf("approved: %s", diff)
	}
	own, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	c.Session, want.Session = own, own
	if diff := cmp.Diff(want, explain(t, e, c)); diff != "" {
		t.Errorf("in a session of its own: %s", diff)
	}
	var again engine.Explanation
	if b, err := json.Marshal(want); err != nil || json.Unmarshal(b, &again, json.RejectUnknownMembers(true)) != nil || !cmp.Equal(want, &again) {
		t.Errorf("not the same after JSON: %s, %v", b, err)
	}
}

// However often somebody asks what would become of a call: nothing is used up,
// nobody is asked, and the session learns nothing.
func TestExplainTakesNothing(t *testing.T) {
	var calls []int64
	p := policy(func(in *call.Input) (call.Decision, error) {
		calls = append(calls, in.Session.Calls)
		d := allow
		if strings.Contains(string(in.Args.Bytes()), "ask") {
			d = asking(oneLead)
		}
		d.Labels = []string{fmt.Sprint("seen-", len(in.Session.Labels))}
		d.Limits = []call.Limit{{Name: "few", Key: "k", Burst: 3, Per: "1h"}}
		return d, nil
	})
	dir := t.TempDir()
	pending, err := state.OpenPending(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: p, Log: log, Pending: pending, Tools: []engine.Tool{tool.tool()}, MaxCalls: 1})
	before := tree(t, dir)
	for i := range 100 {
		c := echo(fmt.Sprint("ask ", i))
		if x := explain(t, e, c); x.Code != call.CodeRequiresApproval || x.ApprovalID != "" || x.Limits[0].Remaining != 2 {
			t.Fatalf("Explain = %+v", x)
		}
		if x := explain(t, e, echo("x")); x.Code != call.CodeOK || x.Limits[0].Remaining != 2 || !cmp.Equal(x.Labels, []string{"seen-0"}) {
			t.Fatalf("Explain = %+v", x)
		}
	}
	if list, err := e.Approvals(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("somebody was asked: %+v, %v", list, err)
	}
	if len(log.decoded(t)) > 0 || tool.count() > 0 || tree(t, dir) != before {
		t.Errorf("%d records, %d runs, files %s", len(log.decoded(t)), tool.count(), tree(t, dir))
	}
	for _, n := range calls {
		if n != 0 {
			t.Fatalf("policy is told of %d calls before", n)
		}
	}
	for range 3 {
		if _, err := e.Do(t.Context(), echo("x")); err != nil {
			t.Fatalf("less than the burst was left: %v", err)
		}
	}
	x := explain(t, e, echo("x"))
	if x.Code != call.CodeRateLimited || x.Limits[0].Remaining != 0 || x.Limits[0].RetryMS <= 0 {
		t.Errorf("Explain = %+v", x)
	}
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(entries)
}

// When nothing can be told it is an error, of the kind that Do has.
func TestExplainCannotTell(t *testing.T) {
	var cancel func()
	p := policy(func(in *call.Input) (call.Decision, error) {
		switch {
		case strings.Contains(string(in.Args.Bytes()), "panic"):
			panic("canary-panic")
		case strings.Contains(string(in.Args.Bytes()), "leave"):
			cancel()
		}
		return allow, nil
	})
	log := &memory{}
	var operator strings.Builder
	e := open(t, engine.Options{Policy: p, Log: log, Tools: []engine.Tool{engine.External(mailManifest), (&counted{}).tool()}, MaxCalls: 1, Logger: zerolog.New(&operator)})
	want := func(name string, ctx context.Context, c call.Call, want call.Code, is error) {
		t.Helper()
		x, err := e.Explain(ctx, c)
		if x != nil || code(err) != want || !errors.Is(err, is) {
			t.Errorf("%s: Explain = %+v, %v; want %s %v", name, x, err, want, is)
		}
	}
	want("a defect", t.Context(), echo("panic"), call.CodeInternal, engine.ErrUnavailable)
	if s := operator.String(); strings.Contains(s, "canary") || !strings.Contains(s, "defect") {
		t.Errorf("the operator's log: %s", s)
	}
	ctx, stop := context.WithCancel(t.Context())
	cancel = stop
	want("the caller leaves", ctx, echo("leave"), "", context.Canceled)
	want("the caller has left", ctx, echo("x"), "", context.Canceled)

	// External tools go by the road that they would take. Their permit holds the
	// only place.
	if x := explain(t, e, mail("bob")); x.Code != call.CodeOK || x.Tool.Kind != "external" {
		t.Errorf("an external tool: %+v", x)
	}
	permit, err := e.Authorize(t.Context(), mail("bob"))
	if err != nil {
		t.Fatal(err)
	}
	late, done := context.WithTimeout(t.Context(), time.Millisecond)
	defer done()
	if _, err := e.Explain(late, echo("x")); !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a place: %v", err)
	}
	if _, err := permit.Finish(t.Context(), engine.Reported{}); err != nil {
		t.Fatal(err)
	}
	if x := explain(t, e, echo("x")); x.Code != call.CodeOK {
		t.Errorf("afterwards: %+v", x)
	}
	log.mu.Lock()
	log.fail = errors.New("disk full")
	log.mu.Unlock()
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeLogUnavailable {
		t.Fatal(err)
	}
	want("the log has failed", t.Context(), echo("x"), call.CodeLogUnavailable, engine.ErrUnavailable)
	e.Close()
	want("closed", t.Context(), echo("x"), call.CodeEngineClosed, engine.ErrUnavailable)
}

// Nobody in particular is told of nothing in particular.
func TestExplainToAStranger(t *testing.T) {
	e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}})
	c := echo("x")
	c.Principal.ID = ""
	x := explain(t, e, c)
	want := &engine.Explanation{Verdict: call.Deny, Code: call.CodePrincipalInvalid, Detail: x.Detail}
	if diff := cmp.Diff(want, x); diff != "" {
		t.Error(diff)
	}
}

const fetchPage = `
name: fetch-page
description: fetches a page
kind: host
class: read
facts: {urls: [{at: /url, method: GET}]}
input: {type: object, properties: {url: {type: string}}, required: [url], additionalProperties: false}
`

// The caller sees the arguments that policy decides on, and what is read in them.
func TestExplainFacts(t *testing.T) {
	tool := engine.Host(fetchPage, func(context.Context, *hostfx.Effects, struct {
		URL string `json:"url"`
	}) (string, error) {
		return "", nil
	})
	e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{tool}})
	fetch := func(url string) call.Call {
		return call.Call{Principal: alice, Tool: "fetch-page", Args: fmt.Appendf(nil, `{"url":%q}`, url)}
	}
	x := explain(t, e, fetch("https://API.example.com:443/%61"))
	if x.Code != call.CodeOK || string(x.Args) != `{"url":"https://api.example.com/a"}` || len(x.Facts.URLs) != 1 || x.Facts.URLs[0].Host != "api.example.com" || x.Facts.Paths != nil {
		t.Errorf("Explain = %+v", x)
	}
	c := fetch("https://api.example.com/%2e%2e/a")
	_, err := e.Do(t.Context(), c)
	if x := explain(t, e, c); x.Code != call.CodeFactsUnparsable || code(err) != x.Code || x.Facts.URLs != nil || x.Caps != nil || x.Detail == "" {
		t.Errorf("Explain = %+v, Do = %v", x, err)
	}
}
