// Package question says where a question to people about one call stands. It is what
// all stores share, so that they differ in nothing that lets a call run.
package question

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

	// KeepEnded is how long a question that is over can still be looked at, and how
	// far the clock may step back without an error.
	KeepEnded = time.Hour

	// MaxPending is how many questions of one principal may be open at a time.
	MaxPending = 32
)

// Standing is where a question stands. The zero value permits nothing.
type Standing string

// The standings. Only Approved lets the call run, once.
const (
	Open     Standing = "pending"
	Approved Standing = "approved"
	Denied   Standing = "denied"
	Consumed Standing = "consumed"
	Expired  Standing = "expired"
)

// Question is what a store holds of an approval. Votes and consumption are folded by
// union, so their order does not matter, nor whether the question itself was seen
// first.
type Question struct {
	Asked    *call.Approval // nil until it is asked or its record is folded
	Durable  bool           // its record is: before that nobody is told, and nobody can answer
	Votes    []call.Vote
	Consumed bool
	Void     bool // asked in an epoch that is over, or about what would no longer run
}

// Standing works out where the approval stands at that time. What ends it
// outweighs what permits it.
func (q *Question) Standing(now time.Time, revoked func(principal string) bool) Standing {
	switch {
	case q.Consumed:
		return Consumed
	case q.Void || !now.Before(q.Asked.Expires):
		return Expired
	case slices.ContainsFunc(q.Votes, func(v call.Vote) bool { return v.Deny }):
		return Denied
	case q.enough(revoked):
		return Approved
	default:
		return Open
	}
}

// Gone reports whether nobody is told about it any more, or yet.
func (q *Question) Gone(now time.Time) bool {
	return q.Asked == nil || !q.Durable || q.Past(now)
}

// Past reports whether it ended so long ago that nobody needs it.
func (q *Question) Past(now time.Time) bool {
	return !now.Before(q.Asked.Expires.Add(KeepEnded))
}

// Said reports whether the vote says nothing that was not said before.
func (q *Question) Said(v call.Vote) bool {
	return slices.ContainsFunc(q.Votes, func(w call.Vote) bool {
		return same(w.By, v.By) && w.Deny == v.Deny && slices.Equal(w.By.Roles, v.By.Roles)
	})
}

// Vote adds v to the set of votes. Two that differ in anything are both kept:
// which one came first is not for the order of records to say.
func (q *Question) Vote(v call.Vote) {
	if !slices.ContainsFunc(q.Votes, func(w call.Vote) bool { return reflect.DeepEqual(v, w) }) {
		q.Votes = append(q.Votes, v)
	}
}

// View is a copy for others of the question and its votes.
func (q *Question) View() (call.Approval, []call.Vote) {
	votes := slices.Clone(q.Votes)
	slices.SortFunc(votes, func(v, w call.Vote) int {
		return cmp.Or(strings.Compare(v.By.ID, w.By.ID), strings.Compare(fmt.Sprint(v), fmt.Sprint(w)))
	})
	for i := range votes {
		votes[i].By = cloned(votes[i].By)
	}
	asked := *q.Asked
	asked.Rules, asked.Requester, asked.Caps = slices.Clone(asked.Rules), cloned(asked.Requester), asked.Caps.Clone()
	for i := range asked.Rules {
		asked.Rules[i].From = asked.Rules[i].From.Clone()
	}
	return asked, votes
}

// cloned shares nothing with p.
func cloned(p call.RecordPrincipal) call.RecordPrincipal {
	p.Roles, p.OnBehalfOf = slices.Clone(p.Roles), slices.Clone(p.OnBehalfOf)
	for i := range p.OnBehalfOf {
		p.OnBehalfOf[i] = cloned(p.OnBehalfOf[i])
	}
	return p
}

// Key names what a question is about, whatever policy says of it: about, as in
// [call.Approval], who asks, and for whom. The people acted for are part of it
// because they may not vote on it.
func Key(about string, r call.RecordPrincipal) string {
	var b strings.Builder
	for _, p := range append([]call.RecordPrincipal{r}, r.OnBehalfOf...) {
		fmt.Fprintf(&b, "%q%q%q", p.Tenant, p.Kind, p.ID)
	}
	return about + b.String()
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

// Lasts is how long a question stands: as long as its most impatient rule says.
func Lasts(rules []call.ApprovalRule) time.Duration {
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

// Plain are the rules as records hold them: without free text, and shared with nobody.
func Plain(rules []call.ApprovalRule) []call.ApprovalRule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Reason = ""
		rules[i].From = rules[i].From.Clone()
	}
	return rules
}

// Now is a call as it would run now, that people may have been asked about.
type Now struct {
	Binding string // as in [call.Approval], under the key of the day of the question
	Rules   []call.ApprovalRule
	Tool    call.RecordTool
	Policy  []call.Revision
	At      time.Time
	Revoked func(principal string) bool // by digest
}

// Rank orders the questions about one call, 0 for those that do not count. A no
// stands whatever is asked now; a yes only if it answers all that is asked now.
func (q *Question) Rank(n Now) int {
	if q.Asked.Binding != n.Binding {
		return 0
	}
	switch st := q.Standing(n.At, n.Revoked); {
	case st == Denied:
		return 3
	case st == Approved && covers(q.Asked.Rules, n.Rules):
		return 2
	case st == Open && covers(q.Asked.Rules, n.Rules):
		return 1
	default:
		return 0
	}
}

// Stale reports whether the call was approved, but under another policy or with
// another tool behind its name.
func (q *Question) Stale(n Now) bool {
	return q.Asked.Binding != n.Binding && q.Standing(n.At, n.Revoked) == Approved &&
		(q.Asked.Tool != n.Tool || !slices.Equal(q.Asked.Policy, n.Policy))
}
