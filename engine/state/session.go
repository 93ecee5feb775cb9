package state

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/callgate/callgate/engine/call"
)

type session struct {
	call.SessionChange       // what the log knows of it
	calls              int64 // advisory
	used               int64 // when anybody last decided on it, Unix ns
}

// session is what is known of one, or a new one, which is not kept yet.
func (l *Local) session(id string) *session {
	if s := l.sessions[id]; s != nil {
		return s
	}
	return &session{SessionChange: call.SessionChange{ID: id}}
}

func (l *Local) applySession(c *call.SessionChange) {
	s := l.session(c.ID)
	s.Merge(*c)
	l.sessions[c.ID] = s
}

// Replan implements [Store].
func (l *Local) Replan(_ context.Context, r Replan) (call.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.since(r.Now), r.check()); err != nil {
		return call.Change{}, err
	}
	s := l.session(r.Session)
	if !s.open(r.Principal, r.Now) {
		return call.Change{}, ErrSessionForeign
	}
	plan, err := s.planAt(r.Now).Change(r.Op)
	if err != nil {
		return call.Change{}, err
	}
	c := s.change(r.Now)
	c.Version = s.Version + 1
	c.Plan, c.PlanVersion, c.PlanUntil = plan, c.Version, r.Until(s.PlanUntil, c.Until)
	change := call.Change{Session: c}
	l.apply(change)
	return change, nil
}

// change is one of the session at that time that changes nothing.
func (s *session) change(now time.Time) *call.SessionChange {
	c := &call.SessionChange{ID: s.ID, Owner: s.ownerAt(now), Version: s.Version}
	if c.Owner != "" {
		c.Until = s.Until
	}
	return c
}

// ownerAt is whose session it is at that time, or was before they ended it; "" for
// nobody's.
func (s *session) ownerAt(now time.Time) string {
	if s.Until != 0 && s.Until <= now.UnixNano() {
		return ""
	}
	return s.Owner
}

// open reports whether the principal may call in the session.
func (s *session) open(principal string, now time.Time) bool {
	owner := s.ownerAt(now)
	return owner == "" || owner == principal && !s.Ended
}

func (s *session) planAt(now time.Time) call.Plan {
	if s.PlanUntil <= now.UnixNano() {
		return nil
	}
	return s.Plan
}

// at is what anybody may know of the session at that time.
func (s *session) at(now time.Time) Session {
	out := Session{Version: s.Version, Calls: s.calls}
	if s.Ended {
		out.Ended = s.ownerAt(now)
	} else if out.Owner = s.ownerAt(now); out.Owner != "" && s.Until != 0 {
		out.Until = time.Unix(0, s.Until).UTC()
	}
	if out.Ended == "" {
		out.Plan = s.planAt(now).Clone()
	}
	for label, end := range s.Labels {
		if now.UnixNano() < end {
			out.Labels = append(out.Labels, label)
		}
	}
	slices.Sort(out.Labels)
	return out
}

// over drops the labels, the plan and the owner that had ended at floor, and reports
// whether the session holds nothing then, and nobody has decided on it since, who might
// take a version that comes later for this one.
func (s *session) over(floor int64) bool {
	maps.DeleteFunc(s.Labels, func(_ string, end int64) bool { return end <= floor })
	if s.PlanUntil <= floor {
		s.Plan, s.PlanVersion, s.PlanUntil = nil, 0, 0
	}
	if s.Until != 0 && s.Until <= floor {
		s.Owner, s.Until, s.Ended = "", 0, false
	}
	return len(s.Labels) == 0 && s.PlanUntil == 0 && s.used <= floor && s.Owner == ""
}

// add returns what the admission's labels change; nil when there are none. Labels
// that are there already are recorded again, since the record that first brought
// them may never become durable; the version does not move for them.
func (s *session) add(a Admission) *call.SessionChange {
	if len(a.Labels) == 0 {
		return nil
	}
	c := s.change(a.Now)
	c.Labels = call.Times{}
	for _, label := range a.Labels {
		c.Labels[label] = a.LabelsEnd.UnixNano()
		if s.Labels[label] <= a.Now.UnixNano() {
			c.Version = s.Version + 1
		}
	}
	return c
}
