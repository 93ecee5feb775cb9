package engine

import (
	"context"

	"github.com/callgate/callgate/engine/call"
)

// Anchor is a [Log] that others can be asked to remember. Hold is nil once what the
// record at index permits may happen, and MUST end by itself: at once where nobody has
// to be asked. An error is a refusal. See audit.Log.
type Anchor interface {
	Hold(ctx context.Context, index int64) error
}

// hold waits until the grant that the decision record permits may be handed out. If it
// may not, nothing runs, and the log says so.
func (p *passage) hold(ctx context.Context) error {
	if err := p.held(ctx); err != nil {
		p.startErr = err
		_, err := p.finish(nil, call.Outcome{Status: call.NotStarted, Code: call.CodeWitnessUnavailable})
		return err
	}
	return nil
}

func (p *passage) held(ctx context.Context) (err error) {
	log, ok := p.e.o.Log.(Anchor)
	if !ok {
		return nil
	}
	defer p.e.caught(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.e.stopped, cancel)()
	return log.Hold(ctx, p.index)
}
