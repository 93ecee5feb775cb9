package engine

import (
	"context"
	"slices"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
)

// run spends the grant on one run of the tool. Whatever happens, handles are
// closed before it returns and the outcome lists every effect.
func (p *passage) run(ctx context.Context, g grant.Grant) ([]byte, call.Outcome) {
	return p.e.guard(func() ([]byte, call.Outcome) {
		start := p.e.o.Now()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		timed, over := context.WithTimeout(ctx, p.caps.Bounds.Timeout())
		defer over()
		defer context.AfterFunc(p.e.stopped, cancel)()

		fx, err := p.e.o.Host.OpenFor(ctx, g, p.effectsSession())
		if err != nil {
			p.startErr = err
			return nil, call.Outcome{Status: call.NotStarted, Code: call.CodeOf(err, call.CodeRootUnavailable)}
		}
		output, o := p.e.guard(func() ([]byte, call.Outcome) { return p.tool.run(ctx, timed, p.e, fx, p.args) })
		if o.Code == call.CodeToolError && timed.Err() != nil {
			o.Code = stopped(timed) // what fails because it was stopped says so
		}
		o.Effects = fx.Close()
		p.reported, p.httpBytes = fx.Charged()
		p.measured = true
		if logged := fx.Logged(); len(logged) > 0 {
			if n := len(o.Stderr); n > 0 && o.Stderr[n-1] != '\n' {
				o.Stderr = append(o.Stderr, '\n')
			}
			o.Stderr = append(o.Stderr, logged...)
		}
		o.Took = p.e.o.Now().Sub(start)
		if o.Status != call.Succeeded {
			output = nil // half an answer could be taken for a whole one
		}
		return output, o
	})
}

// guard turns a panic into an outcome.
func (e *Engine) guard(f func() ([]byte, call.Outcome)) (output []byte, o call.Outcome) {
	var err error
	defer func() {
		if err != nil {
			output, o = nil, call.Outcome{Status: call.Failed, Code: call.CodeInternal}
		}
	}()
	defer e.caught(&err)
	return f()
}

// finish hands the outcome to the log and the answer to the caller. The caller
// does not wait for the record, unless it changes the plan; Close does.
func (p *passage) finish(output []byte, o call.Outcome) (*Result, error) {
	if o.Status != call.NotStarted { // otherwise deny says so
		p.e.log.Info().Str("call", p.id).Str("tool", p.tool.manifest.Name).Str("code", string(o.Code)).
			Int("effects", len(o.Effects)).Stringer("took", o.Took).Int64("record", p.index).Msg("ran")
	}
	used, change := p.settleDown(o, len(output))
	change.Session = p.planner.changed()
	o.Charges = used
	recorded := o
	recorded.Charges = slices.Clone(used)
	recorded.Effects = slices.Clone(o.Effects) // the caller may do with theirs what they like
	size := len(output)
	written := make(chan struct{})
	go func() {
		defer close(written)
		defer p.leave()
		if _, err := p.e.append(func() (call.Record, error) { return p.outcomeRecord(recorded, size, change), nil }); err != nil {
			p.e.log.Error().AnErr("cause", err).Str("call", p.id).Msg("outcome not recorded")
		}
	}()
	if change.Session != nil {
		<-written // what the caller does next may depend on the plan, and its record stands after this one
	}
	res := &Result{CallID: p.id, Output: output, Outcome: o, Receipt: Receipt{Index: p.index}}
	switch o.Status {
	case call.Succeeded:
		return res, nil
	case call.NotStarted:
		return nil, p.deny(o.Code, p.startErr)
	default:
		return nil, &ToolError{Tool: p.tool.manifest.Name, Result: res}
	}
}

func (p *passage) outcomeRecord(o call.Outcome, output int, change call.Change) call.Record {
	ro := &call.RecordOutcome{
		Status: o.Status, Reported: o.Reported, Exit: o.Exit, Fuel: o.Fuel, MemoryBytes: o.MemoryBytes, MemoryRefused: o.MemoryRefused,
		OutputBytes: int64(output), TookUS: o.Took.Microseconds(), Charges: o.Charges,
	}
	ro.Effects = call.RecordEffects(o.Effects, p.caps, func(target string) string {
		// Without its key an effect loses its target, not its place in the record.
		keyed, err := p.keyedHere("effect", []byte(target))
		if err != nil {
			p.e.log.Error().AnErr("cause", err).Str("call", p.id).Msg("no key for an effect's digest")
		}
		return keyed
	})
	r := call.Record{
		Type: call.TypeOutcome, Time: p.e.o.Now().UTC(), Node: p.e.o.Node, Call: p.id,
		Code: o.Code, Decision: &p.index, Outcome: ro,
	}
	if !change.IsZero() {
		r.Change = &change
	}
	return r
}
