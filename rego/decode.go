package rego

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// maxDecision bounds the JSON of one decision.
const maxDecision = 1 << 20

// What a decision without words of its own gets.
const (
	codeDenied        = "denied"
	codeNotApplicable = "not_applicable"
	defaultApprover   = "approver" // a role, the same as in the base library
)

// notApplicable is what adapters for agents know beside our verdicts. It is a no in
// a permit layer, and a pass in a restrict layer.
const notApplicable call.Verdict = "not-applicable"

func shape(detail string, err error) error {
	return &call.Error{Code: call.CodePolicyShape, Detail: detail, Err: err}
}

// decode reads the answer of a layer. It understands a boolean, {"allow", "reason"},
// {"decision", "reason"} and the full form. Whatever is not exactly one of these is
// an error, and an error is a no.
func decode(v ast.Value, role Role) (call.Decision, error) {
	if b, ok := v.(ast.Boolean); ok {
		verdict := verdictOf(bool(b))
		if verdict == call.Allow && role == Restrict {
			verdict = call.Pass // it knows no better word
		}
		return simple(verdict, "", role)
	}
	o, ok := v.(ast.Object)
	if !ok {
		return call.Decision{}, shape("neither an object nor a boolean", nil)
	}
	w := bounded{max: maxDecision}
	if err := writeValue(jsontext.NewEncoder(&w), o, false); err != nil {
		return call.Decision{}, shape("", err)
	}
	switch keys := keysOf(o); {
	case slices.Contains(keys, "allow"):
		var d struct {
			Allow  bool   `json:"allow"`
			Reason string `json:"reason"`
		}
		if err := strictly(w.b, &d); err != nil {
			return call.Decision{}, err
		}
		return simple(verdictOf(d.Allow), d.Reason, role)
	case !slices.ContainsFunc(keys, func(k string) bool { return k != "decision" && k != "reason" }):
		var d struct {
			Decision call.Verdict `json:"decision"`
			Reason   string       `json:"reason"`
		}
		if err := strictly(w.b, &d); err != nil {
			return call.Decision{}, err
		}
		return simple(d.Decision, d.Reason, role)
	default:
		return full(w.b, role)
	}
}

func strictly(b []byte, to any) error {
	if err := json.Unmarshal(b, to, json.RejectUnknownMembers(true)); err != nil {
		return shape("", err)
	}
	return nil
}

func keysOf(o ast.Object) []string {
	var keys []string
	for _, k := range o.Keys() {
		if s, ok := k.Value.(ast.String); ok {
			keys = append(keys, string(s))
		}
	}
	return keys
}

func verdictOf(allow bool) call.Verdict {
	if allow {
		return call.Allow
	}
	return call.Deny
}

// simple is a decision without obligations or capabilities. Who is asked is
// not for such a policy to say.
func simple(v call.Verdict, message string, role Role) (call.Decision, error) {
	if len(message) > maxText {
		return call.Decision{}, shape("reason is too long", nil)
	}
	v, inapplicable := applied(v, role)
	d := call.Decision{Verdict: v}
	switch v {
	case role.lets():
		return d, nil // a reason for a yes is of no use to anybody
	case call.Ask:
		d.Approvals = []call.ApprovalRule{{
			Name:   "approval",
			Count:  1,
			From:   call.From{Roles: []string{defaultApprover}},
			Reason: message,
		}}
		return d, nil
	case call.Deny:
		code := codeDenied
		if inapplicable {
			code = codeNotApplicable
		}
		d.Reasons = []call.Reason{{Code: code, Message: message}}
		return d, nil
	default:
		return call.Decision{}, misfit(role)
	}
}

// applied says what a layer's verdict is in its role, and whether it was that the
// policy has nothing to say.
func applied(v call.Verdict, role Role) (_ call.Verdict, inapplicable bool) {
	switch {
	case v != notApplicable:
		return v, false
	case role == Restrict:
		return call.Pass, true
	default:
		return call.Deny, true
	}
}

// misfit is a verdict that layers of the role do not give.
func misfit(role Role) error {
	return shape("decision is not one that a "+string(role)+" layer gives", nil)
}

// full reads the form that the base library writes.
func full(b []byte, role Role) (call.Decision, error) {
	var w wireDecision
	if err := strictly(b, &w); err != nil {
		return call.Decision{}, err
	}
	d := w.Decision
	verdict, inapplicable := applied(d.Verdict, role)
	if d.Verdict = verdict; inapplicable && verdict == call.Deny {
		w.Reasons = append(w.Reasons, wireReason{Reason: call.Reason{Code: codeNotApplicable}})
	}
	var err error
	if d.Reasons, err = reasons(w.Reasons); err != nil {
		return call.Decision{}, err
	}
	if d.Cap, err = caps(w.Cap); err != nil {
		return call.Decision{}, err
	}
	if d.Approvals, err = approvals(w.Approvals); err != nil {
		return call.Decision{}, err
	}
	if d.Limits, err = limits(w.Limits); err != nil {
		return call.Decision{}, err
	}
	if err := check(d); err != nil {
		return call.Decision{}, err
	}
	switch {
	case d.Verdict == call.Deny:
		if len(d.Reasons) == 0 {
			d.Reasons = []call.Reason{{Code: codeDenied}}
		}
		// A refused call gets and consumes nothing.
		return call.Decision{Verdict: call.Deny, Reasons: d.Reasons}, nil
	case role == Restrict && len(d.Grants) > 0:
		return call.Decision{}, shape("grants, and a restrict layer cannot", nil)
	case d.Verdict == call.Ask && len(d.Approvals) == 0:
		return call.Decision{}, shape("requires approval, by nobody", nil)
	case d.Verdict == call.Ask:
		return d, nil
	case d.Verdict != role.lets():
		return call.Decision{}, misfit(role)
	case len(d.Approvals) > 0:
		return call.Decision{}, shape("does not require approval, and says who approves", nil)
	default:
		return d, nil
	}
}
