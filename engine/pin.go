package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/callgate/callgate/engine/call"
)

// place is where the engine has one tool. It is another one later only if it is
// being worked on.
type place struct {
	tool atomic.Pointer[Tool]
	mu   sync.Mutex // held while its files are read again

	abandoned atomic.Int64 // runs of a host tool that go on after their end
}

// tool returns the tool with that name, or nil.
func (e *Engine) tool(name string) *Tool {
	if at := e.tools[name]; at != nil {
		return at.tool.Load()
	}
	return nil
}

// current sees to it that the files of the call's tool are those that it was made
// of, or takes up those that are there if it is being worked on.
func (p *passage) current(ctx context.Context) error {
	if p.tool.files == nil || !p.tool.files.Changed() {
		return nil
	}
	at := p.e.tools[p.tool.manifest.Name]
	at.mu.Lock()
	defer at.mu.Unlock()
	if p.tool = at.tool.Load(); !p.tool.files.Changed() {
		return nil // another call was faster
	}
	is := wasm(p.tool.source)
	switch {
	case is.err != nil:
		return p.tool.changed(is.err)
	case is.digest == p.tool.digest: // they were touched
	case !p.tool.source.Edited:
		return p.tool.changed(nil)
	default:
		if err := p.e.take(ctx, p.tool, &is); err != nil {
			return err
		}
	}
	at.tool.Store(&is)
	p.tool = &is
	return nil
}

// changed is the refusal of a call. Whoever works on a tool is told what is wrong
// with it.
func (t *Tool) changed(err error) error {
	e := &call.Error{Code: call.CodeToolChanged, Detail: "they changed after it was opened", Err: err}
	if err != nil && t.source.Edited {
		e.Detail += " and cannot be taken up: " + err.Error()
	}
	return e
}

// take does for a tool in place of another what install and New do for those that
// are there from the start.
func (e *Engine) take(ctx context.Context, was, is *Tool) error {
	if is.manifest.Name != was.manifest.Name {
		return was.changed(fmt.Errorf("it is called %s now", is.manifest.Name))
	}
	if err := is.manifest.Within(e.o.Ceiling); err != nil {
		return was.changed(err)
	}
	if e.o.Guests != nil {
		if err := e.o.Guests.Install(ctx, is.pin, is.module); err != nil {
			return was.changed(err)
		}
	}
	if err := e.recordPin(is, was.digest); err != nil {
		return &call.Error{Code: call.CodeLogUnavailable, Err: err}
	}
	e.log.Warn().Str("tool", is.manifest.Name).Str("digest", is.digest).Msg("taken up anew")
	return nil
}

func (e *Engine) recordPin(is *Tool, was string) error {
	rt := is.record()
	return e.appendRecord(call.Record{Type: call.TypePin, Time: e.o.Now().UTC(), Node: e.o.Node, Tool: &rt, Was: was})
}

// recordPins records which tools are not as their tool.yaml has them.
func (e *Engine) recordPins() error {
	for i := range e.o.Tools {
		t := &e.o.Tools[i]
		if t.files == nil || t.files.Stated == "" {
			continue
		}
		if err := e.recordPin(t, t.files.Stated); err != nil {
			return fmt.Errorf("engine: recording what is being worked on: %w", err)
		}
	}
	return nil
}
