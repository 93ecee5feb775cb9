package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// pruneEvery is how many admissions and uses of grants pass at least between two clearings of what
// can no longer matter.
const pruneEvery = 1024

// Local is a [Store] in memory. It holds nothing that is not in the log: what
// restricts (charges, consumption, labels, votes against, revocations) acts at
// once and its record follows; what permits acts when its record is durable. If a
// record cannot be written the engine stops, and the fold of what is durable is
// the truth.
type Local struct {
	mu        sync.Mutex          // protects the fields below
	tats      map[string]int64    // limit key -> theoretical arrival time, Unix ns
	used      map[string]call.Use // limit key -> units within its window
	approvals map[string]*question.Question
	bound     map[string][]string             // [question.Key] -> ids of the questions that are not over for good
	waiting   map[string][]*question.Question // by principal: those that are not over for good, by when they expire
	days      map[dayOf]time.Time             // when the last question asked on that day expires
	sessions  map[string]*session
	revoked   map[string]bool      // "p" + principal digest or "t" + tool name
	epoch     int64                // approvals of older ones are void
	newest    int64                // epoch that anything was asked in: its record may never have become durable
	spent     map[string]time.Time // grant id -> when it expires
	admitted  map[string]taken     // call id -> answer, until Settle
	counted   map[string]counting  // call id -> what it took of limits that count, until Refund
	keys      map[string]int       // limit -> keys in use
	changed   chan struct{}
	admits    int       // and grants used, since the last clearing
	latest    int64     // time of the newest admission, Unix ns
	floor     time.Time // what no longer mattered then may be forgotten
}

// dayOf is a day of a tenant's, whose questions are bound under one key.
type dayOf struct {
	tenant string
	day    int64 // UTC, since 1970
}

// NewLocal returns a store that remembers nothing yet.
func NewLocal() *Local {
	return &Local{
		tats:      map[string]int64{},
		used:      map[string]call.Use{},
		spent:     map[string]time.Time{},
		approvals: map[string]*question.Question{},
		bound:     map[string][]string{},
		waiting:   map[string][]*question.Question{},
		days:      map[dayOf]time.Time{},
		sessions:  map[string]*session{},
		revoked:   map[string]bool{},
		admitted:  map[string]taken{},
		counted:   map[string]counting{},
		keys:      map[string]int{},
		changed:   make(chan struct{}),
		floor:     time.Unix(0, 0), // no time below is negative
	}
}

// Session implements [Store].
func (l *Local) Session(_ context.Context, id string, now time.Time) (Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.since(now); err != nil {
		return Session{}, err
	}
	s := l.session(id)
	s.used = max(s.used, now.UnixNano())
	return s.at(now), nil
}

// Admit implements [Store].
func (l *Local) Admit(_ context.Context, a Admission) (Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, ok := l.admitted[a.Call]; ok {
		if a.Peek {
			t.Answer = Answer{Admitted: true}
		}
		return t.Answer, nil
	}
	// UTC also drops the monotonic reading: the log keeps none, so it must not count
	// before either.
	a.Now = a.Now.UTC()
	if err := errors.Join(l.since(a.Now), a.check()); err != nil {
		return Answer{}, err
	}
	if !a.Peek {
		l.latest = max(l.latest, a.Now.UnixNano())
		l.prune(a.Now)
	}
	s := l.session(a.Session)
	if !s.open(a.Principal, a.Now) {
		return Answer{}, ErrSessionForeign
	}
	if s.Version != a.Version {
		return Answer{}, ErrSessionChanged
	}
	if l.revokes(a) {
		return Answer{Revoked: true}, nil
	}
	change, ans, err := l.charge(a)
	if err != nil || ans.Limited != nil {
		return ans, err
	}
	if len(a.Asks) > 0 {
		q, stale, err := l.ask(a)
		if err != nil {
			return Answer{}, err
		}
		if len(stale) > 0 && !a.Peek {
			ans.Change.Voided = stale
			l.apply(ans.Change)
		}
		approved := l.standing(q, a.Now) == Approved
		ans.Stale = len(stale) > 0 && !approved
		if !approved || a.Peek {
			v := l.view(q, a.Now)
			ans.Approval = &v
			switch {
			case q.Durable:
			case a.Peek:
				ans.Approval.ID = ""
			default:
				// Whoever is told of it records it: the record of whoever asked first may
				// never become durable.
				ans.Change.Asked = q.Asked
			}
		}
		if !approved {
			return ans, nil
		}
		change.Consumed, change.Voided = []string{q.Asked.ID}, ans.Change.Voided
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
	l.admitted[a.Call] = taken{ans, a.Charges}
	if len(change.Used) > 0 {
		l.counted[a.Call] = counting{maps.Clone(change.Used), a.Now.UnixNano()}
	}
	return ans, nil
}

// Settle implements [Store].
func (l *Local) Settle(callID string, _ int64) {
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
	if q == nil || q.Gone(now) {
		return call.Change{}, ErrNoApproval
	}
	if !q.MayVote(v.By) {
		return call.Change{}, ErrMayNotVote
	}
	switch st := l.standing(q, now); {
	case st == Open, st == Approved && v.Deny:
	case st == Approved:
		return call.Change{}, nil
	default:
		return call.Change{}, ErrNoApproval
	}
	if q.Said(v) {
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
		r.Epoch = max(l.epoch, l.newest) + 1
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
		if q.Gone(now) {
			continue
		}
		if st := l.standing(q, now); st == Open || st == Approved {
			out = append(out, l.view(q, now))
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
	if q := l.approvals[id]; q != nil && !q.Gone(now) {
		return l.view(q, now), nil
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

func (l *Local) isRevoked(principal string) bool { return l.revoked["p"+principal] }

func (l *Local) standing(q *question.Question, now time.Time) Standing {
	return q.Standing(now, l.isRevoked)
}

func (l *Local) view(q *question.Question, now time.Time) Approval {
	asked, votes := q.View()
	return Approval{Approval: asked, Standing: l.standing(q, now), Votes: votes}
}
