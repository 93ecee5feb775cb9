package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/rego"
)

// then is e with the layers that decided, if the data directory keeps all of them
// that are not those of now.
func (e *explaining) then(ctx context.Context, r *explainedRecord) (*explaining, error) {
	old := *e
	old.layers = nil
	same := len(r.Policy) == len(e.layers)
	for _, was := range r.Policy {
		i := slices.IndexFunc(e.layers, func(p *rego.Policy) bool { return p.Revision() == was })
		if i >= 0 {
			old.layers = append(old.layers, e.layers[i])
			continue
		}
		same = false
		p, err := e.keptPolicy(ctx, was)
		if err != nil {
			return nil, err
		}
		if p == nil {
			r.Missing = append(r.Missing, was)
			continue
		}
		old.layers = append(old.layers, p)
	}
	if same || len(r.Missing) > 0 {
		return e, nil
	}
	r.Kept = true
	var err error
	old.policy, err = e.together(old.layers)
	return &old, err
}

// keptPolicy compiles a bundle that has decided; nil if it is not kept.
func (e *explaining) keptPolicy(ctx context.Context, was call.Revision) (*rego.Policy, error) {
	store := keptBundles(e.conf)
	kept, err := store.List()
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		if k.Digest != was.Digest {
			continue
		}
		fsys, err := keptFiles(store, k)
		if err != nil {
			return nil, err
		}
		p, err := rego.Open(ctx, fsys, rego.Options{Name: was.Name, Role: rego.Role(was.Role), Entrypoint: was.Entrypoint})
		if err != nil || p.Revision() != was {
			return nil, err
		}
		return p, nil
	}
	return nil, nil
}

// compare says what is not as it was recorded.
func (e *explaining) compare(x *explainedCall, r call.Record, in *call.Input) error {
	if m := e.manifest(r.Tool.Name); m == nil {
		x.Record.Changed = append(x.Record.Changed, "the tool is not known, nor its class and facts")
	} else if m.Digest() != r.Tool.Digest {
		x.Record.Changed = append(x.Record.Changed, "the tool is another one: "+m.Digest())
	}
	if was := policyVerdicts(r); !slices.Contains(was, x.Verdict) {
		x.Record.Differs = append(x.Record.Differs, fmt.Sprintf("%s, and the policy said %s", x.Verdict, was[0]))
		return nil
	}
	if x.Verdict == call.Deny {
		e.compareReasons(x, r)
		return nil
	}
	return e.compareCaps(x, r, in)
}

// policyVerdicts are what the policy can have said when the record was made. Limits
// and the like are asked after it.
func policyVerdicts(r call.Record) []call.Verdict {
	switch {
	case r.Code == call.CodeRequiresApproval, r.Code == call.CodeApprovalDenied,
		r.Code == "" && r.Change != nil && len(r.Change.Consumed) > 0:
		return []call.Verdict{call.Ask}
	case r.Code == "":
		return []call.Verdict{call.Allow}
	case r.Code == call.CodePolicyDenied || strings.HasPrefix(string(r.Code), "policy_"),
		r.Code == call.CodeObligationUnsupported, r.Code == call.CodeCapsInvalid, r.Code == call.CodeCapsTooMany:
		return []call.Verdict{call.Deny}
	}
	return []call.Verdict{call.Allow, call.Ask}
}

func (e *explaining) compareReasons(x *explainedCall, r call.Record) {
	var was, is []string
	for _, y := range r.Reasons {
		was = append(was, call.InLayer(y.Layer, y.Code))
	}
	for _, p := range x.For {
		for _, y := range p.decision.Reasons {
			is = append(is, call.InLayer(y.Layer, y.Code))
		}
	}
	for _, list := range []*[]string{&was, &is} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Equal(was, is) {
		x.Record.Differs = append(x.Record.Differs, fmt.Sprintf("denied for %s, and then for %s", listed(is), listed(was)))
	}
}

func listed(s []string) string {
	if len(s) == 0 {
		return "no reason"
	}
	return strings.Join(s, ", ")
}

// compareCaps says whether the call would be given something else.
func (e *explaining) compareCaps(x *explainedCall, r call.Record, in *call.Input) error {
	m := e.manifest(in.Tool.Name)
	if r.Caps == nil || m == nil {
		return nil
	}
	caps := m.Caps
	var err error
	if e.conf.Ceiling != "" {
		ceiling, err := tool.LoadCeiling(e.conf.Ceiling)
		if err != nil {
			return err
		}
		if caps, err = caps.Meet(*ceiling); err != nil {
			return err
		}
	}
	for _, p := range x.For {
		var grants []call.Caps
		for _, g := range p.decision.Grants {
			grants = append(grants, g.Caps)
		}
		granted, err := call.Join(grants...)
		if err != nil {
			return err
		}
		if caps, err = caps.Meet(granted); err != nil {
			return err
		}
		if p.decision.Cap != nil {
			if caps, err = caps.Capped(*p.decision.Cap); err != nil {
				return err
			}
		}
	}
	switch more, less := caps.Covers(*r.Caps), r.Caps.Covers(caps); {
	case more && less:
	case more:
		x.Record.Differs = append(x.Record.Differs, "the call is given more")
	case less:
		x.Record.Differs = append(x.Record.Differs, "the call is given less")
	default:
		x.Record.Differs = append(x.Record.Differs, "the call is given something else")
	}
	return err
}
