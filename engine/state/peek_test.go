package state

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// everything is all that a store holds, and not only what must outlive it.
type everything struct {
	Snapshot  snapshot
	Durable   map[string]bool
	Used      map[string][2]int64 // of each session: calls, and when it was used
	Admitted  []string
	Counted   int // calls that may give something back
	Admits    int
	Floor     time.Time
	Unchanged bool // nobody was woken
}

func holds(l *Local, changed <-chan struct{}) everything {
	e := everything{
		Snapshot: snap(l), Durable: map[string]bool{}, Used: map[string][2]int64{},
		Admitted: slices.Sorted(maps.Keys(l.admitted)), Counted: len(l.counted), Admits: l.admits, Floor: l.floor, Unchanged: l.changed == changed,
	}
	s := &e.Snapshot
	s.TATs, s.Days, s.Revoked = maps.Clone(s.TATs), maps.Clone(s.Days), maps.Clone(s.Revoked)
	s.Used, s.Spent = maps.Clone(s.Used), maps.Clone(s.Spent)
	for id, q := range l.approvals {
		e.Durable[id] = q.Durable
	}
	for id, t := range l.sessions {
		e.Used[id] = [2]int64{t.calls, t.used}
	}
	return e
}

// A peek changes nothing at all, whatever is there, and says what becomes of the
// call when it is made next.
func TestPeek(t *testing.T) {
	admitted, limited, waits := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l, now := NewLocal(), start
		o := &operations{T: t}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{-30, 0, 1, 20, 300}).Draw(t, "pause")) * time.Second)
			if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
				l.forget(now.Add(-question.KeepEnded))
			}
			if rapid.Bool().Draw(t, "peek") {
				o.n++
				a := o.admission(now)
				s, err := l.Session(context.Background(), a.Session, now)
				if err != nil {
					t.Fatal(err)
				}
				a.Version, a.Peek = s.Version, true
				before := holds(l, l.changed)
				told, toldErr := l.Admit(context.Background(), a)
				if after := holds(l, l.changed); !reflect.DeepEqual(before, after) || !told.Change.IsZero() {
					t.Fatalf("a peek changes something: %+v\n%s", told.Change, cmp.Diff(before, after))
				}
				a.Peek = false
				got, err := l.Admit(context.Background(), a)
				switch {
				case (err == nil) != (toldErr == nil),
					got.Admitted != told.Admitted, got.Revoked != told.Revoked, !reflect.DeepEqual(got.Limited, told.Limited),
					got.Approval != nil && (told.Approval == nil || got.Approval.Standing != told.Approval.Standing):
					t.Fatalf("a peek said %+v, %v; it became %+v, %v", told, toldErr, got, err)
				case told.Approval != nil && told.Approval.ID != "" && !l.approvals[told.Approval.ID].Durable:
					t.Fatalf("told of %s before it is durable", told.Approval.ID)
				}
				for i, c := range a.Charges {
					left := c.left(l.tats[c.Key], now.UnixNano())
					if !c.End.IsZero() {
						left = c.Burst - l.used[c.Key].Units
					}
					if got.Admitted && told.Limits[i].Remaining != left {
						t.Fatalf("a peek said %+v; %d are left", told.Limits[i], left)
					}
				}
				if got.Change.Asked != nil {
					o.ids = append(o.ids, got.Change.Asked.ID)
					if rapid.Bool().Draw(t, "durable") {
						l.Fold(got.Change)
					}
				}
				admitted, limited, waits = admitted+count(got.Admitted), limited+count(got.Limited != nil), waits+count(got.Approval != nil)
				continue
			}
			r := o.draw(now)(l)
			expected := []error{ErrNoApproval, ErrMayNotVote, ErrSessionChanged, ErrSessionForeign, ErrSpent, ErrRevoked, call.ErrTask, call.ErrNoTask, call.ErrTaskThere, call.ErrTaskStatus}
			if r.Err != nil && !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(r.Err, e) }) {
				t.Fatal(r.Err)
			}
			if r.Change.Asked != nil {
				o.ids = append(o.ids, r.Change.Asked.ID)
			}
			if r.Call != "" {
				o.calls = append(o.calls, r)
			}
			if r.Later {
				l.Fold(r.Change)
			}
		}
	})
	if admitted == 0 || limited == 0 || waits == 0 {
		t.Errorf("%d admitted, %d limited, %d waiting: the operations never meet", admitted, limited, waits)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
