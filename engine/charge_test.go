package engine_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// charging allows everything, within these limits.
func charging(limits ...call.Limit) policy {
	d := allow
	d.Limits = limits
	return always(d)
}

func quota(charge string, burst, cost int64) call.Limit {
	return call.Limit{Name: "q", Key: "k", Burst: burst, Per: "day", Cost: cost, Charge: charge}
}

// inUse is what the records say is used of all limits that count.
func inUse(t *testing.T, log *memory) (units int64) {
	for _, r := range log.decoded(t) {
		if r.Change == nil {
			continue
		}
		for _, u := range r.Change.Used {
			units += u.Units
		}
	}
	return units
}

func remaining(t *testing.T, e *engine.Engine, c call.Call) int64 {
	t.Helper()
	x, err := e.Explain(t.Context(), c)
	if err != nil || len(x.Limits) != 1 {
		t.Fatalf("Explain = %+v, %v", x, err)
	}
	return x.Limits[0].Remaining
}

// What is reserved, used, given back and recorded, by charge and by how the run ends.
func TestCharges(t *testing.T) {
	says := func(pairs ...int64) func(context.Context, *hostfx.Effects) error {
		return func(_ context.Context, fx *hostfx.Effects) error {
			for _, n := range pairs {
				if err := fx.Charge("tokens", n); err != nil {
					return err
				}
			}
			return nil
		}
	}
	then := func(first func(context.Context, *hostfx.Effects) error, err error) func(context.Context, *hostfx.Effects) error {
		return func(ctx context.Context, fx *hostfx.Effects) error { return errors.Join(first(ctx, fx), err) }
	}
	waits := func(ctx context.Context, fx *hostfx.Effects) error {
		_ = fx.Charge("tokens", 3)
		<-ctx.Done()
		return ctx.Err()
	}
	clock := newClock()
	tokens, none := quota("tokens", 100, 10), call.Bounds{}
	for _, tt := range []struct {
		name   string
		limit  call.Limit
		bounds call.Bounds
		do     func(context.Context, *hostfx.Effects) error // nil: nothing
		code   call.Code
		want   call.Charged
		back   int64
	}{
		{"output", quota("output_bytes", 5000, 0), none, nil, call.CodeOK, call.Charged{Reserved: 1000, Used: 5}, 995},
		{"no output of a tool that fails", quota("output_bytes", 5000, 0), none, says(-1), call.CodeToolError, call.Charged{Reserved: 1000}, 1000},
		{"more output than granted", quota("output_bytes", 5000, 0), call.Bounds{OutputBytes: 4}, nil, call.CodeOutputExceeded, call.Charged{Reserved: 4, Used: 4, Unknown: true}, 0},
		{"time", quota("time_ms", 50_000, 0), none, func(context.Context, *hostfx.Effects) error { clock.add(1500 * time.Microsecond); return nil }, call.CodeOK, call.Charged{Reserved: 5000, Used: 2}, 4998},
		{"time that runs backwards", quota("time_ms", 50_000, 0), none, func(context.Context, *hostfx.Effects) error { clock.add(-time.Second); return nil }, call.CodeOK, call.Charged{Reserved: 5000, Used: 5000, Unknown: true}, 0},
		{"more time than granted", quota("time_ms", 50_000, 0), none, func(context.Context, *hostfx.Effects) error { clock.add(time.Minute); return nil }, call.CodeOK, call.Charged{Reserved: 5000, Used: 60_000}, 0},
		{"no requests", quota("http_bytes", 5_000_000, 0), none, nil, call.CodeOK, call.Charged{Reserved: 4_000_000}, 4_000_000},
		{"fuel, which Go does not burn", quota("fuel", 100, 0), call.Bounds{Fuel: 7}, nil, call.CodeOK, call.Charged{Reserved: 7, Used: 7, Unknown: true}, 0},
		{"tokens", tokens, none, says(3, 4), call.CodeOK, call.Charged{Reserved: 10, Used: 7}, 3},
		{"no tokens", tokens, none, says(0), call.CodeOK, call.Charged{Reserved: 10}, 10},
		{"all tokens", tokens, none, says(10), call.CodeOK, call.Charged{Reserved: 10, Used: 10}, 0},
		{"more tokens", tokens, none, says(11), call.CodeOK, call.Charged{Reserved: 10, Used: 11}, 0},
		{"more tokens than a record holds", tokens, none, says(1<<62, 1<<62, 1<<62), call.CodeOK, call.Charged{Reserved: 10, Used: 1<<53 - 1}, 0},
		{"a tool that says nothing", tokens, none, nil, call.CodeOK, call.Charged{Reserved: 10, Used: 10, Unknown: true}, 0},
		{"a tool that says, and fails", tokens, none, then(says(3), errors.New("no")), call.CodeToolError, call.Charged{Reserved: 10, Used: 3}, 7},
		{"a tool that says, and is stopped", tokens, call.Bounds{TimeoutMS: 1}, waits, call.CodeTimeExceeded, call.Charged{Reserved: 10, Used: 10, Unknown: true}, 0},
		{"a tool that says, and panics", tokens, none, func(_ context.Context, fx *hostfx.Effects) error { _ = fx.Charge("tokens", 1); panic("canary") }, call.CodeInternal, call.Charged{Reserved: 10, Used: 10, Unknown: true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lines bytes.Buffer
			log := &memory{}
			tool := &counted{fn: func(ctx context.Context, fx *hostfx.Effects, in echoArgs) (string, error) {
				if tt.do == nil {
					return in.Text, nil
				}
				return in.Text, tt.do(ctx, fx)
			}}
			d := allow
			d.Limits, d.Grants = []call.Limit{tt.limit}, []call.RuleGrant{{Caps: call.Caps{Bounds: tt.bounds}}}
			e := open(t, engine.Options{Policy: always(d), Log: log, Tools: []engine.Tool{tool.tool()}, Now: clock.Now, Logger: zerolog.New(&lines)})
			before := remaining(t, e, echo("abc"))
			res, err := e.Do(t.Context(), echo("abc"))
			if te, ok := errors.AsType[*engine.ToolError](err); ok {
				res = te.Result
			} else if err != nil {
				t.Fatal(err)
			}
			tt.want.Limit, tt.want.Charge = "q", tt.limit.Charge
			if res.Outcome.Code != tt.code {
				t.Errorf("it ended with %s", res.Outcome.Code)
			}
			if diff := cmp.Diff([]call.Charged{tt.want}, res.Outcome.Charges); diff != "" {
				t.Error(diff)
			}
			if now := remaining(t, e, echo("abc")); now != before-tt.want.Reserved+tt.back {
				t.Errorf("%d remain, of %d", now, before)
			}
			e.Close()
			recs := log.decoded(t)
			if diff := cmp.Diff([]call.Charged{tt.want}, recs[1].Outcome.Charges); diff != "" {
				t.Errorf("recorded: %s", diff)
			}
			if got := inUse(t, log); got != tt.want.Reserved-tt.back || (recs[1].Change == nil) != (tt.back == 0) {
				t.Errorf("the records say that %d are used: %+v", got, recs[1].Change)
			}
			overrun := tt.want.Used > tt.want.Reserved && tt.limit.Charge == "tokens"
			if strings.Contains(lines.String(), "used more than") != overrun {
				t.Errorf("the operator is told: %s", lines.String())
			}
		})
	}
}

// Sixty-four calls at once, each of which might use a tenth of the budget, never
// overrun it; and what they did not use lets others in.
func TestConcurrentCallsDoNotOverrun(t *testing.T) {
	const burst, most = 10_000, 1000
	log, hold := &memory{}, make(chan struct{})
	started := 0
	tool := &counted{}
	tool.fn = func(context.Context, *hostfx.Effects, echoArgs) (string, error) {
		tool.mu.Lock()
		started++
		first := started <= burst/most
		tool.mu.Unlock()
		if first {
			<-hold
		}
		return strings.Repeat("x", 98), nil // 100 bytes of JSON
	}
	e := open(t, engine.Options{Policy: charging(quota("output_bytes", burst, 0)), Log: log, Tools: []engine.Tool{tool.tool()}, Now: newClock().Now})
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes, returned := map[call.Code]int{}, 0
	for range 64 {
		wg.Go(func() {
			_, err := e.Do(t.Context(), echo("x"))
			mu.Lock()
			defer mu.Unlock()
			codes[code(err)]++
			if d, ok := errors.AsType[*engine.Denial](err); ok && (d.Limited.Name != "q" || d.Limited.Remaining != 0 || d.RetryAfter != 12*time.Hour) {
				t.Errorf("refused with %+v", d)
			}
			if returned++; returned == 54 {
				close(hold)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(map[call.Code]int{"": 10, call.CodeRateLimited: 54}, codes); diff != "" {
		t.Fatal(diff)
	}
	if left := remaining(t, e, echo("x")); left != burst-10*100-most {
		t.Errorf("%d remain", left)
	}
	for used := 1000; used <= burst-most; used += 100 {
		if _, err := e.Do(t.Context(), echo("x")); err != nil {
			t.Fatalf("with %d used: %v", used, err)
		}
	}
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeRateLimited {
		t.Errorf("beyond the budget: %v", err)
	}
	e.Close()
	if n := inUse(t, log); n != burst-most+100 {
		t.Errorf("the records say that %d are used", n)
	}
}

// A guest's fuel is measured.
func TestFuelOfGuests(t *testing.T) {
	guests, err := sandbox.New(t.Context(), sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer guests.Close(context.Background())
	for name, full := range map[string]bool{"spin": true, "echo": false} {
		d := allow
		d.Limits, d.Grants = []call.Limit{quota("fuel", 100_000_000, 0)}, []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{Fuel: 10_000_000}}}}
		log := &memory{}
		e := open(t, engine.Options{Policy: always(d), Log: log, Guests: guests, Now: newClock().Now, Tools: []engine.Tool{engine.Wasm(guestTool(t, name, "{type: object, additionalProperties: false}"))}})
		res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: name})
		if te, ok := errors.AsType[*engine.ToolError](err); ok {
			res = te.Result
		}
		got := res.Outcome.Charges[0]
		if got.Used != res.Outcome.Fuel || got.Used == 0 || got.Unknown || (got.Used == got.Reserved) != full {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		e.Close()
		if n := inUse(t, log); n != got.Used {
			t.Errorf("%s: the records say %d", name, n)
		}
	}
}

// greedy is a state that takes nothing back.
type greedy struct {
	state.Store
	panics bool
}

func (f greedy) Refund(context.Context, string, call.Uses) (call.Change, error) {
	if f.panics {
		panic("canary in a panic")
	}
	return call.Change{}, errors.New("no answer")
}

// A call that ran does not fail because its units cannot be given back: they stay
// taken, and the operator is told.
func TestRefundFails(t *testing.T) {
	for _, panics := range []bool{false, true} {
		var lines bytes.Buffer
		log, tool := &memory{}, &counted{}
		e := open(t, engine.Options{
			Policy: charging(quota("output_bytes", 1500, 0)), Log: log, Tools: []engine.Tool{tool.tool()}, Now: newClock().Now,
			State: greedy{state.NewLocal(), panics}, Logger: zerolog.New(&lines),
		})
		res, err := e.Do(t.Context(), echo("abc"))
		if err != nil || res.Outcome.Charges[0].Used != 5 {
			t.Errorf("Do = %+v, %v", res, err)
		}
		if _, err := e.Do(t.Context(), echo("abc")); code(err) != call.CodeRateLimited {
			t.Errorf("the units came back: %v", err)
		}
		e.Close()
		if n := inUse(t, log); n != 1000 || strings.Contains(lines.String(), "canary") || !strings.Contains(lines.String(), "not given back to limits") {
			t.Errorf("%d are used by the records; the operator is told %s", n, lines.String())
		}
	}
}
