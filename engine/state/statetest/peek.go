package statetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// peeks is how often tests look where once should be as good as often.
const peeks = 20

// peek looks many times and wants one answer, which changes nothing.
func (s store) peek(t *testing.T, a state.Admission) state.Answer {
	t.Helper()
	a.Peek = true
	first := s.admit(t, a)
	for range peeks {
		if diff := cmp.Diff(first, s.admit(t, a)); diff != "" {
			t.Fatalf("a peek at %s changed the answer to the next: %s", a.Call, diff)
		}
	}
	if !first.Change.IsZero() {
		t.Errorf("a peek at %s changes %+v", a.Call, first.Change)
	}
	return first
}

// What is left is told, and not taken.
func peekLimits(t *testing.T, s store) {
	a := plain("C1", bucket("few", 2), state.Charge{Name: "many", Key: "many", Burst: 10, Cost: 3, Per: time.Minute})
	a.Labels, a.LabelsEnd = []string{"x"}, Start.Add(time.Hour)
	want := state.Answer{Admitted: true, Limits: []state.Limited{{Name: "few", Limit: 2, Remaining: 1}, {Name: "many", Limit: 10, Remaining: 7}}}
	if diff := cmp.Diff(want, s.peek(t, a)); diff != "" {
		t.Error(diff)
	}
	if got := s.session(t, "s", Start); !cmp.Equal(got, state.Session{}) {
		t.Errorf("a peek leaves its traces in the session: %+v", got)
	}
	// The very call that was looked at is taken like any other, and once.
	if ans := s.admit(t, a); len(ans.Change.TATs) != 2 || ans.Change.Session == nil || ans.Limits != nil {
		t.Errorf("Admit after a peek = %+v", ans)
	}
	if ans := s.peek(t, a); !ans.Admitted {
		t.Errorf("a peek at a call that is admitted = %+v", ans)
	}
	a.Call, a.Version = "C2", 1
	s.admit(t, a)
	a.Call = "C3"
	want = state.Answer{
		Limited: &state.Limited{Name: "few", Limit: 2, RetryAfter: 30 * time.Second},
		Limits:  []state.Limited{{Name: "few", Limit: 2, RetryAfter: 30 * time.Second}, {Name: "many", Limit: 10, Remaining: 1}},
	}
	if diff := cmp.Diff(want, s.peek(t, a)); diff != "" {
		t.Error(diff)
	}
	twice := plain("C4", bucket("twice", 5), bucket("twice", 5))
	twice.Version = 1
	for _, l := range s.peek(t, twice).Limits {
		if l.Remaining != 3 {
			t.Errorf("one bucket charged twice: %+v", l)
		}
	}
}

// A question is told about once its record is durable, as it stands, and a peek
// neither asks nor uses up the answer.
func peekApprovals(t *testing.T, s store) {
	a := asking("P1", "x")
	want := func(when string, admitted bool, id string, standing state.Standing) {
		t.Helper()
		ans := s.peek(t, a)
		if ans.Admitted != admitted || ans.Approval == nil || ans.Approval.ID != id || ans.Approval.Standing != standing {
			t.Errorf("%s: %+v", when, ans)
			return
		}
		if rules := ans.Approval.Rules; len(rules) != 1 || rules[0].Name != "lead" {
			t.Errorf("%s: rules %+v", when, rules)
		}
	}
	changed := s.Changed()
	want("before it is asked", false, "", state.Open)
	if list, err := s.Approvals(t.Context(), Start); err != nil || len(list) > 0 {
		t.Errorf("a peek asked: %+v, %v", list, err)
	}
	select {
	case <-changed:
		t.Error("a peek wakes whoever waits")
	default:
	}
	first := s.admit(t, asking("C1", "x"))
	want("before it is durable", false, "", state.Open)
	s.apply(t, first.Change)
	id := first.Approval.ID
	want("asked", false, id, state.Open)
	s.vote(t, id, person("lena", "lead"), false)
	want("approved", true, id, state.Approved)
	if st := s.standing(t, id, Start); st != state.Approved {
		t.Errorf("looked at, it is %s", st)
	}
	if ans := s.admit(t, asking("C2", "x")); !ans.Admitted || !cmp.Equal(ans.Change.Consumed, []string{id}) {
		t.Errorf("Admit after peeks = %+v", ans)
	}
	want("consumed", false, "", state.Open)
	id = s.asked(t, asking("C3", "x"))
	s.vote(t, id, person("lena", "lead"), true)
	want("denied", false, id, state.Denied)
}

// A peek is refused for what a call would be refused for.
func peekRefused(t *testing.T, s store) {
	s.apply(t, call.Change{Session: &call.SessionChange{ID: "bobs", Owner: "p-bob"}})
	if _, err := s.Revoke(t.Context(), call.Revocation{Tool: "rm"}); err != nil {
		t.Fatal(err)
	}
	gone := plain("C1")
	gone.Tool.Name = "rm"
	if ans := s.peek(t, gone); ans.Admitted || !ans.Revoked {
		t.Errorf("a revoked tool: %+v", ans)
	}
	for name, tt := range map[string]struct {
		change func(*state.Admission)
		want   error // nil: any
	}{
		"another's session": {func(a *state.Admission) { a.Session = "bobs" }, state.ErrSessionForeign},
		"an old session":    {func(a *state.Admission) { a.Version = 3 }, state.ErrSessionChanged},
		"nonsense":          {func(a *state.Admission) { a.Charges = []state.Charge{{Name: "l", Key: "l"}} }, nil},
		"no binding": {func(a *state.Admission) {
			a.Asks = []call.ApprovalRule{lead}
			a.Bind = func(time.Time) (state.Binding, error) { return state.Binding{}, errors.New("no key") }
		}, nil},
	} {
		a := plain("C2")
		a.Peek = true
		tt.change(&a)
		ans, err := s.Admit(t.Context(), a)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !cmp.Equal(ans, state.Answer{}) {
			t.Errorf("%s: %+v, %v; want %v", name, ans, err, tt.want)
		}
	}
}
