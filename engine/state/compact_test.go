package state

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

// logged is a change as the log has it.
type logged struct {
	call.Change
	at time.Time
}

// logOf draws operations and the log that they leave, in which records are in another
// order than what they say was done, but not by much.
func logOf(t *rapid.T) (log []logged, latest time.Time) {
	live, now := NewLocal(), start
	o := &operations{T: t}
	type late struct {
		result
		at time.Time
	}
	var underWay []late
	commit := func(i int) {
		r := underWay[i]
		underWay = slices.Delete(underWay, i, i+1)
		c := decoded(t, r.Change)
		log = append(log, logged{c, r.at})
		if r.Call != "" {
			live.Settle(r.Call, int64(len(log)))
			o.calls = append(o.calls, r.result)
		}
		if r.Later {
			live.Fold(c)
		}
	}
	for range rapid.IntRange(20, 80).Draw(t, "operations") {
		now = now.Add(time.Duration(rapid.SampledFrom([]int{-30, 0, 1, 2, 5, 10, 20, 30, 60, 90, 120, 7200}).Draw(t, "pause")) * time.Second)
		if now.After(latest) {
			latest = now
		}
		for i := len(underWay) - 1; i >= 0; i-- {
			if now.Sub(underWay[i].at) > 20*time.Minute {
				commit(i)
			}
		}
		r := o.draw(now)(live)
		if r.Change.Asked != nil {
			o.ids = append(o.ids, r.Change.Asked.ID)
		}
		if !r.Change.IsZero() {
			underWay = append(underWay, late{r, now})
		}
		for len(underWay) > 0 && rapid.IntRange(0, 3).Draw(t, "durable") > 0 {
			commit(rapid.IntRange(0, len(underWay)-1).Draw(t, "which"))
		}
	}
	for len(underWay) > 0 {
		commit(0)
	}
	return log, latest
}

// Wherever the log is cut, and however often, what the changes of a snapshot and the
// records after it come to is what all records come to: all of it when nothing is
// forgotten, and all that can matter when each snapshot forgets.
func TestChangesFoldToTheSame(t *testing.T) {
	fewer, forgotten, seen := 0, 0, map[string]int{}
	check := func(t *rapid.T) {
		log, latest := logOf(t)
		forgets := rapid.Bool().Draw(t, "forgets")
		whole, parts := NewLocal(), NewLocal()
		since := 0
		for _, d := range log {
			whole.Fold(d.Change)
			parts.Fold(d.Change)
			since++
			if rapid.IntRange(0, 9).Draw(t, "cut") > 0 {
				continue
			}
			all := len(parts.Changes())
			if forgets {
				parts.Forget(d.at)
			}
			changes := parts.Changes()
			forgotten += all - len(changes)
			for _, c := range changes {
				note(seen, result{Change: c})
				seen["consumed"] += len(c.Consumed)
			}
			parts = NewLocal()
			for _, c := range rapid.Permutation(changes).Draw(t, "order") {
				parts.Fold(decoded(t, c))
			}
			if forgets {
				parts.Forget(d.at)
			}
			fewer += max(0, since-len(changes))
		}
		if forgets {
			// Later than any floor, for what comes after it is only forgotten with the next.
			whole.Forget(latest.Add(time.Second))
			parts.Forget(latest.Add(time.Second))
		}
		if want, got := snap(whole), snap(parts); !reflect.DeepEqual(want, got) {
			t.Fatalf("another state:\n%s", cmp.Diff(want, got))
		}
		if !reflect.DeepEqual(whole.keys, parts.keys) {
			t.Fatalf("keys %v, want %v", parts.keys, whole.keys)
		}
		checkWaiting(t, whole, parts)
	}
	missing := func() bool {
		return fewer == 0 || forgotten == 0 || seen["consumed"]*seen["voided"]*seen["spent"]*seen["took"]*seen["planned"]*seen["ended"] == 0
	}
	for range 10 { // one round does not come to everything each time
		if rapid.Check(t, check); !missing() {
			return
		}
	}
	t.Errorf("%d changes fewer than records, %d forgotten, kept %v", fewer, forgotten, seen)
}

// checkWaiting compares which questions each principal waits for.
func checkWaiting(t *rapid.T, want, got *Local) {
	ids := func(l *Local) map[string][]string {
		out := map[string][]string{}
		for of, list := range l.waiting {
			for _, q := range list {
				out[of] = append(out[of], q.Asked.ID)
			}
		}
		return out
	}
	if diff := cmp.Diff(ids(want), ids(got)); diff != "" {
		t.Fatalf("waiting:\n%s", diff)
	}
}
