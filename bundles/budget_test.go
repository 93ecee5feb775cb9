package bundles_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/rego"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/state"
)

// query asks the base library something, as plain OPA, with more beside it.
func query(t *testing.T, q string, options ...func(*rego.Rego)) rego.PreparedEvalQuery {
	t.Helper()
	options = append(options, rego.Query(q), rego.StrictBuiltinErrors(true))
	err := fs.WalkDir(bundles.Base(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := fs.ReadFile(bundles.Base(), name)
		options = append(options, rego.Module(name, string(src)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := rego.New(options...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type budget struct {
	charge state.Charge
	n      int64
	span   time.Duration
}

// budgetOf is what budget.at_most or at_most_with makes of its arguments.
func budgetOf(ctx context.Context, t rapid.TB, q rego.PreparedEvalQuery, in map[string]any) budget {
	t.Helper()
	rs, err := q.Eval(ctx, rego.EvalInput(in))
	if err != nil || len(rs) != 1 {
		t.Fatal(in, rs, err)
	}
	limit := rs[0].Expressions[0].Value.(map[string]any)
	per, err := time.ParseDuration(limit["per"].(string))
	if err != nil {
		t.Fatal(in, err)
	}
	var burst int64
	if _, err := fmt.Sscan(fmt.Sprint(limit["burst"]), &burst); err != nil {
		t.Fatal(in, err)
	}
	span, err := time.ParseDuration(in["span"].(string))
	if err != nil {
		t.Fatal(in, err)
	}
	return budget{state.Charge{Name: "n", Key: "k", Burst: burst, Per: per}, in["n"].(int64), span}
}

// paid is what one admitted call took.
type paid struct{ at, cost int64 }

// inSpan is the most that was taken in any span, whose beginning counts and whose
// end does not.
func inSpan(all []paid, span time.Duration) (most int64) {
	for i, first := range all {
		var sum int64
		for _, p := range all[i:] {
			if p.at-first.at < int64(span) {
				sum += p.cost
			}
		}
		most = max(most, sum)
	}
	return most
}

// admitter asks the engine's own limits about calls at these times.
func admitter(ctx context.Context, t rapid.TB, c state.Charge) func(now, cost int64) bool {
	l := state.NewLocal()
	n := 0
	return func(now, cost int64) bool {
		n++
		c.Cost = cost
		ans, err := l.Admit(ctx, state.Admission{Call: fmt.Sprint("C", n), Now: time.Unix(0, now), Principal: "p", Session: "s", Charges: []state.Charge{c}})
		if err != nil {
			t.Fatal(err)
		}
		l.Settle(fmt.Sprint("C", n), 0)
		return ans.Admitted
	}
}

// The claim of the base library: whatever the calls cost and whenever they come, no
// span admits more than n units. A bucket of n that refills within a span would
// admit almost twice as many.
func TestAtMostIsAtMost(t *testing.T) {
	q := query(t, "data.callgate.budget.at_most_with(input.n, input.at_once, input.span)")
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Int64Range(1, 40).Draw(rt, "n")
		b := budgetOf(t.Context(), rt, q, map[string]any{
			"n": n, "at_once": rapid.Int64Range(1, n).Draw(rt, "at once"),
			"span": rapid.SampledFrom([]string{"1s", "7s", "1m", "1h", "24h", "1h1m1s"}).Draw(rt, "span"),
		})
		unit := int64(b.charge.Per) / b.charge.Burst
		pauses := []int64{0, 0, 0, 1, unit - 1, unit, unit, unit + 1, int64(b.span) - 1, int64(b.span), int64(b.span) / 3}
		admit := admitter(t.Context(), rt, b.charge)
		now := int64(1_800_000_000_000_000_000)
		var all []paid
		for range 120 {
			now += rapid.SampledFrom(pauses).Draw(rt, "pause")
			cost := rapid.SampledFrom([]int64{1, 1, 1, 2, b.charge.Burst}).Draw(rt, "cost")
			if admit(now, cost) {
				all = append(all, paid{now, cost})
			}
		}
		if most := inSpan(all, b.span); most > n {
			rt.Fatalf("%+v admits %d in a span", b, most)
		}
	})
}

// Nor is it needlessly less: who waits for a full bucket and then takes every unit
// as soon as it is there gets n within a span.
func TestAtMostIsAsMuch(t *testing.T) {
	with := query(t, "data.callgate.budget.at_most_with(input.n, input.at_once, input.span)")
	half := query(t, "data.callgate.budget.at_most(input.n, input.span)")
	for _, span := range []string{"1s", "1m", "1h", "24h", "8784h"} {
		for _, n := range []int64{1, 2, 3, 4, 5, 7, 10, 11, 60, 97} {
			var budgets []budget
			for _, once := range []int64{1, (n + 1) / 2, n} {
				budgets = append(budgets, budgetOf(t.Context(), t, with, map[string]any{"n": n, "at_once": once, "span": span}))
			}
			at := budgetOf(t.Context(), t, half, map[string]any{"n": n, "span": span})
			if at != budgets[1] {
				t.Errorf("at most %d in %s is %+v, and half of it at once %+v", n, span, at, budgets[1])
			}
			for _, b := range budgets {
				unit := int64(b.charge.Per) / b.charge.Burst
				admit := admitter(t.Context(), t, b.charge)
				now := int64(1_800_000_000_000_000_000)
				var all []paid
				for range b.charge.Burst {
					if !admit(now, 1) {
						t.Fatalf("%+v does not admit its burst", b)
					}
					all = append(all, paid{now, 1})
				}
				for range 2 * n {
					if now += unit; admit(now, 1) {
						all = append(all, paid{now, 1})
					}
				}
				if most := inSpan(all, b.span); most != n {
					t.Errorf("%+v admits %d in a span, want %d", b, most, n)
				}
			}
		}
	}
}

// What the helper is there for: the obvious bucket admits nearly twice as many.
func TestBucketOfNAdmitsMore(t *testing.T) {
	b := budget{state.Charge{Name: "n", Key: "k", Burst: 5, Per: time.Hour}, 5, time.Hour}
	admit := admitter(t.Context(), t, b.charge)
	now := int64(1_800_000_000_000_000_000)
	var all []paid
	for i := range int64(10) {
		if i >= 5 {
			now += int64(b.charge.Per) / b.charge.Burst
		}
		if admit(now, 1) {
			all = append(all, paid{now, 1})
		}
	}
	if most := inSpan(all, b.span); most != 9 {
		t.Errorf("it admits %d", most)
	}
}
