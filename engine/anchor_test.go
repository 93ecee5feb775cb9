package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

// alone is a log that no witness answers for.
type alone struct{ *memory }

func (alone) Hold(context.Context, int64) error { return errors.New("canary of the operator") }

// holding is a log whose Hold is a function.
type holding struct {
	*memory
	hold func(ctx context.Context, index int64) error
}

func (h holding) Hold(ctx context.Context, index int64) error { return h.hold(ctx, index) }

// Whichever way a grant would leave the engine: without a witness there is none, the
// limits have back what the call took, and both records say so.
func TestNothingRunsUnwitnessed(t *testing.T) {
	external := engine.External(mailManifest)
	mail := call.Call{Principal: alice, Tool: "mail", Args: []byte(`{"to":"bob"}`)}
	ways := map[string]func(e *engine.Engine) error{
		"do":        func(e *engine.Engine) error { _, err := e.Do(t.Context(), echo("x")); return err },
		"authorize": func(e *engine.Engine) error { _, err := e.Authorize(t.Context(), mail); return err },
		"issue":     func(e *engine.Engine) error { _, err := e.Issue(t.Context(), echo("x"), "runner"); return err },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tool, log := &counted{}, &memory{}
			var operator strings.Builder
			o := engine.Options{
				Policy: charging(quota("q", 1, 1)), Log: alone{log}, Tools: []engine.Tool{tool.tool(), external}, Grants: issuing(t), Salts: fixedSalts{},
				Logger: zerolog.New(&operator),
			}
			e := open(t, o)
			for range 2 { // the second one would be over the limit
				err := way(e)
				if code(err) != call.CodeWitnessUnavailable || !errors.Is(err, engine.ErrUnavailable) || strings.Contains(err.Error(), "canary") {
					t.Fatalf("%v", err)
				}
			}
			e.Close()
			if tool.count() != 0 {
				t.Error("the tool ran")
			}
			if !strings.Contains(operator.String(), "canary") {
				t.Errorf("the operator is not told why: %s", operator.String())
			}
			recs := log.decoded(t)
			if len(recs) != 4 {
				t.Fatalf("%d records", len(recs))
			}
			for _, r := range recs {
				allowed := r.Type == call.TypeDecision && r.Verdict == call.Allow
				if !allowed && (r.Code != call.CodeWitnessUnavailable || r.Outcome.Status != call.NotStarted) {
					t.Errorf("record %+v", r)
				}
			}
			o.Log = log // and what is folded from it says the same
			e = open(t, o)
			if err := way(e); err != nil {
				t.Errorf("with witnesses again: %v", err)
			}
		})
	}
}

// A grant of another engine is held by the log of the one who runs it.
func TestExecutorIsHeld(t *testing.T) {
	h := apart(t, func(_, r *engine.Options) { r.Log = alone{r.Log.(*memory)} })
	c := echo("x")
	raw := h.issue(c)
	h.refused(raw, c, call.CodeWitnessUnavailable)
	h.refused(raw, c, call.CodeGrantSpent)
}

// Hold is asked once for each call that is allowed, about its own decision, when that
// is durable and before anything runs.
func TestHoldIsBetweenRecordAndRun(t *testing.T) {
	tool, log := &counted{}, &memory{}
	var asked []int64
	hold := func(_ context.Context, index int64) error {
		asked = append(asked, index)
		if r := log.decoded(t)[index]; r.Type != call.TypeDecision || r.Verdict != call.Allow || tool.count() != len(asked)-1 {
			t.Errorf("held by %+v after %d runs", r, tool.count())
		}
		return nil
	}
	e := open(t, engine.Options{Policy: always(allow), Log: holding{log, hold}, Tools: []engine.Tool{tool.tool()}})
	for range 3 {
		if res, err := e.Do(t.Context(), echo("x")); err != nil || res.Receipt.Index != asked[len(asked)-1] {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if _, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "nothing"}); code(err) != call.CodeToolUnknown || len(asked) != 3 || tool.count() != 3 {
		t.Errorf("%v; held %v, ran %d times", err, asked, tool.count())
	}
}

// Whoever goes away is not waited for, and Close waits for nobody's witness. A Hold that
// breaks is a refusal.
func TestHoldEnds(t *testing.T) {
	waiting := make(chan struct{})
	wait := func(ctx context.Context, _ int64) error {
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	}
	for name, tt := range map[string]struct {
		hold func(context.Context, int64) error
		end  func(e *engine.Engine, cancel context.CancelFunc)
		want call.Code
	}{
		"the caller goes away":  {wait, func(_ *engine.Engine, cancel context.CancelFunc) { <-waiting; cancel() }, call.CodeWitnessUnavailable},
		"the engine is closed":  {wait, func(e *engine.Engine, _ context.CancelFunc) { <-waiting; e.Close() }, call.CodeWitnessUnavailable},
		"it panics":             {func(context.Context, int64) error { panic("canary") }, func(*engine.Engine, context.CancelFunc) {}, call.CodeWitnessUnavailable},
		"it returns without it": {func(context.Context, int64) error { return context.DeadlineExceeded }, func(*engine.Engine, context.CancelFunc) {}, call.CodeWitnessUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			waiting = make(chan struct{})
			tool := &counted{}
			e := open(t, engine.Options{Policy: always(allow), Log: holding{&memory{}, tt.hold}, Tools: []engine.Tool{tool.tool()}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan error, 1)
			go func() {
				_, err := e.Do(ctx, echo("x"))
				got <- err
			}()
			tt.end(e, cancel)
			if err := <-got; code(err) != tt.want || tool.count() != 0 {
				t.Errorf("%v after %d runs, want %s", err, tool.count(), tt.want)
			}
		})
	}
}

// What a log writes of itself is nothing that an engine takes for its own.
func TestAliveRecordsChangeNothing(t *testing.T) {
	alive, err := call.Record{Type: call.TypeAlive, Time: newClock().Now(), Node: "n"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	log, tool := &memory{}, &counted{}
	o := engine.Options{Policy: charging(call.Limit{Name: "l", Burst: 2, Per: "24h", Cost: 1}), Log: log, Tools: []engine.Tool{tool.tool()}, Salts: fixedSalts{}}
	for range 2 {
		if _, err := log.Append(t.Context(), alive); err != nil {
			t.Fatal(err)
		}
		e := open(t, o)
		if _, err := e.Do(t.Context(), echo("x")); err != nil {
			t.Fatal(err)
		}
		e.Close()
	}
	e := open(t, o)
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeRateLimited || len(log.decoded(t)) != 7 {
		t.Errorf("%v; %d records", err, len(log.decoded(t)))
	}
}
