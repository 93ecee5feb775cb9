package statetest

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// noon is when the windows of these tests end, an hour after they begin.
var noon = Start.Add(time.Hour)

// quota counts units until noon.
func quota(key string, burst, cost int64) state.Charge {
	return state.Charge{Name: key, Key: key, Burst: burst, Cost: cost, Per: time.Hour, End: noon}
}

// limited admits a call that a quota must refuse.
func (s store) limited(t *testing.T, a state.Admission, want state.Limited) {
	t.Helper()
	ans := s.admit(t, a)
	if ans.Admitted || !ans.Change.IsZero() {
		t.Errorf("%s: Admit = %+v", a.Call, ans)
	}
	if diff := cmp.Diff(&want, ans.Limited); diff != "" {
		t.Errorf("%s: %s", a.Call, diff)
	}
}

func (s store) refund(t *testing.T, callID string, units call.Uses) call.Change {
	t.Helper()
	c, err := s.Refund(t.Context(), callID, units)
	if err != nil {
		t.Fatalf("Refund(%s) = %v", callID, err)
	}
	return c
}

func took(key string, units int64) call.Change {
	return call.Change{Used: call.Uses{key: {Units: units, End: noon.UnixNano()}}}
}

// Nothing of what is counted comes back before its window is over, to the nanosecond.
func countsUntilTheEnd(t *testing.T, s store) {
	first := s.admit(t, plain("C1", quota("q", 5, 2)))
	if diff := cmp.Diff(took("q", 2), first.Change); diff != "" || !first.Admitted {
		t.Error(diff)
	}
	s.admit(t, plain("C2", quota("q", 5, 2)))
	s.limited(t, plain("C3", quota("q", 5, 2)), state.Limited{Name: "q", Limit: 5, Remaining: 1, RetryAfter: time.Hour})
	s.admit(t, plain("C4", quota("q", 5, 1)))
	s.limited(t, at(plain("C5", quota("q", 5, 1)), noon.Add(-1)), state.Limited{Name: "q", Limit: 5, RetryAfter: 1})
	s.limited(t, at(plain("C6", quota("q", 5, 1)), noon), state.Limited{Name: "q", Limit: 5})
	s.limited(t, plain("C7", quota("other", 5, 6)), state.Limited{Name: "other", Limit: 5, Remaining: 5, RetryAfter: math.MaxInt64})
	s.limited(t, plain("C8", quota("q", 3, 1)), state.Limited{Name: "q", Limit: 3, RetryAfter: time.Hour}) // a smaller one, by now

	next := quota("the next window", 5, 5)
	next.End = noon.Add(time.Hour)
	if !s.admit(t, at(plain("C9", next), noon)).Admitted {
		t.Error("the next window is not empty")
	}
	// The clock steps back into the window before.
	s.limited(t, at(plain("C10", quota("q", 5, 1)), noon.Add(-time.Second)), state.Limited{Name: "q", Limit: 5, RetryAfter: time.Second})
	for name, c := range map[string]state.Charge{
		"no cost": quota("n", 5, 0), "a negative cost": quota("n", 5, -1), "no burst": quota("n", 0, 1), "more than records hold": quota("n", math.MaxInt64, 1),
	} {
		if ans, err := s.Admit(t.Context(), plain("N", c)); err == nil || ans.Admitted {
			t.Errorf("%s: %+v, %v", name, ans, err)
		}
	}
}

// What refills and what is counted are taken together or not at all.
func countsAllOrNone(t *testing.T, s store) {
	s.admit(t, plain("C1", quota("q", 2, 2)))
	for i := range 5 {
		if s.admit(t, plain(fmt.Sprint("C2X", i), bucket("b", 1), quota("full", 3, 3), quota("q", 2, 1))).Admitted {
			t.Fatal("admitted beyond a quota")
		}
	}
	if !s.admit(t, plain("C3", bucket("b", 1), quota("full", 3, 3))).Admitted {
		t.Error("a refused call took something")
	}
	twice := s.admit(t, plain("C4", quota("twice", 5, 2), quota("twice", 5, 2)))
	if diff := cmp.Diff(took("twice", 4), twice.Change); diff != "" {
		t.Error(diff)
	}
}

// What is left after a call is told, and not taken.
func peekCounts(t *testing.T, s store) {
	s.admit(t, plain("C1", quota("q", 10, 3)))
	want := state.Answer{Admitted: true, Limits: []state.Limited{{Name: "q", Limit: 10, Remaining: 3}}}
	if diff := cmp.Diff(want, s.peek(t, plain("C2", quota("q", 10, 4)))); diff != "" {
		t.Error(diff)
	}
	no := state.Limited{Name: "q", Limit: 10, Remaining: 7, RetryAfter: time.Hour}
	want = state.Answer{Limited: &no, Limits: []state.Limited{no}}
	if diff := cmp.Diff(want, s.peek(t, plain("C2", quota("q", 10, 8)))); diff != "" {
		t.Error(diff)
	}
}

// A refund acts at once, once, and gives no more than there is.
func refunds(t *testing.T, s store) {
	s.admit(t, plain("C1", quota("q", 10, 6), bucket("b", 1)))
	s.Settle("C1", 0)
	s.limited(t, plain("C2", quota("q", 10, 5)), state.Limited{Name: "q", Limit: 10, Remaining: 4, RetryAfter: time.Hour})
	back := call.Uses{"q": {Units: 4}, "b": {Units: 1}, "never": {Units: 9}}
	if diff := cmp.Diff(took("q", -4), s.refund(t, "C1", back)); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if c := s.refund(t, "C1", back); !c.IsZero() {
			t.Errorf("a second refund gives %+v", c)
		}
	}
	if !s.admit(t, plain("C3", quota("q", 10, 8))).Admitted {
		t.Error("the refund does not act")
	}
	if s.admit(t, plain("C4", quota("q", 10, 1))).Admitted || s.admit(t, plain("C5", bucket("b", 1))).Admitted {
		t.Error("the refund gave more than was asked for, or of what refills")
	}
	s.Settle("C3", 1)
	if diff := cmp.Diff(took("q", -8), s.refund(t, "C3", call.Uses{"q": {Units: 8}})); diff != "" {
		t.Error(diff)
	}
	s.admit(t, plain("C6", quota("whole", 10, 10)))
	s.Settle("C6", 2)
	if diff := cmp.Diff(took("whole", -10), s.refund(t, "C6", call.Uses{"whole": {Units: 1 << 50}})); diff != "" {
		t.Errorf("more than was ever taken: %s", diff)
	}
	if !s.admit(t, plain("C7", quota("whole", 10, 10))).Admitted || s.admit(t, plain("C8", quota("whole", 10, 1))).Admitted {
		t.Error("a refund beyond what was taken made the quota larger")
	}
	s.admit(t, plain("C9", quota("less", 10, 10)))
	s.Settle("C9", 3)
	if c := s.refund(t, "C9", call.Uses{"less": {Units: -5}}); !c.IsZero() {
		t.Errorf("a negative refund changes %+v", c)
	}
	if c := s.refund(t, "nobody", call.Uses{"nothing": {Units: 5}}); !c.IsZero() {
		t.Errorf("a call that took nothing is given %+v", c)
	}
}

// What a call that has no record took of quotas comes back, once.
func releasesCounts(t *testing.T, s store) {
	s.admit(t, plain("C1", quota("q", 10, 6), bucket("b", 1)))
	s.admit(t, plain("C2", quota("q", 10, 4)))
	for range 2 {
		if err := s.Release(t.Context(), "C1"); err != nil {
			t.Fatal(err)
		}
	}
	s.limited(t, plain("C3", quota("q", 10, 7)), state.Limited{Name: "q", Limit: 10, Remaining: 6, RetryAfter: time.Hour})
	if !s.admit(t, plain("C4", quota("q", 10, 6), bucket("b", 1))).Admitted {
		t.Error("nothing came back")
	}
	s.Settle("C4", 0)
	if err := s.Release(t.Context(), "nobody"); err != nil {
		t.Errorf("Release of a call that is not known = %v", err)
	}
	if s.admit(t, plain("C5", quota("q", 10, 1))).Admitted {
		t.Error("more came back than was taken")
	}
}

// Racers who take the most that they can use, use a tenth of it, and give the rest
// back, never hold more than there is, and together use all of it.
func racersReserve(t *testing.T, s store) {
	const burst, cost, uses = 200, 20, 2
	var held, used atomic.Int64
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			for i := range 20 {
				id := fmt.Sprint("C", g, "X", i)
				ans, err := s.Admit(t.Context(), plain(id, quota("q", burst, cost)))
				if err != nil {
					t.Error(err)
					return
				}
				if !ans.Admitted {
					continue
				}
				s.Settle(id, 0)
				if n := held.Add(cost); n > burst {
					t.Errorf("%d units are held, of %d", n, burst)
				}
				used.Add(uses)
				held.Add(uses - cost)
				if c, err := s.Refund(t.Context(), id, call.Uses{"q": {Units: cost - uses}}); err != nil || c.Used["q"].Units != uses-cost {
					t.Errorf("Refund = %+v, %v", c, err)
				}
			}
		})
	}
	wg.Wait()
	for i := 0; s.admit(t, plain(fmt.Sprint("D", i), quota("q", burst, uses))).Admitted; i++ {
		used.Add(uses)
	}
	if n := used.Load(); n != burst {
		t.Errorf("%d units were used, want exactly %d", n, burst)
	}
}

// Sixty-four refunds of one call give back what one of them says.
func racersRefund(t *testing.T, s store) {
	s.admit(t, plain("C1", quota("q", 100, 90)))
	s.admit(t, plain("C2", quota("q", 100, 10)))
	s.Settle("C1", 0)
	var gave atomic.Int64
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			c, err := s.Refund(t.Context(), "C1", call.Uses{"q": {Units: 1}})
			if err != nil {
				t.Error(err)
			}
			gave.Add(-c.Used["q"].Units)
		})
	}
	wg.Wait()
	if n := gave.Load(); n != 1 {
		t.Errorf("%d units were given back", n)
	}
	if !s.admit(t, plain("C3", quota("q", 100, 1))).Admitted || s.admit(t, plain("C4", quota("q", 100, 1))).Admitted {
		t.Error("the state gave back something else")
	}
}
