package state

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// snapshot is the state in a form that can be compared.
type snapshot struct {
	TATs     map[string]int64
	Used     map[string]call.Use
	Spent    map[string]time.Time
	Asked    map[string]call.Approval
	Votes    map[string][]string
	Over     map[string]string
	Bound    map[string][]string
	Days     map[dayOf]time.Time
	Sessions map[string]string
	Revoked  map[string]bool
	Epoch    int64
}

func snap(l *Local) snapshot {
	s := snapshot{
		TATs: l.tats, Used: l.used, Spent: l.spent, Days: l.days, Revoked: l.revoked, Epoch: l.epoch, Asked: map[string]call.Approval{}, Votes: map[string][]string{},
		Over: map[string]string{}, Bound: map[string][]string{}, Sessions: map[string]string{},
	}
	for id, q := range l.approvals {
		if q.Asked != nil {
			s.Asked[id] = *q.Asked
		}
		for _, v := range q.Votes {
			s.Votes[id] = append(s.Votes[id], fmt.Sprint(v))
		}
		slices.Sort(s.Votes[id])
		s.Over[id] = fmt.Sprint("consumed ", q.Consumed, " void ", q.Void)
	}
	for of, ids := range l.bound {
		s.Bound[of] = slices.Sorted(slices.Values(ids))
	}
	for id, t := range l.sessions {
		if t.Owner != "" || t.Version != 0 { // else there is nothing but an advisory count
			s.Sessions[id] = fmt.Sprint(t.SessionChange) // maps in order
		}
	}
	return s
}

// decoded is the change as the log gives it back.
func decoded(t *rapid.T, c call.Change) call.Change {
	line, err := call.Record{Type: call.TypeDecision, Time: start, Change: &c}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := call.DecodeRecord(line)
	if err != nil {
		t.Fatal(err)
	}
	return *r.Change
}

func folded(changes []call.Change) *Local {
	l := NewLocal()
	for _, c := range changes {
		l.Fold(c)
	}
	return l
}

// Records become durable late and in any order. After each of them the process may
// crash: then the fold of what is durable is one state whatever the order, holds no
// permission that the live state had not, and is the live state once nothing is
// under way. Of a bucket whose taker was released, what later calls recorded counts:
// that is more, and never less.
func TestFoldIsTheLiveState(t *testing.T) {
	admitted, crashes := 0, 0
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		live, now := NewLocal(), start
		o := &operations{T: t}
		var log []call.Change
		var underWay, acted []result
		loose := map[string]bool{} // buckets of which something was given back
		commit := func(i int) {
			r := underWay[i]
			underWay = slices.Delete(underWay, i, i+1)
			if r.Call != "" {
				live.Settle(r.Call, int64(len(log)))
				o.calls = append(o.calls, r)
			}
			c := decoded(t, r.Change)
			log = append(log, c)
			if r.Later {
				live.Fold(c)
				acted = append(acted, result{Change: c})
			}
			crashes++
			inOrder := folded(log)
			shuffled := rapid.Permutation(log).Draw(t, "order")
			if a, b := snap(inOrder), snap(folded(shuffled)); !reflect.DeepEqual(a, b) { // cmp would take seconds
				t.Fatalf("the order of records matters:\n%s", cmp.Diff(a, b))
			}
			atLeast(t, live, inOrder, loose)
			balanced(t, live, inOrder, underWay)
			if len(underWay) == 0 {
				now, then := snap(live), snap(inOrder)
				for key := range loose {
					now.TATs, then.TATs = without(now.TATs, key), without(then.TATs, key)
				}
				if diff := cmp.Diff(now, then); diff != "" {
					t.Fatalf("the fold is not the live state:\n%s", diff)
				}
				for of, ids := range live.bound {
					for _, id := range ids {
						if q := live.approvals[id]; q.Consumed || q.Void {
							t.Fatalf("%s is over and still looked at for %s", id, of)
						}
					}
				}
			}
		}
		for range rapid.IntRange(20, 80).Draw(t, "operations") {
			now = now.Add(time.Duration(rapid.IntRange(-30, 120).Draw(t, "pause")) * time.Second)
			r := o.draw(now)(live)
			if r.Err != nil && !r.Change.IsZero() {
				t.Fatalf("an error that changes something: %+v", r)
			}
			if r.Change.Asked != nil {
				o.ids = append(o.ids, r.Change.Asked.ID)
			}
			for _, id := range r.Change.Consumed {
				admitted++
				if err := mayConsume(acted, id, now); err != nil {
					t.Fatalf("%s is consumed: %v", id, err)
				}
			}
			if !r.Later {
				acted = append(acted, r)
			}
			if !r.Change.IsZero() {
				underWay = append(underWay, r)
			}
			note(seen, r)
			if rapid.IntRange(0, 9).Draw(t, "release") == 0 {
				underWay = release(t, live, underWay, loose)
			}
			for len(underWay) > 0 && rapid.IntRange(0, 3).Draw(t, "durable") > 0 {
				commit(rapid.IntRange(0, len(underWay)-1).Draw(t, "which"))
			}
		}
		for len(underWay) > 0 {
			commit(rapid.IntRange(0, len(underWay)-1).Draw(t, "which"))
		}
	})
	if admitted == 0 || crashes == 0 || len(seen) < 4 {
		t.Errorf("%d approvals were consumed, %d records written, and %v: the operations never meet", admitted, crashes, seen)
	}
}

// mayConsume is the rule about approvals, said again in the plainest way over all
// changes that act so far.
func mayConsume(acted []result, id string, now time.Time) error {
	var asked *call.Approval
	for _, r := range acted {
		c := r.Change
		if c.Asked != nil && c.Asked.ID == id {
			asked = c.Asked
		}
		if slices.Contains(c.Consumed, id) {
			return errors.New("a second time")
		}
		if slices.Contains(c.Voided, id) {
			return errors.New("though void")
		}
		if c.Voted != nil && c.Voted.Approval == id && c.Voted.Deny {
			return errors.New("though denied")
		}
		if asked != nil && c.Revoked != nil && c.Revoked.Epoch > asked.Epoch {
			return errors.New("in another epoch")
		}
	}
	if asked == nil || !now.Before(asked.Expires) {
		return errors.New("unasked, or too late")
	}
	for _, rule := range asked.Rules {
		people := map[string]bool{}
		for _, r := range acted {
			v := r.Change.Voted
			if v == nil || v.Approval != id || v.By.ID == asked.Requester.ID || len(asked.Requester.OnBehalfOf) > 0 && v.By.ID == asked.Requester.OnBehalfOf[0].ID {
				continue
			}
			for _, role := range v.By.Roles {
				if slices.Contains(rule.From.Roles, role) {
					people[v.By.ID] = true
				}
			}
			if slices.Contains(rule.From.IDs, v.By.ID) {
				people[v.By.ID] = true
			}
		}
		if len(people) < rule.Count {
			return fmt.Errorf("%s has %d of %d", rule.Name, len(people), rule.Count)
		}
	}
	return nil
}

// A store that forgets what it may gives every answer that one gives that keeps it
// all, as long as the clock does not step back further than they promise.
func TestForgettingChangesNoAnswer(t *testing.T) {
	forgot := 0
	rapid.Check(t, func(t *rapid.T) {
		keeps, forgets, latest := NewLocal(), NewLocal(), start
		o := &operations{T: t}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			latest = latest.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 20, 300, 3600, 9000}).Draw(t, "pause")) * time.Second)
			if rapid.IntRange(0, 4).Draw(t, "forget") == 0 {
				before := len(forgets.approvals) + len(forgets.tats) + len(forgets.used)
				forgets.forget(latest.Add(-question.KeepEnded))
				forgot += before - len(forgets.approvals) - len(forgets.tats) - len(forgets.used)
			}
			// What of a window that is forgotten comes back, nobody asks about.
			o.calls = slices.DeleteFunc(o.calls, func(r result) bool {
				for _, u := range r.Change.Used {
					if u.End <= latest.Add(-question.KeepEnded).UnixNano() {
						return true
					}
				}
				return false
			})
			now := latest.Add(-time.Duration(rapid.SampledFrom([]int64{0, 0, 1, int64(question.KeepEnded), int64(question.KeepEnded)}).Draw(t, "back")))
			op := o.draw(now)
			want, got := op(keeps), op(forgets)
			same := []cmp.Option{
				cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
				// Versions begin anew when all else is over.
				cmpopts.IgnoreFields(Session{}, "Version"), cmpopts.IgnoreFields(call.SessionChange{}, "Version", "PlanVersion"),
			}
			if diff := cmp.Diff(want, got, same...); diff != "" {
				t.Fatalf("forgetting changes an answer:\n%s", diff)
			}
			if want.Later {
				keeps.Fold(want.Change)
				forgets.Fold(want.Change)
			}
			if want.Change.Asked != nil {
				o.ids = append(o.ids, want.Change.Asked.ID)
			}
			if want.Call != "" {
				o.calls = append(o.calls, want)
			}
			for _, id := range o.ids {
				a, errA := keeps.Approval(t.Context(), id, now)
				b, errB := forgets.Approval(t.Context(), id, now)
				if diff := cmp.Diff(a, b); diff != "" || !errors.Is(errB, errA) {
					t.Fatalf("Approval(%s): %v, %v %s", id, errA, errB, diff)
				}
			}
			a, _ := keeps.Approvals(t.Context(), now)
			b, err := forgets.Approvals(t.Context(), now)
			if diff := cmp.Diff(a, b); diff != "" || err != nil {
				t.Fatalf("Approvals: %v %s", err, diff)
			}
		}
	})
	if forgot == 0 {
		t.Error("nothing was forgotten")
	}
}

// What may be forgotten is forgotten, and who asks about a time before that is told
// so, rather than that nothing was there.
func TestForgets(t *testing.T) {
	l := NewLocal()
	calls := 0
	admit := func(id string, now time.Time, asks bool) error {
		calls++
		a := Admission{Call: fmt.Sprint("C", calls), Now: now, Session: id, Charges: []Charge{{Key: id, Burst: 1 << 20, Cost: 1, Per: time.Minute}}}
		if asks {
			a.Asks, a.Bind = questions[0], func(day time.Time) (Binding, error) { d := day.Format(time.DateOnly); return Binding{d, d}, nil }
		}
		_, err := l.Admit(t.Context(), a)
		l.Settle(a.Call, 0)
		return err
	}
	for i := range 10 {
		if err := errors.Join(admit(fmt.Sprint("A", i), start, false), admit(fmt.Sprint("Q", i), start, true)); err != nil {
			t.Fatal(err)
		}
	}
	later := start.Add(3 * time.Hour)
	for i := range pruneEvery {
		if err := admit(fmt.Sprint("B", i%10), later, false); err != nil {
			t.Fatal(err)
		}
	}
	for name := range l.tats {
		if strings.HasPrefix(name, "A") {
			t.Errorf("bucket %s is kept", name)
		}
	}
	if len(l.approvals)+len(l.bound)+len(l.days) > 0 || l.sessions["A1"] != nil {
		t.Errorf("kept: %d approvals, %d bindings, %d days, session %+v", len(l.approvals), len(l.bound), len(l.days), l.sessions["A1"])
	}
	if len(l.admitted) > 0 {
		t.Errorf("%d settled calls are kept", len(l.admitted))
	}
	if err := admit("back", later.Add(-question.KeepEnded-1), false); err == nil {
		t.Error("an admission before what is forgotten")
	}
	if err := admit("not so far", later.Add(-question.KeepEnded), false); err != nil {
		t.Error(err)
	}
	_, err := l.Vote(t.Context(), call.Vote{Approval: "ap-C2"}, start)
	if err == nil || errors.Is(err, ErrNoApproval) {
		t.Errorf("a vote before what is forgotten: %v", err)
	}
}

// To the nanosecond: what still matters at the floor is kept.
func TestForgetsNothingTooSoon(t *testing.T) {
	l := NewLocal()
	call := func(id string, now time.Time) Admission {
		return Admission{Call: id, Now: now, Session: "s", Charges: []Charge{{Key: "k", Burst: 1, Cost: 1, Per: 5 * time.Minute}}}
	}
	ask := func(id string, now time.Time) Admission {
		a := call(id, now)
		a.Charges, a.Asks, a.Bind = nil, questions[0], func(day time.Time) (Binding, error) { d := day.Format(time.DateOnly); return Binding{d, d}, nil }
		return a
	}
	admit := func(a Admission) Answer {
		ans, err := l.Admit(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return ans
	}
	admit(call("C1", start))
	asked := admit(ask("C2", start))
	l.Fold(asked.Change)
	id := asked.Approval.ID
	end := start.Add(5 * time.Minute) // of both
	l.forget(end.Add(-1))
	if ans := admit(call("C3", end.Add(-1))); ans.Limited == nil || ans.Limited.RetryAfter != 1 {
		t.Errorf("the bucket: %+v", ans)
	}
	if ans := admit(ask("C4", end.Add(-1))); ans.Approval.ID != id {
		t.Errorf("the question: %+v", ans)
	}
	l.forget(end.Add(question.KeepEnded - 1))
	if a, err := l.Approval(t.Context(), id, end.Add(question.KeepEnded-1)); err != nil || a.Standing != Expired {
		t.Errorf("what ended: %+v, %v", a, err)
	}
}

// Grants that are spent are forgotten an hour after their time, by a store that admits
// nothing too.
func TestExecutorForgets(t *testing.T) {
	l := NewLocal()
	spend := func(id string, now time.Time) {
		t.Helper()
		if _, err := l.Spend(t.Context(), Spend{ID: id, Now: now, Expires: now.Add(time.Minute), Principals: []string{"p"}, Tool: "ls"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		spend(fmt.Sprint("A", i), start)
	}
	for i := range pruneEvery {
		spend(fmt.Sprint("B", i), start.Add(2*time.Hour))
	}
	if n := len(l.spent); n > pruneEvery {
		t.Errorf("%d grants are remembered, want those of the last hour", n)
	}
}
