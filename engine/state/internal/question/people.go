package question

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/callgate/callgate/engine/call"
)

// enough reports whether every rule has as many approvers as it asks for, and no
// person stands for two: each fills one place of one rule at most. Nobody counts
// who was revoked since, in any spelling.
func (q *Question) enough(revoked func(principal string) bool) bool {
	gone := map[person]bool{}
	for _, v := range q.Votes {
		if revoked(v.Principal) {
			gone[personOf(v.By)] = true
		}
	}
	var people []approver
	for _, v := range q.Votes {
		person := personOf(v.By)
		if v.Deny || gone[person] {
			continue
		}
		i := slices.IndexFunc(people, func(a approver) bool { return a.person == person })
		if i < 0 {
			i = len(people)
			people = append(people, approver{person: person, counts: make([]bool, len(q.Asked.Rules)), place: -1})
		}
		for r, rule := range q.Asked.Rules {
			people[i].counts[r] = people[i].counts[r] || satisfies(rule, v.By)
		}
	}
	var places []int // the rule of each place
	for r, rule := range q.Asked.Rules {
		n := max(1, rule.Count)
		if n > len(people)-len(places) {
			return false // also keeps a huge count from being a huge list
		}
		for range n {
			places = append(places, r)
		}
	}
	for place := range places {
		if !seat(people, places, place, make([]bool, len(people))) {
			return false
		}
	}
	return len(places) > 0
}

// approver is one person who said yes, once or more often.
type approver struct {
	person person
	counts []bool // by rule
	place  int    // that they fill, -1 for none
}

// seat finds somebody for the place, and another place for whoever gives theirs up:
// an augmenting path of a bipartite matching. Those who were tried are not tried again.
func seat(people []approver, places []int, place int, tried []bool) bool {
	for i := range people {
		p := &people[i]
		if !p.counts[places[place]] || tried[i] {
			continue
		}
		tried[i] = true
		if p.place < 0 || seat(people, places, p.place, tried) {
			p.place = place
			return true
		}
	}
	return false
}

// satisfies reports whether the rule counts this voter. Roles count within the
// tenant that the call was made in, see [Question.MayVote].
func satisfies(r call.ApprovalRule, by call.RecordPrincipal) bool {
	return slices.Contains(r.From.IDs, by.ID) ||
		slices.ContainsFunc(r.From.Roles, func(role string) bool { return slices.Contains(by.Roles, role) })
}

// person is somebody, however they are spelt.
type person struct{ tenant, id string }

func personOf(p call.RecordPrincipal) person { return person{p.Tenant, spelling(p.ID)} }

// same reports whether two records speak of one person.
func same(a, b call.RecordPrincipal) bool { return personOf(a) == personOf(b) }

// spelling is the same for all ids that read as one: in other case, in letters of
// another width or form, or with characters in them that nobody sees. It is the
// NFKC_Casefold of the Unicode Standard, section 3.13 (D147), less whatever else is
// invisible. Two ids that only look alike, in letters of two scripts, stay two.
func spelling(id string) string {
	id = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, norm.NFKC.String(id))
	fold := cases.Fold()
	for range 2 { // folding can undo the form, and the form the folding
		id = norm.NFKC.String(fold.String(id))
	}
	return id
}

// MayVote reports whether somebody is asked at all: one whom a rule names, of the
// requester's tenant, who neither asked nor is acted for, and who speaks for
// themselves alone.
func (q *Question) MayVote(by call.RecordPrincipal) bool {
	if by.Tenant != q.Asked.Requester.Tenant || len(by.OnBehalfOf) > 0 {
		return false
	}
	voter := spelling(by.ID)
	for _, p := range append([]call.RecordPrincipal{q.Asked.Requester}, q.Asked.Requester.OnBehalfOf...) {
		// However it is spelt; and whoever asserted the requester is the requester.
		if spelling(p.ID) == voter || p.Auth.Method == "asserted" && spelling(p.Auth.Issuer) == voter {
			return false
		}
	}
	return slices.ContainsFunc(q.Asked.Rules, func(r call.ApprovalRule) bool { return satisfies(r, by) })
}
