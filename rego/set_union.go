package rego

import (
	"slices"

	"github.com/callgate/callgate/engine/call"
)

// unite adds to all what the answers give and ask, none of which denies.
func unite(all *call.Decision, answers []reply) error {
	for _, a := range answers {
		all.Reasons = append(all.Reasons, a.d.Reasons...)
		all.Approvals = append(all.Approvals, a.d.Approvals...)
		all.Limits = append(all.Limits, a.d.Limits...)
		all.Labels = append(all.Labels, a.d.Labels...)
		all.ResultLabels = append(all.ResultLabels, a.d.ResultLabels...)
		all.Redact = append(all.Redact, a.d.Redact...)
		all.Fields = append(all.Fields, a.d.Fields...)
		all.Rows = append(all.Rows, a.d.Rows...)
		all.Frame = append(all.Frame, a.d.Frame...)
	}
	for _, labels := range []*[]string{&all.Labels, &all.ResultLabels} {
		slices.Sort(*labels)
		*labels = slices.Compact(*labels)
	}
	caps, err := granted(answers)
	if err != nil {
		return err
	}
	all.Grants = []call.RuleGrant{{Caps: caps}}
	return nil
}

// granted is what all permit layers grant, as far as all caps leave it.
func granted(answers []reply) (caps call.Caps, err error) {
	first := true
	for _, a := range answers {
		if a.by.role != Permit {
			continue
		}
		own, err := joined(a.d.Grants)
		if err == nil && !first {
			own, err = caps.Meet(own)
		}
		if err != nil {
			return call.Caps{}, reply{a.by, a.d, err}.fault()
		}
		caps, first = own, false
	}
	for _, a := range answers {
		if a.d.Cap == nil {
			continue
		}
		if caps, err = caps.Capped(*a.d.Cap); err != nil {
			return call.Caps{}, reply{a.by, a.d, err}.fault()
		}
	}
	return caps, nil
}

// joined is what the grants of one layer give together.
func joined(grants []call.RuleGrant) (call.Caps, error) {
	list := make([]call.Caps, len(grants))
	for i, g := range grants {
		list[i] = g.Caps
	}
	return call.Join(list...)
}
