package state

import (
	"math"
	"time"
)

// The generic cell rate algorithm keeps one instant a bucket: the theoretical
// arrival time at which the bucket is full again. A unit moves it by the time
// that one unit needs to refill; a call passes while that stays within the time
// that a whole bucket needs. (ITU-T I.371, as virtual scheduling.)

// next returns the bucket's instant after the charge, in Unix ns, or the refusal.
func (c Charge) next(tat, now int64) (int64, *Limited) {
	unit := c.unit()
	if c.Cost > c.Burst {
		return 0, c.refuse(tat, now, math.MaxInt64) // never, however long it waits
	}
	after := max(tat, now) + unit*c.Cost
	if over := after - now - unit*c.Burst; over > 0 {
		return 0, c.refuse(tat, now, over)
	}
	return after, nil
}

// unit is the time in which one unit refills, rounded up so that a bucket never
// gives more than its burst.
func (c Charge) unit() int64 {
	return max(1, (int64(c.Per)+c.Burst-1)/c.Burst)
}

func (c Charge) refuse(tat, now, over int64) *Limited {
	used := max(0, tat-now)
	left := (c.unit()*c.Burst - used) / c.unit()
	return &Limited{Name: c.Name, Limit: c.Burst, Remaining: max(0, left), RetryAfter: time.Duration(over)}
}
