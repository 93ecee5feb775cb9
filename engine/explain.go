package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Explanation is what would become of a call if it were made now. The zero value
// is a refusal.
type Explanation struct {
	Verdict call.Verdict  `json:"verdict"` // allow only if the call would run
	Code    call.Code     `json:"code"`    // of the refusal; ok if the call would run
	Detail  string        `json:"detail,omitzero"`
	Reasons []call.Reason `json:"reasons,omitzero"` // policy's, without hidden ones

	// What policy sees. Each is absent when the call does not come so far.
	Tool    ExplainedTool  `json:"tool,omitzero"`
	Session string         `json:"session,omitzero"` // the one that the call would be made in
	Plan    call.Plan      `json:"plan,omitzero"`    // of the session
	Args    jsontext.Value `json:"args,omitzero"`    // canonical, for whoever sent them
	Facts   call.Facts     `json:"facts,omitzero"`

	// What the call would be given and add, and what it would have to pass. All
	// absent unless policy allows it or asks.
	Caps      *call.Caps          `json:"caps,omitzero"`
	Labels    []string            `json:"labels,omitzero"` // to the session
	Limits    []ExplainedLimit    `json:"limits,omitzero"` // absent for what is revoked
	Approvals []call.ApprovalRule `json:"approvals,omitzero"`

	// ApprovalID is the question about this very call, if it has been asked.
	ApprovalID string         `json:"approval,omitzero"`
	Standing   state.Standing `json:"standing,omitzero"` // of that question

	Policy []call.Revision `json:"policy,omitzero"` // the bundles that decided
}

// ExplainedTool is the tool of an [Explanation].
type ExplainedTool struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Class  string `json:"class"`
	Digest string `json:"digest"`
}

// ExplainedLimit is one limit of the call.
type ExplainedLimit struct {
	Name      string `json:"name"`                    // as [call.InLayer] says
	Limit     int64  `json:"limit"`                   // units in a full bucket
	Remaining int64  `json:"remaining"`               // units left after the call; now, if this limit refuses it
	RetryMS   int64  `json:"retry_after_ms,omitzero"` // of a limit that refuses: when it is worth another try
}

// Explain says what would become of the call, and why, if it were made now: with
// [Engine.Authorize] for an external tool, with [Engine.Do] for all others. It
// takes nothing, asks nobody, runs nothing and records nothing, so the answer holds
// only until something else happens. It may make the key of the tenant's day, and take
// up a tool that is being worked on, as a call would. The run is not tried: a directory that cannot
// be opened, or a tool that fails, is found by the call itself.
//
// What it finds refused counts as a refused call: see Options.MaxRefusals. Nothing else
// limits how often somebody explains: an ingress that offers it lets its callers find
// out what policy says about calls that they never make.
//
// # Errors
//
// A refusal is no error, but an explanation with its code. A [*Denial] with
// engine_closed, overloaded, log_unavailable or internal_error, and the context's
// error, mean that nothing can be told.
func (e *Engine) Explain(ctx context.Context, c call.Call) (*Explanation, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p := e.passage(c)
	p.outside = p.tool != nil && p.tool.manifest.Kind == kindExternal
	leave, code := e.enter(ctx)
	if code != "" {
		return nil, p.turnAway(code)
	}
	defer leave()

	ans, decided, err := p.foresee(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err() // what policy said may only say that
	}
	if err != nil && call.CodeOf(err, call.CodeInternal) == call.CodeInternal {
		return nil, p.deny(call.CodeInternal, nil)
	}
	x := p.explanation(err)
	if probing(x.Code) {
		p.e.refusals.add(p.prober(), x.Code, p.e.o.Now())
	}
	if decided {
		x.foresaw(p, ans)
	}
	return x, nil
}

// foresee is permit, but for taking anything. It reports whether policy lets the
// call come as far as its admission.
func (p *passage) foresee(ctx context.Context) (ans state.Answer, decided bool, err error) {
	defer p.e.caught(&err)
	if err := p.arrive(ctx); err != nil {
		return ans, false, err
	}
	for range maxDecisions {
		if err := p.decide(ctx); err != nil {
			return ans, false, err
		}
		if err := p.look(ctx); err != nil {
			return ans, false, err
		}
		ans, err = p.peek(ctx)
		if !errors.Is(err, state.ErrSessionChanged) {
			return ans, true, err
		}
	}
	return ans, false, &call.Error{Code: call.CodeSessionChanged}
}

// peek is admit, but for taking anything.
func (p *passage) peek(ctx context.Context) (state.Answer, error) {
	a, err := p.admission()
	if err != nil {
		return state.Answer{}, err
	}
	a.Peek = true
	ans, err := p.e.o.State.Admit(ctx, a)
	switch {
	case err != nil:
		return ans, admitError(err)
	case ans.Revoked:
		return ans, &call.Error{Code: call.CodeRevoked}
	case ans.Limited != nil:
		return ans, &call.Error{Code: call.CodeRateLimited}
	case ans.Admitted:
		return ans, nil
	case ans.Approval == nil:
		return ans, &call.Error{Code: call.CodeStateUnavailable}
	case ans.Approval.Standing == state.Denied:
		return ans, &call.Error{Code: call.CodeApprovalDenied}
	default:
		return ans, notYet(ans)
	}
}

// explanation is what is known of the call, whatever becomes of it, and one line in
// the operator's log.
func (p *passage) explanation(err error) *Explanation {
	x := &Explanation{Verdict: call.Allow, Code: call.CodeOK, Args: p.args.Bytes(), Facts: p.facts, Policy: slices.Clone(p.decision.Revisions)}
	ev := p.e.log.Info()
	if e, ok := errors.AsType[*call.Error](err); ok {
		x.Verdict, x.Code, x.Detail = call.Deny, e.Code, e.Detail
		if e.Code.Info().Class == call.ClassPending {
			x.Verdict = call.Ask
		}
		if e.Code.Info().Class == call.ClassUnavailable {
			ev = p.e.log.Warn()
		}
		if operators(e.Code) {
			ev = ev.AnErr("cause", err)
		}
		if e.Where != "" {
			ev = ev.Str("where", e.Where)
		}
	}
	for _, r := range p.decision.Reasons {
		if !r.Hidden {
			x.Reasons = append(x.Reasons, r)
		}
	}
	if p.tool != nil && !p.stranger {
		t := p.tool.manifest.Tool()
		x.Tool = ExplainedTool{Name: t.Name, Kind: t.Kind, Class: t.Class, Digest: p.tool.digest}
	}
	if p.known && !p.stranger {
		x.Session, x.Plan = p.session, p.plan.Clone()
	}
	if x.Detail != "" {
		ev = ev.Str("detail", x.Detail)
	}
	ev.Str("tool", p.shownTool()).Str("code", string(x.Code)).Msg("explained")
	return x
}

// foresaw adds what policy gives the call and what the state says to that.
func (x *Explanation) foresaw(p *passage, ans state.Answer) {
	caps := p.caps
	x.Caps, x.Labels, x.Approvals = &caps, slices.Clone(p.decision.Labels), slices.Clone(p.decision.Approvals)
	for i := range x.Approvals {
		x.Approvals[i].From = x.Approvals[i].From.Clone()
	}
	for _, l := range ans.Limits {
		// Rounded up: a moment too early would be refused again.
		wait := (l.RetryAfter + min(time.Millisecond-1, 1<<63-1-l.RetryAfter)) / time.Millisecond
		x.Limits = append(x.Limits, ExplainedLimit{Name: l.Name, Limit: l.Limit, Remaining: l.Remaining, RetryMS: int64(wait)})
	}
	if a := ans.Approval; a != nil && a.ID != "" {
		x.ApprovalID, x.Standing = a.ID, a.Standing
	}
}
