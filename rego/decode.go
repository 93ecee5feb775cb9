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

// notApplicable is what adapters for agents know beside our verdicts. In a
// permit layer it is a no.
const notApplicable call.Verdict = "not-applicable"

func shape(detail string, err error) error {
	return &call.Error{Code: call.CodePolicyShape, Detail: detail, Err: err}
}

// decode reads the answer of a permit layer. It understands a boolean,
// {"allow", "reason"}, {"decision", "reason"} and the full form. Whatever is not
// exactly one of these is an error, and an error is a no.
func decode(v ast.Value) (call.Decision, error) {
	if b, ok := v.(ast.Boolean); ok {
		return simple(verdictOf(bool(b)), "")
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
		return simple(verdictOf(d.Allow), d.Reason)
	case !slices.ContainsFunc(keys, func(k string) bool { return k != "decision" && k != "reason" }):
		var d struct {
			Decision call.Verdict `json:"decision"`
			Reason   string       `json:"reason"`
		}
		if err := strictly(w.b, &d); err != nil {
			return call.Decision{}, err
		}
		return simple(d.Decision, d.Reason)
	default:
		return full(w.b)
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
func simple(v call.Verdict, message string) (call.Decision, error) {
	if len(message) > maxText {
		return call.Decision{}, shape("reason is too long", nil)
	}
	d := call.Decision{Verdict: v}
	switch v {
	case call.Allow:
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
		d.Reasons = []call.Reason{{Code: codeDenied, Message: message}}
		return d, nil
	case notApplicable:
		d.Verdict = call.Deny
		d.Reasons = []call.Reason{{Code: codeNotApplicable, Message: message}}
		return d, nil
	default:
		return call.Decision{}, shape("decision is not one that a permit layer gives", nil)
	}
}

// full reads the form that the base library writes.
func full(b []byte) (call.Decision, error) {
	var w wireDecision
	if err := strictly(b, &w); err != nil {
		return call.Decision{}, err
	}
	d := w.Decision
	if d.Verdict == notApplicable {
		d.Verdict = call.Deny
		d.Reasons = append(d.Reasons, call.Reason{Code: codeNotApplicable})
	}
	var err error
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
	case d.Verdict == call.Ask && len(d.Approvals) > 0:
		return d, nil
	case d.Verdict == call.Allow && len(d.Approvals) == 0:
		return d, nil
	case d.Verdict == call.Ask:
		return call.Decision{}, shape("requires approval, by nobody", nil)
	case d.Verdict == call.Allow:
		return call.Decision{}, shape("allows, and asks for approval", nil)
	default:
		return call.Decision{}, shape("decision is not one that a permit layer gives", nil)
	}
}
