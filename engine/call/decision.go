package call

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Verdict is what a policy says about one call. The zero value denies.
type Verdict string

// The verdicts. Any other value denies.
const (
	Deny  Verdict = "deny"
	Allow Verdict = "allow"
	Ask   Verdict = "requires-approval"
	Pass  Verdict = "pass" // a restrict layer with nothing to say
)

// Decision is the answer of one layer, or of all layers together. The zero
// value denies and grants nothing.
type Decision struct {
	Verdict   Verdict        `json:"decision"`
	Reasons   []Reason       `json:"reasons"`
	Grants    []RuleGrant    `json:"grants"` // joined with [Join]
	Approvals []ApprovalRule `json:"approvals"`
	Limits    []Limit        `json:"limits"`
	Labels    []string       `json:"labels"` // added to the session at admission

	// What an engine that cannot honour it must refuse the call for.
	Cap          jsontext.Value `json:"cap,omitzero"`
	ResultLabels []string       `json:"result_labels,omitzero"`
	Redact       jsontext.Value `json:"redact,omitzero"`
	Fields       jsontext.Value `json:"fields,omitzero"`
	Rows         jsontext.Value `json:"rows,omitzero"`
	Frame        jsontext.Value `json:"frame,omitzero"`

	// Revisions of the bundles that decided. Set by the policy, never decoded.
	Revisions []Revision `json:"-"`
}

// Revision names one bundle exactly.
type Revision struct {
	Name     string `json:"name"`
	Revision string `json:"revision"` // the manifest's word, "" without one
	Digest   string `json:"digest"`   // sha256:<hex>
}

// Reason is why a rule refused or asked.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message,omitzero"` // for people; never recorded
	Rule    string `json:"rule,omitzero"`
	Remedy  string `json:"remedy,omitzero"`
	Hidden  bool   `json:"hidden,omitzero"` // not shown to the caller
}

// RuleGrant is what one rule grants.
type RuleGrant struct {
	ID string `json:"id,omitzero"`
	Caps
}

// ApprovalRule says who must approve a call before it runs. Its identity is
// its name.
type ApprovalRule struct {
	Name   string `json:"name"`
	Count  int    `json:"count"` // distinct approvers, at least 1
	From   From   `json:"from"`
	TTL    int64  `json:"ttl_s,omitzero"` // seconds, at least 1; absent means one hour
	Reason string `json:"reason,omitzero"`
}

// From says who may approve: any of these ids, or anyone with any of these
// roles. An empty From is nobody.
type From struct {
	Roles []string `json:"roles,omitzero"`
	IDs   []string `json:"ids,omitzero"`
}

// Clone returns a copy that shares nothing with f.
func (f From) Clone() From { return From{slices.Clone(f.Roles), slices.Clone(f.IDs)} }

// Limit takes Cost units from a bucket of Burst units that refills within Per.
// Its identity is (name, key).
type Limit struct {
	Name  string `json:"name"`
	Key   string `json:"key"`
	Burst int64  `json:"burst"`         // units, at least 1
	Per   string `json:"per"`           // a duration as in time.ParseDuration: "1m"
	Cost  int64  `json:"cost,omitzero"` // units, at least 1; absent means 1
}
