package state

import (
	"math"
	"math/bits"
	"time"
)

// The generic cell rate algorithm keeps one instant a bucket: the theoretical
// arrival time at which the bucket is full again. A unit moves it by the time
// that one unit needs to refill; a call passes while that stays within the time
// that a whole bucket needs. (ITU-T I.371, as virtual scheduling.)

// next returns the bucket's instant after the charge, in Unix ns, or the refusal.
// now is not negative. What would overflow makes the bucket smaller, never larger.
func (c Charge) next(tat, now int64) (int64, *Limited) {
	unit := c.unit()
	whole := min(times(unit, c.Burst), math.MaxInt64-now)
	need := times(unit, c.Cost)
	tat = max(tat, now)
	room := whole - (tat - now)
	if c.Cost <= c.Burst && need <= room {
		return tat + need, nil
	}
	wait := int64(math.MaxInt64) // never, however long it waits
	if c.Cost <= c.Burst && need <= whole {
		wait = need - room
	}
	return 0, &Limited{Name: c.Name, Limit: c.Burst, Remaining: c.left(tat, now), RetryAfter: time.Duration(wait)}
}

// take returns the units to count of a window in which used were taken so far, or the
// refusal.
func (c Charge) take(used, now int64) (int64, *Limited) {
	left := max(0, c.Burst-used)
	if c.Cost <= left && now < c.End.UnixNano() {
		return c.Cost, nil
	}
	wait := int64(math.MaxInt64)
	if c.Cost <= c.Burst {
		wait = max(0, c.End.UnixNano()-now)
	}
	return 0, &Limited{Name: c.Name, Limit: c.Burst, Remaining: left, RetryAfter: time.Duration(wait)}
}

// left is how many whole units the bucket holds.
func (c Charge) left(tat, now int64) int64 {
	unit := c.unit()
	whole := min(times(unit, c.Burst), math.MaxInt64-now)
	return max(0, whole-(max(tat, now)-now)) / unit
}

// unit is the time in which one unit refills, rounded up so that a bucket never
// gives more than its burst.
func (c Charge) unit() int64 {
	unit := int64(c.Per) / c.Burst
	if int64(c.Per)%c.Burst != 0 {
		unit++
	}
	return unit
}

// times multiplies what is not negative, and stops at the largest integer.
func times(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
