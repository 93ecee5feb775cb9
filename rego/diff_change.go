package rego

import (
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
)

// against says how is differs from v, or nil.
func (v verdictAndGrant) against(is verdictAndGrant) *Difference {
	rank := map[call.Verdict]int{call.Ask: 1, call.Allow: 2, call.Pass: 2} // deny is 0
	was, now := rank[v.d.Verdict], rank[is.d.Verdict]
	switch {
	case was != now && now == 2:
		return &Difference{Kind: NewlyAllowed, Opens: true}
	case was != now && now == 1:
		return &Difference{Kind: NewlyAsking, Opens: was == 0}
	case was != now:
		return &Difference{Kind: NewlyDenied}
	case now == 0:
		return nil
	}
	switch wider, narrower := is.caps.Covers(v.caps), v.caps.Covers(is.caps); {
	case wider && !narrower:
		return &Difference{Kind: GrantWider, Opens: true}
	case !wider && !narrower:
		return &Difference{Kind: GrantOther, Opens: true}
	case !wider:
		// What is narrower in one way can be easier in another.
		if what := eased(v.d, is.d); what != "" {
			return &Difference{Kind: Eased, Opens: true, What: what}
		}
		return &Difference{Kind: GrantLess}
	}
	if what := eased(v.d, is.d); what != "" {
		return &Difference{Kind: Eased, Opens: true, What: what}
	}
	if what := eased(is.d, v.d); what != "" {
		return &Difference{Kind: Tightened, What: what}
	}
	return nil
}

// eased names a condition of was that is does not have, or has less of.
func eased(was, is call.Decision) string {
	for _, l := range was.Limits {
		if !slices.ContainsFunc(is.Limits, func(m call.Limit) bool { return holdsAtLeast(m, l) }) {
			return "limit " + call.InLayer(l.Layer, l.Name)
		}
	}
	for _, a := range was.Approvals {
		if !slices.ContainsFunc(is.Approvals, func(b call.ApprovalRule) bool { return asksAtLeast(b, a) }) {
			return "approval " + call.InLayer(a.Layer, a.Name)
		}
	}
	for _, s := range was.Labels {
		if !slices.Contains(is.Labels, s) {
			return "label " + s
		}
	}
	for _, s := range was.ResultLabels {
		if !slices.Contains(is.ResultLabels, s) {
			return "result label " + s
		}
	}
	obligations := map[string][2]call.Obligation{
		"redact": {was.Redact, is.Redact}, "fields": {was.Fields, is.Fields}, "rows": {was.Rows, is.Rows}, "frame": {was.Frame, is.Frame},
	}
	for _, name := range slices.Sorted(maps.Keys(obligations)) {
		// What another value means is not known here: it may be less.
		if o := obligations[name]; len(o[0]) > 0 && !sameObligation(o[0], o[1]) {
			return name
		}
	}
	return ""
}

// holdsAtLeast says that m lets through no more than l does.
func holdsAtLeast(m, l call.Limit) bool {
	if m.Layer != l.Layer || m.Name != l.Name || m.Key != l.Key || m.Burst > l.Burst || max(1, m.Cost) < max(1, l.Cost) {
		return false
	}
	if m.Counted() || l.Counted() {
		return m.Per == l.Per && m.Charge == l.Charge // others are known only when there are calls
	}
	x, err := time.ParseDuration(m.Per)
	y, err2 := time.ParseDuration(l.Per)
	if err != nil || err2 != nil || x <= 0 || y <= 0 {
		return false
	}
	// A smaller bucket must not fill faster: m.Burst/x <= l.Burst/y.
	return float64(m.Burst)*float64(y) <= float64(l.Burst)*float64(x)
}

// asksAtLeast says that whoever satisfies b would have satisfied a.
func asksAtLeast(b, a call.ApprovalRule) bool {
	in := func(list []string) func(string) bool {
		return func(s string) bool { return !slices.Contains(list, s) }
	}
	return b.Layer == a.Layer && b.Name == a.Name && b.Count >= a.Count && ttl(b) <= ttl(a) &&
		!slices.ContainsFunc(b.From.Roles, in(a.From.Roles)) && !slices.ContainsFunc(b.From.IDs, in(a.From.IDs))
}

func ttl(a call.ApprovalRule) int64 {
	if a.TTL == 0 {
		return int64(time.Hour / time.Second) // as the engine takes it
	}
	return a.TTL
}

func sameObligation(a, b call.Obligation) bool {
	return slices.EqualFunc(a, b, func(x, y jsontext.Value) bool { return string(x) == string(y) })
}
