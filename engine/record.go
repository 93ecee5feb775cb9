package engine

import (
	"context"
	"crypto/rand"
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
	return p.keyed(p.call.Principal.Tenant, p.at, p.id, domain, b)
}

// append makes r durable.
func (e *Engine) append(ctx context.Context, r call.Record) (index int64, err error) {
	defer e.caught(&err)
	line, err := r.Encode()
	if err != nil {
		return -1, err
	}
	return e.o.Log.Append(ctx, line)
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
	who := p.call.Principal
	r := call.Record{
		Type: call.TypeDecision, Time: p.at, Node: p.e.o.Node, Call: p.id, Session: p.session,
		Tool: &call.RecordTool{}, Verdict: call.Deny, Code: code, Policy: p.decision.Revisions,
	}
	var err error
	if code != call.CodePrincipalInvalid {
		rp := recordPrincipal(who)
		for _, o := range who.OnBehalfOf {
			rp.OnBehalfOf = append(rp.OnBehalfOf, recordPrincipal(o))
		}
		r.Principal = &rp
	}
	if p.args.IsZero() {
		r.RawArgs, err = p.keyedHere("raw-args", p.call.Args)
	} else {
		r.Args, err = p.keyedHere("args", p.args.Bytes())
	}
	if err != nil {
		return r, err
	}
	if t := p.e.tools[p.call.Tool]; t != nil {
		r.Tool = &call.RecordTool{Name: t.manifest.Name, Kind: t.manifest.Kind, Digest: t.digest}
	} else if r.Tool.Unknown, err = p.keyedHere("tool", []byte(p.call.Tool)); err != nil {
		return r, err
	}
	for _, reason := range p.decision.Reasons {
		r.Reasons = append(r.Reasons, call.RecordReason{Code: reason.Code, Rule: reason.Rule})
	}
	switch code {
	case "":
		r.Verdict, r.Caps = call.Allow, &p.caps
	case call.CodeRequiresApproval:
		r.Verdict, r.Caps = call.Ask, &p.caps
	}
	if !p.change.IsZero() {
		r.Change = &p.change
	}
	return r, nil
}

func recordPrincipal(p call.Principal) call.RecordPrincipal {
	return call.RecordPrincipal{ID: p.ID, Kind: p.Kind, Roles: p.Roles, Tenant: p.Tenant, Auth: p.Auth}
}

// recordDecision makes the decision to allow durable.
func (p *passage) recordDecision() error {
	r, err := p.decisionRecord("")
	if err != nil {
		return err
	}
	index, err := p.e.append(context.Background(), r)
	if err != nil {
		return err
	}
	p.index = index
	p.e.o.State.Settle(p.id)
	return nil
}

// refuse records that nothing will run, and says so.
func (p *passage) refuse(cause error) *Denial {
	code := call.CodeOf(cause, call.CodeInternal)
	r, err := p.decisionRecord(code)
	if err == nil {
		p.index, err = p.e.append(context.Background(), r)
	}
	if err != nil {
		return p.unrecorded(err)
	}
	return p.deny(code, cause)
}

// unrecorded is the refusal when the log cannot be written. The engine answers
// nothing else from then on, since its log stays stopped.
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
	d.CallID, d.Tool, d.Code, d.cause = p.id, p.shownTool(), code, cause
	d.Receipt = Receipt{Index: p.index}
	if e, ok := cause.(*call.Error); ok && e.Detail != "" {
		d.Reasons = append(d.Reasons, call.Reason{Code: string(code), Message: e.Detail})
	}
	ev := p.e.log.Info()
	if class := code.Info().Class; class == call.ClassUnavailable {
		ev = p.e.log.Warn()
	}
	if operators(code) && cause != nil {
		ev = ev.AnErr("cause", cause)
	}
	ev.Str("call", p.id).Str("tool", d.Tool).Str("code", string(code)).Int64("index", p.index).Msg("refused")
	return &d
}

// operators reports whether the cause of a refusal comes from the operator's
// side. Other causes can quote arguments, which no log may hold.
func operators(code call.Code) bool {
	switch code {
	case call.CodeLogUnavailable, call.CodeStateUnavailable, call.CodeGuestUnavailable, call.CodeRootUnavailable, call.CodePathIsLink:
		return true
	default:
		return false
	}
}

// shownTool never repeats a name that the caller made up.
func (p *passage) shownTool() string {
	if p.e.tools[p.call.Tool] == nil {
		return "unknown tool"
	}
	return p.call.Tool
}
