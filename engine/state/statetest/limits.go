package statetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

func limits(t *testing.T, s store) {
	const most = math.MaxInt64
	tests := []struct {
		name string
		give state.Charge
		now  []time.Duration // of each call after Start
		want []bool
	}{
		{name: "exactly the burst", give: bucket("", 3), now: []time.Duration{0, 0, 0, 0}, want: []bool{true, true, true, false}},
		{name: "refills one by one", give: bucket("", 2), now: []time.Duration{0, 0, 30*time.Second - 1, 30 * time.Second, 31 * time.Second}, want: []bool{true, true, false, true, false}},
		{name: "never more than the burst after a pause", give: bucket("", 2), now: []time.Duration{time.Hour, time.Hour, time.Hour}, want: []bool{true, true, false}},
		{name: "a burst that does not divide the time", give: bucket("", 7), now: make([]time.Duration, 8), want: []bool{true, true, true, true, true, true, true, false}},
		{name: "a cost of several", give: state.Charge{Burst: 5, Cost: 2, Per: time.Minute}, now: []time.Duration{0, 0, 0, 12 * time.Second}, want: []bool{true, true, false, true}},
		{name: "a cost over the burst never passes", give: state.Charge{Burst: 2, Cost: 3, Per: time.Minute}, now: []time.Duration{0, 100 * time.Hour}, want: []bool{false, false}},
		{name: "more units than nanoseconds", give: state.Charge{Burst: 3, Cost: 1, Per: 1}, now: []time.Duration{0, 0, 0, 0}, want: []bool{true, true, true, false}},
		{name: "a clock that steps back", give: bucket("", 1), now: []time.Duration{0, -30 * time.Minute}, want: []bool{true, false}},
		{name: "a clock that steps back with units left", give: bucket("", 100), now: []time.Duration{0, -30 * time.Second, -30 * time.Second}, want: []bool{true, true, true}},
		{name: "one in three centuries", give: state.Charge{Burst: 1, Cost: 1, Per: most}, now: []time.Duration{0, 0}, want: []bool{false, false}},
		{name: "all units of the largest bucket", give: state.Charge{Burst: most, Cost: most, Per: most}, now: []time.Duration{0, 0}, want: []bool{false, false}},
		{name: "half of the largest bucket", give: state.Charge{Burst: most, Cost: most / 2, Per: 1}, now: []time.Duration{0, 0, 0}, want: []bool{true, false, false}},
		{name: "the largest burst in the longest time", give: state.Charge{Burst: most, Cost: 1, Per: most}, now: []time.Duration{0, 0}, want: []bool{true, true}},
		{name: "the largest cost", give: state.Charge{Burst: 1, Cost: most, Per: time.Hour}, now: []time.Duration{0}, want: []bool{false}},
		{name: "a product that overflows twice", give: state.Charge{Burst: 1 << 62, Cost: 1 << 62, Per: 1<<62 + 1}, now: []time.Duration{0, 0}, want: []bool{false, false}},
	}
	for n, tt := range tests {
		tt.give.Key = fmt.Sprint("key", n)
		var got []bool
		for i, after := range tt.now {
			a := at(plain(fmt.Sprint("C", n, "X", i), tt.give), Start.Add(after))
			got = append(got, s.admit(t, a).Admitted)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: admitted %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What a refusal says about waiting is exact: a nanosecond less is too little.
func retryWhenTold(t *testing.T, s store) {
	b := state.Charge{Name: "b", Key: "b", Burst: 7, Cost: 3, Per: time.Minute}
	s.admit(t, plain("C1", b))
	s.admit(t, plain("C2", b))
	ans := s.admit(t, plain("C3", b))
	if ans.Admitted || ans.Limited == nil || ans.Limited.Name != "b" || ans.Limited.Limit != 7 || ans.Limited.Remaining != 1 {
		t.Fatalf("Admit = %+v, want a refusal by b with 1 of 7 left", ans)
	}
	wait := ans.Limited.RetryAfter
	if s.admit(t, at(plain("C4", b), Start.Add(wait-1))).Admitted {
		t.Error("admitted sooner than told")
	}
	if !s.admit(t, at(plain("C5", b), Start.Add(wait))).Admitted {
		t.Errorf("not admitted after %v, as told", wait)
	}
	b.Cost = 8
	want := &state.Limited{Name: "b", Limit: 7, RetryAfter: math.MaxInt64}
	if diff := cmp.Diff(want, s.admit(t, at(plain("C6", b), Start.Add(wait))).Limited); diff != "" {
		t.Errorf("one that never passes: %s", diff)
	}
}

func longestWait(t *testing.T, s store) {
	short, long := bucket("short", 2), bucket("long", 1)
	s.admit(t, plain("C1", short, long))
	s.admit(t, plain("C2", short))
	for i, charges := range [][]state.Charge{{short, long}, {long, short}} {
		got := s.admit(t, plain(fmt.Sprint("D", i), charges...)).Limited
		want := &state.Limited{Name: "long", Limit: 1, RetryAfter: time.Minute}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A call that one of its limits refuses takes nothing from the others, or one
// exhausted limit would drain all. Nor does it leave anything else behind.
func allOrNone(t *testing.T, s store) {
	s.admit(t, plain("C1", bucket("small", 1)))
	for i := range 10 {
		a := plain(fmt.Sprint("R", i), bucket("large", 5), bucket("small", 1), bucket("other", 5))
		a.Labels, a.LabelsEnd = []string{"x"}, Start.Add(time.Hour)
		ans := s.admit(t, a)
		if ans.Admitted || ans.Limited == nil || ans.Limited.Name != "small" || !ans.Change.IsZero() {
			t.Fatalf("Admit = %+v, want a refusal by small that changes nothing", ans)
		}
	}
	if got := s.session(t, "s", Start); got.Version != 0 || len(got.Labels) > 0 || got.Calls != 1 {
		t.Errorf("refused calls left their traces in the session: %+v", got)
	}
	for i := range 5 {
		if !s.admit(t, plain(fmt.Sprint("A", i), bucket("large", 5), bucket("other", 5))).Admitted {
			t.Fatalf("refused calls drained the other limits, after %d", i)
		}
	}
}

func oneKeyTwice(t *testing.T, s store) {
	if s.admit(t, plain("C1", bucket("k", 3), bucket("k", 3), bucket("k", 3), bucket("k", 3))).Admitted {
		t.Error("four units of three")
	}
	if !s.admit(t, plain("C2", bucket("k", 3), bucket("k", 3))).Admitted {
		t.Error("two units of three are refused")
	}
	if !s.admit(t, plain("C3", bucket("k", 3))).Admitted || s.admit(t, plain("C4", bucket("k", 3))).Admitted {
		t.Error("not exactly one unit was left")
	}
}

// What makes no sense is an error, never a gift.
func nonsense(t *testing.T, s store) {
	for name, change := range map[string]func(*state.Admission){
		"no id":            func(a *state.Admission) { a.Call = "" },
		"no burst":         func(a *state.Admission) { a.Charges[0].Burst = 0 },
		"a negative burst": func(a *state.Admission) { a.Charges[0].Burst = -1 },
		"no cost":          func(a *state.Admission) { a.Charges[0].Cost = 0 },
		"a negative cost":  func(a *state.Admission) { a.Charges[0].Cost = -5 },
		"no time":          func(a *state.Admission) { a.Charges[0].Per = 0 },
		"a negative time":  func(a *state.Admission) { a.Charges[0].Per = -time.Second },
		"no clock":         func(a *state.Admission) { a.Now = time.Time{} },
		"a clock far off":  func(a *state.Admission) { a.Now = time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC) },
		"endless labels":   func(a *state.Admission) { a.Labels = []string{"x"} },
		"labels in the past": func(a *state.Admission) {
			a.Labels, a.LabelsEnd = []string{"x"}, a.Now
		},
		"asks without binding": func(a *state.Admission) { a.Asks = []call.ApprovalRule{lead} },
	} {
		a := plain("X"+strings.ReplaceAll(name, " ", ""), bucket("k", 1))
		change(&a)
		if ans, err := s.Admit(t.Context(), a); err == nil || ans.Admitted || !ans.Change.IsZero() {
			t.Errorf("%s: %+v, %v; want an error", name, ans, err)
		}
	}
	if !s.admit(t, plain("C1", bucket("k", 1))).Admitted {
		t.Error("an admission without sense was charged")
	}
}

func racersGetTheBurst(t *testing.T, s store) {
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			for i := range 10 {
				id := fmt.Sprint("C", g, "X", i)
				ans, err := s.Admit(t.Context(), plain(id, bucket("a", 100), bucket("b", 1000)))
				if err != nil {
					t.Error(err)
				}
				if ans.Admitted {
					admitted.Add(1)
				}
				s.Settle(id, 0)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 100 {
		t.Errorf("admitted %d, want exactly 100", n)
	}
	if !s.admit(t, plain("D", state.Charge{Key: "b", Burst: 1000, Cost: 900, Per: time.Minute})).Admitted {
		t.Error("refused racers drained b")
	}
	if s.admit(t, plain("E", bucket("b", 1000))).Admitted {
		t.Error("admitted racers did not pay for b")
	}
}

// A call is admitted once, however often it asks before its record is durable.
func once(t *testing.T, s store) {
	a := asking("C1", "x")
	a.Charges = []state.Charge{bucket("k", 2)}
	first := s.admit(t, a)
	if diff := cmp.Diff(first, s.admit(t, a)); diff != "" || first.Change.Asked == nil {
		t.Errorf("a question asked again by its own call: %s", diff)
	}
	other := a
	other.Bind = bindTo("y")
	if ans, err := s.Admit(t.Context(), other); err == nil || ans.Approval != nil {
		t.Errorf("one call asks about two things: %+v, %v", ans, err)
	}
	s.apply(t, first.Change)
	s.vote(t, first.Approval.ID, person("lena", "lead"), false)
	a.Call, a.Labels, a.LabelsEnd = "C2", []string{"x"}, Start.Add(time.Hour)
	want := s.admit(t, a)
	if !want.Admitted || len(want.Change.Consumed) != 1 || len(want.Change.TATs) != 1 || want.Change.Session == nil {
		t.Fatalf("Admit = %+v", want)
	}
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			got, err := s.Admit(t.Context(), a)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("the same call again: %v %s", err, diff)
			}
		})
	}
	wg.Wait()
	s.Settle("C2", 0)
	other = plain("C3", bucket("k", 2))
	other.Version = 1
	if !s.admit(t, other).Admitted {
		t.Error("one call paid twice")
	}
}
