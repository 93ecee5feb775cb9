package call

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// RecordType says what a record is about.
type RecordType string

// The types of records.
const (
	TypeDecision RecordType = "decision"
	TypeOutcome  RecordType = "outcome"
	TypeApproval RecordType = "approval" // somebody voted
	TypeSession  RecordType = "session"  // a session was opened
	TypeRevoke   RecordType = "revoke"
	TypeReveal   RecordType = "reveal" // somebody looked at arguments that are masked
	TypeWaiver   RecordType = "waiver" // the node started with less than it should have
	TypePin      RecordType = "pin"    // a tool that is being worked on was taken up anew
	TypeCut      RecordType = "cut"    // lines that were never acknowledged were removed on open
	TypeAlive    RecordType = "alive"  // nothing else was recorded for a while
)

// Record is one line of the audit log. It holds digests, codes, capabilities,
// effects, timings and revisions: never arguments, results, secrets, or free
// text from rules, tools or traps. [RecordEffects] says what of effects is in the
// clear. Its place in the log is its index; it does
// not hold it. Every string that ends in a digest of something guessable is
// keyed, see [Keyed]. docs/record-format.md describes each field.
type Record struct {
	Type RecordType `json:"type"`
	Time time.Time  `json:"time"` // UTC, RFC 3339 with nanoseconds
	Node string     `json:"node,omitzero"`
	Call string     `json:"call,omitzero"`

	// Of decisions.
	Principal *RecordPrincipal `json:"principal,omitzero"`
	Session   string           `json:"session,omitzero"`
	Tool      *RecordTool      `json:"tool,omitzero"`
	Args      string           `json:"args,omitzero"`     // keyed digest of the canonical arguments
	RawArgs   string           `json:"raw_args,omitzero"` // keyed digest of what was sent, when it has no canonical form
	Verdict   Verdict          `json:"verdict,omitzero"`
	Code      Code             `json:"code,omitzero"` // of refusals and outcomes
	Reasons   []RecordReason   `json:"reasons,omitzero"`
	Caps      *Caps            `json:"caps,omitzero"`
	Policy    []Revision       `json:"policy,omitzero"`
	Change    *Change          `json:"change,omitzero"`
	Grant     *RecordGrant     `json:"grant,omitzero"` // that left or reached this process

	// Preconditions are keyed digests of what the call depends on, in the manifest's
	// order: the digest of a file, or an entity tag.
	Preconditions []string `json:"preconditions,omitzero"`

	// Enforcement is "convention" for a raw tool, which nothing holds to its Caps.
	Enforcement string `json:"enforcement,omitzero"`

	// Of reveals.
	Approval string `json:"approval,omitzero"` // whose arguments were shown

	// Of outcomes.
	Decision *int64         `json:"decision,omitzero"` // index of the decision record
	Outcome  *RecordOutcome `json:"outcome,omitzero"`

	// Of pins, beside Tool.
	Was string `json:"was,omitzero"` // digest of the tool before

	// Of waivers.
	Waived []string `json:"waived,omitzero"` // what the state goes without

	// Of cuts.
	CutBytes int64 `json:"cut_bytes,omitzero"`
}

// RecordGrant is a grant that was decided on by one process and is run by another.
type RecordGrant struct {
	ID       string    `json:"id"`
	Issuer   string    `json:"issuer"`   // node that decided
	Audience string    `json:"audience"` // who may run it
	Expires  time.Time `json:"expires"`
	Issued   bool      `json:"issued,omitzero"` // here: the outcome is in the log of whoever runs it
}

// RecordPrincipal is who asked, as the ingress knew them.
type RecordPrincipal struct {
	ID         string            `json:"id"`
	Kind       string            `json:"kind"`
	Roles      []string          `json:"roles,omitzero"`
	Tenant     string            `json:"tenant,omitzero"`
	Auth       Auth              `json:"auth"`
	OnBehalfOf []RecordPrincipal `json:"on_behalf_of,omitzero"`
}

// RecordTool is the tool that was asked for. An unknown tool has only a keyed
// digest of the name that the caller made up.
type RecordTool struct {
	Name    string `json:"name,omitzero"`
	Kind    string `json:"kind,omitzero"`
	Digest  string `json:"digest,omitzero"`
	Unknown string `json:"unknown,omitzero"`
}

// RecordReason is a [Reason] without its free text.
type RecordReason struct {
	Layer string `json:"layer,omitzero"`
	Code  string `json:"code"`
	Rule  string `json:"rule,omitzero"`
}

// RecordOutcome is an [Outcome] as the log keeps it.
type RecordOutcome struct {
	Status        Status         `json:"status"`
	Reported      bool           `json:"reported,omitzero"` // by the caller, who ran the tool
	Exit          uint32         `json:"exit,omitzero"`
	Effects       []RecordEffect `json:"effects,omitzero"`
	Fuel          int64          `json:"fuel,omitzero"`
	MemoryBytes   int64          `json:"memory_bytes,omitzero"`
	MemoryRefused bool           `json:"memory_refused,omitzero"`
	OutputBytes   int64          `json:"output_bytes,omitzero"`
	TookUS        int64          `json:"took_us"`
	Charges       []Charged      `json:"charges,omitzero"`
}

// Change is what a record does to the state. Folding the changes of all
// records, in any order, gives the state back.
type Change struct {
	TATs     Times          `json:"tats,omitzero"` // limit key -> theoretical arrival time
	Used     Uses           `json:"used,omitzero"` // limit key -> units taken, or given back; folded by sum
	Asked    *Approval      `json:"asked,omitzero"`
	Voted    *Vote          `json:"voted,omitzero"`
	Consumed []string       `json:"consumed,omitzero"` // ids of approvals
	Voided   []string       `json:"voided,omitzero"`   // ids of approvals of what would no longer run
	Spent    []Spent        `json:"spent,omitzero"`
	Session  *SessionChange `json:"session,omitzero"`
	Revoked  *Revocation    `json:"revoked,omitzero"`
}

// Uses are units by limit key.
type Uses map[string]Use

// Use is what was taken of a limit that counts within a window, or, negative, given
// back.
type Use struct {
	Units int64 `json:"units"`
	End   int64 `json:"end,string"` // of the window, Unix ns
}

// Spent is a grant of another process that was used up here.
type Spent struct {
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"` // until when it must be remembered
}

// Times are instants by key, in Unix ns; folded by max. In JSON they are strings,
// since RFC 8785 would round them.
type Times map[string]int64

// MarshalJSONTo writes the times as strings.
func (t Times) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, map[string]int64(t), json.StringifyNumbers(true))
}

// UnmarshalJSONFrom reads the times from strings.
func (t *Times) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return json.UnmarshalDecode(d, (*map[string]int64)(t), json.StringifyNumbers(true))
}

// IsZero reports whether c changes nothing.
func (c Change) IsZero() bool {
	return len(c.TATs) == 0 && len(c.Used) == 0 && c.Asked == nil && c.Voted == nil && len(c.Consumed) == 0 &&
		len(c.Voided) == 0 && len(c.Spent) == 0 && c.Session == nil && c.Revoked == nil
}

// Approval is a question to people about one call.
type Approval struct {
	ID        string          `json:"id"`
	Binding   string          `json:"binding"` // keyed digest of requester, tool, arguments, policy and caps
	About     string          `json:"about"`   // keyed digest of requester, tool name and arguments alone
	Asked     time.Time       `json:"asked"`
	Expires   time.Time       `json:"expires"`
	Rules     []ApprovalRule  `json:"rules"` // without reasons
	Requester RecordPrincipal `json:"requester"`
	Principal string          `json:"principal"` // digest of the requester, as in revocations
	Tool      RecordTool      `json:"tool"`
	Caps      Caps            `json:"caps"`            // what the call may do if it is approved
	Policy    []Revision      `json:"policy,omitzero"` // that asks
	Epoch     int64           `json:"epoch,omitzero"`
}

// Vote is one person's answer to an [Approval]. A deny ends it.
type Vote struct {
	Approval  string          `json:"approval"`
	By        RecordPrincipal `json:"by"`
	Principal string          `json:"principal"` // digest of who voted, as in revocations
	At        time.Time       `json:"at,omitzero"`
	Deny      bool            `json:"deny,omitzero"`
	Reason    string          `json:"reason,omitzero"` // the voter's own words
}

// SessionChange is a session after it was opened or ended, or its labels or its plan
// changed.
type SessionChange struct {
	ID      string `json:"id"`
	Owner   string `json:"owner"`                 // digest of the principal that it is bound to
	Version int64  `json:"version,omitzero"`      // folded by max
	Labels  Times  `json:"labels,omitzero"`       // label -> when it ends
	Until   int64  `json:"until,omitzero,string"` // when Owner ends, Unix ns; zero: never
	Ended   bool   `json:"ended,omitzero"`        // by its owner, before Until

	// Plan is the whole plan, from when the session had PlanVersion until PlanUntil, in
	// Unix ns. Of two the one holds that lasts longer, or else that has the larger version:
	// a session that was forgotten begins with the first one anew. With PlanUntil zero
	// nothing is said of a plan.
	Plan        Plan  `json:"plan,omitzero"`
	PlanVersion int64 `json:"plan_version,omitzero"`
	PlanUntil   int64 `json:"plan_until,omitzero,string"`
}

// Merge makes c say what o says of the same session, too, whichever was first.
func (c *SessionChange) Merge(o SessionChange) {
	c.Owner = max(c.Owner, o.Owner) // one id has one owner, so max is that one
	c.Version, c.Until, c.Ended = max(c.Version, o.Version), max(c.Until, o.Until), c.Ended || o.Ended
	for label, end := range o.Labels {
		if c.Labels == nil {
			c.Labels = Times{}
		}
		c.Labels[label] = max(c.Labels[label], end)
	}
	if cmp.Or(cmp.Compare(o.PlanUntil, c.PlanUntil), cmp.Compare(o.PlanVersion, c.PlanVersion)) > 0 {
		c.Plan, c.PlanVersion, c.PlanUntil = o.Plan.Clone(), o.PlanVersion, o.PlanUntil
	}
}

// Revocation ends what was permitted before: of one principal, one tool, or all.
type Revocation struct {
	Principal string `json:"principal,omitzero"` // digest of the principal
	Tool      string `json:"tool,omitzero"`      // name
	Epoch     int64  `json:"epoch,omitzero"`     // everything asked in an older epoch is void
}

// Encode writes the record as one line of canonical JSON, without the line
// break. Integers beyond 2^53 are written as strings, so any reader keeps them.
func (r Record) Encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		return nil, err
	}
	return v, nil
}

// DecodeRecord reads one line. Unknown members are refused: a reader that
// skipped one could miss a change of state.
func DecodeRecord(line []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true))
	return r, err
}
