package statetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

func labelled(id string, version int64, labels ...string) state.Admission {
	a := plain(id)
	a.Version, a.Labels, a.LabelsEnd = version, labels, Start.Add(time.Hour)
	return a
}

// The version moves when the labels grow, and only then.
func labels(t *testing.T, s store) {
	end := Start.Add(time.Hour).UnixNano()
	if got := s.session(t, "s", Start); !cmp.Equal(got, state.Session{}) {
		t.Errorf("a session that was never seen: %+v", got)
	}
	want := &call.SessionChange{ID: "s", Version: 1, Labels: call.Times{"a": end, "b": end}}
	if diff := cmp.Diff(want, s.admit(t, labelled("C1", 0, "b", "a", "b")).Change.Session); diff != "" {
		t.Error(diff)
	}
	if got := s.session(t, "s", Start); got.Version != 1 || !cmp.Equal(got.Labels, []string{"a", "b"}) || got.Calls != 1 {
		t.Errorf("Session = %+v", got)
	}
	stale := plain("C2", bucket("k", 1))
	ans, err := s.Admit(t.Context(), stale)
	if !errors.Is(err, state.ErrSessionChanged) || ans.Admitted || !ans.Change.IsZero() {
		t.Errorf("decided on the old session: %+v, %v; want %v", ans, err, state.ErrSessionChanged)
	}
	stale.Version = 1
	if !s.admit(t, stale).Admitted {
		t.Error("the stale call was charged")
	}
	stale.Call, stale.Version = "C3", 2
	if _, err := s.Admit(t.Context(), stale); !errors.Is(err, state.ErrSessionChanged) {
		t.Errorf("decided on a session to come: %v", err)
	}
	// Said again, in case the record that first brought it never becomes durable.
	if c := s.admit(t, labelled("C4", 1, "a")).Change.Session; c == nil || c.Version != 1 || c.Labels["a"] != end {
		t.Errorf("a label that is there already: %+v", c)
	}
	if got := s.admit(t, labelled("C5", 1, "a", "c")).Change.Session; got == nil || got.Version != 2 {
		t.Errorf("a label that is new: %+v", got)
	}
	if got := s.session(t, "other", Start); len(got.Labels) > 0 || got.Version != 0 {
		t.Errorf("another session has it too: %+v", got)
	}
}

func labelsEnd(t *testing.T, s store) {
	s.admit(t, labelled("C1", 0, "a"))
	soon := Start.Add(time.Hour)
	if got := s.session(t, "s", soon.Add(-1)); len(got.Labels) != 1 {
		t.Errorf("gone too soon: %+v", got)
	}
	if got := s.session(t, "s", soon); len(got.Labels) != 0 || got.Version != 1 {
		t.Errorf("after its end: %+v", got)
	}
	// Added again it stays longer. That is new to the log, but not to policy.
	a := at(labelled("C2", 1, "a"), Start.Add(50*time.Minute))
	a.LabelsEnd = a.Now.Add(time.Hour)
	if c := s.admit(t, a).Change.Session; c == nil || c.Version != 1 {
		t.Errorf("a label that is prolonged: %+v", c)
	}
	if got := s.session(t, "s", soon); len(got.Labels) != 1 {
		t.Errorf("not prolonged: %+v", got)
	}
	a = at(labelled("C3", 1, "a"), Start.Add(3*time.Hour))
	a.LabelsEnd = a.Now.Add(time.Hour)
	if c := s.admit(t, a).Change.Session; c == nil || c.Version != 2 {
		t.Errorf("a label that comes back: %+v", c)
	}
	a = at(labelled("C4", 2, "a"), Start.Add(3*time.Hour))
	a.LabelsEnd = a.Now.Add(time.Second) // shorter than it stays anyway
	s.admit(t, a)
	if got := s.session(t, "s", Start.Add(3*time.Hour+time.Minute)); len(got.Labels) != 1 {
		t.Errorf("a label was cut short: %+v", got)
	}
}

func foreign(t *testing.T, s store) {
	s.apply(t, call.Change{Session: &call.SessionChange{ID: "s", Owner: "p-bob"}})
	if got := s.session(t, "s", Start); got.Owner != "p-bob" || got.Version != 0 {
		t.Errorf("Session = %+v", got)
	}
	a := labelled("C1", 0, "x")
	a.Charges = []state.Charge{bucket("k", 1)}
	if ans, err := s.Admit(t.Context(), a); !errors.Is(err, state.ErrSessionForeign) || ans.Admitted || !ans.Change.IsZero() {
		t.Errorf("somebody else's session: %+v, %v; want %v", ans, err, state.ErrSessionForeign)
	}
	a.Principal = "p-bob"
	if ans := s.admit(t, a); !ans.Admitted || ans.Change.Session == nil || ans.Change.Session.Owner != "p-bob" {
		t.Errorf("one's own session: %+v", ans)
	}
}

// Of calls that saw the session without the label, one adds it and the others are
// decided again.
func racersOnALabel(t *testing.T, s store) {
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			ans, err := s.Admit(t.Context(), labelled(fmt.Sprint("C", g), 0, "x"))
			if ans.Admitted {
				admitted.Add(1)
			} else if !errors.Is(err, state.ErrSessionChanged) {
				t.Errorf("Admit = %+v, %v", ans, err)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 1 {
		t.Errorf("%d calls were admitted on what they saw, want 1", n)
	}
}

// A session that was opened is its owner's until it ends, and as if nobody had opened it
// from then on. Its labels have ends of their own.
func sessionEnds(t *testing.T, s store) {
	end := Start.Add(time.Minute)
	opened := call.Change{Session: &call.SessionChange{ID: "s", Owner: "p-olga", Until: end.UnixNano()}}
	s.apply(t, opened)
	s.apply(t, opened) // again, as after a lost answer
	late := opened
	late.Session = &call.SessionChange{ID: "s", Owner: "p-olga", Until: end.UnixNano() - 1}
	s.apply(t, late)
	if got := s.session(t, "s", end.Add(-1)); got.Owner != "p-olga" {
		t.Errorf("at the last moment: %+v", got)
	}
	if _, err := s.Admit(t.Context(), at(plain("C1"), end.Add(-1))); !errors.Is(err, state.ErrSessionForeign) {
		t.Errorf("somebody else, at the last moment: %v", err)
	}
	own := labelled("C2", 0, "x")
	own.Principal = "p-olga"
	if c := s.admit(t, own).Change.Session; c.Owner != "p-olga" || c.Until != end.UnixNano() {
		t.Errorf("its labels are recorded as %+v", c)
	}
	if got := s.session(t, "s", end); got.Owner != "" || !cmp.Equal(got.Labels, []string{"x"}) {
		t.Errorf("when it is over: %+v", got)
	}
	a := at(labelled("C3", 1, "y"), end)
	if c := s.admit(t, a).Change.Session; c.Owner != "" || c.Until != 0 || c.Version != 2 {
		t.Errorf("afterwards it is nobody's: %+v", c)
	}
}
