package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// byText answers as the text of the call says, and counts how often it is asked.
func byText(asked *atomic.Int64) policy {
	return func(in *call.Input) (call.Decision, error) {
		asked.Add(1)
		var d call.Decision
		switch text := string(in.Args.Bytes()); text {
		case `{"text":"allow"}`, `{"text":"limit"}`, `{"text":"ask"}`:
			d = allow
			if text == `{"text":"limit"}` {
				d.Limits = []call.Limit{{Name: "l", Burst: 1, Cost: 2, Per: "1m"}}
			}
			if text == `{"text":"ask"}` {
				d.Verdict, d.Approvals = call.Ask, leads
			}
		case `{"text":"fault"}`:
			return d, errors.New("fault")
		}
		return d, nil
	}
}

// Of a principal that was refused too often nothing is looked at any more, until the
// minute is over; others are none the worse.
func TestProbingIsLimited(t *testing.T) {
	var lines bytes.Buffer
	var asked atomic.Int64
	clock, log, tool := newClock(), &memory{}, &counted{}
	clock.add(20 * time.Second)
	e := open(t, engine.Options{
		Policy: byText(&asked), Log: log, Tools: []engine.Tool{tool.tool()}, Now: clock.Now, MaxRefusals: 4, Logger: zerolog.New(&lines),
	})
	do := func(c call.Call, want call.Code) *engine.Denial {
		t.Helper()
		_, err := e.Do(t.Context(), c)
		d, _ := errors.AsType[*engine.Denial](err)
		if code(err) != want {
			t.Fatalf("%s: %v, want %s", c.Args, err, want)
		}
		return d
	}
	for range 10 { // none of these is probing
		do(echo("allow"), "")
		do(echo("limit"), call.CodeRateLimited)
		do(echo("fault"), call.CodePolicyError)
	}
	schema := echo("")
	schema.Args = []byte(`{"text":7}`)
	unknown := echo("")
	unknown.Tool = "nothing"
	do(schema, call.CodeArgsSchema)
	do(unknown, call.CodeToolUnknown)
	do(echo("ask"), call.CodeRequiresApproval)
	do(echo("no"), call.CodePolicyDenied)
	before, records := asked.Load(), len(log.decoded(t))
	for i := range 6 {
		for _, c := range []call.Call{echo("allow"), schema, unknown} {
			d := do(c, call.CodeRefusedTooOften)
			if d.RetryAfter != 40*time.Second || !errors.Is(d, engine.ErrDenied) {
				t.Errorf("refused with %+v", d)
			}
			if first := i == 0 && c.Tool == "echo" && string(c.Args) == `{"text":"allow"}`; (d.Receipt.Index >= 0) != first {
				t.Errorf("%d %s: record %d", i, c.Args, d.Receipt.Index)
			}
		}
	}
	if n := asked.Load() - before; n != 0 {
		t.Errorf("policy was asked %d times", n)
	}
	recs := log.decoded(t)[records:]
	if len(recs) != 1 || recs[0].Code != call.CodeRefusedTooOften || recs[0].Principal.ID != "alice" || recs[0].RawArgs == "" {
		t.Errorf("records %+v", recs)
	}
	bob := echo("no")
	bob.Principal.ID = "bob"
	do(bob, call.CodePolicyDenied)
	clock.add(40*time.Second - 1)
	do(echo("allow"), call.CodeRefusedTooOften)
	lines.Reset()
	clock.add(1)
	do(echo("allow"), "")
	if n := unrecorded(t, lines.String()); n != 18 { // of the 19, one is recorded
		t.Errorf("the operator is told of %d calls: %s", n, lines.String())
	}
	lines.Reset()
	do(echo("no"), call.CodePolicyDenied)
	e.Close()
	if lines.Len() > 1000 || unrecorded(t, lines.String()) != 0 {
		t.Errorf("told again: %s", lines.String())
	}
}

// A call from an earlier minute that is refused late is one more refusal, and takes
// nothing from the count.
func TestProbingWithALateRefusal(t *testing.T) {
	clock := newClock()
	var e *engine.Engine
	p := policy(func(in *call.Input) (call.Decision, error) {
		if string(in.Args.Bytes()) == `{"text":"late"}` {
			clock.add(time.Minute)
			for range 3 {
				if _, err := e.Do(t.Context(), echo("no")); code(err) != call.CodePolicyDenied {
					t.Error(err)
				}
			}
		}
		return call.Decision{}, nil
	})
	e = open(t, engine.Options{Policy: p, Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}, Now: clock.Now, MaxRefusals: 4})
	for i, want := range []call.Code{call.CodePolicyDenied, call.CodeRefusedTooOften} {
		if _, err := e.Do(t.Context(), echo([]string{"late", "no"}[i])); code(err) != want {
			t.Errorf("call %d: %v, want %s", i, err, want)
		}
	}
}

var calls = regexp.MustCompile(`"calls":(\d+)`)

// unrecorded is how many calls the operator is told are not recorded.
func unrecorded(t *testing.T, lines string) (n int) {
	for _, m := range calls.FindAllStringSubmatch(lines, -1) {
		k, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	return n
}

// Every call of many at once is either recorded or counted, and the log is not flooded.
func TestProbingConcurrently(t *testing.T) {
	const most, callers, each = 100, 64, 50
	var lines bytes.Buffer
	var asked atomic.Int64
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{
		Policy: byText(&asked), Log: log, Tools: []engine.Tool{tool.tool()}, Now: newClock().Now, MaxRefusals: most, Logger: zerolog.New(&lines).Level(zerolog.WarnLevel),
	})
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for i := range each {
				_, err := e.Do(t.Context(), echo(fmt.Sprint("no", g, i)))
				if c := code(err); c != call.CodePolicyDenied && c != call.CodeRefusedTooOften {
					t.Errorf("Do = %v", err)
				}
			}
		})
	}
	wg.Wait()
	e.Close()
	count := map[call.Code]int{}
	for _, r := range log.decoded(t) {
		count[r.Code]++
	}
	if n := count[call.CodePolicyDenied]; n < most || n >= most+callers || int64(n) != asked.Load() {
		t.Errorf("policy refused %d calls, and was asked %d times", n, asked.Load())
	}
	if n := count[call.CodePolicyDenied] + count[call.CodeRefusedTooOften] + unrecorded(t, lines.String()); n != callers*each || count[call.CodeRefusedTooOften] != 1 {
		t.Errorf("%d calls of %d are accounted for: %v", n, callers*each, count)
	}
}

// Nobody in particular is limited as well, and looking ahead is no way around.
func TestProbingByOtherWays(t *testing.T) {
	var asked atomic.Int64
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: byText(&asked), Log: log, Tools: []engine.Tool{tool.tool()}, Now: newClock().Now, MaxRefusals: 3})
	for i := range 20 {
		c := echo("x")
		c.Principal = call.Principal{ID: fmt.Sprint(" stranger", i)}
		if _, err := e.Do(t.Context(), c); (code(err) == call.CodeRefusedTooOften) != (i >= 3) || err == nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := len(log.decoded(t)); n != 4 {
		t.Errorf("%d records of strangers", n)
	}
	for i := range 6 {
		x, err := e.Explain(t.Context(), echo("no"))
		want := call.CodePolicyDenied
		if i >= 3 {
			want = call.CodeRefusedTooOften
		}
		if err != nil || x.Code != want {
			t.Errorf("Explain = %+v, %v, want %s", x, err, want)
		}
	}
	if _, err := e.Do(t.Context(), echo("allow")); code(err) != call.CodeRefusedTooOften {
		t.Errorf("after looking: %v", err)
	}
	if n := len(log.decoded(t)); n != 5 {
		t.Errorf("%d records, though the first refusal of its kind is one", n)
	}
}

func TestProbingWithoutALimit(t *testing.T) {
	var asked atomic.Int64
	tool := &counted{}
	for most, want := range map[int]call.Code{-1: call.CodePolicyDenied, 0: call.CodeRefusedTooOften} {
		e := open(t, engine.Options{Policy: byText(&asked), Log: &memory{}, Tools: []engine.Tool{tool.tool()}, Now: newClock().Now, MaxRefusals: most, State: state.NewLocal()})
		for range 600 {
			_, _ = e.Do(t.Context(), echo("no"))
		}
		if _, err := e.Do(t.Context(), echo("no")); code(err) != want {
			t.Errorf("MaxRefusals %d: %v, want %s", most, err, want)
		}
	}
}
