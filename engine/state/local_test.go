package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func admission(id string, charges ...Charge) Admission {
	return Admission{Call: id, Now: start, Session: "s", Charges: charges}
}

func bucket(key string, burst int64) Charge {
	return Charge{Name: key, Key: key, Burst: burst, Cost: 1, Per: time.Minute}
}

func mustAdmit(t *testing.T, l *Local, a Admission) Answer {
	t.Helper()
	ans, err := l.Admit(t.Context(), a)
	if err != nil {
		t.Fatalf("Admit(%s) = %v", a.Call, err)
	}
	return ans
}

func TestZeroAnswerIsNotAdmitted(t *testing.T) {
	if (Answer{}).Admitted {
		t.Error("the zero answer admits")
	}
}

func TestLimit(t *testing.T) {
	tests := []struct {
		name string
		give Charge
		now  []time.Duration // of each call after start
		want []bool
	}{
		{name: "exactly the burst", give: bucket("k", 3), now: []time.Duration{0, 0, 0, 0}, want: []bool{true, true, true, false}},
		{name: "refills one by one", give: bucket("k", 2), now: []time.Duration{0, 0, 29 * time.Second, 30 * time.Second, 31 * time.Second}, want: []bool{true, true, false, true, false}},
		{name: "never more than the burst after a pause", give: bucket("k", 2), now: []time.Duration{time.Hour, time.Hour, time.Hour}, want: []bool{true, true, false}},
		{name: "a burst that does not divide the time", give: bucket("k", 7), now: make([]time.Duration, 8), want: []bool{true, true, true, true, true, true, true, false}},
		{name: "a cost over the burst never passes", give: Charge{Key: "k", Burst: 2, Cost: 3, Per: time.Minute}, now: []time.Duration{0, time.Hour}, want: []bool{false, false}},
		{name: "more units than nanoseconds", give: Charge{Key: "k", Burst: 3, Cost: 1, Per: 1}, now: []time.Duration{0, 0, 0, 0}, want: []bool{true, true, true, false}},
		{name: "a clock that steps back", give: bucket("k", 1), now: []time.Duration{0, -time.Hour}, want: []bool{true, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLocal()
			for i, after := range tt.now {
				a := admission(fmt.Sprint(i), tt.give)
				a.Now = start.Add(after)
				if got := mustAdmit(t, l, a).Admitted; got != tt.want[i] {
					t.Errorf("call %d at %v admitted = %v, want %v", i, after, got, tt.want[i])
				}
			}
		})
	}
}

func TestRefusalSaysWhen(t *testing.T) {
	l := NewLocal()
	mustAdmit(t, l, admission("1", bucket("k", 2)))
	mustAdmit(t, l, admission("2", bucket("k", 2)))
	got := mustAdmit(t, l, admission("3", bucket("k", 2))).Limited
	want := &Limited{Name: "k", Limit: 2, Remaining: 0, RetryAfter: 30 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A call that one of its limits refuses takes nothing from the others, or one
// exhausted limit would drain all.
func TestAllOrNone(t *testing.T) {
	l := NewLocal()
	mustAdmit(t, l, admission("first", bucket("small", 1)))
	for i := range 10 {
		ans := mustAdmit(t, l, admission(fmt.Sprint("refused", i), bucket("large", 5), bucket("small", 1)))
		if ans.Admitted || ans.Limited.Name != "small" || !ans.Change.IsZero() {
			t.Fatalf("Admit = %+v, want a refusal by small that changes nothing", ans)
		}
	}
	for i := range 5 {
		if !mustAdmit(t, l, admission(fmt.Sprint(i), bucket("large", 5))).Admitted {
			t.Fatalf("large was drained by refused calls after %d", i)
		}
	}
}

func TestRacersGetTheBurst(t *testing.T) {
	l := NewLocal()
	var mu sync.Mutex
	admitted := 0
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 10 {
				ans, err := l.Admit(t.Context(), admission(fmt.Sprint(g, "-", i), bucket("a", 100), bucket("b", 1000)))
				if err != nil {
					t.Error(err)
				}
				if ans.Admitted {
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if admitted != 100 {
		t.Errorf("%d calls admitted, want exactly the burst of 100", admitted)
	}
}

func TestIdempotentByCall(t *testing.T) {
	l := NewLocal()
	a := admission("same", bucket("k", 1))
	first := mustAdmit(t, l, a)
	again := mustAdmit(t, l, a)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the second answer differs:\n%s", diff)
	}
	l.Settle("same")
	if mustAdmit(t, l, admission("other", bucket("k", 1))).Admitted {
		t.Error("the charge was lost")
	}
}

func TestAskOnce(t *testing.T) {
	l := NewLocal()
	ask := func(id string, now time.Time, binding string) Answer {
		return mustAdmit(t, l, Admission{
			Call: id, Now: now, Session: "s", Bind: bindTo(binding),
			Asks: []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}, TTL: 60, Reason: "free text"}},
		})
	}
	first := ask("1", start, "b")
	if first.Admitted || first.Pending == nil || first.Change.Asked == nil {
		t.Fatalf("first ask = %+v, want a new pending approval", first)
	}
	if r := first.Pending.Rules[0].Reason; r != "" {
		t.Errorf("the record would hold the rule's text %q", r)
	}
	same := ask("2", start.Add(59*time.Second), "b")
	if same.Pending.ID != first.Pending.ID || !same.Change.IsZero() {
		t.Errorf("the same call asked again: %+v", same)
	}
	if other := ask("3", start, "c"); other.Pending.ID == first.Pending.ID {
		t.Error("another call shares the approval")
	}
	if late := ask("4", start.Add(60*time.Second), "b"); late.Pending.ID == first.Pending.ID {
		t.Error("an expired approval is still pending")
	}
	midnight := ask("5", time.Date(2026, 1, 1, 23, 59, 30, 0, time.UTC), "d")
	after := ask("6", time.Date(2026, 1, 2, 0, 0, 10, 0, time.UTC), "d")
	if after.Pending.ID != midnight.Pending.ID {
		t.Error("an approval asked under yesterday's key was not found")
	}
}

// bindTo is the binding of one call, different on every day.
func bindTo(what string) func(time.Time) (string, error) {
	return func(day time.Time) (string, error) { return day.Format(time.DateOnly) + what, nil }
}

func TestAskCannotTell(t *testing.T) {
	l := NewLocal()
	a := admission("1")
	a.Asks = []call.ApprovalRule{{Name: "lead", Count: 1}}
	a.Bind = func(time.Time) (string, error) { return "", errors.New("no key") }
	if ans, err := l.Admit(t.Context(), a); err == nil || ans.Admitted || ans.Pending != nil {
		t.Errorf("Admit = %+v, %v; want an error", ans, err)
	}
}

func TestAskTakesNothing(t *testing.T) {
	l := NewLocal()
	a := admission("1", bucket("k", 1))
	a.Asks, a.Bind, a.Labels = []call.ApprovalRule{{Name: "lead", Count: 1}}, bindTo("b"), []string{"x"}
	if ans := mustAdmit(t, l, a); ans.Admitted || len(ans.Change.TATs) > 0 || ans.Change.Session != nil {
		t.Fatalf("a pending call took something: %+v", ans)
	}
	if !mustAdmit(t, l, admission("2", bucket("k", 1))).Admitted {
		t.Error("a pending call was charged")
	}
}

func TestLabelsMoveTheVersion(t *testing.T) {
	l := NewLocal()
	a := admission("1")
	a.Labels = []string{"b", "a", "b"}
	want := &call.SessionChange{ID: "s", Version: 1, Labels: []string{"a", "b"}}
	if diff := cmp.Diff(want, mustAdmit(t, l, a).Change.Session); diff != "" {
		t.Error(diff)
	}
	a.Call = "2"
	if _, err := l.Admit(t.Context(), a); !errors.Is(err, ErrSessionChanged) {
		t.Errorf("a call decided on the old session: %v, want %v", err, ErrSessionChanged)
	}
	a.Version, a.Call = 1, "3"
	// Said again, in case the record that first brought them never becomes durable.
	if diff := cmp.Diff(want, mustAdmit(t, l, a).Change.Session); diff != "" {
		t.Errorf("labels that are there already:\n%s", diff)
	}
	s, err := l.Session(t.Context(), "s")
	if err != nil || s.Version != 1 || s.Calls != 2 {
		t.Errorf("Session = %+v, %v", s, err)
	}
}

// Whatever the order of the records, folding them gives the live state.
func TestFoldIsOrderFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := NewLocal()
		var changes []call.Change
		now, latest := start, start
		for i := range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 40).Draw(t, "pause")) * time.Second)
			if now.After(latest) {
				latest = now
			}
			s, _ := live.Session(t.Context(), "s")
			a := Admission{
				Call: fmt.Sprint(i), Now: now, Session: "s", Version: s.Version,
				Charges: []Charge{bucket(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), 3)},
				Labels:  rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 2).Draw(t, "labels"),
			}
			if rapid.Bool().Draw(t, "ask") {
				a.Asks, a.Bind = []call.ApprovalRule{{Name: "n", Count: 1, TTL: 30}}, bindTo(rapid.SampledFrom([]string{"p", "q"}).Draw(t, "binding"))
			}
			ans, err := live.Admit(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			changes = append(changes, ans.Change)
		}
		rand.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		folded := NewLocal()
		for _, c := range changes {
			folded.Apply(c)
		}
		if diff := cmp.Diff(live.tats, folded.tats); diff != "" {
			t.Errorf("limits differ:\n%s", diff)
		}
		for _, l := range []*Local{live, folded} {
			maps.DeleteFunc(l.asked, func(_ string, a *call.Approval) bool { return !latest.Before(a.Expires) })
		}
		if diff := cmp.Diff(live.asked, folded.asked); diff != "" {
			t.Errorf("approvals differ:\n%s", diff)
		}
		a, _ := live.Session(t.Context(), "s")
		b, _ := folded.Session(t.Context(), "s")
		a.Calls = 0 // advisory, not folded
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("sessions differ:\n%s", diff)
		}
	})
}
