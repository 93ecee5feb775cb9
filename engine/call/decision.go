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

	Cap *Cap `json:"cap,omitzero"` // narrows what is granted; nil is no opinion

	// What an engine that cannot honour it must refuse the call for.
	ResultLabels []string   `json:"result_labels,omitzero"`
	Redact       Obligation `json:"redact,omitzero"`
	Fields       Obligation `json:"fields,omitzero"`
	Rows         Obligation `json:"rows,omitzero"`
	Frame        Obligation `json:"frame,omitzero"`

	// Revisions of the bundles that decided. Set by the policy, never decoded.
	Revisions []Revision `json:"-"`
}

// Obligation is what must be done with a result: what each layer that says anything
// says of it, unmerged. A policy writes its own value alone.
type Obligation []jsontext.Value

// UnmarshalJSONFrom reads the value of one policy, whatever it is.
func (o *Obligation) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	*o = Obligation{v.Clone()}
	return nil
}

// DefaultLayer is the name of a layer that nobody named.
const DefaultLayer = "policy"

// InLayer is a name as people read it: "refunds" in the layer that nobody named,
// "org/refunds" in the layer org. Neither part has a slash in it.
func InLayer(layer, name string) string {
	if layer == "" || layer == DefaultLayer {
		return name
	}
	return layer + "/" + name
}

// Revision names one bundle exactly, and what was asked of it.
type Revision struct {
	Name       string `json:"name"`                // the layer's
	Revision   string `json:"revision"`            // the manifest's word, "" without one
	Digest     string `json:"digest"`              // sha256:<hex>
	Role       string `json:"role,omitzero"`       // "" for a layer that permits
	Entrypoint string `json:"entrypoint,omitzero"` // "" for the role's own
}

// Reason is why a rule refused or asked.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message,omitzero"` // for people; never recorded
	Layer   string `json:"layer,omitzero"`   // set by the engine's side, never by a policy
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
// (layer, name).
type ApprovalRule struct {
	Layer  string `json:"layer,omitzero"` // set by the engine's side, never by a policy
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
