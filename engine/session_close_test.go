package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// A session that its owner closed is refused from then on, before a restart and after
// one. Nobody else closes it, and closing it twice is closing it.
func TestCloseSession(t *testing.T) {
	log, clock := &memory{}, newClock()
	o := engine.Options{Policy: always(allow), Log: log, Now: clock.Now, Salts: fixedSalts{}, Tools: []engine.Tool{(&counted{}).tool()}}
	e := open(t, o)
	id, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	other, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	bob := call.Principal{ID: "bob", Kind: "user"}
	do := func(session string, want call.Code) {
		t.Helper()
		if _, err := e.Do(t.Context(), in(session, echo("x"))); code(err) != want || want == "" && err != nil {
			t.Errorf("Do = %v, want %q", err, want)
		}
	}
	end := func(who call.Principal, session string, want call.Code) {
		t.Helper()
		if err := e.CloseSession(t.Context(), who, session); code(err) != want || want == "" && err != nil {
			t.Errorf("CloseSession = %v, want %q", err, want)
		}
	}
	end(bob, id, call.CodeSessionInvalid)
	end(alice, "", call.CodeSessionInvalid)
	end(alice, "so-new", call.CodeSessionInvalid)
	end(alice, "so-\n", call.CodeSessionInvalid)
	end(alice, "s-"+engine.PrincipalDigest(alice), call.CodeSessionInvalid)
	end(call.Principal{}, id, call.CodePrincipalInvalid)
	do(id, "")
	end(alice, id, "")
	for range 2 {
		do(id, call.CodeSessionInvalid)
		if x, err := e.Explain(t.Context(), in(id, echo("x"))); err != nil || x.Code != call.CodeSessionInvalid || x.Session != "" {
			t.Errorf("Explain = %+v, %v", x, err)
		}
		end(alice, id, "")
		end(bob, id, call.CodeSessionInvalid)
		do(other, "")
		do("", "")
		e.Close()
		e = open(t, o)
	}
	clock.add(state.SessionLife)
	do(id, call.CodeSessionInvalid)
	end(alice, id, call.CodeSessionInvalid)
	e.Close()
	end(alice, id, call.CodeEngineClosed)
	var got []call.Record
	for _, r := range log.decoded(t) {
		if r.Type == call.TypeSession && r.Change.Session.Ended {
			got = append(got, r)
		}
	}
	until := newClock().Now().Add(state.SessionLife).UnixNano()
	want := &call.SessionChange{ID: id, Owner: engine.PrincipalDigest(alice), Until: until, Ended: true}
	if len(got) != 1 || got[0].Session != id || got[0].Principal.ID != "alice" || !cmp.Equal(want, got[0].Change.Session) {
		t.Errorf("recorded as %+v", got)
	}
}

// Labels are not shed by closing the session that has them: those of another stay what
// they are, and the closed one has no calls any more.
func TestCloseSessionShedsNothing(t *testing.T) {
	p := policy(func(in *call.Input) (call.Decision, error) {
		d := allow
		d.Labels = []string{"seen"}
		if len(in.Session.Labels) > 0 {
			d = call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "seen"}}}
		}
		return d, nil
	})
	e := open(t, engine.Options{Policy: p, Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}})
	id, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{id, ""} {
		if _, err := e.Do(t.Context(), in(session, echo("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.CloseSession(t.Context(), alice, id); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]call.Code{id: call.CodeSessionInvalid, "": call.CodePolicyDenied} {
		if _, err := e.Do(t.Context(), in(session, echo("x"))); code(err) != want {
			t.Errorf("in %q: %v, want %q", session, err, want)
		}
	}
}

// A call that was decided in a session that is closed meanwhile is not admitted; one that
// runs goes on, without a plan.
func TestCloseSessionMeanwhile(t *testing.T) {
	var e *engine.Engine
	var id string
	at := "decision"
	end := func(now string) {
		if at == now {
			if err := e.CloseSession(context.Background(), alice, id); err != nil {
				t.Error(err)
			}
		}
	}
	p := policy(func(*call.Input) (call.Decision, error) {
		end("decision")
		d := allow
		d.Grants = []call.RuleGrant{{Caps: call.Caps{Plan: true}}}
		return d, nil
	})
	var reads, registers error
	tool := engine.Host(planManifest, func(ctx context.Context, fx *hostfx.Effects, _ step) (string, error) {
		end("run")
		_, reads = fx.Plan(ctx)
		registers = fx.RegisterTask(ctx, call.Task{ID: "a"})
		return "ran", nil
	})
	e = open(t, engine.Options{Policy: p, Log: &memory{}, Tools: []engine.Tool{tool}})
	for _, tt := range []struct {
		at   string
		want call.Code
	}{{"decision", call.CodeSessionInvalid}, {"run", ""}} {
		var err error
		if id, err = e.OpenSession(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
		at = tt.at
		if _, err := e.Do(t.Context(), in(id, plans("read", ""))); code(err) != tt.want || tt.want == "" && err != nil {
			t.Errorf("closed during the %s: %v", at, err)
		}
	}
	if !errors.Is(reads, hostfx.ErrPlanUnavailable) || !errors.Is(registers, hostfx.ErrPlanUnavailable) {
		t.Errorf("Plan = %v, RegisterTask = %v", reads, registers)
	}
}

// A session whose time is over while a call runs has no plan for that call to change.
func TestSessionEndsMeanwhile(t *testing.T) {
	log, clock := &memory{}, newClock()
	var reads, registers error
	tool := engine.Host(planManifest, func(ctx context.Context, fx *hostfx.Effects, _ step) (string, error) {
		clock.add(state.SessionLife)
		_, reads = fx.Plan(ctx)
		registers = fx.RegisterTask(ctx, call.Task{ID: "a"})
		return "ran", nil
	})
	e := open(t, engine.Options{Policy: asPlanned, Log: log, Now: clock.Now, Tools: []engine.Tool{tool}})
	id, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Do(t.Context(), in(id, plans("read", ""))); err != nil {
		t.Fatal(err)
	}
	e.Close()
	if !errors.Is(reads, hostfx.ErrPlanUnavailable) || !errors.Is(registers, hostfx.ErrPlanUnavailable) {
		t.Errorf("Plan = %v, RegisterTask = %v", reads, registers)
	}
	for _, r := range log.decoded(t) {
		if r.Type == call.TypeOutcome && r.Change != nil {
			t.Errorf("the record changes %+v", r.Change)
		}
	}
}

// noSessions is a store that cannot tell.
type noSessions struct {
	state.Store
	apply bool // else it says nothing at all
}

func (n *noSessions) Session(ctx context.Context, id string, now time.Time) (state.Session, error) {
	if !n.apply {
		return state.Session{}, errors.New("away")
	}
	return n.Store.Session(ctx, id, now)
}

func (n *noSessions) Apply(ctx context.Context, c call.Change) error {
	if c.Session != nil && c.Session.Ended {
		return errors.New("away")
	}
	return n.Store.Apply(ctx, c)
}

// Who cannot be told that a session is closed is told that.
func TestCloseSessionUnavailable(t *testing.T) {
	log, s := &memory{}, &noSessions{Store: state.NewLocal(), apply: true}
	e := open(t, engine.Options{Policy: always(allow), Log: log, State: s, Tools: []engine.Tool{(&counted{}).tool()}})
	id, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	for _, apply := range []bool{true, false} {
		s.apply = apply
		if err := e.CloseSession(t.Context(), alice, id); code(err) != call.CodeStateUnavailable {
			t.Errorf("CloseSession = %v", err)
		}
	}
	if n := len(log.decoded(t)); n != 1 {
		t.Errorf("%d records, want the one that opened it", n)
	}
	e = open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	log.mu.Lock()
	log.fail = errors.New("disk full")
	log.mu.Unlock()
	if err := e.CloseSession(t.Context(), alice, id); code(err) != call.CodeLogUnavailable {
		t.Errorf("CloseSession = %v", err)
	}
}
