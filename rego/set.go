package rego

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/callgate/callgate/engine/call"
)

// maxLayers is how many layers decide together, and how many are tried beside them.
const maxLayers = 16

// Set is the layers that decide together. It never changes, and may be used by any
// number of goroutines at once: whoever keeps one has one snapshot of all bundles.
// The order in which layers are given does not matter.
type Set struct {
	layers []*Policy // by name
	shadow *Shadow   // nil: nothing is tried
	tried  []*Policy
}

// NewSet returns the set of these layers.
//
// # Errors
//
// At least one of them is a permit layer, names are unique, and there are at most
// 16.
func NewSet(layers ...*Policy) (*Set, error) {
	s := &Set{layers: slices.Clone(layers)}
	if err := byName(s.layers); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(s.layers, func(p *Policy) bool { return p.role == Permit }) {
		return nil, errors.New("rego: no layer permits anything: at least one needs the role permit")
	}
	return s, nil
}

// byName sorts layers and refuses those that could not be told apart.
func byName(layers []*Policy) error {
	if len(layers) > maxLayers {
		return fmt.Errorf("rego: more than %d layers", maxLayers)
	}
	if slices.Contains(layers, nil) {
		return errors.New("rego: a layer is nil")
	}
	slices.SortFunc(layers, func(p, q *Policy) int { return strings.Compare(p.revision.Name, q.revision.Name) })
	for i := 1; i < len(layers); i++ {
		if name := layers[i].revision.Name; name == layers[i-1].revision.Name {
			return fmt.Errorf("rego: two layers are named %s", name)
		}
	}
	return nil
}

// Beside returns a set that decides as s does, and after each answer has sh find out
// what the answer would be with one more layer: with each of these in turn. One that
// has the name of a layer that decides stands in its place: a candidate.
//
// # Errors
//
// Names are unique among these layers, a candidate has the role of what it stands
// for, and there are at most 16.
func (s *Set) Beside(sh *Shadow, layers ...*Policy) (*Set, error) {
	b := &Set{layers: s.layers, tried: slices.Clone(layers)}
	if err := byName(b.tried); err != nil {
		return nil, err
	}
	for _, p := range b.tried {
		for _, q := range b.layers {
			if p.revision.Name == q.revision.Name && p.role != q.role {
				return nil, fmt.Errorf("rego: layer %s: the role in shadow, %s, is not the one that decides, %s", p.revision.Name, p.role, q.role)
			}
		}
	}
	if len(b.tried) > 0 {
		b.shadow = sh
	}
	return b, nil
}

// Layers are the layers that decide, by name.
func (s *Set) Layers() []*Policy { return slices.Clone(s.layers) }

// Decide asks all layers about one call and says what they say together. The call is
// allowed if all permit layers allow it, and no layer denies or asks. What the
// permit layers grant is what all of them grant, less what caps leave out. Labels,
// reasons, limits, approvals and obligations are those of all layers; limits and
// approvals of different layers are different ones, whatever their names.
//
// The layers share the deadline of ctx. All of them are asked, and a fault in any
// outranks what the others say, so that nothing but the answers matters.
//
// # Errors
//
// As [Policy.Decide]; the detail names the layer, the first by name of those that
// failed. [call.CodeCapsTooMany] also if what the layers leave together is too much.
func (s *Set) Decide(ctx context.Context, in *call.Input) (call.Decision, error) {
	if len(s.layers) == 1 && s.shadow == nil {
		return s.layers[0].Decide(ctx, in)
	}
	raw, err := inputBytes(in)
	if err != nil {
		return call.Decision{}, noInput(err)
	}
	v, err := parseValue(raw)
	if err != nil {
		return call.Decision{}, noInput(err)
	}
	answers := make([]reply, len(s.layers))
	for i, p := range s.layers {
		d, err := p.decide(ctx, v, in.Env.NowNS)
		answers[i] = reply{p, d, err}
	}
	d, err := combine(answers)
	if s.shadow != nil {
		s.shadow.offer(&tryout{
			layers: s.tried, input: raw, answers: answers, was: reply{nil, d, err},
			nowNS: in.Env.NowNS, tool: in.Tool.Name, principal: in.Principal.ID,
		})
	}
	return d, err
}

// reply is what one layer, or all together, said.
type reply struct {
	by  *Policy
	d   call.Decision
	err error
}

// combine makes one decision of the answers, which are sorted by layer.
func combine(answers []reply) (call.Decision, error) {
	if !slices.ContainsFunc(answers, func(a reply) bool { return a.by.role == Permit }) {
		return call.Decision{}, &call.Error{Code: call.CodePolicyUndefined, Detail: "there is no permit layer"}
	}
	if len(answers) == 1 {
		return answers[0].d, answers[0].err
	}
	all := call.Decision{Verdict: call.Allow}
	var denials []call.Reason
	denied := false
	for _, a := range answers {
		if a.err != nil {
			return call.Decision{}, a.fault()
		}
		all.Revisions = append(all.Revisions, a.d.Revisions...)
		switch a.d.Verdict {
		case a.by.role.lets():
		case call.Ask:
			all.Verdict = call.Ask
		default:
			denied, denials = true, append(denials, a.d.Reasons...)
		}
	}
	if denied {
		return call.Decision{Verdict: call.Deny, Reasons: denials, Revisions: all.Revisions}, nil
	}
	if err := unite(&all, answers); err != nil {
		return call.Decision{}, err
	}
	return all, nil
}

// fault is the layer's error, and says whose it is.
func (a reply) fault() error {
	e, ok := errors.AsType[*call.Error](a.err)
	if !ok {
		return &call.Error{Code: call.CodePolicyError, Detail: "layer " + a.by.revision.Name, Err: a.err}
	}
	of := *e
	if of.Detail = "layer " + a.by.revision.Name; e.Detail != "" {
		of.Detail += ": " + e.Detail
	}
	return &of
}
