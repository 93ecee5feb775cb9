package state

import (
	"github.com/callgate/callgate/engine/call"
)

// What follows is for stores of other packages, so that they refuse, count and ask
// as [Local] does.

// Check refuses what would overdraw a bucket or could never be recorded.
func (a Admission) Check() error { return a.check() }

// Ask is the question that the admission puts to people at a.Now, in that epoch.
func (a Admission) Ask(epoch int64) (*call.Approval, error) { return a.question(epoch) }

// Check refuses a grant that nobody could remember to be spent.
func (s Spend) Check() error { return s.check() }

// Check refuses a change of a plan that could never be recorded, or would not stay.
func (r Replan) Check() error { return r.check() }

// Span is what the charge's bucket counts in, in ns: what its cost moves the bucket's
// instant by, and how far ahead of now that may be. Never says that the bucket is
// smaller than the cost.
func (c Charge) Span() (need, whole int64, never bool) {
	return times(c.unit(), c.Cost), times(c.unit(), c.Burst), c.Cost > c.Burst
}
