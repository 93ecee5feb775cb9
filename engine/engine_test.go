package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

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
	if !errors.As(err, &denial) || denial.Code != call.CodeRateLimited || denial.Limited == nil || denial.Limited.Name != "few" || denial.Limited.Limit != 2 || denial.Limited.Remaining != 0 || denial.RetryAfter <= 0 {
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
	bob := echo("same")
	bob.Principal.ID = "bob"
	delegated := echo("same")
	delegated.Principal.OnBehalfOf = []call.Principal{{ID: "carol", Kind: "user"}}
	for name, c := range map[string]call.Call{"other arguments": echo("other"), "another principal": bob, "another chain": delegated} {
		if _, err := e.Do(t.Context(), c); ids[err.(*engine.Denial).ApprovalID] {
			t.Errorf("a call with %s shares the approval", name)
		}
	}
	asked := map[string]bool{} // calls that are told of a question before its record is durable carry it too
	for _, r := range log.decoded(t) {
		if r.Change != nil && r.Change.Asked != nil {
			asked[r.Change.Asked.ID] = true
		}
	}
	if len(asked) != 4 || tool.count() != 0 {
		t.Errorf("%d questions recorded, want 4; %d runs, want 0", len(asked), tool.count())
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
		{"takes too long", func(ctx context.Context, _ *hostfx.Effects, _ echoArgs) (string, error) {
			<-ctx.Done()
			return "late", nil
		}, call.CodeTimeExceeded},
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
	if !errors.As(err, &te) || te.Result.Outcome.Code != call.CodeCancelled {
		t.Fatalf("Do = %v", err)
	}
	e.Close()
	if recs := log.decoded(t); len(recs) != 2 || recs[1].Outcome.Status != call.Failed || recs[1].Code != call.CodeCancelled {
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

// A tenant without a key is refused, and recorded without digests; nobody else
// notices.
func TestNoKeyNoRun(t *testing.T) {
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Salts: noSalts{}, Tools: []engine.Tool{tool.tool()}})
	c := echo("x")
	c.Principal.Tenant = "keyless"
	if _, err := e.Do(t.Context(), c); code(err) != call.CodeStateUnavailable || tool.count() != 0 {
		t.Errorf("Do = %v, %d runs", err, tool.count())
	}
	if r := log.decoded(t)[0]; r.Code != call.CodeStateUnavailable || r.Args != "" || r.RawArgs != "" || r.Principal.Tenant != "keyless" {
		t.Errorf("record %+v", r)
	}
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
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
