package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
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

// sought is keyed for what is looked for in the state.
func (p *passage) sought(tenant string, day time.Time, domain string, b []byte) (string, error) {
	k, err := p.e.o.StateSalts.Key(tenant, day)
	if err != nil {
		return "", err
	}
	return call.Keyed(k, "", domain, b), nil
}

// limitKey names a bucket: the limit, what it is counted by within it, and in which
// window, if it counts in windows. A bucket
// outlives days and calls, and its key may come from an argument: so its name in the
// log is keyed, but always in the same way. The limit's own part says which buckets
// have one together, for nobody may fill the store with keys.
func (p *passage) limitKey(l call.Limit, window ...string) (string, error) {
	limit := []string{p.call.Principal.Tenant, l.Layer, l.Name}
	id, err := json.Marshal(slices.Concat(limit, []string{l.Key}, window)) // no part runs into the next
	if err != nil {
		return "", &call.Error{Code: call.CodePolicyShape, Detail: "a limit is malformed"}
	}
	of, err := json.Marshal(limit)
	if err != nil {
		return "", &call.Error{Code: call.CodePolicyShape, Detail: "a limit is malformed"}
	}
	h := sha256.Sum256(of)
	key, err := p.sought("", time.Time{}, "limit", id)
	if err != nil {
		return "", &call.Error{Code: call.CodeStateUnavailable, Err: err}
	}
	return hex.EncodeToString(h[:8]) + "/" + key, nil
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
		r.Tool, r.Enforcement = &rt, p.tool.enforcement()
	} else if r.Tool.Unknown, err = p.keyedHere("tool", []byte(p.call.Tool)); err != nil {
		return r, err
	}
	for _, reason := range p.decision.Reasons {
		r.Reasons = append(r.Reasons, call.RecordReason{Layer: reason.Layer, Code: reason.Code, Rule: reason.Rule})
	}
	switch code {
	case "":
		r.Verdict, r.Caps = call.Allow, &p.caps
		if r.Preconditions, err = p.recordDepends(); err != nil {
			return r, err
		}
	case call.CodeRequiresApproval, call.CodeApprovalStale:
		r.Verdict = call.Ask
	}
	if !p.change.IsZero() {
		r.Change = &p.change
	}
	r.Grant = p.travels
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
		p.giveBack()
		return err
	}
	p.index = index
	p.e.o.State.Settle(p.id, index)
	p.forget()
	return nil
}

// giveBack gives back what the call took of a state that outlives this engine, since
// its record may never be read.
func (p *passage) giveBack() {
	if _, ok := p.e.o.State.(state.Lasting); !ok {
		return
	}
	if err := p.e.o.State.Release(context.Background(), p.id); err != nil { // or the next start does
		p.e.log.Error().AnErr("cause", err).Str("call", p.id).Msg("not given back")
	}
}

// forget drops the arguments of questions that are over with this record.
func (p *passage) forget() {
	for _, id := range slices.Concat(p.change.Consumed, p.change.Voided) {
		p.e.drop(id)
	}
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
	if p.stranger && probing(code) {
		if err := p.tooOften(); err != nil {
			code, cause = call.CodeRefusedTooOften, err
		}
	}
	if !p.e.refusals.add(p.prober(), code, p.e.o.Now()) {
		return p.turnBack(code)
	}
	index, err := p.e.append(func() (call.Record, error) { return p.decisionRecord(code) })
	if err != nil {
		return p.unrecorded(err)
	}
	p.index = index
	if p.change.Asked != nil {
		// Only now may anybody answer it.
		if err := p.e.o.State.Apply(context.Background(), call.Change{Asked: p.change.Asked}); err != nil {
			p.denial.ApprovalID = ""
			return p.deny(call.CodeStateUnavailable, &call.Error{Code: call.CodeStateUnavailable, Err: err})
		}
		p.e.sweepBy(p.change.Asked.Expires)
		p.announce(*p.change.Asked)
	}
	p.forget()
	return p.deny(code, cause)
}

// announce tells of a question that people can answer now.
func (p *passage) announce(a call.Approval) {
	if p.e.o.Announce == nil {
		return
	}
	var err error // of a panic, which is logged: the call's own answer is none of it
	defer p.e.caught(&err)
	p.e.o.Announce(a, p.tool.manifest.Class, func(ctx context.Context) bool {
		now, err := p.e.o.State.Approval(ctx, a.ID, p.e.o.Now())
		return err == nil && now.Standing == state.Open || err != nil && !errors.Is(err, state.ErrNoApproval) // doubt asks
	})
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
	return slices.Contains([]call.Code{call.CodeLogUnavailable, call.CodeStateUnavailable, call.CodeGrantUnavailable, call.CodeWitnessUnavailable}, code)
}

// shownTool never repeats a name that the caller made up.
func (p *passage) shownTool() string {
	if p.tool == nil {
		return "unknown tool"
	}
	return p.tool.manifest.Name
}
