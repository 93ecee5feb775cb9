package rego

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
)

// The most that one decision may hold. Far more than any real policy says, and
// little enough that what follows a decision stays cheap.
const (
	maxGrants    = 32
	maxReasons   = 64
	maxApprovals = 16
	maxLimits    = 32
	maxLabels    = 64
	maxFrom      = 64   // roles or ids that may approve
	maxCount     = 64   // approvers
	maxText      = 4096 // bytes of a message, remedy or reason
	maxID        = 512  // bytes of a limit's key, or of a role or id that approves
	maxTTL       = int64(366 * 24 * time.Hour / time.Second)
)

// name is how codes, rules, labels and the like are written. Records hold them,
// so they are no place for free text.
var name = regexp.MustCompile(`\A[a-z][a-z0-9_.:-]{0,63}\z`)

func isName(s string) bool { return name.MatchString(s) }

// wireDecision is a decision as policies write it: what is absent differs from
// an explicit zero, and a limit may be one that this engine does not know.
type wireDecision struct {
	call.Decision `json:",embed"`
	Reasons       []wireReason   `json:"reasons"`
	Cap           jsontext.Value `json:"cap"`
	Approvals     []wireApproval `json:"approvals"`
	Limits        []wireLimit    `json:"limits"`
}

type wireApproval struct {
	call.ApprovalRule `json:",embed"`
	Layer             jsontext.Value `json:"layer"` // not for a policy to say
	TTL               *int64         `json:"ttl_s"`
}

type wireLimit struct {
	call.Limit `json:",embed"`
	Cost       *int64  `json:"cost"`
	Charge     *string `json:"charge"`
}

// approvals checks each rule and joins those that are the same. Rules of one
// name that differ in more than their reason are a conflict.
func approvals(ws []wireApproval) ([]call.ApprovalRule, error) {
	if len(ws) > maxApprovals {
		return nil, tooMany("approvals")
	}
	var rules []call.ApprovalRule
	seen := map[string]call.ApprovalRule{} // by name
	for i, w := range ws {
		r := w.ApprovalRule
		if w.TTL != nil {
			if r.TTL = *w.TTL; r.TTL < 1 || r.TTL > maxTTL {
				return nil, bad("approvals", i, "ttl_s")
			}
		}
		switch {
		case w.Layer != nil:
			return nil, bad("approvals", i, "layer")
		case !isName(r.Name):
			return nil, bad("approvals", i, "name")
		case r.Count < 1 || r.Count > maxCount:
			return nil, bad("approvals", i, "count")
		case len(r.From.Roles)+len(r.From.IDs) == 0 || !ids(r.From.Roles) || !ids(r.From.IDs):
			return nil, bad("approvals", i, "from")
		case len(r.Reason) > maxText:
			return nil, bad("approvals", i, "reason")
		}
		if before, ok := seen[r.Name]; !ok {
			rules = append(rules, r)
		} else if !sameRule(before, r) {
			return nil, bad("approvals", i, "differs from another of the same name")
		}
		seen[r.Name] = r
	}
	return rules, nil
}

func sameRule(x, y call.ApprovalRule) bool {
	return x.Count == y.Count && x.TTL == y.TTL &&
		slices.Equal(x.From.Roles, y.From.Roles) && slices.Equal(x.From.IDs, y.From.IDs)
}

func ids(list []string) bool {
	for _, s := range list {
		// Records and terminals show them.
		if s == "" || len(s) > maxID || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return false
		}
	}
	return len(list) <= maxFrom
}

// limits checks each limit and joins those that are the same. Limits of one
// name and key that differ otherwise are a conflict.
func limits(ws []wireLimit) ([]call.Limit, error) {
	if len(ws) > maxLimits {
		return nil, tooMany("limits")
	}
	var out []call.Limit
	type identity struct{ name, key string }
	seen := map[identity]call.Limit{}
	for i, w := range ws {
		l := w.Limit
		if w.Charge != nil {
			l.Charge = *w.Charge
		}
		if w.Cost != nil {
			l.Cost = *w.Cost
		} else if l.Charge == "" {
			l.Cost = 1
		}
		switch flaw := l.Flaw(); {
		case !isName(l.Name):
			return nil, bad("limits", i, "name")
		case len(l.Key) > maxID:
			return nil, bad("limits", i, "key")
		case w.Charge != nil && l.Charge == "":
			return nil, bad("limits", i, "charge")
		case w.Cost != nil && l.Cost == 0:
			return nil, bad("limits", i, "cost")
		case call.Unmeasured(l.Charge):
			return nil, &call.Error{Code: call.CodeObligationUnsupported, Detail: fmt.Sprintf("limits[%d]: charge", i)}
		case flaw != "":
			return nil, bad("limits", i, flaw)
		}
		id := identity{l.Name, l.Key}
		if before, ok := seen[id]; !ok {
			out = append(out, l)
		} else if before != l {
			return nil, bad("limits", i, "differs from another of the same name and key")
		}
		seen[id] = l
	}
	return out, nil
}

// check looks at the rest of d.
func check(d call.Decision) error {
	switch {
	case len(d.Reasons) > maxReasons:
		return tooMany("reasons")
	case len(d.Grants) > maxGrants:
		return tooMany("grants")
	case len(d.Labels) > maxLabels:
		return tooMany("labels")
	case len(d.ResultLabels) > maxLabels:
		return tooMany("result_labels")
	}
	for i, r := range d.Reasons {
		switch {
		case !isName(r.Code):
			return bad("reasons", i, "code")
		case r.Rule != "" && !isName(r.Rule):
			return bad("reasons", i, "rule")
		case len(r.Message) > maxText || len(r.Remedy) > maxText:
			return bad("reasons", i, "too long")
		}
	}
	for i, g := range d.Grants {
		if g.ID != "" && !isName(g.ID) {
			return bad("grants", i, "id")
		}
		if err := g.Validate(); err != nil {
			return &call.Error{
				Code:   call.CodeOf(err, call.CodeCapsInvalid),
				Detail: fmt.Sprintf("grants[%d]", i),
				Err:    err,
			}
		}
	}
	for i, l := range d.Labels {
		if !isName(l) {
			return bad("labels", i, "")
		}
	}
	for i, l := range d.ResultLabels {
		if !isName(l) {
			return bad("result_labels", i, "")
		}
	}
	return nil
}

func tooMany(list string) error { return shape(list+": too many", nil) }

func bad(list string, i int, what string) error {
	detail := fmt.Sprintf("%s[%d]", list, i)
	if what != "" {
		detail += ": " + what
	}
	return shape(detail, nil)
}
