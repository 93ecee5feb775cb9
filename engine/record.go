package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// processSalts is one key for everything, forgotten when the process ends.
type processSalts struct{ key [32]byte }

func newProcessSalts() *processSalts {
	var s processSalts
	rand.Read(s.key[:]) // never fails: crypto/rand
	return &s
}

func (s *processSalts) Key(string, time.Time) ([32]byte, error) { return s.key, nil }

// keyed is the digest that a record may hold of something guessable.
func (p *passage) keyed(tenant string, day time.Time, callID, domain string, b []byte) (string, error) {
	k, err := p.e.o.Salts.Key(tenant, day)
	if err != nil {
		return "", err
	}
	return call.Keyed(k, callID, domain, b), nil
}

func (p *passage) keyedHere(domain string, b []byte) (string, error) {
	if p.keyless {
		return "", nil
	}
	tenant := p.call.Principal.Tenant
	if p.stranger {
		tenant = "" // an invented tenant gets no key of its own
	}
	return p.keyed(tenant, p.at, p.id, domain, b)
}

// append makes durable what build returns. If it cannot, for whatever reason, the
// engine stops: what was admitted without a record must not count any longer.
func (e *Engine) append(build func() (call.Record, error)) (int64, error) {
	index, err := e.tryAppend(build)
	if err != nil {
		e.mu.Lock()
		e.failed = errors.Join(e.failed, err)
		e.mu.Unlock()
		return -1, err
	}
	return index, nil
}

// appendRecord is append for a record that is there already.
func (e *Engine) appendRecord(r call.Record) error {
	_, err := e.append(func() (call.Record, error) { return r, nil })
	return err
}

func (e *Engine) tryAppend(build func() (call.Record, error)) (index int64, err error) {
	defer e.caught(&err)
	r, err := build()
	if err != nil {
		return -1, err
	}
	line, err := r.Encode()
	if err != nil {
		return -1, err
	}
	return e.o.Log.Append(context.Background(), line) // never half done because a caller went away
}

// caught turns a panic into an error with a code. The panic's value may quote
// arguments, so only its type and the stack are logged.
func (e *Engine) caught(err *error) {
	if v := recover(); v != nil {
		e.log.Error().Str("panic", fmt.Sprintf("%T", v)).Bytes("stack", debug.Stack()).Msg("defect")
		*err = &call.Error{Code: call.CodeInternal}
	}
}

// decisionRecord is the record of what was decided, with code "" for an allow.
func (p *passage) decisionRecord(code call.Code) (call.Record, error) {
	r := call.Record{
		Type: call.TypeDecision, Time: p.at, Node: p.e.o.Node, Call: p.id,
		Tool: &call.RecordTool{}, Verdict: call.Deny, Code: code, Policy: p.decision.Revisions,
	}
	var err error
	if !p.stranger {
		rp := p.recordPrincipal()
		r.Principal = &rp
		if p.known {
			r.Session = p.session
		}
	}
	if p.args.IsZero() {
		r.RawArgs, err = p.keyedHere("raw-args", p.call.Args)
	} else {
		r.Args, err = p.keyedHere("args", p.args.Bytes())
	}
	if err != nil {
		return r, err
	}
	if p.tool != nil {
		rt := p.tool.record()
		r.Tool = &rt
	} else if r.Tool.Unknown, err = p.keyedHere("tool", []byte(p.call.Tool)); err != nil {
		return r, err
	}
	for _, reason := range p.decision.Reasons {
		r.Reasons = append(r.Reasons, call.RecordReason{Layer: reason.Layer, Code: reason.Code, Rule: reason.Rule})
	}
	switch code {
	case "":
		r.Verdict, r.Caps = call.Allow, &p.caps
	case call.CodeRequiresApproval:
		r.Verdict = call.Ask
	}
	if !p.change.IsZero() {
		r.Change = &p.change
	}
	return r, nil
}

func (p *passage) recordPrincipal() call.RecordPrincipal {
	r := recordPrincipal(p.call.Principal)
	for _, o := range p.call.Principal.OnBehalfOf {
		r.OnBehalfOf = append(r.OnBehalfOf, recordPrincipal(o))
	}
	return r
}

func recordPrincipal(p call.Principal) call.RecordPrincipal {
	return call.RecordPrincipal{ID: p.ID, Kind: p.Kind, Roles: p.Roles, Tenant: p.Tenant, Auth: p.Auth}
}

// recordDecision makes the decision to allow durable.
func (p *passage) recordDecision() error {
	defer p.settle()
	index, err := p.e.append(func() (call.Record, error) { return p.decisionRecord("") })
	if err != nil {
		return err
	}
	p.index = index
	p.e.o.State.Settle(p.id)
	for _, id := range p.change.Consumed {
		p.e.drop(id)
	}
	return nil
}

func (p *passage) settle() {
	if p.settled != nil {
		p.settled()
		p.settled = nil
	}
}

// refuse records that nothing will run, and says so.
func (p *passage) refuse(cause error) *Denial {
	defer p.settle()
	code := call.CodeOf(cause, call.CodeInternal)
	index, err := p.e.append(func() (call.Record, error) { return p.decisionRecord(code) })
	if err != nil {
		return p.unrecorded(err)
	}
	p.index = index
	if p.change.Asked != nil {
		p.e.o.State.Apply(p.change) // only now may anybody answer it
	}
	return p.deny(code, cause)
}

// unrecorded is the refusal when the log cannot be written. The engine answers
// nothing else from then on.
func (p *passage) unrecorded(cause error) *Denial {
	p.index = -1
	p.denial.ApprovalID = "" // nobody will ever see that question
	return p.deny(call.CodeLogUnavailable, cause)
}

// turnAway refuses at the door, before the road begins: unrecorded, since a log
// that is closed or behind is the reason.
func (p *passage) turnAway(code call.Code) *Denial { return p.deny(code, nil) }

func (p *passage) deny(code call.Code, cause error) *Denial {
	d := p.denial
	d.CallID, d.Tool, d.Code = p.id, p.shownTool(), code
	d.Receipt = Receipt{Index: p.index}
	where := ""
	if e, ok := errors.AsType[*call.Error](cause); ok {
		d.Detail, where = e.Detail, e.Where
	}
	ev := p.e.log.Info()
	if class := code.Info().Class; class == call.ClassUnavailable {
		ev = p.e.log.Warn()
	}
	if operators(code) && cause != nil {
		ev = ev.AnErr("cause", cause)
	}
	if d.Detail != "" {
		ev = ev.Str("detail", d.Detail)
	}
	if where != "" {
		ev = ev.Str("where", where)
	}
	ev.Str("call", p.id).Str("tool", d.Tool).Str("code", string(code)).Int64("record", p.index).Msg("refused")
	return &d
}

// operators reports whether the cause of a refusal comes from the operator's
// side alone. Other causes can quote arguments, which no log may hold: even a
// granted path can be made of them.
func operators(code call.Code) bool {
	return code == call.CodeLogUnavailable || code == call.CodeStateUnavailable
}

// shownTool never repeats a name that the caller made up.
func (p *passage) shownTool() string {
	if p.tool == nil {
		return "unknown tool"
	}
	return p.tool.manifest.Name
}
