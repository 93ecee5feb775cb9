package state

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// defaultTTL is how long people have to approve when the rule does not say.
const defaultTTL = time.Hour

// Local is a [Store] in memory. It holds nothing that is not in the log: charges
// and asks act at once, since they only restrict, and their record follows; if
// the record cannot be written the engine stops, and the fold of what is durable
// is the truth.
type Local struct {
	mu       sync.Mutex // protects the fields below
	tats     map[string]int64
	asked    map[string]*call.Approval // binding -> pending approval
	sessions map[string]*session
	admitted map[string]Answer // call id -> answer, until Settle
}

type session struct {
	version int64
	labels  []string // sorted, without repeats
	calls   int64
}

// NewLocal returns a store that remembers nothing yet.
func NewLocal() *Local {
	return &Local{
		tats:     map[string]int64{},
		asked:    map[string]*call.Approval{},
		sessions: map[string]*session{},
		admitted: map[string]Answer{},
	}
}

// Session implements [Store].
func (l *Local) Session(_ context.Context, id string) (call.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session(id)
	return call.Session{ID: id, Labels: slices.Clone(s.labels), Calls: s.calls, Version: s.version}, nil
}

// Admit implements [Store].
func (l *Local) Admit(_ context.Context, a Admission) (Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ans, ok := l.admitted[a.Call]; ok {
		return ans, nil
	}
	s := l.session(a.Session)
	if s.version != a.Version {
		return Answer{}, ErrSessionChanged
	}
	change, limited := l.charge(a)
	if limited != nil {
		return Answer{Limited: limited}, nil
	}
	if len(a.Asks) > 0 {
		return l.ask(a)
	}
	change.Session = s.add(a.Session, a.Labels)
	l.sessions[a.Session] = s
	l.apply(change)
	s.calls++
	ans := Answer{Admitted: true, Change: change}
	l.admitted[a.Call] = ans
	return ans, nil
}

// Settle implements [Store].
func (l *Local) Settle(callID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.admitted, callID)
}

// Apply folds the change of one durable record. The order of records does not
// matter: instants and versions are folded by max, labels by union.
func (l *Local) Apply(c call.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(c)
}

// charge works out every charge without taking any.
func (l *Local) charge(a Admission) (call.Change, *Limited) {
	now := a.Now.UnixNano()
	change := call.Change{}
	for _, c := range a.Charges {
		tat, ok := change.TATs[c.Key]
		if !ok {
			tat = l.tats[c.Key]
		}
		next, limited := c.next(tat, now)
		if limited != nil {
			return call.Change{}, limited
		}
		if change.TATs == nil {
			change.TATs = map[string]int64{}
		}
		change.TATs[c.Key] = next
	}
	return change, nil
}

// ask finds the pending approval of this very call or makes one, so that any
// number of identical calls ask once.
func (l *Local) ask(a Admission) (Answer, error) {
	p, err := l.pending(a)
	if err != nil {
		return Answer{}, err
	}
	if p != nil {
		return Answer{Pending: p}, nil
	}
	binding, err := a.Bind(a.Now)
	if err != nil {
		return Answer{}, err
	}
	ttl := defaultTTL
	rules := slices.Clone(a.Asks)
	for i := range rules {
		rules[i].Reason = "" // free text stays out of records
		if t := time.Duration(rules[i].TTL) * time.Second; t > 0 {
			ttl = min(ttl, t)
		}
	}
	p = &call.Approval{ID: "ap-" + a.Call, Binding: binding, Asked: a.Now.UTC(), Expires: a.Now.Add(ttl).UTC(), Rules: rules}
	l.asked[p.Binding] = p
	return Answer{Pending: p, Change: call.Change{Asked: p}}, nil
}

// pending looks under the key of each day on which something was asked that is
// still open.
func (l *Local) pending(a Admission) (*call.Approval, error) {
	tried := map[string]bool{}
	for _, p := range l.asked {
		if !a.Now.Before(p.Expires) {
			delete(l.asked, p.Binding)
			continue
		}
		day := p.Asked.Format(time.DateOnly)
		if tried[day] {
			continue
		}
		tried[day] = true
		binding, err := a.Bind(p.Asked)
		if err != nil {
			return nil, err
		}
		if q := l.asked[binding]; q != nil && a.Now.Before(q.Expires) {
			return q, nil
		}
	}
	return nil, nil
}

func (l *Local) apply(c call.Change) {
	for k, v := range c.TATs {
		l.tats[k] = max(l.tats[k], v)
	}
	if c.Asked != nil {
		// The later of two asks for one call is the one that still stands.
		if p := l.asked[c.Asked.Binding]; p == nil || p.Expires.Before(c.Asked.Expires) {
			l.asked[c.Asked.Binding] = c.Asked
		}
	}
	if c.Session != nil {
		s := l.session(c.Session.ID)
		s.version = max(s.version, c.Session.Version)
		s.labels = union(s.labels, c.Session.Labels)
		l.sessions[c.Session.ID] = s
	}
}

func (l *Local) session(id string) *session {
	if s := l.sessions[id]; s != nil {
		return s
	}
	return &session{}
}

// add returns the session with more labels; nil when there are none to add. Labels
// that are there already are recorded again, since the record that first brought
// them may never become durable; the version does not move for them.
func (s *session) add(id string, labels []string) *call.SessionChange {
	if len(labels) == 0 {
		return nil
	}
	all := union(s.labels, labels)
	version := s.version
	if len(all) > len(s.labels) {
		version++
	}
	return &call.SessionChange{ID: id, Version: version, Labels: all}
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
