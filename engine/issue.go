package engine

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/internal/seal"
	"github.com/callgate/callgate/engine/token"
)

// signTimeout bounds one signature: a key management service may not answer.
const signTimeout = 10 * time.Second

// Issue takes one call down the road up to its run, which is for the executor named
// aud: what it returns lets [Engine.Execute] of that one run this tool once, with
// these arguments, within the capabilities that were granted, in the next minute at
// most. Limits are charged and approvals consumed here and now, also when nobody
// ever runs it. The log here says that the grant was issued; the outcome is in the
// executor's.
//
// Whoever has the token can use it: send it over TLS, and log it nowhere.
//
// # Errors
//
// A [*Denial]: there is no grant. With [call.CodeGrantUnavailable] when this engine
// has no key to sign with, or it does not work, and [call.CodeToolKind] for external
// tools: see [Engine.Authorize].
func (e *Engine) Issue(ctx context.Context, c call.Call, aud string) (string, error) {
	p := e.passage(c)
	p.away = true
	var epoch int64
	g, err := e.grant(ctx, p, func(ctx context.Context) (err error) {
		epoch, err = p.issue(ctx, aud)
		return err
	})
	if err != nil {
		return "", err
	}
	seal.Kill(g) // nothing runs here
	raw, err := p.sign(context.WithoutCancel(ctx), epoch)
	if err != nil {
		p.startErr = err
		_, err := p.finish(nil, call.Outcome{Status: call.NotStarted, Code: call.CodeGrantUnavailable})
		return "", err
	}
	defer p.leave()
	e.log.Info().Str("call", p.id).Str("tool", p.tool.manifest.Name).Str("grant", p.travels.ID).
		Str("audience", aud).Int64("record", p.index).Msg("issued")
	return raw, nil
}

// issue is permit for a call that another process runs.
func (p *passage) issue(ctx context.Context, aud string) (epoch int64, err error) {
	defer p.e.caught(&err)
	g := p.e.o.Grants
	if g == nil || g.Signer == nil {
		return 0, &call.Error{Code: call.CodeGrantUnavailable, Detail: "this engine has no key to sign them with"}
	}
	if aud == "" || !printable(aud) {
		return 0, &call.Error{Code: call.CodeRequestInvalid, Detail: "the audience is not plain text of 1 to 256 bytes"}
	}
	// Before anything is decided: whatever is revoked from here on voids the grant.
	if epoch, err = p.e.o.State.Epoch(ctx); err != nil {
		return 0, &call.Error{Code: call.CodeStateUnavailable, Err: err}
	}
	if err := p.permit(ctx); err != nil {
		return 0, err
	}
	issued := p.e.o.Now().UTC().Truncate(time.Second)
	p.travels = &call.RecordGrant{
		ID: "gr-" + rand.Text(), Issuer: g.Issuer, Audience: aud, Expires: issued.Add(g.ttl()), Issued: true,
	}
	return epoch, nil
}

// sign makes the token of the decision that is recorded.
func (p *passage) sign(ctx context.Context, epoch int64) (raw string, err error) {
	defer p.e.caught(&err)
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	g := p.e.o.Grants
	expires := p.travels.Expires
	issued := expires.Add(-g.ttl()).Unix()
	raw, err = g.Signer.Sign(ctx, token.Claims{
		Issuer: g.Issuer, Audience: p.travels.Audience, Subject: p.call.Principal.ID, ID: p.travels.ID,
		IssuedAt: issued, NotBefore: issued, Expires: expires.Unix(),
		Principal: p.recordPrincipal(),
		Tool:      token.Tool{Name: p.tool.manifest.Name, Digest: p.tool.digest},
		Args:      p.args.Digest(), Caps: p.caps, Policy: p.decision.Revisions, Approvals: p.change.Consumed,
		Decision: p.id, Log: token.Place{Origin: g.Origin, Index: p.index}, Epoch: epoch,
		Preconditions: p.depends,
	})
	if err != nil {
		return "", &call.Error{Code: call.CodeGrantUnavailable, Detail: "signing did not work", Err: err}
	}
	return raw, nil
}
