package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// A day and a month are those of UTC, whichever way the clock goes.
func TestQuotaWindows(t *testing.T) {
	for _, tt := range []struct {
		per       string
		last, end string // a time in the window, and when the next one begins
	}{
		{"day", "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z"},
		{"day", "2028-02-29T23:59:59.999999999Z", "2028-03-01T00:00:00Z"},
		{"month", "2026-01-31T23:59:59.999999999Z", "2026-02-01T00:00:00Z"},
		{"month", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"month", "2026-12-15T01:02:03Z", "2027-01-01T00:00:00Z"},
	} {
		at := func(text string) time.Time {
			now, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				t.Fatal(err)
			}
			return now
		}
		clock := &clock{now: at(tt.last)}
		tool, log := &counted{}, &memory{}
		o := engine.Options{
			Policy: charging(call.Limit{Name: "q", Key: "k", Burst: 2, Per: tt.per}), Log: log, Salts: fixedSalts{},
			Tools: []engine.Tool{tool.tool()}, Now: clock.Now,
		}
		e := open(t, o)
		do := func(want call.Code) {
			t.Helper()
			_, err := e.Do(t.Context(), echo("x"))
			if code(err) != want {
				t.Errorf("per %s at %s: %v, want %s", tt.per, clock.Now(), err, want)
			}
			if d, ok := errors.AsType[*engine.Denial](err); ok && d.Code == call.CodeRateLimited && d.RetryAfter != at(tt.end).Sub(clock.Now()) {
				t.Errorf("per %s at %s: again in %s", tt.per, clock.Now(), d.RetryAfter)
			}
		}
		do("")
		do("")
		do(call.CodeRateLimited)
		clock.add(at(tt.end).Sub(clock.Now()) - 1)
		do(call.CodeRateLimited)
		clock.add(1)
		do("")
		clock.add(-1) // back
		do(call.CodeRateLimited)
		e.Close()
		e = open(t, o) // the log says the same
		do(call.CodeRateLimited)
		clock.add(1)
		if left := remaining(t, e, echo("x")); left != 0 {
			t.Errorf("per %s: %d remain of the next window", tt.per, left)
		}
		do("")
		e.Close()
	}
}

// Who runs a tool outside says what it used; what they do not say counts in full.
func TestChargesOfPermits(t *testing.T) {
	d := allow
	d.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{Fuel: 9}}}}
	for name, cost := range map[string]int64{"rows": 10, "fuel": 0, "http_bytes": 0, "output_bytes": 0} {
		l := quota(name, 5_000_000, cost)
		l.Name = strings.ReplaceAll(name, "_", "-")
		d.Limits = append(d.Limits, l)
	}
	of := func(charges []call.Charged) map[string]call.Charged {
		out := map[string]call.Charged{}
		for _, c := range charges {
			if c.Limit != strings.ReplaceAll(c.Charge, "_", "-") {
				t.Errorf("charged to %s: %+v", c.Limit, c)
			}
			c.Limit = ""
			out[c.Charge] = c
		}
		return out
	}
	unknown := func(name string, n int64) call.Charged {
		return call.Charged{Charge: name, Reserved: n, Used: n, Unknown: true}
	}
	for _, tt := range []struct {
		name   string
		report engine.Reported
		want   []call.Charged
	}{
		{
			"all of it", engine.Reported{Output: []byte("abc"), Charges: map[string]int64{"rows": 7, "fuel": 1, "http_bytes": 20, "output_bytes": 9, "other": 5}},
			[]call.Charged{{Charge: "rows", Reserved: 10, Used: 7}, {Charge: "fuel", Reserved: 9, Used: 1}, {Charge: "http_bytes", Reserved: 4_000_000, Used: 20}, {Charge: "output_bytes", Reserved: 10, Used: 3}},
		},
		{
			"nothing", engine.Reported{},
			[]call.Charged{unknown("rows", 10), unknown("fuel", 9), unknown("http_bytes", 4_000_000), {Charge: "output_bytes", Reserved: 10}},
		},
		{
			"that it failed", engine.Reported{Failed: true, Output: []byte("abc"), Charges: map[string]int64{"rows": 0, "fuel": -1}},
			[]call.Charged{{Charge: "rows", Reserved: 10}, unknown("fuel", 9), unknown("http_bytes", 4_000_000), unknown("output_bytes", 10)},
		},
		{
			"that it failed, and how much came out", engine.Reported{Failed: true, Charges: map[string]int64{"output_bytes": 4, "rows": 99}},
			[]call.Charged{{Charge: "rows", Reserved: 10, Used: 99}, unknown("fuel", 9), unknown("http_bytes", 4_000_000), {Charge: "output_bytes", Reserved: 10, Used: 4}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, log := mailer(t, engine.Options{Policy: always(d), Now: newClock().Now})
			m, err := e.Authorize(t.Context(), mail("bob"))
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 64 { // one report counts, and one refund
				wg.Go(func() { _, _ = m.Finish(t.Context(), tt.report) })
			}
			wg.Wait()
			e.Close()
			recs := log.decoded(t)
			if len(recs) != 2 {
				t.Fatalf("%d records", len(recs))
			}
			got, used := of(recs[1].Outcome.Charges), int64(0)
			if diff := cmp.Diff(of(named(tt.want)), got); diff != "" {
				t.Error(diff)
			}
			for _, c := range tt.want {
				used += min(c.Used, c.Reserved)
			}
			if n := inUse(t, log); n != used {
				t.Errorf("the records say that %d are used, want %d", n, used)
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		e, log := mailer(t, engine.Options{Policy: always(d), Now: newClock().Now})
		if _, err := e.Authorize(t.Context(), mail("bob")); err != nil {
			t.Fatal(err)
		}
		e.Close()
		r := log.decoded(t)[1]
		if n := inUse(t, log); n != 10+9+4_000_000+10 || r.Change != nil || len(r.Outcome.Charges) != 4 || !r.Outcome.Charges[0].Unknown {
			t.Errorf("%d are used; %+v", n, r.Outcome)
		}
	})
}

// named are the charges of limits that have the charge's name, as limits are written.
func named(charges []call.Charged) []call.Charged {
	out := append([]call.Charged(nil), charges...)
	for i := range out {
		out[i].Limit = strings.ReplaceAll(out[i].Charge, "_", "-")
	}
	return out
}

// A run that could not start used nothing, of quotas that charge nothing in particular
// too.
func TestNotStartedUsesNothing(t *testing.T) {
	tokens, day := quota("tokens", 10, 10), quota("", 1, 1)
	day.Name = "day"
	s := newScene(t, "word-count")
	d := allow
	d.Limits, d.Grants = []call.Limit{tokens, day}, []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: "missing", Modes: []string{"read"}}}}}}
	s.o.Policy, s.call.Args = always(d), []byte(`{"path":"/docs/x"}`)
	s.e = open(t, s.o)
	for range 3 {
		if err := s.once(); code(err) != call.CodeRootUnavailable {
			t.Errorf("Do = %v", err)
		}
	}
	s.e.Close()
	recs := s.log.decoded(t)
	if n := inUse(t, s.log); n != 0 || len(recs) != 6 {
		t.Errorf("%d are used after %d records", n, len(recs))
	}
	for _, r := range recs {
		if r.Type == call.TypeOutcome && (len(r.Outcome.Charges) > 0 || len(r.Change.Used) != 2) {
			t.Errorf("the outcome says %+v, %+v", r.Outcome, r.Change)
		}
	}
}

// What was reserved when the process died stays taken until the window ends.
func TestReservedAtACrash(t *testing.T) {
	log, tool, clock := &memory{}, &counted{}, newClock()
	o := engine.Options{
		Policy: charging(quota("output_bytes", 1500, 0)), Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{tool.tool()}, Now: clock.Now,
	}
	e := open(t, o)
	if _, err := e.Do(t.Context(), echo("abc")); err != nil {
		t.Fatal(err)
	}
	e.Close()
	log.records = log.records[:1] // the outcome was lost, and with it what came back
	e = open(t, o)
	if _, err := e.Do(t.Context(), echo("abc")); code(err) != call.CodeRateLimited {
		t.Errorf("before the window's end: %v", err)
	}
	clock.add(12 * time.Hour)
	if _, err := e.Do(t.Context(), echo("abc")); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// What nobody could count is refused before anything runs.
func TestChargesThatCannotBe(t *testing.T) {
	other := quota("rows", 10, 1)
	other.Charge = "tokens"
	for _, tt := range []struct {
		name  string
		limit []call.Limit // one for each principal of the chain
		want  call.Code
	}{
		{"unmeasured", []call.Limit{quota("write_bytes", 10, 0)}, call.CodeObligationUnsupported},
		{"unmeasured, at a cost", []call.Limit{quota("calls", 10, 1)}, call.CodeObligationUnsupported},
		{"unbounded", []call.Limit{quota("fuel", 10, 0)}, call.CodePolicyShape},
		{"without a cost", []call.Limit{quota("rows", 10, 0)}, call.CodePolicyShape},
		{"at a cost", []call.Limit{quota("time_ms", 10, 1)}, call.CodePolicyShape},
		{"free text", []call.Limit{quota("a b", 10, 1)}, call.CodePolicyShape},
		{"one limit with two charges", []call.Limit{quota("rows", 10, 1), other}, call.CodePolicyShape},
		{"one limit twice", []call.Limit{quota("rows", 10, 10), quota("rows", 10, 10)}, ""},
		{"larger than the budget", []call.Limit{quota("output_bytes", 999, 0)}, call.CodeRateLimited},
	} {
		decide := policy(func(in *call.Input) (call.Decision, error) {
			d := allow
			d.Limits = tt.limit[:1]
			if in.Principal.ID == "boss" {
				d.Limits = tt.limit[len(tt.limit)-1:]
			}
			return d, nil
		})
		tool := &counted{}
		e := open(t, engine.Options{Policy: decide, Log: &memory{}, Tools: []engine.Tool{tool.tool()}, Now: newClock().Now})
		c := echo("x")
		c.Principal.OnBehalfOf = []call.Principal{{ID: "boss", Kind: "user", Auth: call.Auth{Method: "asserted"}}}
		if _, err := e.Do(t.Context(), c); code(err) != tt.want || (tool.count() > 0) != (tt.want == "") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// Several limits of one charge learn the same, each for itself.
func TestOneChargeOfManyLimits(t *testing.T) {
	day, month := quota("tokens", 10, 10), quota("tokens", 100, 20)
	month.Name, month.Per = "month", "month"
	tool := &counted{fn: func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
		return "", fx.Charge("tokens", 4)
	}}
	e := open(t, engine.Options{Policy: charging(day, month), Log: &memory{}, Tools: []engine.Tool{tool.tool()}, Now: newClock().Now})
	res, err := e.Do(t.Context(), echo("x"))
	if err != nil {
		t.Fatal(err)
	}
	want := []call.Charged{{Limit: "q", Charge: "tokens", Reserved: 10, Used: 4}, {Limit: "month", Charge: "tokens", Reserved: 20, Used: 4}}
	if diff := cmp.Diff(want, res.Outcome.Charges); diff != "" {
		t.Error(diff)
	}
	x, err := e.Explain(t.Context(), echo("x"))
	if err != nil || x.Code != call.CodeRateLimited || x.Limits[0].Remaining != 6 || x.Limits[0].RetryMS != 12*3600*1000 || x.Limits[1].Remaining != 76 {
		t.Errorf("Explain = %+v, %v", x, err)
	}
}
