package state

import (
	"maps"
	"slices"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// secondsPerDay is the length of a UTC day.
const secondsPerDay = 24 * 60 * 60

// Apply implements [Store]. The order of records does not matter: instants and
// versions are folded by max, everything else by union.
func (l *Local) Apply(c call.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(c)
}

func (l *Local) apply(c call.Change) {
	for k, v := range c.TATs {
		l.tats[k] = max(l.tats[k], v)
	}
	if c.Asked != nil {
		l.note(c.Asked).durable = true
	}
	if c.Voted != nil {
		l.approval(c.Voted.Approval).vote(*c.Voted)
	}
	for _, id := range c.Consumed {
		q := l.approval(id)
		q.consumed = true
		l.bind(q)
	}
	if c.Session != nil {
		l.applySession(c.Session)
	}
	if c.Revoked != nil {
		l.revoke(c.Revoked)
	}
	if c.Asked != nil || c.Voted != nil || len(c.Consumed) > 0 || c.Revoked != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// note keeps a question.
func (l *Local) note(asked *call.Approval) *approval {
	q := l.approval(asked.ID)
	q.asked, q.void = asked, asked.Epoch < l.epoch
	day := dayOf{asked.Requester.Tenant, asked.Asked.Unix() / secondsPerDay}
	if l.days[day].Before(asked.Expires) {
		l.days[day] = asked.Expires
	}
	l.bind(q)
	return q
}

func (l *Local) approval(id string) *approval {
	if l.approvals[id] == nil {
		l.approvals[id] = &approval{}
	}
	return l.approvals[id]
}

// bind keeps the question among those about its call, unless it is over for good.
func (l *Local) bind(q *approval) {
	if q.asked == nil {
		return
	}
	of := callOf(q.asked.Binding, q.asked.Requester)
	ids := slices.DeleteFunc(l.bound[of], func(id string) bool { return id == q.asked.ID })
	if !q.consumed && !q.void {
		ids = append(ids, q.asked.ID)
	}
	if len(ids) == 0 {
		delete(l.bound, of)
	} else {
		l.bound[of] = ids
	}
}

func (l *Local) applySession(c *call.SessionChange) {
	s := l.session(c.ID)
	s.owner = max(s.owner, c.Owner) // one id has one owner, so max is that one
	s.version = max(s.version, c.Version)
	for label, end := range c.Labels {
		s.labels[label] = max(s.labels[label], end)
	}
	l.sessions[c.ID] = s
}

func (l *Local) revoke(r *call.Revocation) {
	if r.Principal != "" {
		l.revoked["p"+r.Principal] = true
	}
	if r.Tool != "" {
		l.revoked["t"+r.Tool] = true
	}
	if r.Epoch <= l.epoch {
		return
	}
	l.epoch = r.Epoch
	for _, q := range l.approvals {
		if q.asked != nil && q.asked.Epoch < l.epoch {
			q.void = true
			l.bind(q)
		}
	}
}

func (l *Local) session(id string) *session {
	if s := l.sessions[id]; s != nil {
		return s
	}
	return &session{labels: map[string]int64{}}
}

// prune forgets now and then, so rarely that an admission pays for few entries.
func (l *Local) prune(now time.Time) {
	if l.admits++; l.admits >= max(pruneEvery, len(l.tats)+len(l.approvals)+len(l.sessions)) {
		l.admits = 0
		l.forget(now.Add(-keepEnded))
	}
}

// forget drops what no answer at floor or later depends on: buckets that are full,
// questions that nobody is told about, sessions of which only the advisory count
// is known. Answers for before floor are errors from then on.
func (l *Local) forget(floor time.Time) {
	if !floor.After(l.floor) {
		return
	}
	l.floor = floor
	maps.DeleteFunc(l.tats, func(_ string, tat int64) bool { return tat <= floor.UnixNano() })
	maps.DeleteFunc(l.days, func(_ dayOf, last time.Time) bool { return !floor.Before(last) })
	maps.DeleteFunc(l.sessions, func(_ string, s *session) bool {
		return s.owner == "" && s.version == 0 && s.used <= floor.UnixNano()
	})
	for id, q := range l.approvals {
		// One whose question was not seen holds a consumption or a vote that the
		// question must find when it is folded.
		if q.asked != nil && q.past(floor) {
			q.void = true
			l.bind(q) // takes it out
			delete(l.approvals, id)
		}
	}
}
