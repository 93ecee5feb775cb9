package engine_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// operatorsLog is a log that goroutines write to.
type operatorsLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *operatorsLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *operatorsLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A tool that ignores its context is left to itself, whatever ended the call: that is
// an outcome of its own, its effects are dead, and it counts until it ends. The bubble
// fails if any goroutine is left behind.
func TestAbandoned(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context, e *engine.Engine, started <-chan struct{}) error
	}{
		{"its time is over", func(ctx context.Context, e *engine.Engine, _ <-chan struct{}) error {
			_, err := e.Do(ctx, echo("x"))
			return err
		}},
		{"the caller went away", func(ctx context.Context, e *engine.Engine, started <-chan struct{}) error {
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-started; cancel() }()
			_, err := e.Do(ctx, echo("x"))
			return err
		}},
		{"the engine closes", func(ctx context.Context, e *engine.Engine, started <-chan struct{}) error {
			go func() { <-started; e.Close() }()
			_, err := e.Do(ctx, echo("x"))
			return err
		}},
	} {
		for _, end := range []struct {
			name string
			fn   func()
		}{{"returns", func() {}}, {"panics", func() { panic("canary") }}, {"ends its goroutine", runtime.Goexit}} {
			t.Run(tt.name+", then it "+end.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var said operatorsLog
					var late error
					started, hold := make(chan struct{}), make(chan struct{})
					tool := &counted{fn: func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
						close(started)
						<-hold
						late = fx.Log("canary")
						end.fn()
						return "canary", nil
					}}
					log := &memory{}
					e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{tool.tool()}, Logger: zerolog.New(&said)})
					if got := outcomeOf(tt.do(t.Context(), e, started)).Code; got != call.CodeAbandoned {
						t.Errorf("the outcome is %s", got)
					}
					if n := e.Abandoned(); n != 1 {
						t.Errorf("%d abandoned", n)
					}
					if !strings.Contains(said.String(), `"tool":"echo","abandoned":1,"message":"tool abandoned`) {
						t.Errorf("the log says %s", said.String())
					}
					e.Close() // it does not wait for the tool
					close(hold)
					synctest.Wait()
					if n := e.Abandoned(); n != 0 || !errors.Is(late, hostfx.ErrClosed) {
						t.Errorf("afterwards: %d abandoned, its effects say %v", n, late)
					}
					recs := log.decoded(t)
					if len(recs) != 2 || recs[1].Code != call.CodeAbandoned || recs[1].Outcome.Status != call.Failed || len(recs[1].Outcome.Effects) > 0 {
						t.Errorf("records %+v", recs)
					}
					if s := said.String(); !strings.Contains(s, `"abandoned":0,"message":"abandoned tool ended"`) || strings.Contains(s, "canary") || strings.Contains(s, `"panic":"string"`) != (end.name == "panics") {
						t.Errorf("the log says %s", s)
					}
				})
			})
		}
	}
}

// stubborn is an error whose text takes its time.
type stubborn struct{ hold chan struct{} }

func (s stubborn) Error() string { <-s.hold; return "canary" }

// The methods of what a tool returns are the tool as well: nobody waits for them, and a
// panic in them is one of the tool's.
func TestErrorsOfToolsAreAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		tool := &counted{fn: func(context.Context, *hostfx.Effects, echoArgs) (string, error) { return "", stubborn{hold} }}
		e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{tool.tool()}})
		if _, err := e.Do(t.Context(), echo("x")); outcomeOf(err).Code != call.CodeAbandoned || e.Abandoned() != 1 {
			t.Errorf("Do = %v, %d abandoned", err, e.Abandoned())
		}
		close(hold)
		synctest.Wait()
		if _, err := e.Do(t.Context(), echo("x")); outcomeOf(err).Code != call.CodeToolError || e.Abandoned() != 0 {
			t.Errorf("Do = %v, %d abandoned", err, e.Abandoned())
		}
		tool.fn = func(context.Context, *hostfx.Effects, echoArgs) (string, error) { return "", (*nobody)(nil) }
		if _, err := e.Do(t.Context(), echo("x")); outcomeOf(err).Code != call.CodeInternal {
			t.Errorf("Do = %v", err)
		}
		e.Close()
	})
}

// nobody is an error that panics when it is nil.
type nobody struct{ text string }

func (n *nobody) Error() string { return n.text }

// A tool that minds its context is stopped, not abandoned, and has no effects from then
// on either.
func TestStoppedIsNotAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late error
		tool := &counted{fn: func(ctx context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
			<-ctx.Done()
			synctest.Wait() // until nobody does anything but wait for this
			late = fx.Log("late")
			return "late", nil
		}}
		e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{tool.tool()}})
		if _, err := e.Do(t.Context(), echo("x")); outcomeOf(err).Code != call.CodeTimeExceeded {
			t.Errorf("Do = %v", err)
		}
		if e.Abandoned() != 0 || !errors.Is(late, hostfx.ErrClosed) {
			t.Errorf("%d abandoned, its effects say %v", e.Abandoned(), late)
		}
		e.Close()
	})
}

// A tool with too many abandoned runs is refused before policy is asked; others are
// not, and it runs again once one of them ends.
func TestAbandonedAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var free atomic.Bool
		stuck := &counted{fn: func(context.Context, *hostfx.Effects, echoArgs) (string, error) {
			if !free.Load() {
				<-hold
			}
			return "ran", nil
		}}
		other := engine.Host(strings.Replace(echoManifest, "name: echo", "name: other", 1), func(context.Context, *hostfx.Effects, echoArgs) (string, error) { return "ran", nil })
		var asked []string
		decides := policy(func(in *call.Input) (call.Decision, error) { asked = append(asked, in.Tool.Name); return allow, nil })
		log := &memory{}
		e := open(t, engine.Options{Policy: decides, Log: log, MaxAbandoned: 2, Tools: []engine.Tool{stuck.tool(), other}})
		for range 2 {
			if _, err := e.Do(t.Context(), echo("x")); outcomeOf(err).Code != call.CodeAbandoned {
				t.Fatalf("Do = %v", err)
			}
		}
		_, err := e.Do(t.Context(), echo("x"))
		d, ok := errors.AsType[*engine.Denial](err)
		if !ok || d.Code != call.CodeToolStuck || !errors.Is(err, engine.ErrUnavailable) || stuck.count() != 2 {
			t.Errorf("Do = %v after %d runs", err, stuck.count())
		}
		if x, err := e.Explain(t.Context(), echo("x")); err != nil || x.Code != call.CodeToolStuck {
			t.Errorf("Explain = %+v, %v", x, err)
		}
		c := echo("x")
		c.Tool = "other"
		if _, err := e.Do(t.Context(), c); err != nil {
			t.Errorf("another tool: %v", err)
		}
		if !slices.Equal(asked, []string{"echo", "echo", "other"}) {
			t.Errorf("policy was asked about %v", asked)
		}
		refused := slices.DeleteFunc(log.decoded(t), func(r call.Record) bool { return r.Type != call.TypeDecision || r.Verdict == call.Allow })
		if len(refused) != 1 || refused[0].Code != call.CodeToolStuck {
			t.Errorf("refusals %+v", refused)
		}
		free.Store(true)
		hold <- struct{}{}
		synctest.Wait()
		if _, err := e.Do(t.Context(), echo("x")); err != nil || e.Abandoned() != 1 {
			t.Errorf("after one ended: %v, %d abandoned", err, e.Abandoned())
		}
		close(hold)
		synctest.Wait()
		e.Close()
	})
}

// What runs elsewhere is issued however the tool here is.
func TestStuckToolsAreIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		tool := &counted{fn: func(context.Context, *hostfx.Effects, echoArgs) (string, error) { <-hold; return "", nil }}
		e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, MaxAbandoned: 1, Tools: []engine.Tool{tool.tool()}, Grants: issuing(t)})
		if _, err := e.Do(t.Context(), echo("x")); outcomeOf(err).Code != call.CodeAbandoned {
			t.Errorf("Do = %v", err)
		}
		if _, err := e.Issue(t.Context(), echo("x"), "runner"); err != nil {
			t.Errorf("Issue = %v", err)
		}
		close(hold)
		synctest.Wait()
		e.Close()
	})
}
