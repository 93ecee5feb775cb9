package rego

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/callgate/callgate/engine/call"
)

var errDefect = errors.New("panic while a layer was tried")

// ShadowKind is how an answer would have differed.
type ShadowKind string

// The kinds of differences.
const (
	ShadowVerdict     ShadowKind = "verdict"     // allowed, refused or asked about
	ShadowCode        ShadowKind = "code"        // refused for another reason
	ShadowGrants      ShadowKind = "grants"      // let through with other capabilities
	ShadowObligations ShadowKind = "obligations" // let through with other limits, approvals, labels or obligations
)

// ShadowReport is what was found about one bundle that is tried.
type ShadowReport struct {
	Bundle      call.Revision        `json:"bundle"` // its name is the layer's
	Role        Role                 `json:"role"`
	Asked       int64                `json:"asked"`       // answers that were compared
	Same        int64                `json:"same"`        // of those, without any difference
	Dropped     int64                `json:"dropped"`     // not compared: too many calls waited
	Differences map[ShadowKind]int64 `json:"differences"` // one answer may differ in two kinds
	Last        []ShadowDifference   `json:"last"`        // the 100 newest, the newest last
}

// ShadowDifference is one answer that would have been another one. It quotes
// nothing of the arguments.
type ShadowDifference struct {
	TimeNS    int64        `json:"time_ns"` // of the call, as policy saw it
	Tool      string       `json:"tool"`
	Principal string       `json:"principal"`
	Kind      ShadowKind   `json:"kind"`
	Was       ShadowAnswer `json:"was"`
	Would     ShadowAnswer `json:"would"`
}

// ShadowAnswer is one side of a difference.
type ShadowAnswer struct {
	Verdict call.Verdict `json:"verdict"`
	Code    call.Code    `json:"code,omitzero"`    // of a refusal
	Reasons []string     `json:"reasons,omitzero"` // their codes, with the layer
}

func (r *ShadowReport) add(found []ShadowDifference) {
	r.Asked++
	if len(found) == 0 {
		r.Same++
	}
	for _, d := range found {
		r.Differences[d.Kind]++
		r.Last = append(r.Last, d)
	}
	if over := len(r.Last) - maxShadowLast; over > 0 {
		r.Last = slices.Delete(r.Last, 0, over)
	}
}

func (r *ShadowReport) clone() ShadowReport {
	c := *r
	c.Differences, c.Last = maps.Clone(r.Differences), slices.Clone(r.Last)
	return c
}

// summary is what may be shown of an answer.
func (a reply) summary() ShadowAnswer {
	s := ShadowAnswer{Verdict: a.d.Verdict}
	switch {
	case a.err != nil:
		s.Verdict, s.Code = call.Deny, call.CodeOf(a.err, call.CodePolicyError)
	case a.d.Verdict == call.Deny:
		s.Code = call.CodePolicyDenied
	}
	for _, r := range a.d.Reasons {
		s.Reasons = append(s.Reasons, call.InLayer(r.Layer, r.Code))
	}
	slices.Sort(s.Reasons)
	return s
}

// differences says in what two answers differ.
func differences(a, b reply) (kinds []ShadowKind) {
	x, y := a.summary(), b.summary()
	switch {
	case x.Verdict != y.Verdict:
		return []ShadowKind{ShadowVerdict}
	case x.Verdict == call.Deny && !reflect.DeepEqual(x, y):
		return []ShadowKind{ShadowCode}
	case x.Verdict == call.Deny:
		return nil
	}
	if !sameGrants(a.d, b.d) {
		kinds = append(kinds, ShadowGrants)
	}
	if !reflect.DeepEqual(obligations(a.d), obligations(b.d)) {
		kinds = append(kinds, ShadowObligations)
	}
	return kinds
}

// sameGrants compares what two decisions let a call do. One list of requests can be
// cut into different entries, so each must cover the other.
func sameGrants(a, b call.Decision) bool {
	x, errX := effective(a)
	y, errY := effective(b)
	if errX != nil || errY != nil {
		return call.CodeOf(errX, "") == call.CodeOf(errY, "")
	}
	return x.Covers(y) && y.Covers(x)
}

func effective(d call.Decision) (call.Caps, error) {
	c, err := joined(d.Grants)
	if err == nil && d.Cap != nil {
		c, err = c.Capped(*d.Cap)
	}
	return c, err
}

// obligations is the rest of what a decision has the engine do. Reasons are words.
func obligations(d call.Decision) any {
	asks := slices.Clone(d.Approvals)
	for i := range asks {
		asks[i].Reason = ""
	}
	return []any{
		some(asks), some(d.Limits), sorted(d.Labels), sorted(d.ResultLabels),
		some(d.Redact), some(d.Fields), some(d.Rows), some(d.Frame),
	}
}

// some makes no list and an empty one the same.
func some[S ~[]T, T any](list S) S {
	if len(list) == 0 {
		return nil
	}
	return list
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return some(slices.Compact(list))
}
