package state

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
)

const (
	// defaultTTL is how long people have to approve when the rule does not say.
	defaultTTL = time.Hour

	// maxTTL is the longest that they have, whatever the rule says: the keys of all
	// days on which something open was asked are tried for every new question.
	maxTTL = 366 * 24 * time.Hour

	// keepEnded is how long an approval that is over can still be looked at, and how
	// far the clock may step back without an error.
	keepEnded = time.Hour
)

// approval is what the store holds. Votes and consumption are folded by union, so
// their order does not matter, nor whether the question itself was seen first.
type approval struct {
	asked    *call.Approval // nil until it is asked or its record is folded
	durable  bool           // its record is: before that nobody is told, and nobody can answer
	votes    []call.Vote
	consumed bool
	void     bool // asked in an epoch that is over
}

// standing works out where the approval stands at that time. What ends it
// outweighs what permits it.
func (a *approval) standing(now time.Time, revoked func(principal string) bool) Standing {
	switch {
	case a.consumed:
		return Consumed
	case a.void || !now.Before(a.asked.Expires):
		return Expired
	case slices.ContainsFunc(a.votes, func(v call.Vote) bool { return v.Deny }):
		return Denied
	case a.enough(revoked):
		return Approved
	default:
		return Open
	}
}

// gone reports whether nobody is told about it any more, or yet.
func (a *approval) gone(now time.Time) bool {
	return a.asked == nil || !a.durable || a.past(now)
}

// past reports whether it ended so long ago that nobody needs it.
func (a *approval) past(now time.Time) bool {
	return !now.Before(a.asked.Expires.Add(keepEnded))
}

// enough reports whether every rule has as many distinct approvers as it asks
// for. One person counts for each rule that they satisfy, and once; nobody counts
// who was revoked since.
func (a *approval) enough(revoked func(principal string) bool) bool {
	for _, r := range a.asked.Rules {
		n := 0
		for i, v := range a.votes {
			counted := func(w call.Vote) bool { return same(w.By, v.By) && satisfies(r, w.By) && !revoked(w.Principal) }
			if satisfies(r, v.By) && !revoked(v.Principal) && !slices.ContainsFunc(a.votes[:i], counted) {
				n++
			}
		}
		if n < max(1, r.Count) {
			return false
		}
	}
	return len(a.asked.Rules) > 0
}

// satisfies reports whether the rule counts this voter. Roles count within the
// tenant that the call was made in, see mayVote.
func satisfies(r call.ApprovalRule, by call.RecordPrincipal) bool {
	return slices.Contains(r.From.IDs, by.ID) ||
		slices.ContainsFunc(r.From.Roles, func(role string) bool { return slices.Contains(by.Roles, role) })
}

// same reports whether two records speak of one person.
func same(a, b call.RecordPrincipal) bool {
	return a.Tenant == b.Tenant && strings.EqualFold(a.ID, b.ID)
}

// mayVote reports whether somebody is asked at all: one whom a rule names, of the
// requester's tenant, who neither asked nor is acted for, and who speaks for
// themselves alone.
func (a *approval) mayVote(by call.RecordPrincipal) bool {
	if by.Tenant != a.asked.Requester.Tenant || len(by.OnBehalfOf) > 0 {
		return false
	}
	for _, p := range append([]call.RecordPrincipal{a.asked.Requester}, a.asked.Requester.OnBehalfOf...) {
		// However it is spelt; and whoever asserted the requester is the requester.
		if strings.EqualFold(p.ID, by.ID) || p.Auth.Method == "asserted" && p.Auth.Issuer == by.ID {
			return false
		}
	}
	return slices.ContainsFunc(a.asked.Rules, func(r call.ApprovalRule) bool { return satisfies(r, by) })
}

// said reports whether the vote says nothing that was not said before.
func (a *approval) said(v call.Vote) bool {
	return slices.ContainsFunc(a.votes, func(w call.Vote) bool {
		return same(w.By, v.By) && w.Deny == v.Deny && slices.Equal(w.By.Roles, v.By.Roles)
	})
}

// vote adds v to the set of votes. Two that differ in anything are both kept:
// which one came first is not for the order of records to say.
func (a *approval) vote(v call.Vote) {
	if !slices.ContainsFunc(a.votes, func(w call.Vote) bool { return reflect.DeepEqual(v, w) }) {
		a.votes = append(a.votes, v)
	}
}

// view is a copy for others.
func (a *approval) view(now time.Time, revoked func(principal string) bool) Approval {
	votes := slices.Clone(a.votes)
	slices.SortFunc(votes, func(v, w call.Vote) int {
		return cmp.Or(strings.Compare(v.By.ID, w.By.ID), strings.Compare(fmt.Sprint(v), fmt.Sprint(w)))
	})
	for i := range votes {
		votes[i].By = cloned(votes[i].By)
	}
	asked := *a.asked
	asked.Rules, asked.Requester, asked.Caps = slices.Clone(asked.Rules), cloned(asked.Requester), asked.Caps.Clone()
	for i := range asked.Rules {
		asked.Rules[i].From = asked.Rules[i].From.Clone()
	}
	return Approval{Approval: asked, Standing: a.standing(now, revoked), Votes: votes}
}

// cloned shares nothing with p.
func cloned(p call.RecordPrincipal) call.RecordPrincipal {
	p.Roles, p.OnBehalfOf = slices.Clone(p.Roles), slices.Clone(p.OnBehalfOf)
	for i := range p.OnBehalfOf {
		p.OnBehalfOf[i] = cloned(p.OnBehalfOf[i])
	}
	return p
}

// callOf names the call that a question is about: its binding, who asks, and for
// whom. The people acted for are part of it because they may not vote on it.
func callOf(binding string, r call.RecordPrincipal) string {
	var b strings.Builder
	for _, p := range append([]call.RecordPrincipal{r}, r.OnBehalfOf...) {
		fmt.Fprintf(&b, "%q%q%q", p.Tenant, p.Kind, p.ID)
	}
	return binding + b.String()
}

// covers reports whether a question with the rules asked has put every rule of
// now. What policy asks for can depend on the session and the time, which a
// binding does not hold: an approval given under milder rules is none.
func covers(asked, now []call.ApprovalRule) bool {
	for _, r := range now {
		if !slices.ContainsFunc(asked, func(q call.ApprovalRule) bool {
			return q.Layer == r.Layer && q.Name == r.Name && q.Count == r.Count && q.TTL == r.TTL &&
				slices.Equal(q.From.Roles, r.From.Roles) && slices.Equal(q.From.IDs, r.From.IDs)
		}) {
			return false
		}
	}
	return true
}

// lasts is how long a question stands: as long as its most impatient rule says.
func lasts(rules []call.ApprovalRule) time.Duration {
	ttl := maxTTL
	for _, r := range rules {
		t := defaultTTL
		if r.TTL > 0 {
			t = time.Duration(min(r.TTL, int64(maxTTL/time.Second))) * time.Second
		}
		ttl = min(ttl, t)
	}
	return ttl
}
