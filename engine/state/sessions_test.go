package state

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// Sessions of which nothing holds any more are forgotten, whoever opened them and however
// many labels they had, so that memory is bounded by what the last month opened and the last
// day labelled. A fold of the log, and of a snapshot, answer the same.
func TestSessionsAreForgotten(t *testing.T) {
	l := NewLocal()
	var log []call.Change
	for i := range 500 {
		c := call.Change{Session: &call.SessionChange{ID: fmt.Sprint("so-", i), Owner: "p", Until: start.Add(SessionLife).UnixNano()}}
		log = append(log, c)
		l.Fold(c)
		a := Admission{Call: fmt.Sprint("C", i), Now: start, Principal: "p", Session: fmt.Sprint("s-", i), Labels: []string{"x"}, LabelsEnd: start.Add(24 * time.Hour)}
		ans, err := l.Admit(t.Context(), a)
		if err != nil || !ans.Admitted {
			t.Fatalf("%+v, %v", ans, err)
		}
		l.Settle(a.Call, 0)
		log = append(log, ans.Change)
	}
	left := func(l *Local, at time.Time) int {
		l.Forget(at)
		return len(l.sessions)
	}
	folded := func() *Local {
		l := NewLocal()
		for _, c := range log {
			l.Fold(c)
		}
		return l
	}
	for _, tt := range []struct {
		at   time.Time
		want int
	}{
		{start.Add(25*time.Hour - 1), 1000},
		{start.Add(25 * time.Hour), 500},
		{start.Add(SessionLife).Add(question.KeepEnded - 1), 500},
		{start.Add(SessionLife).Add(question.KeepEnded), 0},
	} {
		whole := folded()
		parts := NewLocal()
		for _, c := range l.Changes() {
			parts.Fold(c)
		}
		for name, l := range map[string]*Local{"live": l, "the whole log": whole, "a snapshot": parts} {
			if n := left(l, tt.at); n != tt.want {
				t.Errorf("%s: after %v %d sessions are kept, want %d", name, tt.at.Sub(start), n, tt.want)
			}
		}
		for _, id := range []string{"so-7", "s-7"} {
			want, err := folded().Session(t.Context(), id, tt.at)
			got, err2 := parts.Session(t.Context(), id, tt.at)
			if want.Version, got.Version = 0, 0; err != nil || err2 != nil || !cmp.Equal(want, got) {
				t.Errorf("after %v: %+v, %v; of the log %+v, %v", tt.at.Sub(start), got, err2, want, err)
			}
		}
	}
	if _, err := l.Session(t.Context(), "so-1", start); err == nil {
		t.Error("it tells of a time of which it has forgotten everything")
	}
}

// Whoever has just decided on a session is not admitted to one that was forgotten and has
// the same version again, with another label.
func TestVersionsDoNotComeAgain(t *testing.T) {
	l := NewLocal()
	label := func(id string, version int64, now time.Time, label string) error {
		a := Admission{Call: id, Now: now, Session: "s", Version: version, Labels: []string{label}, LabelsEnd: now.Add(time.Minute)}
		_, err := l.Admit(t.Context(), a)
		return err
	}
	if err := label("C1", 0, start, "x"); err != nil {
		t.Fatal(err)
	}
	now := start.Add(3 * time.Hour)
	seen, err := l.Session(t.Context(), "s", now)
	if err != nil {
		t.Fatal(err)
	}
	l.Forget(now.Add(time.Second))
	if err := label("C2", seen.Version, now.Add(time.Second), "y"); err != nil {
		t.Fatal(err)
	}
	if err := label("C3", seen.Version, now.Add(time.Second), "z"); !errors.Is(err, ErrSessionChanged) {
		t.Errorf("decided before the label came: %v", err)
	}
}

// A crash took the record of a revocation, but not that of a question asked after it. The
// next revocation of everything is later than both.
func TestEpochWhoseRecordIsLost(t *testing.T) {
	live := NewLocal()
	if _, err := live.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil { // its record is lost
		t.Fatal(err)
	}
	a := Admission{Call: "C1", Now: start, Principal: "p", Asks: questions[0], Bind: func(time.Time) (Binding, error) { return Binding{"b", "b"}, nil }}
	ans, err := live.Admit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	next := NewLocal()
	next.Fold(ans.Change)
	next = refold(next)
	c, err := next.Revoke(t.Context(), call.Revocation{Epoch: 1})
	if err != nil || c.Revoked.Epoch != 2 {
		t.Errorf("Revoke = %+v, %v", c, err)
	}
	if got, err := next.Approval(t.Context(), ans.Approval.ID, start); err != nil || got.Standing != Expired {
		t.Errorf("asked before everything was revoked: %s, %v", got.Standing, err)
	}
}

// refold is what a snapshot of the store comes to.
func refold(l *Local) *Local {
	out := NewLocal()
	for _, c := range l.Changes() {
		out.Fold(c)
	}
	return out
}

// A session that somebody else uses under its id when its time is over is not kept as
// whoever opened it left it, closed or not.
func TestOwnersAreForgotten(t *testing.T) {
	l := NewLocal()
	end := start.Add(time.Minute)
	l.Fold(call.Change{Session: &call.SessionChange{ID: "so", Owner: "p", Until: end.UnixNano(), Ended: true}})
	a := Admission{Call: "C", Now: end, Principal: "q", Session: "so", Labels: []string{"x"}, LabelsEnd: end.Add(24 * time.Hour)}
	if ans, err := l.Admit(t.Context(), a); err != nil || !ans.Admitted {
		t.Fatalf("Admit = %+v, %v", ans, err)
	}
	l.Forget(end.Add(2 * time.Hour))
	want := call.SessionChange{ID: "so", Version: 1, Labels: call.Times{"x": a.LabelsEnd.UnixNano()}}
	if diff := cmp.Diff([]call.Change{{Session: &want}}, l.Changes()); diff != "" {
		t.Error(diff)
	}
}
