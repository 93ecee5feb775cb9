package state

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// pruneEvery is how many admissions pass at least between two clearings of what
// can no longer matter.
const pruneEvery = 1024

// Local is a [Store] in memory. It holds nothing that is not in the log: what
// restricts (charges, consumption, labels, votes against, revocations) acts at
// once and its record follows; what permits acts when its record is durable. If a
// record cannot be written the engine stops, and the fold of what is durable is
// the truth.
type Local struct {
	mu        sync.Mutex           // protects the fields below
	tats      map[string]int64     // limit key -> theoretical arrival time, Unix ns
	approvals map[string]*approval // id -> question
	bound     map[string][]string  // callOf -> ids of the questions that are not over for good
	days      map[dayOf]time.Time  // when the last question asked on that day expires
	sessions  map[string]*session
	revoked   map[string]bool   // "p" + principal digest or "t" + tool name
	epoch     int64             // approvals of older ones are void
	admitted  map[string]Answer // call id -> answer, until Settle
	changed   chan struct{}
	admits    int       // since the last clearing
	floor     time.Time // what no longer mattered then may be forgotten
}

// dayOf is a day of a tenant's, whose questions are bound under one key.
type dayOf struct {
	tenant string
	day    int64 // UTC, since 1970
}

type session struct {
	owner   string
	version int64
	labels  map[string]int64 // label -> when it ends, Unix ns
	calls   int64
	used    int64 // Unix ns
}

// NewLocal returns a store that remembers nothing yet.
func NewLocal() *Local {
	return &Local{
		tats:      map[string]int64{},
		approvals: map[string]*approval{},
		bound:     map[string][]string{},
		days:      map[dayOf]time.Time{},
		sessions:  map[string]*session{},
		revoked:   map[string]bool{},
		admitted:  map[string]Answer{},
		changed:   make(chan struct{}),
		floor:     time.Unix(0, 0), // no time below is negative
	}
}

// Session implements [Store].
func (l *Local) Session(_ context.Context, id string, now time.Time) (Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session(id)
	return Session{Owner: s.owner, Labels: s.at(now), Version: s.version, Calls: s.calls}, nil
}

// Admit implements [Store].
func (l *Local) Admit(_ context.Context, a Admission) (Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ans, ok := l.admitted[a.Call]; ok {
		if a.Peek {
			ans = Answer{Admitted: true}
		}
		return ans, nil
	}
	// UTC also drops the monotonic reading: the log keeps none, so it must not count
	// before either.
	a.Now = a.Now.UTC()
	if err := errors.Join(l.since(a.Now), a.check()); err != nil {
		return Answer{}, err
	}
	if !a.Peek {
		l.prune(a.Now)
	}
	s := l.session(a.Session)
	if s.owner != "" && s.owner != a.Principal {
		return Answer{}, ErrSessionForeign
	}
	if s.version != a.Version {
		return Answer{}, ErrSessionChanged
	}
	if l.revokes(a) {
		return Answer{Revoked: true}, nil
	}
	change, ans := l.charge(a)
	if ans.Limited != nil {
		return ans, nil
	}
	if len(a.Asks) > 0 {
		q, err := l.ask(a)
		if err != nil {
			return Answer{}, err
		}
		approved := l.standing(q, a.Now) == Approved
		if !approved || a.Peek {
			v := q.view(a.Now, l.isRevoked)
			ans.Approval = &v
			switch {
			case q.durable:
			case a.Peek:
				ans.Approval.ID = ""
			default:
				// Whoever is told of it records it: the record of whoever asked first may
				// never become durable.
				ans.Change.Asked = q.asked
			}
		}
		if !approved {
			return ans, nil
		}
		change.Consumed = []string{q.asked.ID}
	}
	ans.Admitted = true
	if a.Peek {
		return ans, nil
	}
	change.Session = s.add(a)
	l.sessions[a.Session] = s
	l.apply(change)
	s.calls++
	s.used = max(s.used, a.Now.UnixNano())
	ans.Change = change
	l.admitted[a.Call] = ans
	return ans, nil
}

// Settle implements [Store].
func (l *Local) Settle(callID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.admitted, callID)
}

// Vote implements [Store].
func (l *Local) Vote(_ context.Context, v call.Vote, now time.Time) (call.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.since(now); err != nil {
		return call.Change{}, err
	}
	q := l.approvals[v.Approval]
	if q == nil || q.gone(now) {
		return call.Change{}, ErrNoApproval
	}
	if !q.mayVote(v.By) {
		return call.Change{}, ErrMayNotVote
	}
	switch st := l.standing(q, now); {
	case st == Open, st == Approved && v.Deny:
	case st == Approved:
		return call.Change{}, nil
	default:
		return call.Change{}, ErrNoApproval
	}
	if q.said(v) {
		return call.Change{}, nil
	}
	change := call.Change{Voted: &v}
	if v.Deny {
		l.apply(change)
	}
	return change, nil
}

// Revoke implements [Store].
func (l *Local) Revoke(_ context.Context, r call.Revocation) (call.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Epoch != 0 {
		r.Epoch = l.epoch + 1
	}
	change := call.Change{Revoked: &r}
	l.apply(change)
	return change, nil
}

// Revoked implements [Store].
func (l *Local) Revoked(_ context.Context, principal string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revoked["p"+principal], nil
}

// Approvals implements [Store].
func (l *Local) Approvals(_ context.Context, now time.Time) ([]Approval, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.since(now); err != nil {
		return nil, err
	}
	var out []Approval
	for _, q := range l.approvals {
		if q.gone(now) {
			continue
		}
		if st := l.standing(q, now); st == Open || st == Approved {
			out = append(out, q.view(now, l.isRevoked))
		}
	}
	slices.SortFunc(out, func(a, b Approval) int {
		if c := a.Asked.Compare(b.Asked); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// Approval implements [Store].
func (l *Local) Approval(_ context.Context, id string, now time.Time) (Approval, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.since(now); err != nil {
		return Approval{}, err
	}
	if q := l.approvals[id]; q != nil && !q.gone(now) {
		return q.view(now, l.isRevoked), nil
	}
	return Approval{}, ErrNoApproval
}

// Changed implements [Store].
func (l *Local) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// since refuses to tell what was when it may be forgotten already, and what will be
// when Unix ns have wrapped.
func (l *Local) since(now time.Time) error {
	if now.After(time.Unix(0, math.MaxInt64)) {
		return fmt.Errorf("the clock says %s", now)
	}
	if now.Before(l.floor) {
		return fmt.Errorf("the clock says %s, and what ended before %s is forgotten", now, l.floor)
	}
	return nil
}

// revokes reports whether the tool, or anybody whose call this is, is revoked.
func (l *Local) revokes(a Admission) bool {
	return l.revoked["t"+a.Tool.Name] || l.revoked["p"+a.Principal] ||
		slices.ContainsFunc(a.ActsFor, func(p string) bool { return l.revoked["p"+p] })
}

// charge works out every charge without taking any. Of several limits that refuse,
// it names the one that refuses for longest.
func (l *Local) charge(a Admission) (change call.Change, ans Answer) {
	if len(a.Charges) > 0 {
		change.TATs = call.Times{}
	}
	refused := make([]*Limited, len(a.Charges))
	for i, c := range a.Charges {
		tat, ok := change.TATs[c.Key]
		if !ok {
			tat = l.tats[c.Key]
		}
		next, no := c.next(tat, a.Now.UnixNano())
		switch {
		case no == nil:
			change.TATs[c.Key] = next
		case ans.Limited == nil || no.RetryAfter > ans.Limited.RetryAfter:
			ans.Limited = no
		}
		refused[i] = no
	}
	if !a.Peek {
		return change, ans
	}
	for i, c := range a.Charges {
		after := refused[i]
		if after == nil {
			after = &Limited{Name: c.Name, Limit: c.Burst, Remaining: c.left(change.TATs[c.Key], a.Now.UnixNano())}
		}
		ans.Limits = append(ans.Limits, *after)
	}
	return change, ans
}

// ask finds the question about this very call that still stands or makes one, so
// that any number of identical calls ask once.
func (l *Local) ask(a Admission) (*approval, error) {
	rules := slices.Clone(a.Asks)
	for i := range rules {
		rules[i].Reason = "" // free text stays out of records
		rules[i].From = rules[i].From.Clone()
	}
	var found *approval
	for d, last := range l.days {
		if d.tenant != a.Requester.Tenant || !a.Now.Before(last) {
			continue
		}
		// It is bound under the key of the day on which it was asked.
		binding, err := a.Bind(time.Unix(d.day*secondsPerDay, 0).UTC())
		if err != nil {
			return nil, err
		}
		for _, id := range l.bound[callOf(binding, a.Requester)] {
			if q := l.approvals[id]; l.rank(q, rules, a.Now) > l.rank(found, rules, a.Now) {
				found = q
			}
		}
	}
	if found != nil {
		return found, nil
	}
	if l.approvals[idOf(a)] != nil {
		return nil, fmt.Errorf("%s was asked before, about something else", idOf(a))
	}
	binding, err := a.Bind(a.Now)
	if err != nil {
		return nil, err
	}
	asked := &call.Approval{
		ID: idOf(a), Binding: binding, Asked: a.Now, Expires: a.Now.Add(lasts(rules)),
		Rules: rules, Requester: a.Requester, Tool: a.Tool, Caps: a.Caps, Epoch: l.epoch,
	}
	if a.Peek {
		return &approval{asked: asked}, nil
	}
	return l.note(asked), nil
}

func (l *Local) isRevoked(principal string) bool { return l.revoked["p"+principal] }

func (l *Local) standing(q *approval, now time.Time) Standing { return q.standing(now, l.isRevoked) }

// rank orders the questions about one call, 0 for those that do not count. A no
// stands whatever is asked now; a yes only if it answers all that is asked now.
func (l *Local) rank(q *approval, rules []call.ApprovalRule, now time.Time) int {
	if q == nil {
		return 0
	}
	switch st := l.standing(q, now); {
	case st == Denied:
		return 3
	case st == Approved && covers(q.asked.Rules, rules):
		return 2
	case st == Open && covers(q.asked.Rules, rules):
		return 1
	default:
		return 0
	}
}

// idOf is the id of the question that the admission may lead to.
func idOf(a Admission) string { return "ap-" + a.Call }

// at lists the labels that the session has at that time.
func (s *session) at(now time.Time) []string {
	var out []string
	for label, end := range s.labels {
		if now.UnixNano() < end {
			out = append(out, label)
		}
	}
	slices.Sort(out)
	return out
}

// add returns what the admission's labels change; nil when there are none. Labels
// that are there already are recorded again, since the record that first brought
// them may never become durable; the version does not move for them.
func (s *session) add(a Admission) *call.SessionChange {
	if len(a.Labels) == 0 {
		return nil
	}
	labels := call.Times{}
	version := s.version
	for _, label := range a.Labels {
		labels[label] = a.LabelsEnd.UnixNano()
		if s.labels[label] <= a.Now.UnixNano() {
			version = s.version + 1
		}
	}
	return &call.SessionChange{ID: a.Session, Owner: s.owner, Version: version, Labels: labels}
}
