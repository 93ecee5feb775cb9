package engine

import (
	"context"
	"errors"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/internal/seal"
	"github.com/callgate/callgate/engine/state"
)

// maxDecisions bounds how often a call is decided again because its session
// moved in the meantime.
const maxDecisions = 3

// Do takes one call down the road: decide, admit, record, grant, run, record.
// There is no other way from a call to an effect.
//
// The context bounds the run of the tool. Once the call is admitted its
// bookkeeping goes on whatever becomes of the context.
//
// # Errors
//
// A [*Denial] when nothing ran, a [*ToolError] when the tool ran and failed,
// nil when it ran and succeeded.
func (e *Engine) Do(ctx context.Context, c call.Call) (*Result, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	p := e.passage(c)
	leave, code := e.enter(ctx)
	if code != "" {
		return nil, p.turnAway(code)
	}
	defer func() { leave() }()

	if err := p.permit(ctx); err != nil {
		return nil, p.refuse(err)
	}
	if err := p.recordDecision(); err != nil {
		return nil, p.unrecorded(err) // no record, no run
	}
	g := seal.Mint(p.terms())
	output, outcome := p.run(ctx, g)
	seal.Kill(g)

	place := leave
	leave = func() {} // the place in the log's queue now belongs to the outcome
	return p.finish(output, outcome, place)
}

// permit is the road up to the record: nil only if the call may run.
func (p *passage) permit(ctx context.Context) (err error) {
	defer p.e.caught(&err)
	if err := p.arrive(); err != nil {
		return err
	}
	for range maxDecisions {
		if err := p.decide(ctx); err != nil {
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
