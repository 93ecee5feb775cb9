package state

import (
	"maps"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// MaxKeys is how many keys of one limit may be in use at a time: a key may come from
// an argument, and so from an attacker. A key is in use from when something is
// taken of it until its bucket is full again or its window is over, and for an hour
// more.
const MaxKeys = 1 << 16

// Group is the limit that the charge's key belongs to.
func (c Charge) Group() string { return group(c.Key) }

func group(key string) string { return key[:max(0, strings.LastIndexByte(key, '/'))] }

// Held is what a store holds of one key of a limit. The zero value is nothing.
type Held struct {
	TAT  int64 // theoretical arrival time of a bucket that refills, Unix ns
	Used int64 // units of one that is counted
}

// Bill works out every charge without taking any, against what a store holds. Of
// several limits that refuse, it names the one that refuses for longest. It is for
// stores, so that they all count in one way.
func (a Admission) Bill(held func(key string) Held) (change call.Change, ans Answer) {
	now := a.Now.UnixNano()
	left := make([]*Limited, len(a.Charges))
	for i, c := range a.Charges {
		if c.End.IsZero() {
			left[i] = c.refill(&change, held(c.Key).TAT, now)
		} else {
			left[i] = c.count(&change, held(c.Key).Used, now)
		}
		if no := left[i]; no != nil && (ans.Limited == nil || no.RetryAfter > ans.Limited.RetryAfter) {
			ans.Limited = no
		}
	}
	if !a.Peek {
		return change, ans
	}
	for i, c := range a.Charges {
		after := left[i]
		if after == nil {
			n := max(0, c.Burst-held(c.Key).Used-change.Used[c.Key].Units)
			if c.End.IsZero() {
				n = c.left(change.TATs[c.Key], now)
			}
			after = &Limited{Name: c.Name, Limit: c.Burst, Remaining: n}
		}
		ans.Limits = append(ans.Limits, *after)
	}
	return change, ans
}

// refill takes from a bucket that refills.
func (c Charge) refill(change *call.Change, tat, now int64) *Limited {
	if t, ok := change.TATs[c.Key]; ok {
		tat = t
	}
	next, no := c.next(tat, now)
	if no == nil {
		if change.TATs == nil {
			change.TATs = call.Times{}
		}
		change.TATs[c.Key] = next
	}
	return no
}

// count takes from what is counted until the window ends.
func (c Charge) count(change *call.Change, used, now int64) *Limited {
	units, no := c.take(used+change.Used[c.Key].Units, now)
	if no == nil {
		if change.Used == nil {
			change.Used = call.Uses{}
		}
		change.Used[c.Key] = call.Use{Units: change.Used[c.Key].Units + units, End: c.End.UnixNano()}
	}
	return no
}

// charge is the bill for what the store holds, unless a limit has too many keys.
func (l *Local) charge(a Admission) (change call.Change, ans Answer, err error) {
	if l.crowded(a) {
		if l.forgetSometimes(a.Now); l.crowded(a) {
			return call.Change{}, Answer{}, ErrTooManyKeys
		}
	}
	change, ans = a.Bill(func(key string) Held { return Held{TAT: l.tats[key], Used: l.used[key].Units} })
	return change, ans, nil
}

// crowded reports whether the admission takes from more keys of a limit than there may
// be.
func (l *Local) crowded(a Admission) bool {
	fresh := map[string]int{} // keys by group
	seen := map[string]bool{}
	for _, c := range a.Charges {
		if l.holds(c.Key) || seen[c.Key] {
			continue
		}
		seen[c.Key] = true
		if fresh[c.Group()]++; l.keys[c.Group()]+fresh[c.Group()] > MaxKeys {
			return true
		}
	}
	return false
}

// holds reports whether the key is in use.
func (l *Local) holds(key string) bool {
	if _, ok := l.tats[key]; ok {
		return true
	}
	_, ok := l.used[key]
	return ok
}

// keep counts a key that is about to be in use.
func (l *Local) keep(key string) {
	if !l.holds(key) {
		l.keys[group(key)]++
	}
}

// drop counts a key that may no longer be.
func (l *Local) drop(key string) {
	if l.holds(key) {
		return
	}
	if l.keys[group(key)]--; l.keys[group(key)] <= 0 {
		delete(l.keys, group(key))
	}
}

// count adds units to what is used of a key, or takes them off it. Those of a log that
// is not complete may be less than nothing for a while.
func (l *Local) count(key string, u call.Use) {
	l.keep(key)
	sum := call.Use{Units: l.used[key].Units + u.Units, End: max(l.used[key].End, u.End)}
	if l.used[key] = sum; sum.Units == 0 {
		delete(l.used, key)
		l.drop(key)
	}
}

// taken is what an admission took from limits that refill, to be given back.
type taken struct {
	Answer
	charges []Charge
}

// giveBack undoes what the call took, but for what its buckets have refilled of that
// by the newest admission: somebody may have taken it again. What is forgotten already
// was full anyway.
func (l *Local) giveBack(callID string, t taken) {
	left := maps.Clone(t.Change.TATs)
	for _, c := range t.charges {
		if tat, ok := l.tats[c.Key]; ok && c.End.IsZero() {
			n := min(times(c.unit(), c.Cost), max(0, left[c.Key]-l.latest))
			l.tats[c.Key], left[c.Key] = tat-n, left[c.Key]-n
		}
	}
	for key, u := range l.refundable(callID, l.counted[callID].uses) {
		l.count(key, u)
	}
	delete(l.counted, callID)
}

// counting is what a call took of limits that count, until it is known how much of that
// it used.
type counting struct {
	uses  call.Uses
	since int64 // Unix ns
}

// longestCall is how long a call may be under way: a run is bounded by a day, and the
// grant for it waits for minutes.
const longestCall = 25 * time.Hour

// refundable are those of the units that the call took and that are in use.
func (l *Local) refundable(callID string, units call.Uses) call.Uses {
	back := call.Uses{}
	for key, u := range units {
		if n := min(u.Units, l.counted[callID].uses[key].Units, l.used[key].Units); n > 0 {
			back[key] = call.Use{Units: -n, End: l.used[key].End}
		}
	}
	return back
}
