package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// decide asks policy once for the principal and once for everybody it acts for,
// all within one timeout, and keeps what all of them allow.
func (p *passage) decide(ctx context.Context) error {
	s, err := p.e.o.State.Session(ctx, p.session, p.at)
	if err != nil {
		return &call.Error{Code: call.CodeStateUnavailable, Err: err}
	}
	if p.call.Session != "" && s.Owner != p.owner {
		return &call.Error{Code: call.CodeSessionInvalid}
	}
	p.known = true
	p.version, p.plan, p.ends, p.decision = s.Version, s.Plan, s.Until, call.Decision{}
	ctx, cancel := context.WithTimeout(ctx, p.e.o.DecideTimeout)
	defer cancel()

	policy := p.e.o.Policy
	if s, ok := policy.(Snapshotter); ok {
		policy = s.Snapshot()
	}
	all := call.Decision{Verdict: call.Allow}
	caps, err := p.most()
	if err != nil {
		return err
	}
	for _, who := range append([]call.Principal{p.call.Principal}, p.call.Principal.OnBehalfOf...) {
		d, err := policy.Decide(ctx, p.input(who, s))
		if err != nil {
			return policyError(ctx, err)
		}
		if caps, err = given(caps, d); err != nil {
			return err
		}
		if err := both(&all, d); err != nil {
			return err
		}
	}
	if err := fits(all, caps); err != nil {
		return err
	}
	p.decision, p.caps = all, caps
	return p.answer()
}

// maxDecision bounds what a record holds of the decisions about a whole chain, in
// bytes of JSON: a record that the log does not take would stop the engine.
const maxDecision = 512 << 10

func fits(d call.Decision, caps call.Caps) error {
	b, err := json.Marshal(struct {
		call.Decision
		Caps      call.Caps
		Revisions []call.Revision
	}{d, caps, d.Revisions})
	if err != nil {
		return &call.Error{Code: call.CodePolicyShape, Detail: "the decision has no JSON form", Err: err}
	}
	if len(b) > maxDecision {
		return &call.Error{Code: call.CodePolicyShape, Detail: "the decisions about the chain are too large together"}
	}
	return nil
}

// policyError keeps the code of a policy's error if it is one that policies have.
// Another code could make the engine log a cause that quotes arguments.
func policyError(ctx context.Context, err error) error {
	switch code := call.CodeOf(err, ""); code {
	case call.CodePolicyUndefined, call.CodePolicyError, call.CodePolicyShape, call.CodePolicyTimeout, call.CodePolicyStale,
		call.CodeObligationUnsupported, call.CodeCapsTooMany, call.CodeCapsInvalid:
		return err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &call.Error{Code: call.CodePolicyTimeout, Err: err}
	}
	return &call.Error{Code: call.CodePolicyError, Err: err}
}

// input is what policy sees when who asks.
func (p *passage) input(who call.Principal, s state.Session) *call.Input {
	return &call.Input{
		Tool: p.tool.shown(), Args: p.args, Principal: who,
		Session: call.Session{ID: p.session, Labels: s.Labels, Plan: s.Plan, Calls: s.Calls}, Facts: p.facts,
		Env: call.Env{NowNS: p.at.UnixNano(), Node: p.e.o.Node}, Asserted: p.asserted,
	}
}

// given narrows caps to what the grants of one decision give together, and its cap
// leaves of that.
func given(caps call.Caps, d call.Decision) (call.Caps, error) {
	list := make([]call.Caps, len(d.Grants))
	for i, g := range d.Grants {
		list[i] = g.Caps
	}
	granted, err := call.Join(list...)
	if err != nil {
		return call.Caps{}, err
	}
	if caps, err = caps.Meet(granted); err != nil || d.Cap == nil {
		return caps, err
	}
	return caps.Capped(*d.Cap)
}

// both narrows all to what d says too. The strictest verdict wins.
func both(all *call.Decision, d call.Decision) error {
	if d.Redact != nil || d.Fields != nil || d.Rows != nil || d.Frame != nil || len(d.ResultLabels) > 0 {
		return &call.Error{Code: call.CodeObligationUnsupported}
	}
	for _, l := range d.Limits {
		i := slices.IndexFunc(all.Limits, func(o call.Limit) bool { return o.Layer == l.Layer && o.Name == l.Name && o.Key == l.Key })
		if i < 0 {
			all.Limits = append(all.Limits, l)
		} else if all.Limits[i] != l {
			return &call.Error{Code: call.CodePolicyShape, Detail: "one limit with two meanings"}
		}
	}
	for _, a := range d.Approvals {
		i := slices.IndexFunc(all.Approvals, func(o call.ApprovalRule) bool { return o.Layer == a.Layer && o.Name == a.Name })
		if i < 0 {
			all.Approvals = append(all.Approvals, a)
		} else if !sameApproval(all.Approvals[i], a) {
			return &call.Error{Code: call.CodePolicyShape, Detail: "one approval with two meanings"}
		}
	}
	all.Reasons = append(all.Reasons, d.Reasons...)
	all.Labels = append(all.Labels, d.Labels...)
	all.Revisions = d.Revisions
	switch d.Verdict {
	case call.Allow:
	case call.Ask:
		if all.Verdict == call.Allow {
			all.Verdict = call.Ask
		}
	default:
		all.Verdict = call.Deny
	}
	return nil
}

func sameApproval(a, b call.ApprovalRule) bool {
	return a.Count == b.Count && a.TTL == b.TTL && slices.Equal(a.From.Roles, b.From.Roles) && slices.Equal(a.From.IDs, b.From.IDs)
}

// answer turns the verdict into a refusal, or nil if the call may go on.
func (p *passage) answer() error {
	for _, r := range p.decision.Reasons {
		if !r.Hidden {
			p.denial.Reasons = append(p.denial.Reasons, r)
		}
	}
	switch p.decision.Verdict {
	case call.Allow:
		if len(p.decision.Approvals) > 0 {
			return &call.Error{Code: call.CodePolicyShape, Detail: "allowed, yet approvals are asked for"}
		}
	case call.Ask:
		if len(p.decision.Approvals) == 0 {
			return &call.Error{Code: call.CodePolicyShape, Detail: "an approval is asked for, yet none is named"}
		}
	default:
		return &call.Error{Code: call.CodePolicyDenied}
	}
	p.denial.Reasons = nil
	return nil
}

// admit takes what the call needs from the state, or says what is lacking.
func (p *passage) admit(ctx context.Context) error {
	a, err := p.admission()
	if err != nil {
		return err
	}
	if len(a.Asks) > 0 && p.settled == nil {
		p.e.asking.RLock() // until what the answer does to a question is recorded
		p.settled = p.e.asking.RUnlock
	}
	ans, err := p.e.o.State.Admit(ctx, a)
	if err != nil {
		return admitError(err)
	}
	p.change = ans.Change
	switch {
	case ans.Revoked:
		return &call.Error{Code: call.CodeRevoked}
	case ans.Limited != nil:
		p.denial.Limited, p.denial.RetryAfter = ans.Limited, ans.Limited.RetryAfter
		return &call.Error{Code: call.CodeRateLimited}
	case ans.Approval != nil:
		return p.ask(ans)
	case !ans.Admitted:
		return &call.Error{Code: call.CodeStateUnavailable}
	}
	return nil
}

// admitError gives a store's error its code, but for [state.ErrSessionChanged].
func admitError(err error) error {
	if errors.Is(err, state.ErrSessionChanged) {
		return err
	}
	for sentinel, code := range map[error]call.Code{
		state.ErrSessionForeign: call.CodeSessionInvalid, state.ErrTooManyPending: call.CodeApprovalsTooMany, state.ErrTooManyKeys: call.CodeLimitKeys,
	} {
		if errors.Is(err, sentinel) {
			return &call.Error{Code: code}
		}
	}
	return &call.Error{Code: call.CodeStateUnavailable, Err: err}
}

// admission is what the call needs from the state.
func (p *passage) admission() (state.Admission, error) {
	charges, err := p.charges()
	return state.Admission{
		Call: p.id, Now: p.at, Principal: p.owner, ActsFor: p.actsFor(), Session: p.session, Version: p.version,
		Charges: charges, Labels: p.decision.Labels, LabelsEnd: p.at.Add(p.e.o.LabelsLast),
		Asks: p.decision.Approvals, Bind: p.binding, Caps: p.caps,
		Requester: p.recordPrincipal(), Tool: p.tool.record(), Policy: p.decision.Revisions,
	}, err
}

// ask is the refusal of a call that people must approve first. What they will be
// shown is on disk before the question is recorded.
func (p *passage) ask(ans state.Answer) error {
	p.denial.ApprovalID = ans.Approval.ID
	if ans.Approval.Standing == state.Denied {
		return &call.Error{Code: call.CodeApprovalDenied}
	}
	if ans.Change.Asked != nil && p.e.o.Pending != nil {
		// If it cannot be kept, nobody could see what they are asked, and it is not
		// asked: the question is known to nobody until its record is durable. What is
		// void is void all the same.
		p.change, p.denial.ApprovalID = call.Change{Voided: ans.Change.Voided}, ""
		if err := p.e.o.Pending.Put(ans.Approval.ID, p.args.Bytes()); err != nil {
			return &call.Error{Code: call.CodeStateUnavailable, Err: err}
		}
		p.change, p.denial.ApprovalID = ans.Change, ans.Approval.ID
	}
	return notYet(ans)
}

// notYet is the refusal of a call that people may still approve.
func notYet(ans state.Answer) error {
	if ans.Stale {
		return &call.Error{Code: call.CodeApprovalStale}
	}
	return &call.Error{Code: call.CodeRequiresApproval}
}

// actsFor names the principals of the chain, as revocations do.
func (p *passage) actsFor() []string {
	var out []string
	for _, o := range p.call.Principal.OnBehalfOf {
		out = append(out, principalDigest(o, ""))
	}
	return out
}

// binding ties an approval that was asked on that day to this very call: who asks
// and for whom, the tool, the arguments, the policy, the capabilities and the files that
// it depends on as they are. Who must
// approve is for the store to compare.
func (p *passage) binding(day time.Time) (b state.Binding, err error) {
	who := p.recordPrincipal() // roles, authentication and chain too: approvers see them
	for _, part := range []struct {
		domain string
		into   *string
		of     any
	}{
		{"approval", &b.Exact, struct {
			Who    call.RecordPrincipal
			Tool   string
			Args   call.Args
			Policy []call.Revision
			Caps   call.Caps
			// What people approved was about the files as they were.
			Depends []call.Precondition `json:",omitzero"`
		}{who, p.tool.digest, p.args, p.decision.Revisions, p.caps, p.depends}},
		{"approval-about", &b.About, struct {
			Tool string
			Args call.Args
		}{p.tool.manifest.Name, p.args}},
	} {
		text, err := json.Marshal(part.of)
		if err != nil {
			return state.Binding{}, err
		}
		if *part.into, err = p.sought(who.Tenant, day, part.domain, text); err != nil {
			return state.Binding{}, err
		}
	}
	return b, nil
}
