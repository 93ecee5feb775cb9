package engine

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
	"github.com/callgate/callgate/engine/internal/seal"
)

// Permit lets its holder run one external tool, once and now, with [Permit.Args].
// The holder runs it outside of the engine, which can neither see nor hold it, and
// says with Finish what became of it.
//
// The tool must be over when the time of the grant is (timeout_ms, 30 seconds when
// nobody states it); a report is taken for Options.ReportGrace longer. A permit that
// nobody finishes by then ends by itself, or with the engine; the log then says
// unfinished. Until then it holds one of the engine's places for calls. It is safe
// for concurrent use.
type Permit struct {
	p *passage
	g grant.Grant

	start    time.Time
	stop     []func() bool // of what would end it
	finished sync.Once
	result   *Result
	err      error
}

// Reported is what the holder of a permit says about the run.
type Reported struct {
	Output []byte // what the tool returned
	Failed bool   // it ran and failed; Output is then not looked at

	// Charges are what the run used, by the name that a limit charges: tokens, money,
	// rows, and http_bytes and fuel, which the engine cannot measure here; output_bytes
	// if it failed. Of what is not named, or negative, all that was reserved counts.
	Charges map[string]int64
}

// hand spends the grant and gives the rest of the road to the caller.
func (p *passage) hand(g grant.Grant) (*Permit, error) {
	m := &Permit{p: p, g: g, start: p.e.o.Now()}
	if !g.Spend(m.start) {
		_, err := p.finish(nil, call.Outcome{Status: call.NotStarted, Code: call.CodeGrantMismatch})
		return nil, err
	}
	ready := make(chan struct{})
	unfinished := func() {
		<-ready
		m.end(nil, call.Outcome{Status: call.Unfinished, Code: call.CodeUnfinished}, nil)
	}
	over := time.AfterFunc(p.caps.Bounds.Timeout(), func() { seal.Kill(g) })
	late := time.AfterFunc(p.caps.Bounds.Timeout()+p.e.o.ReportGrace, unfinished)
	m.stop = []func() bool{over.Stop, late.Stop, context.AfterFunc(p.e.stopped, unfinished)}
	close(ready)
	return m, nil
}

// CallID is the id of the call, in the log and in the result.
func (m *Permit) CallID() string { return m.p.id }

// Args are the arguments to run the tool with, and no others: policy decided on
// exactly these bytes, in which URLs and paths may be written otherwise than in
// the caller's own.
func (m *Permit) Args() jsontext.Value { return m.p.args.Bytes() }

// Caps are the capabilities to keep within. None once the time of the grant or the
// permit is over.
func (m *Permit) Caps() call.Caps { return m.g.Caps() }

// Receipt says where the log keeps the decision.
func (m *Permit) Receipt() Receipt { return Receipt{Index: m.p.index} }

// Finish says what became of the run. The log records it as reported, not as
// observed. The first report counts; later ones return what it returned.
//
// # Errors
//
// As those of [Engine.Do]: a [*ToolError] with tool_error when Failed is set, with
// output_exceeded when Output is larger than the grant allows, and with unfinished
// when the permit had ended before.
func (m *Permit) Finish(_ context.Context, r Reported) (*Result, error) {
	o := call.Outcome{Status: call.Succeeded, Code: call.CodeOK}
	switch {
	case r.Failed:
		o = call.Outcome{Status: call.Failed, Code: call.CodeToolError}
	case int64(len(r.Output)) > m.p.caps.Bounds.Output():
		o = call.Outcome{Status: call.Failed, Code: call.CodeOutputExceeded}
	}
	if o.Status == call.Succeeded {
		m.end(bytes.Clone(r.Output), o, r.Charges)
	} else {
		m.end(nil, o, r.Charges)
	}
	return m.result.clone(), m.err
}

// clone keeps the holders of one permit from changing each other's result.
func (r *Result) clone() *Result {
	if r == nil {
		return nil
	}
	c := *r
	c.Output, c.Outcome.Effects = bytes.Clone(r.Output), slices.Clone(r.Outcome.Effects)
	c.Outcome.Charges = slices.Clone(r.Outcome.Charges)
	return &c
}

// end is the end of the road, whoever comes first. Others wait for it.
func (m *Permit) end(output []byte, o call.Outcome, charges map[string]int64) {
	m.finished.Do(func() {
		m.p.reported = maps.Clone(charges)
		for _, stop := range m.stop {
			stop()
		}
		seal.Kill(m.g)
		o.Reported, o.Took = o.Status != call.Unfinished, m.p.e.o.Now().Sub(m.start)
		m.result, m.err = m.p.finish(output, o)
	})
}
