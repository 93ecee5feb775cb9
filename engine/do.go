package engine

import (
	"context"
	"errors"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
	"github.com/callgate/callgate/engine/internal/seal"
	"github.com/callgate/callgate/engine/state"
)

// maxDecisions bounds how often a call is decided again because its session
// moved in the meantime.
const maxDecisions = 3

// Do takes one call down the road: decide, admit, record, grant, run, record.
// Together with [Engine.Authorize], which ends where the caller runs the tool, and
// with [Engine.Issue] and [Engine.Execute], which do the two halves in two places,
// there is no other way from a call to an effect.
//
// The context bounds the run of the tool. Once the call is admitted its
// bookkeeping goes on whatever becomes of the context.
//
// # Errors
//
// A [*Denial] when nothing ran, a [*ToolError] when the tool ran and failed,
// nil when it ran and succeeded.
func (e *Engine) Do(ctx context.Context, c call.Call) (*Result, error) {
	p := e.passage(c)
	g, err := e.grant(ctx, p, p.permit)
	if err != nil {
		return nil, err
	}
	output, outcome := p.run(ctx, g)
	seal.Kill(g)
	return p.finish(output, outcome)
}

// Authorize takes one call of an external tool down the road up to its run, which
// is the caller's: see [Permit].
//
// # Errors
//
// A [*Denial]: the caller MUST NOT run the tool.
func (e *Engine) Authorize(ctx context.Context, c call.Call) (*Permit, error) {
	p := e.passage(c)
	p.outside = true
	g, err := e.grant(ctx, p, p.permit)
	if err != nil {
		return nil, err
	}
	return p.hand(g)
}

// grant is the part of the road that all calls share; permit says whether this one
// may go on. What it returns has a place in the log's queue, which belongs to the
// outcome.
func (e *Engine) grant(ctx context.Context, p *passage, permit func(context.Context) error) (grant.Grant, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	leave, code := e.enter(ctx)
	if code != "" {
		return grant.Grant{}, p.turnAway(code)
	}
	defer func() {
		if p.leave == nil {
			leave()
		}
	}()
	if err := permit(ctx); err != nil {
		return grant.Grant{}, p.refuse(err)
	}
	if err := p.recordDecision(); err != nil {
		return grant.Grant{}, p.unrecorded(err) // no record, no run
	}
	p.leave = leave
	if err := p.hold(ctx); err != nil {
		return grant.Grant{}, err
	}
	return seal.Mint(p.terms()), nil
}

// permit is the road up to the record: nil only if the call may run.
func (p *passage) permit(ctx context.Context) (err error) {
	defer p.e.caught(&err)
	if err := p.arrive(ctx); err != nil {
		return err
	}
	for range maxDecisions {
		if err := p.decide(ctx); err != nil {
			return err
		}
		if err := p.look(ctx); err != nil {
			return err
		}
		// From here on the caller may go away, but not the bookkeeping.
		err := p.admit(context.WithoutCancel(ctx))
		if !errors.Is(err, state.ErrSessionChanged) {
			return err
		}
	}
	return &call.Error{Code: call.CodeSessionChanged}
}
