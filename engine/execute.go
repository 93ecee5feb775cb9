package engine

import (
	"context"
	"crypto/subtle"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/internal/seal"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/token"
)

// Execute runs a call that another engine decided, by the grant that its
// [Engine.Issue] gave, with the very arguments. Policy is not asked again. The tool
// must be here too, with the same digest; it may do what the grant says and this
// engine's own manifest and ceiling allow. The grant is spent at the last moment
// before the decision is recorded here, and with it is checked that nothing here
// revokes it.
//
// # Errors
//
// As those of [Engine.Do]. A [*Denial] with [call.CodeGrantInvalid] for a token that
// is not a grant for this call, here and now; [call.CodeGrantSpent];
// [call.CodeRevoked]; [call.CodeGrantUnavailable] and [call.CodeStateUnavailable]
// when nobody can tell. Every one is recorded here; of a token that nobody vouches
// for, nothing that it says.
func (e *Engine) Execute(ctx context.Context, raw string, args jsontext.Value) (*Result, error) {
	p := e.passage(call.Call{Args: args})
	p.stranger, p.known = true, false
	g, err := e.grant(ctx, p, func(ctx context.Context) error { return p.redeem(ctx, raw) })
	if err != nil {
		return nil, err
	}
	output, outcome := p.run(ctx, g)
	seal.Kill(g)
	return p.finish(output, outcome)
}

// redeem is permit for a call that another process decided.
func (p *passage) redeem(ctx context.Context, raw string) (err error) {
	defer p.e.caught(&err)
	o := p.e.o.Grants
	if o == nil || o.Issuers == nil {
		return &call.Error{Code: call.CodeGrantUnavailable, Detail: "this engine knows no issuers of them"}
	}
	g, err := o.Issuers.Verify(ctx, raw, o.Audience, p.e.o.Now())
	if err != nil {
		return err
	}
	p.believe(g.Claims)
	if err := p.arrive(ctx); err != nil {
		return err
	}
	if err := p.bound(g.Claims); err != nil {
		return err
	}
	return p.spend(context.WithoutCancel(ctx), g)
}

// believe takes over what the issuer vouches for.
func (p *passage) believe(c token.Claims) {
	p.call.Principal, p.call.Tool = clonePrincipal(principalOf(c.Principal)), c.Tool.Name
	p.stranger = false
	p.owner, p.tool = principalDigest(p.call.Principal, ""), p.e.tool(c.Tool.Name)
	p.travels = &call.RecordGrant{ID: c.ID, Issuer: c.Issuer, Audience: c.Audience, Expires: c.Last().Add(-token.Skew).UTC()}
}

// principalOf is a principal as another engine's record has it.
func principalOf(r call.RecordPrincipal) call.Principal {
	p := call.Principal{ID: r.ID, Kind: r.Kind, Roles: r.Roles, Tenant: r.Tenant, Auth: r.Auth}
	for _, o := range r.OnBehalfOf {
		p.OnBehalfOf = append(p.OnBehalfOf, principalOf(o))
	}
	return p
}

// bound holds what would run here against what was decided there.
func (p *passage) bound(c token.Claims) error {
	if subtle.ConstantTimeCompare([]byte(p.tool.digest), []byte(c.Tool.Digest)) != 1 {
		return &call.Error{Code: call.CodeGrantInvalid, Detail: "the tool here is another version than the one that was decided on"}
	}
	if subtle.ConstantTimeCompare([]byte(p.args.Digest()), []byte(c.Args)) != 1 {
		return &call.Error{Code: call.CodeGrantInvalid, Detail: "the arguments are others than those that were decided on"}
	}
	if !found(p.depends, c.Preconditions) {
		return &call.Error{Code: call.CodeGrantInvalid, Detail: "it does not say how the issuer found what the call depends on"}
	}
	p.depends = slices.Clone(c.Preconditions)
	caps, err := p.most()
	if err != nil {
		return err
	}
	if caps, err = caps.Meet(c.Caps); err != nil {
		return err
	}
	d := call.Decision{Verdict: call.Allow, Revisions: slices.Clone(c.Policy)}
	if err := fits(d, caps); err != nil {
		return &call.Error{Code: call.CodeGrantInvalid, Detail: "it is too large to be recorded"}
	}
	p.decision, p.caps = d, caps
	return nil
}

// most is the most that the tool may be given here.
func (p *passage) most() (call.Caps, error) {
	caps := p.tool.manifest.Caps
	if p.e.o.Ceiling == nil {
		return caps, nil
	}
	return caps.Meet(*p.e.o.Ceiling)
}

// spendID is the name by which the state knows that a grant is used up. What an issuer
// calls its grants says nothing about those of others, RFC 7519 section 4.1.7.
func spendID(c token.Claims) string { return call.Digest([]byte(c.Issuer + "\x00" + c.ID)) }

// spend uses the grant up, unless it is used up or revoked.
func (p *passage) spend(ctx context.Context, g token.Verified) error {
	epoch, err := p.e.epochOf(ctx, g)
	if err != nil {
		return err
	}
	now := p.e.o.Now()
	if err := g.At(now); err != nil { // to look for keys takes time
		return err
	}
	change, err := p.e.o.State.Spend(ctx, state.Spend{
		ID: spendID(g.Claims), Now: now, Expires: g.Last(), Epoch: epoch, Principals: append([]string{p.owner}, p.actsFor()...), Tool: g.Tool.Name,
	})
	switch {
	case errors.Is(err, state.ErrSpent):
		return &call.Error{Code: call.CodeGrantSpent}
	case errors.Is(err, state.ErrRevoked):
		return &call.Error{Code: call.CodeRevoked}
	case err != nil:
		return &call.Error{Code: call.CodeStateUnavailable, Err: err}
	}
	p.change = change
	return nil
}
