package story

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// noon is when calls are made that do not say: a Wednesday.
var noon = time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC)

func (a ask) time() time.Time {
	if a.At.IsZero() {
		return noon
	}
	return a.At
}

// input walks the first station of the road, as the engine does: canonical
// arguments, the tool, its schema, facts.
func (s *story) input(a ask) (*call.Input, error) {
	raw := a.Args
	if raw == "" {
		raw = "{}"
	}
	args, err := call.Canonical([]byte(raw))
	if err != nil {
		return nil, err
	}
	m := s.tools[a.Tool]
	if m.Manifest == nil {
		return nil, &call.Error{Code: call.CodeToolUnknown}
	}
	if err := m.Check(args); err != nil {
		return nil, err
	}
	facts, args, err := m.Derive(args)
	if err != nil {
		return nil, err
	}
	who, err := a.Principal.call()
	if err != nil {
		return nil, err
	}
	said, err := values(a.Asserted.Context)
	if err != nil {
		return nil, err
	}
	labels := append([]string{}, a.Session.Labels...)
	slices.Sort(labels)
	plan := call.Plan{}
	for _, t := range a.Session.Plan {
		plan = append(plan, call.Task{ID: t.ID, Status: call.TaskStatus(t.Status), Tools: t.Tools, After: t.After})
	}
	return &call.Input{
		Tool: a.As.over(m.Tool()), Args: args, Principal: who,
		Session: call.Session{ID: "s-1", Run: "r-1", Labels: labels, Plan: plan.Clone(), Calls: a.Session.Calls},
		Facts:   facts, Env: call.Env{NowNS: a.time().UnixNano(), Node: "node-1"},
		Asserted: call.Asserted{Justification: a.Asserted.Justification, Context: said},
	}, nil
}

func (a as) over(t call.Tool) call.Tool {
	if a.Name != "" {
		t.Name = a.Name
	}
	if a.Kind != "" {
		t.Kind = a.Kind
	}
	if a.Tags != nil {
		t.Tags = a.Tags
	}
	t.Server = a.Server
	t.Findings = append([]string{}, a.Findings...)
	return t
}

// call is the principal as an ingress would have authenticated it.
func (p principal) call() (call.Principal, error) {
	claims, err := values(p.Claims)
	if err != nil {
		return call.Principal{}, err
	}
	out := call.Principal{
		ID: or(p.ID, "agent-7"), Kind: or(p.Kind, "agent"), Roles: append([]string{}, p.Roles...), Tenant: or(p.Tenant, "acme"),
		Claims: claims, Auth: call.Auth{Method: or(p.Auth, "jwt"), Issuer: "https://issuer.example"},
	}
	if p.Tenant == "-" {
		out.Tenant = ""
	}
	for _, o := range p.OnBehalfOf {
		of, err := o.call()
		if err != nil {
			return call.Principal{}, err
		}
		out.OnBehalfOf = append(out.OnBehalfOf, of)
	}
	return out, nil
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func values(in map[string]any) (map[string]jsontext.Value, error) {
	out := map[string]jsontext.Value{}
	for name, x := range in {
		b, err := json.Marshal(x, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("%s: is not JSON", name)
		}
		out[name] = b
	}
	return out, nil
}

// decided is what becomes of one call.
func (s *story) decided(ctx context.Context, layers *rego.Set, a ask) (want, error) {
	in, err := s.input(a)
	if err != nil {
		return refused(err)
	}
	d, err := layers.Decide(ctx, in)
	if err != nil {
		return refused(err)
	}
	w := s.observed(d)
	if w.Layers, err = alone(ctx, layers, in); err != nil || d.Verdict == call.Deny {
		return w, err
	}
	caps, err := granted(s.tools[a.Tool].Caps, d)
	if err != nil {
		return refused(err)
	}
	w.Caps = summary(caps)
	for _, e := range a.Tries {
		w.Tries = append(w.Tries, or(caps.Within(e.op()), triedInVain))
	}
	return w, nil
}

// refused is a refusal that has a code. Another error is the story's own.
func refused(err error) (want, error) {
	code := call.CodeOf(err, "")
	if code == "" {
		return want{}, err
	}
	return want{Refused: code}, nil
}

// alone is what each of several layers says.
func alone(ctx context.Context, layers *rego.Set, in *call.Input) (map[string]string, error) {
	all := layers.Layers()
	if len(all) == 1 {
		return nil, nil
	}
	out := map[string]string{}
	for _, p := range all {
		d, err := p.Decide(ctx, in)
		if err != nil {
			return nil, err
		}
		out[p.Revision().Name] = string(d.Verdict)
	}
	return out, nil
}

// granted is what the decision leaves of the manifest's capabilities.
func granted(most call.Caps, d call.Decision) (call.Caps, error) {
	list := make([]call.Caps, len(d.Grants))
	for i, g := range d.Grants {
		list[i] = g.Caps
	}
	joined, err := call.Join(list...)
	if err != nil {
		return call.Caps{}, err
	}
	caps, err := most.Meet(joined)
	if err != nil || d.Cap == nil {
		return caps, err
	}
	return caps.Capped(*d.Cap)
}

func (e effort) op() call.Op {
	op := call.Op{
		Kind: call.OpKind(e.Kind), Root: e.Root, Mode: e.Mode, Path: e.Path,
		Host: e.Host, Port: e.Port, Method: e.Method, Network: or(e.Network, "public"), Secret: e.Secret,
	}
	if e.Secret != "" {
		op.As = "bearer"
	}
	if e.Port == 0 {
		op.Port = 443
	}
	return op
}
