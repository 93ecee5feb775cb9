package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// How a tool written in Go is left to itself.
const (
	// abandonGrace is how long a tool has to return once its context is done. It waits
	// for no effect: those are dead by then.
	abandonGrace = time.Second

	defaultAbandoned = 16 // of each tool
)

// hostAnswer is what came of a host tool.
type hostAnswer struct {
	output  []byte
	outcome call.Outcome
}

// hostRun is one run of a host tool. Nobody waits for one that is abandoned: the
// tool's own goroutine says when it ends.
type hostRun struct {
	e    *Engine
	at   *place
	tool string
	call string
	done chan hostAnswer
	over atomic.Bool // it ended, or it was abandoned: whichever was first
}

// runHost waits for the tool until its time is up, and for a moment after that: Go code
// cannot be stopped, but it can be left without effects.
func (t *Tool) runHost(ctx context.Context, e *Engine, fx *hostfx.Effects, args call.Args) ([]byte, call.Outcome) {
	bounds, name := fx.Grant().Caps().Bounds, t.manifest.Name
	r := &hostRun{e: e, at: e.tools[name], tool: name, call: fx.Grant().CallID(), done: make(chan hostAnswer, 1)}
	go func() {
		a := hostAnswer{outcome: call.Outcome{Status: call.Failed, Code: call.CodeInternal}} // of a tool that never returns
		defer func() { r.end(a) }()
		var err error
		defer e.caught(&err)
		output, err := t.host(ctx, fx, args)
		output, o := hostOutcome(output, err, bounds) // here, for the methods of its error are the tool's too
		a = hostAnswer{output, o}
	}()
	select {
	case a := <-r.done:
		return a.output, a.outcome
	case <-ctx.Done():
	}
	fx.Close()
	grace := time.NewTimer(abandonGrace)
	defer grace.Stop()
	select {
	case <-r.done: // too late to be an answer
	case <-grace.C:
		if r.abandon() {
			return nil, call.Outcome{Status: call.Failed, Code: call.CodeAbandoned}
		}
	}
	return nil, call.Outcome{Status: call.Failed, Code: stopped(ctx)}
}

// stopped is the code of a run whose context is done.
func stopped(ctx context.Context) call.Code {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return call.CodeTimeExceeded
	}
	return call.CodeCancelled
}

// end is what the tool's goroutine does last.
func (r *hostRun) end(a hostAnswer) {
	if !r.over.Swap(true) {
		r.done <- a
		return
	}
	r.e.log.Info().Str("call", r.call).Str("tool", r.tool).Int64("abandoned", r.at.abandoned.Add(-1)).Msg("abandoned tool ended")
}

// abandon reports whether nobody waits for the tool any more; it may just have ended.
func (r *hostRun) abandon() bool {
	n := r.at.abandoned.Add(1) // before end can take it off again
	if r.over.Swap(true) {
		r.at.abandoned.Add(-1)
		return false
	}
	r.e.log.Warn().Str("call", r.call).Str("tool", r.tool).Int64("abandoned", n).Msg("tool abandoned: it ignores its context")
	return true
}

// unstuck refuses a call that would run a tool here of which too many runs were
// abandoned and have not ended.
func (p *passage) unstuck() error {
	if !p.away && int(p.e.tools[p.tool.manifest.Name].abandoned.Load()) >= p.e.o.MaxAbandoned {
		return &call.Error{Code: call.CodeToolStuck}
	}
	return nil
}

// Abandoned is how many runs of tools written in Go go on although their calls are
// over. Each holds a goroutine and whatever else the tool has. They are not recorded
// when they end, and Close does not wait for them.
func (e *Engine) Abandoned() int {
	n := int64(0)
	for _, at := range e.tools {
		n += at.abandoned.Load()
	}
	return int(n)
}
