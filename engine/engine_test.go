package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/guests"
)

// policy decides with a function.
type policy func(*call.Input) (call.Decision, error)

func (p policy) Decide(_ context.Context, in *call.Input) (call.Decision, error) { return p(in) }

func always(d call.Decision) policy {
	return func(*call.Input) (call.Decision, error) { return d, nil }
}

var allow = call.Decision{Verdict: call.Allow, Revisions: []call.Revision{{Name: "test", Digest: "sha256:0"}}}

// memory is a log that can be told to fail.
type memory struct {
	mu      sync.Mutex
	records [][]byte
	fail    error
	panics  bool
}

func (m *memory) Append(_ context.Context, rec []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.panics {
		panic("log: secret in a panic")
	}
	if m.fail != nil {
		return -1, m.fail
	}
	m.records = append(m.records, rec)
	return int64(len(m.records) - 1), nil
}

func (m *memory) Replay(_ context.Context, yield func(int64, []byte) error) error {
	for i, r := range m.records {
		if err := yield(int64(i), r); err != nil {
			return err
		}
	}
	return nil
}

// decoded returns every record so far.
func (m *memory) decoded(t testing.TB) []call.Record {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]call.Record, len(m.records))
	for i, line := range m.records {
		r, err := call.DecodeRecord(line)
		if err != nil {
			t.Fatalf("record %d: %v\n%s", i, err, line)
		}
		out[i] = r
	}
	return out
}

const echoManifest = `
name: echo
description: gives its text back
kind: host
class: read
input:
  type: object
  properties:
    text: {type: string}
    n: {type: number}
  additionalProperties: false
caps:
  bounds: {timeout_ms: 5000, output_bytes: 1000}
`

type echoArgs struct {
	Text string  `json:"text"`
	N    float64 `json:"n"`
}

// tool is a host tool that counts its runs.
type counted struct {
	mu   sync.Mutex
	runs int
	fn   func(context.Context, *hostfx.Effects, echoArgs) (string, error)
}

func (c *counted) tool() engine.Tool {
	return engine.Host(echoManifest, func(ctx context.Context, fx *hostfx.Effects, in echoArgs) (string, error) {
		c.mu.Lock()
		c.runs++
		c.mu.Unlock()
		if c.fn != nil {
			return c.fn(ctx, fx, in)
		}
		return in.Text, nil
	})
}

func (c *counted) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.runs }

var alice = call.Principal{ID: "alice", Kind: "user", Roles: []string{"analyst"}, Auth: call.Auth{Method: "asserted"}}

func echo(text string) call.Call {
	return call.Call{Principal: alice, Tool: "echo", Args: fmt.Appendf(nil, `{"text":%q}`, text)}
}

func open(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	if o.DecideTimeout == 0 {
		o.DecideTimeout = time.Minute
	}
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestAllowed(t *testing.T) {
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{tool.tool()}})
	res, err := e.Do(t.Context(), echo("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Output) != `"hello"` || res.Outcome.Code != call.CodeOK {
		t.Errorf("Do = %s, %s", res.Output, res.Outcome.Code)
	}
	e.Close()
	recs := log.decoded(t)
	if len(recs) != 2 {
		t.Fatalf("%d records, want a decision and an outcome", len(recs))
	}
	d, o := recs[0], recs[1]
	if d.Type != call.TypeDecision || d.Verdict != call.Allow || d.Code != "" || d.Call != res.CallID || d.Caps == nil {
		t.Errorf("decision record %+v", d)
	}
	if o.Type != call.TypeOutcome || o.Code != call.CodeOK || *o.Decision != res.Receipt.Index || o.Outcome.Status != call.Succeeded {
		t.Errorf("outcome record %+v", o)
	}
}

// Every way in which the road refuses a call: the code, the class, the record,
// and nothing that ran.
func TestRefusals(t *testing.T) {
	deny := call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "not_you", Message: "no", Rule: "r"}, {Code: "inner", Hidden: true}}}
	ask := call.Decision{Verdict: call.Ask, Approvals: []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}}}
	boom := errors.New("boom")
	failing := func(err error) policy {
		return func(*call.Input) (call.Decision, error) { return call.Decision{}, err }
	}
	with := func(d call.Decision, change func(*call.Decision)) policy {
		change(&d)
		return always(d)
	}
	tests := []struct {
		name   string
		policy policy // nil: allow
		state  state.Store
		change func(*call.Call)
		want   call.Code
		is     error
	}{
		{name: "nobody", change: func(c *call.Call) { c.Principal = call.Principal{} }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "a kind nobody knows", change: func(c *call.Call) { c.Principal.Kind = "root" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "an id with a line break", change: func(c *call.Call) { c.Principal.ID = "a\nb" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "an id that is not text", change: func(c *call.Call) { c.Principal.ID = "\xff" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "a nested chain", change: func(c *call.Call) {
			c.Principal.OnBehalfOf = []call.Principal{{ID: "b", Kind: "user", OnBehalfOf: []call.Principal{alice}}}
		}, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "claims that are not JSON", change: func(c *call.Call) { c.Principal.Claims = map[string]jsontext.Value{"x": []byte("{")} }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "too large", change: func(c *call.Call) { c.Args = []byte(`{"text":"` + strings.Repeat("x", call.MaxArgsBytes) + `"}`) }, want: call.CodeArgsTooLarge, is: engine.ErrDenied},
		{name: "duplicate keys", change: func(c *call.Call) { c.Args = []byte(`{"text":"a","text":"b"}`) }, want: call.CodeArgsInvalid, is: engine.ErrDenied},
		{name: "not JSON", change: func(c *call.Call) { c.Args = []byte(`hello`) }, want: call.CodeArgsInvalid, is: engine.ErrDenied},
		{name: "not an object", change: func(c *call.Call) { c.Args = []byte(`[]`) }, want: call.CodeArgsInvalid, is: engine.ErrDenied},
		{name: "a number that no float64 holds", change: func(c *call.Call) { c.Args = []byte(`{"n":9007199254740993}`) }, want: call.CodeArgsInexact, is: engine.ErrDenied},
		{name: "asserted is no object", change: func(c *call.Call) { c.Asserted = []byte(`7`) }, want: call.CodeAssertedInvalid, is: engine.ErrDenied},
		{name: "asserted with another key", change: func(c *call.Call) { c.Asserted = []byte(`{"role":"admin"}`) }, want: call.CodeAssertedInvalid, is: engine.ErrDenied},
		{name: "an unknown tool", change: func(c *call.Call) { c.Tool = "rm" }, want: call.CodeToolUnknown, is: engine.ErrDenied},
		{name: "a schema violation", change: func(c *call.Call) { c.Args = []byte(`{"text":7}`) }, want: call.CodeArgsSchema, is: engine.ErrDenied},
		{name: "an argument the schema does not know", change: func(c *call.Call) { c.Args = []byte(`{"more":1}`) }, want: call.CodeArgsSchema, is: engine.ErrDenied},

		{name: "denied", policy: always(deny), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "the zero decision", policy: always(call.Decision{}), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "pass is no permit", policy: always(call.Decision{Verdict: call.Pass}), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "a verdict nobody knows", policy: always(call.Decision{Verdict: "ALLOW"}), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "policy fails", policy: failing(boom), want: call.CodePolicyError, is: engine.ErrUnavailable},
		{name: "policy has no answer", policy: failing(&call.Error{Code: call.CodePolicyUndefined}), want: call.CodePolicyUndefined, is: engine.ErrUnavailable},
		{name: "policy panics", policy: func(*call.Input) (call.Decision, error) { panic("canary-panic") }, want: call.CodeInternal, is: engine.ErrUnavailable},
		{name: "allowed yet asking", policy: with(ask, func(d *call.Decision) { d.Verdict = call.Allow }), want: call.CodePolicyShape, is: engine.ErrUnavailable},
		{name: "asking for nothing", policy: always(call.Decision{Verdict: call.Ask}), want: call.CodePolicyShape, is: engine.ErrUnavailable},
		{name: "a limit without a time", policy: with(allow, func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: 1, Per: "soon"}} }), want: call.CodePolicyShape, is: engine.ErrUnavailable},
		{name: "an obligation nobody can honour", policy: with(allow, func(d *call.Decision) { d.Redact = jsontext.Value(`[]`) }), want: call.CodeObligationUnsupported, is: engine.ErrUnavailable},
		{name: "a result label nobody can add", policy: with(allow, func(d *call.Decision) { d.ResultLabels = []string{"x"} }), want: call.CodeObligationUnsupported, is: engine.ErrUnavailable},

		{name: "an approval is needed", policy: always(ask), want: call.CodeRequiresApproval, is: engine.ErrPending},
		{name: "over the limit", policy: with(allow, func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: 1, Cost: 2, Per: "1m"}} }), want: call.CodeRateLimited, is: engine.ErrDenied},
		{name: "the session keeps changing", state: brokenState{err: state.ErrSessionChanged}, want: call.CodeSessionChanged, is: engine.ErrUnavailable},
		{name: "the state cannot tell", state: brokenState{err: boom}, want: call.CodeStateUnavailable, is: engine.ErrUnavailable},
		{name: "the state says nothing", state: brokenState{}, want: call.CodeStateUnavailable, is: engine.ErrUnavailable},
		{name: "the session cannot be read", state: brokenState{sessionErr: boom}, want: call.CodeStateUnavailable, is: engine.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, tool := &memory{}, &counted{}
			if tt.policy == nil {
				tt.policy = always(allow)
			}
			e := open(t, engine.Options{Policy: tt.policy, State: tt.state, Log: log, Tools: []engine.Tool{tool.tool()}})
			c := echo("canary-argument")
			if tt.change != nil {
				tt.change(&c)
			}
			res, err := e.Do(t.Context(), c)
			var d *engine.Denial
			if res != nil || !errors.As(err, &d) {
				t.Fatalf("Do = %v, %v, want a denial", res, err)
			}
			if d.Code != tt.want || !errors.Is(err, tt.is) {
				t.Errorf("code %s, %v; want %s, %v", d.Code, err, tt.want, tt.is)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "inner") {
				t.Errorf("the error says too much: %v", err)
			}
			if n := tool.count(); n != 0 {
				t.Errorf("the tool ran %d times", n)
			}
			recs := log.decoded(t)
			if len(recs) != 1 || recs[0].Type != call.TypeDecision || recs[0].Code != tt.want || recs[0].Call != d.CallID || recs[0].Verdict == call.Allow {
				t.Fatalf("records %+v, want one refusal with code %s", recs, tt.want)
			}
			if d.Receipt.Index != 0 {
				t.Errorf("receipt %d, want 0", d.Receipt.Index)
			}
			if c := recs[0].Change; c != nil && len(c.TATs) > 0 {
				t.Errorf("the refused call was charged: %+v", c)
			}
			for _, line := range log.records {
				if strings.Contains(string(line), "canary") {
					t.Errorf("the record holds arguments or free text: %s", line)
				}
			}
		})
	}
}

// brokenState cannot tell, or says nothing.
type brokenState struct{ err, sessionErr error }

func (b brokenState) Session(context.Context, string) (call.Session, error) {
	return call.Session{}, b.sessionErr
}
func (b brokenState) Admit(context.Context, state.Admission) (state.Answer, error) {
	return state.Answer{}, b.err
}
func (b brokenState) Settle(string) {}

func TestReasonsWithoutHiddenOnes(t *testing.T) {
	d := call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "shown", Message: "why"}, {Code: "inner", Hidden: true}}}
	log := &memory{}
	e := open(t, engine.Options{Policy: always(d), Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	_, err := e.Do(t.Context(), echo("x"))
	if want := "echo: policy_denied: policy says no (shown: why)"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	// The operator sees both in the record, without the text.
	if r := log.decoded(t)[0].Reasons; len(r) != 2 || r[1].Code != "inner" {
		t.Errorf("recorded reasons %+v", r)
	}
}

func TestLimitsAcrossCalls(t *testing.T) {
	d := allow
	d.Limits = []call.Limit{{Name: "few", Key: "alice", Burst: 2, Per: "1h"}}
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(d), Log: log, Tools: []engine.Tool{tool.tool()}})
	for range 2 {
		if _, err := e.Do(t.Context(), echo("x")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := e.Do(t.Context(), echo("x"))
	var denial *engine.Denial
	if !errors.As(err, &denial) || denial.Code != call.CodeRateLimited || denial.Limit != "few" || denial.RetryAfter <= 0 {
		t.Fatalf("third call: %+v", err)
	}
	if tool.count() != 2 {
		t.Errorf("ran %d times, want 2", tool.count())
	}
}

func TestOneQuestionForOneCall(t *testing.T) {
	ask := call.Decision{Verdict: call.Ask, Approvals: []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}}}
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(ask), Log: log, Tools: []engine.Tool{tool.tool()}})
	ids := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			_, err := e.Do(t.Context(), echo("same"))
			var d *engine.Denial
			if errors.As(err, &d) {
				mu.Lock()
				ids[d.ApprovalID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || ids[""] {
		t.Errorf("64 identical calls made the approvals %v, want one", ids)
	}
	if _, err := e.Do(t.Context(), echo("other")); err != nil {
		if d := err.(*engine.Denial); ids[d.ApprovalID] {
			t.Error("a call with other arguments shares the approval")
		}
	}
	asked := 0
	for _, r := range log.decoded(t) {
		if r.Change != nil && r.Change.Asked != nil {
			asked++
		}
	}
	if asked != 2 || tool.count() != 0 {
		t.Errorf("%d questions recorded, want 2; %d runs, want 0", asked, tool.count())
	}
}

// Everybody on whose behalf a call is made must be allowed it, and gets no more
// than all of them may.
func TestOnBehalfOf(t *testing.T) {
	byID := policy(func(in *call.Input) (call.Decision, error) {
		d := allow
		if in.Principal.ID == "mallory" {
			d = call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "not_mallory"}}}
		}
		d.Grants = []call.RuleGrant{{Caps: call.Caps{Log: in.Principal.ID == "alice", Bounds: call.Bounds{TimeoutMS: map[string]int64{"alice": 900, "bob": 400}[in.Principal.ID]}}}}
		return d, nil
	})
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: byID, Log: log, Tools: []engine.Tool{tool.tool()}})
	for _, tt := range []struct {
		behalf string
		ok     bool
	}{{"bob", true}, {"mallory", false}} {
		c := echo("x")
		c.Principal.OnBehalfOf = []call.Principal{{ID: tt.behalf, Kind: "user"}}
		_, err := e.Do(t.Context(), c)
		if (err == nil) != tt.ok {
			t.Errorf("on behalf of %s: %v", tt.behalf, err)
		}
	}
	r := log.decoded(t)[0]
	if r.Caps.Log || r.Caps.Bounds.TimeoutMS != 400 || r.Principal.OnBehalfOf[0].ID != "bob" {
		t.Errorf("recorded caps %+v for %+v", r.Caps, r.Principal)
	}
}

func TestToolFailures(t *testing.T) {
	tests := []struct {
		name string
		fn   func(context.Context, *hostfx.Effects, echoArgs) (string, error)
		want call.Code
	}{
		{"reports an error", func(context.Context, *hostfx.Effects, echoArgs) (string, error) {
			return "", errors.New("no such thing")
		}, call.CodeToolError},
		{"panics", func(context.Context, *hostfx.Effects, echoArgs) (string, error) { panic("canary") }, call.CodeInternal},
		{"says too much", func(context.Context, *hostfx.Effects, echoArgs) (string, error) {
			return strings.Repeat("x", 1000), nil
		}, call.CodeOutputExceeded},
		{"takes too long", func(ctx context.Context, _ *hostfx.Effects, _ echoArgs) (string, error) { <-ctx.Done(); select {} }, call.CodeTimeExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := allow
			d.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{TimeoutMS: 100}}}}
			log := &memory{}
			e := open(t, engine.Options{Policy: always(d), Log: log, Tools: []engine.Tool{(&counted{fn: tt.fn}).tool()}})
			res, err := e.Do(t.Context(), echo("x"))
			var te *engine.ToolError
			if res != nil || !errors.As(err, &te) || !errors.Is(err, engine.ErrTool) || te.Result.Outcome.Code != tt.want {
				t.Fatalf("Do = %v, %v; want a tool error with %s", res, err, tt.want)
			}
			if te.Result.Output != nil {
				t.Errorf("half an answer came back: %.20s", te.Result.Output)
			}
			e.Close()
			recs := log.decoded(t)
			if len(recs) != 2 || recs[1].Code != tt.want || recs[1].Outcome.Status != call.Failed {
				t.Errorf("records %+v", recs)
			}
		})
	}
}

func TestCallerGoesAway(t *testing.T) {
	log := &memory{}
	started := make(chan struct{})
	tool := &counted{fn: func(ctx context.Context, _ *hostfx.Effects, _ echoArgs) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	}}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{tool.tool()}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	_, err := e.Do(ctx, echo("x"))
	var te *engine.ToolError
	if !errors.As(err, &te) {
		t.Fatalf("Do = %v", err)
	}
	e.Close()
	if recs := log.decoded(t); len(recs) != 2 || recs[1].Outcome.Status != call.Failed {
		t.Errorf("records %+v, want the outcome too", recs)
	}
}

// A log that cannot be written stops the engine: nothing runs, nothing is
// answered with a receipt, and what is durable is the truth after reopening.
func TestLogFails(t *testing.T) {
	d := allow
	d.Limits = []call.Limit{{Name: "few", Key: "k", Burst: 2, Per: "1h"}}
	for _, panics := range []bool{false, true} {
		log, tool := &memory{}, &counted{}
		o := engine.Options{Policy: always(d), Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{tool.tool()}}
		e := open(t, o)
		if _, err := e.Do(t.Context(), echo("x")); err != nil {
			t.Fatal(err)
		}
		e.Close()
		e = open(t, o)
		log.fail, log.panics = errors.New("disk full"), panics
		for _, c := range []call.Call{echo("x"), {Principal: alice, Tool: "nothing"}} {
			_, err := e.Do(t.Context(), c)
			var denial *engine.Denial
			if !errors.As(err, &denial) || denial.Code != call.CodeLogUnavailable || denial.Receipt.Index != -1 || !errors.Is(err, engine.ErrUnavailable) {
				t.Fatalf("Do with a broken log = %v", err)
			}
		}
		if tool.count() != 1 {
			t.Errorf("%d runs, want only the recorded one", tool.count())
		}
		e.Close()

		// The lost decision charged nothing that lasts: one unit is left.
		log.fail, log.panics = nil, false
		e = open(t, o)
		if _, err := e.Do(t.Context(), echo("x")); err != nil {
			t.Errorf("after reopening: %v", err)
		}
		if _, err := e.Do(t.Context(), echo("x")); !errors.Is(err, engine.ErrDenied) {
			t.Errorf("the recorded charges are gone: %v", err)
		}
		e.Close()
	}
}

// fixedSalts is one key that survives reopening.
type fixedSalts struct{}

func (fixedSalts) Key(string, time.Time) ([32]byte, error) { return [32]byte{1}, nil }

type noSalts struct{}

func (noSalts) Key(string, time.Time) ([32]byte, error) { return [32]byte{}, errors.New("no key") }

func TestNoKeyNoRun(t *testing.T) {
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Salts: noSalts{}, Tools: []engine.Tool{tool.tool()}})
	_, err := e.Do(t.Context(), echo("x"))
	if d := err.(*engine.Denial); d.Code != call.CodeLogUnavailable || tool.count() != 0 || len(log.records) != 0 {
		t.Errorf("Do = %v, %d runs, %d records", err, tool.count(), len(log.records))
	}
}

func TestUnfinishedAfterACrash(t *testing.T) {
	log := &memory{}
	o := engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{(&counted{}).tool()}}
	e := open(t, o)
	res, err := e.Do(t.Context(), echo("x"))
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	log.records = log.records[:1] // the process died before the outcome
	open(t, o).Close()
	recs := log.decoded(t)
	if len(recs) != 2 || recs[1].Code != call.CodeUnfinished || *recs[1].Decision != res.Receipt.Index || recs[1].Call != res.CallID {
		t.Fatalf("records %+v, want an unfinished outcome", recs)
	}
	open(t, o).Close()
	if n := len(log.records); n != 2 {
		t.Errorf("%d records after another opening, want 2", n)
	}
}

func TestClosedAndOverloaded(t *testing.T) {
	log := &memory{}
	hold, held := make(chan struct{}), make(chan struct{})
	tool := &counted{fn: func(context.Context, *hostfx.Effects, echoArgs) (string, error) { close(held); <-hold; return "", nil }}
	e := open(t, engine.Options{Policy: always(allow), Log: log, MaxCalls: 1, Tools: []engine.Tool{tool.tool()}})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := e.Do(context.Background(), echo("x")); err != nil {
			t.Error(err)
		}
	})
	<-held
	if _, err := e.Do(t.Context(), echo("x")); err.(*engine.Denial).Code != call.CodeOverloaded {
		t.Errorf("second call: %v", err)
	}
	close(hold)
	wg.Wait()
	e.Close()
	if _, err := e.Do(t.Context(), echo("x")); err.(*engine.Denial).Code != call.CodeEngineClosed {
		t.Errorf("after Close: %v", err)
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := engine.New(engine.Options{})
	for _, want := range []string{"Policy is nil", "Log is nil", "Tools is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want it to say %q", err, want)
		}
	}
	two := (&counted{}).tool()
	_, err = engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{two, two}})
	if err == nil || !strings.Contains(err.Error(), "two tools are named echo") {
		t.Errorf("New with two equal tools = %v", err)
	}
	_, err = engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{two}, Ceiling: &call.Caps{Bounds: call.Bounds{TimeoutMS: 1000}}})
	if err == nil || !strings.Contains(err.Error(), "echo") {
		t.Errorf("New with a tool over the ceiling = %v", err)
	}
}

// A host tool that outlives its call has nothing left to do anything with.
func TestEffectsDieWithTheCall(t *testing.T) {
	var kept *hostfx.Effects
	tool := &counted{fn: func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) { kept = fx; return "", nil }}
	e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{tool.tool()}})
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	if g := kept.Grant(); g.Live() {
		t.Error("the grant outlives its call")
	}
	if _, err := kept.ReadFile("/docs/x"); err == nil {
		t.Error("a dead grant reads")
	}
}

// digest is the pin of the tool.
func (c *counted) digest(t testing.TB) string {
	t.Helper()
	m, err := tool.Parse([]byte(echoManifest))
	if err != nil {
		t.Fatal(err)
	}
	return m.Digest()
}

// guestTool writes the directory of a wasm tool around one of our guests.
func guestTool(t testing.TB, name, input string) (dir string) {
	t.Helper()
	module, err := guests.Module(name)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	manifest := fmt.Sprintf("name: %s\ndescription: a guest\nkind: wasm\nclass: read\nmodule: m.wasm\nsha256: %q\ninput: %s\n",
		name, strings.TrimPrefix(call.Digest(module), "sha256:"), input)
	for file, b := range map[string][]byte{"tool.yaml": []byte(manifest), "m.wasm": module} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
