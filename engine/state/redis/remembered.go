package redis

import (
	"maps"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// What a node remembers of sessions. Of more than that it remembers some.
const (
	recalled      = 1 << 16  // sessions with labels or a plan, and as many that were ended
	recalledPlans = 16 << 20 // bytes of all plans together: they are put back while a server waits

	// recallBatch is how many sessions are put back by one script.
	recallBatch = 256
)

// remembered is what a node has made of sessions, to put it back.
type remembered struct {
	open  map[string]call.SessionChange // with labels or a plan
	ended map[string]call.SessionChange // by their owners, for a month: they must not crowd labels out
	plans int                           // bytes of those in open
	swept time.Time
}

func newRemembered() remembered {
	return remembered{open: map[string]call.SessionChange{}, ended: map[string]call.SessionChange{}}
}

// recall remembers labels, a plan, or an end that this node has given a session.
func (s *Store) recall(c call.SessionChange, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made.add(c, now)
}

func (r *remembered) add(c call.SessionChange, now time.Time) {
	if c.Ended {
		r.keep(r.ended, call.SessionChange{ID: c.ID, Owner: c.Owner, Until: c.Until, Ended: true}, now)
		c.Ended = false
	}
	if len(c.Labels) > 0 || c.PlanUntil != 0 {
		r.keep(r.open, c, now)
	}
}

// keep merges c into list, if there is room.
func (r *remembered) keep(list map[string]call.SessionChange, c call.SessionChange, now time.Time) {
	if _, ok := list[c.ID]; !ok && len(list) >= recalled {
		if r.sweep(now); len(list) >= recalled {
			return
		}
	}
	is := list[c.ID]
	if is.ID = c.ID; is.Labels == nil {
		is.Labels = call.Times{}
	}
	before := bytesOf(is.Plan)
	is.Merge(c)
	list[c.ID] = is
	if r.plans += bytesOf(is.Plan) - before; r.plans <= recalledPlans {
		return
	}
	if r.sweep(now); r.plans > recalledPlans {
		// That there was a later one than any that others remember is known still.
		r.plans -= bytesOf(is.Plan)
		is.Plan = nil
		list[c.ID] = is
	}
}

// sweep forgets what is over, but not for each session that finds no room.
func (r *remembered) sweep(now time.Time) {
	if ago := now.Sub(r.swept); ago >= 0 && ago < time.Minute {
		return
	}
	r.swept, r.plans = now, 0
	maps.DeleteFunc(r.open, func(_ string, c call.SessionChange) bool { return over(c, now) })
	maps.DeleteFunc(r.ended, func(_ string, c call.SessionChange) bool { return over(c, now) })
	for id, c := range r.open {
		if c.PlanUntil <= now.UnixNano() {
			c.Plan, c.PlanVersion, c.PlanUntil = nil, 0, 0
			r.open[id] = c
		}
		r.plans += bytesOf(c.Plan)
	}
}

// changes are what the server is to hold at least.
func (r *remembered) changes() []sessionChange {
	list := make([]sessionChange, 0, len(r.open)+len(r.ended))
	for _, made := range []map[string]call.SessionChange{r.ended, r.open} { // none is open again meanwhile
		for _, c := range made {
			change := changeOf(c)
			change.Grow = true
			list = append(list, change)
		}
	}
	return list
}

// over reports whether all labels and the plan have left the session by then, and it has
// not ended before its time.
func over(c call.SessionChange, now time.Time) bool {
	for _, end := range c.Labels {
		if now.UnixNano() < end {
			return false
		}
	}
	return c.PlanUntil <= now.UnixNano() && (!c.Ended || c.Until != 0 && c.Until <= now.UnixNano())
}

// bytesOf is about how long a plan is as JSON.
func bytesOf(p call.Plan) int {
	n := 0
	for _, t := range p {
		n += 64 + len(t.ID)
		for _, name := range t.Tools {
			n += 3 + len(name)
		}
		for _, id := range t.After {
			n += 3 + len(id)
		}
	}
	return n
}
