package state

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The algorithm in one instant a bucket does what its definition says over all
// calls: from no moment on are there more units than a full bucket and the refill.
func TestLimitIsItsDefinition(t *testing.T) {
	type paid struct{ at, cost int64 }
	rapid.Check(t, func(t *rapid.T) {
		c := Charge{Burst: rapid.Int64Range(1, 20).Draw(t, "burst"), Per: time.Duration(rapid.Int64Range(1, 200).Draw(t, "per"))}
		unit := (int64(c.Per) + c.Burst - 1) / c.Burst
		var all []paid
		var tat, now int64
		for range 50 {
			now += rapid.Int64Range(0, 30).Draw(t, "pause")
			c.Cost = rapid.Int64Range(1, 5).Draw(t, "cost")
			want := c.Cost <= c.Burst
			sum := c.Cost
			for _, p := range slices.Backward(all) {
				sum += p.cost
				want = want && sum*unit <= c.Burst*unit+now-p.at
			}
			next, limited := c.next(tat, now)
			if (limited == nil) != want {
				t.Fatalf("%+v at %d after %v: %+v, want admitted %v", c, now, all, limited, want)
			}
			if want {
				tat, all = next, append(all, paid{now, c.Cost})
			}
		}
	})
}

// Whatever the numbers are, nothing wraps: an instant never moves back, a bucket
// never owes more than it holds, and a refusal says how long and how many.
func FuzzCharge(f *testing.F) {
	f.Add(int64(3), int64(1), int64(time.Minute), int64(0), start.UnixNano())
	f.Add(int64(1<<63-1), int64(1<<63-1), int64(1<<63-1), int64(1<<63-1), int64(1<<63-1))
	f.Add(int64(1<<62), int64(1<<62+1), int64(1<<63-1), int64(0), int64(0))
	f.Add(int64(1<<62), int64(1), int64(1<<62+1), int64(-1<<63), int64(0))
	f.Fuzz(func(t *testing.T, burst, cost, per, tat, now int64) {
		c := Charge{Burst: burst, Cost: cost, Per: time.Duration(per)}
		if now < 0 || (Admission{Call: "C", Charges: []Charge{c}}).check() != nil {
			return
		}
		next, limited := c.next(tat, now)
		if limited != nil {
			if limited.RetryAfter <= 0 || limited.Remaining < 0 || limited.Remaining > burst {
				t.Errorf("%+v at %d with %d: refused by %+v", c, now, tat, limited)
			}
			return
		}
		if cost > burst || next <= now || next <= tat {
			t.Errorf("%+v at %d moves %d to %d", c, now, tat, next)
		}
		if units := (next - now) / c.unit(); units > burst {
			t.Errorf("%+v at %d owes %d", c, now, units)
		}
	})
}
