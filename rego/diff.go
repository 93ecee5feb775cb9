package rego

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/callgate/callgate/engine/call"
)

// Decider answers calls: a [*Policy] or a [*Set].
type Decider interface {
	Decide(ctx context.Context, in *call.Input) (call.Decision, error)
}

// DiffKind is what a change of policy does to one call.
type DiffKind string

// The kinds of differences.
const (
	NewlyAllowed DiffKind = "newly_allowed" // was denied, or had to be approved
	NewlyAsking  DiffKind = "newly_asking"  // was denied, or was allowed
	NewlyDenied  DiffKind = "newly_denied"
	GrantWider   DiffKind = "grant_wider"    // all that it could do, and more
	GrantOther   DiffKind = "grant_other"    // neither was more than the other
	GrantLess    DiffKind = "grant_narrower" // some of what it could do
	Eased        DiffKind = "eased"          // a limit, an approval, a label or an obligation less
	Tightened    DiffKind = "tightened"      // and one more
)

// Case is one call to compare policies by.
type Case struct {
	Name  string // where it is from
	Input *call.Input
}

// Difference is one call that two policies answer differently.
type Difference struct {
	Kind DiffKind `json:"kind"`

	// Opens says that the call can now do what it could not: that it runs, runs once
	// somebody approves, or runs with more or under less.
	Opens bool `json:"opens"`

	Case  string   `json:"case"`
	Tool  string   `json:"tool"`
	Who   string   `json:"who"` // id
	Roles []string `json:"roles"`
	Args  string   `json:"args"` // cut, and without what looks like a secret

	Was, Is   call.Verdict `json:"-"`
	WasAnswer string       `json:"was"` // a verdict, with the code of a refusal
	IsAnswer  string       `json:"is"`
	What      string       `json:"what,omitzero"` // what is eased or tightened
}

// DiffReport is what [Diff] found.
type DiffReport struct {
	Calls       int              `json:"calls"`
	Same        int              `json:"same"`
	Opens       int              `json:"opens"` // calls that can now do more
	Kinds       map[DiffKind]int `json:"kinds"`
	Differences []Difference     `json:"differences"` // what opens first
}

// maxArgsShown is how many bytes of arguments a difference shows.
const maxArgsShown = 400

// Diff asks two policies about the same calls and says where they differ. An error
// of a policy is a no, as it is to the engine.
//
// # Errors
//
// If ctx ends, or a policy does not answer in time, nothing is told.
func Diff(ctx context.Context, a, b Decider, cases iter.Seq[Case]) (*DiffReport, error) {
	r := &DiffReport{Kinds: map[DiffKind]int{}, Differences: []Difference{}}
	for c := range cases {
		was, err := answered(ctx, a, c.Input)
		if err != nil {
			return nil, err
		}
		is, err := answered(ctx, b, c.Input)
		if err != nil {
			return nil, err
		}
		r.Calls++
		d := was.against(is)
		if d == nil {
			r.Same++
			continue
		}
		d.describe(c, was, is)
		if r.Kinds[d.Kind]++; d.Opens {
			r.Opens++
		}
		r.Differences = append(r.Differences, *d)
	}
	slices.SortStableFunc(r.Differences, func(x, y Difference) int {
		switch {
		case x.Opens == y.Opens:
			return 0
		case x.Opens:
			return -1
		default:
			return 1
		}
	})
	return r, nil
}

// verdictAndGrant is what becomes of one call under one policy.
type verdictAndGrant struct {
	d    call.Decision
	caps call.Caps
	code call.Code // of a policy that gives no answer
}

func answered(ctx context.Context, p Decider, in *call.Input) (verdictAndGrant, error) {
	d, err := p.Decide(ctx, in)
	if err == nil && d.Verdict != call.Deny {
		var caps call.Caps
		if caps, err = joined(d.Grants); err == nil && d.Cap != nil {
			caps, err = caps.Capped(*d.Cap)
		}
		if err == nil {
			return verdictAndGrant{d: d, caps: caps}, nil
		}
	}
	code := call.CodeOf(err, "")
	if ctx.Err() != nil || code == call.CodePolicyTimeout {
		return verdictAndGrant{}, fmt.Errorf("rego: a policy did not answer in time: %w", errors.Join(err, ctx.Err()))
	}
	if err != nil {
		d = call.Decision{Verdict: call.Deny}
		if code == "" {
			code = call.CodePolicyError
		}
	}
	return verdictAndGrant{d: d, code: code}, nil
}

func (v verdictAndGrant) text() string {
	if v.code != "" {
		return string(v.d.Verdict) + " (" + string(v.code) + ")"
	}
	for _, r := range v.d.Reasons {
		if v.d.Verdict == call.Deny {
			return string(call.Deny) + " (" + call.InLayer(r.Layer, r.Code) + ")"
		}
	}
	return string(v.d.Verdict)
}

func (d *Difference) describe(c Case, was, is verdictAndGrant) {
	d.Case, d.Tool, d.Who = c.Name, c.Input.Tool.Name, c.Input.Principal.ID
	d.Roles = append([]string{}, c.Input.Principal.Roles...)
	d.Was, d.Is, d.WasAnswer, d.IsAnswer = was.d.Verdict, is.d.Verdict, was.text(), is.text()
	d.Args = shownArgs(c.Input.Args)
}
