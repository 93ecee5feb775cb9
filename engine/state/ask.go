package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// ask finds the question about this very call that still stands or makes one, so
// that any number of identical calls ask once. It also returns the ids of those that
// were approved, but not as the call would run now, whether or not another stands.
func (l *Local) ask(a Admission) (found *question.Question, stale []string, err error) {
	now := question.Now{Rules: question.Plain(a.Asks), Tool: a.Tool, Policy: a.Policy, At: a.Now, Revoked: l.isRevoked}
	best, of := 0, int64(0) // the rank of found, and the day on which it was asked
	for d, last := range l.days {
		if d.tenant != a.Requester.Tenant || !a.Now.Before(last) {
			continue
		}
		// It is bound under the key of the day on which it was asked.
		b, err := a.Bind(time.Unix(d.day*secondsPerDay, 0).UTC())
		if err != nil {
			return nil, nil, err
		}
		now.Binding = b.Exact
		for _, id := range l.bound[question.Key(b.About, a.Requester)] {
			q := l.approvals[id]
			// Of two that serve as well, after a clock was set back, the one of the earlier day.
			if rank := q.Rank(now); rank > best || rank > 0 && rank == best && d.day < of {
				found, best, of = q, rank, d.day
			}
			if q.Stale(now) {
				stale = append(stale, id)
			}
		}
	}
	slices.Sort(stale)
	if found != nil {
		return found, stale, nil
	}
	asked, err := a.question(l.epoch)
	switch {
	case err != nil:
		return nil, nil, err
	case l.approvals[asked.ID] != nil:
		return nil, nil, fmt.Errorf("%s was asked before, about something else", asked.ID)
	case l.pending(a) >= question.MaxPending:
		return nil, nil, ErrTooManyPending
	case a.Peek:
		return &question.Question{Asked: asked}, stale, nil
	}
	return l.note(asked), stale, nil
}

// pending counts the questions of the principal that are open, those included whose
// record is not durable yet. Those that expired are at the front, and not looked at.
func (l *Local) pending(a Admission) int {
	n := 0
	for _, q := range slices.Backward(l.waiting[a.Principal]) {
		if !a.Now.Before(q.Asked.Expires) {
			break
		}
		if l.standing(q, a.Now) == Open {
			n++
		}
	}
	return n
}

// wait keeps the question among those of its principal, by when they expire, unless
// it is over for good.
func (l *Local) wait(q *question.Question) {
	of := q.Asked.Principal
	list := l.waiting[of]
	i, found := slices.BinarySearchFunc(list, q, func(a, b *question.Question) int {
		return cmp.Or(a.Asked.Expires.Compare(b.Asked.Expires), cmp.Compare(a.Asked.ID, b.Asked.ID))
	})
	over := q.Consumed || q.Void
	switch {
	case found && over:
		list = slices.Delete(list, i, i+1)
	case found:
		list[i] = q
	case !over:
		list = slices.Insert(list, i, q)
	}
	if len(list) == 0 {
		delete(l.waiting, of)
	} else {
		l.waiting[of] = list
	}
}

// question is what the admission asks people, in that epoch.
func (a Admission) question(epoch int64) (*call.Approval, error) {
	b, err := a.Bind(a.Now)
	if err != nil {
		return nil, err
	}
	rules := question.Plain(a.Asks)
	return &call.Approval{
		ID: "ap-" + a.Call, Binding: b.Exact, About: b.About, Asked: a.Now, Expires: a.Now.Add(question.Lasts(rules)), Rules: rules,
		Requester: a.Requester, Principal: a.Principal, Tool: a.Tool, Caps: a.Caps, Policy: a.Policy, Epoch: epoch,
	}, nil
}

// MayVote reports whether somebody is asked at all, and so may know what they are
// asked about: one whom a rule names, of the requester's tenant, who neither asked
// nor is acted for, however they are spelt, and who speaks for themselves alone.
func (a Approval) MayVote(by call.RecordPrincipal) bool {
	q := question.Question{Asked: &a.Approval}
	return q.MayVote(by)
}
