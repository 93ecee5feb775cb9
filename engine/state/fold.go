package state

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// secondsPerDay is the length of a UTC day.
const secondsPerDay = 24 * 60 * 60

// Apply implements [Store].
func (l *Local) Apply(_ context.Context, c call.Change) error {
	l.Fold(call.Change{Asked: c.Asked, Voted: c.Voted, Session: c.Session})
	return nil
}

// Fold takes in the change of one record of the log, each record once. Their order
// does not matter: instants and versions are folded by max, units by sum, plans by
// which is later, everything else by union.
func (l *Local) Fold(c call.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(c)
}

func (l *Local) apply(c call.Change) {
	for k, v := range c.TATs {
		l.keep(k)
		l.tats[k] = max(l.tats[k], v)
	}
	for k, u := range c.Used {
		l.count(k, u)
	}
	for _, s := range c.Spent {
		l.spent[s.ID] = s.Expires
	}
	if c.Asked != nil {
		l.note(c.Asked).Durable = true
	}
	if c.Voted != nil {
		l.approval(c.Voted.Approval).Vote(*c.Voted)
	}
	for _, id := range c.Consumed {
		q := l.approval(id)
		q.Consumed = true
		l.bind(q)
	}
	for _, id := range c.Voided {
		q := l.approval(id)
		q.Void = true
		l.bind(q)
	}
	if c.Session != nil {
		l.applySession(c.Session)
	}
	if c.Revoked != nil {
		l.revoke(c.Revoked)
	}
	if c.Asked != nil || c.Voted != nil || len(c.Consumed) > 0 || len(c.Voided) > 0 || c.Revoked != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// note keeps a question.
func (l *Local) note(asked *call.Approval) *question.Question {
	q := l.approval(asked.ID)
	q.Asked, q.Void = asked, q.Void || asked.Epoch < l.epoch
	l.newest = max(l.newest, asked.Epoch)
	day := dayOf{asked.Requester.Tenant, asked.Asked.Unix() / secondsPerDay}
	if l.days[day].Before(asked.Expires) {
		l.days[day] = asked.Expires
	}
	l.bind(q)
	return q
}

func (l *Local) approval(id string) *question.Question {
	if l.approvals[id] == nil {
		l.approvals[id] = &question.Question{}
	}
	return l.approvals[id]
}

// bind keeps the question among those about its call, unless it is over for good.
func (l *Local) bind(q *question.Question) {
	if q.Asked == nil {
		return
	}
	l.wait(q)
	of := question.Key(q.Asked.About, q.Asked.Requester)
	ids := slices.DeleteFunc(l.bound[of], func(id string) bool { return id == q.Asked.ID })
	if !q.Consumed && !q.Void {
		ids = append(ids, q.Asked.ID)
	}
	if len(ids) == 0 {
		delete(l.bound, of)
	} else {
		l.bound[of] = ids
	}
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
		if q.Asked != nil && q.Asked.Epoch < l.epoch {
			q.Void = true
			l.bind(q)
		}
	}
}

// prune forgets now and then, so rarely that an operation pays for few entries.
func (l *Local) prune(now time.Time) {
	if l.admits++; l.admits >= max(pruneEvery, len(l.tats)+len(l.used)+len(l.approvals)+len(l.sessions)+len(l.spent)) {
		l.admits = 0
		l.forget(now.Add(-question.KeepEnded))
	}
}

// forgetSometimes forgets when a limit has too many keys, but not for each call that
// finds that.
func (l *Local) forgetSometimes(now time.Time) {
	if floor := now.Add(-question.KeepEnded); floor.Sub(l.floor) >= time.Minute {
		l.forget(floor)
	}
}

// forget drops what no answer at floor or later depends on: buckets that are full,
// questions that nobody is told about, sessions without labels or a plan that are
// nobody's. Answers for before floor are errors from then on.
func (l *Local) forget(floor time.Time) {
	if !floor.After(l.floor) {
		return
	}
	l.floor = floor
	for k, tat := range l.tats {
		if tat <= floor.UnixNano() {
			delete(l.tats, k)
			l.drop(k)
		}
	}
	for k, u := range l.used {
		if u.End <= floor.UnixNano() {
			delete(l.used, k)
			l.drop(k)
		}
	}
	maps.DeleteFunc(l.counted, func(_ string, c counting) bool { return c.since <= floor.Add(-longestCall).UnixNano() })
	maps.DeleteFunc(l.spent, func(_ string, expires time.Time) bool { return !floor.Before(expires) })
	maps.DeleteFunc(l.days, func(_ dayOf, last time.Time) bool { return !floor.Before(last) })
	maps.DeleteFunc(l.sessions, func(_ string, s *session) bool { return s.over(floor.UnixNano()) })
	for id, q := range l.approvals {
		// One whose question was not seen holds a consumption or a vote that the
		// question must find when it is folded.
		if q.Asked != nil && q.Past(floor) {
			q.Void = true
			l.bind(q) // takes it out
			delete(l.approvals, id)
		}
	}
}
