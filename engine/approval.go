package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Errors of [Engine.Vote] and [Engine.Wait], beside those of package state. Test
// for them with errors.Is.
var (
	// ErrAsserted says that nothing but a word vouches for the voter.
	ErrAsserted = errors.New("an asserted identity may not vote")

	// ErrNotApproved says that an approval ended without being given.
	ErrNotApproved = errors.New("not approved")

	// ErrReason says that a voter's reason may not stand in a record.
	ErrReason = fmt.Errorf("a reason is printable text of at most %d bytes", MaxReason)
)

// MaxReason is how long a voter's reason may be, in bytes.
const MaxReason = 500

// Vote is one person's answer to a pending approval. A deny ends it.
type Vote struct {
	Approval string
	By       call.Principal // as the ingress authenticated them
	Deny     bool

	// Reason is in the voter's own words, which are recorded and shown: printable
	// text of at most [MaxReason] bytes. "" is none; nothing stands in the way of a no.
	Reason string
}

// Pending keeps the arguments of calls that wait for approval, so that people can
// see what they are asked about. Put MUST be durable before it returns nil.
type Pending interface {
	Put(approval string, args []byte) error
	Get(approval string) ([]byte, error)
	Drop(approval string) error
	Sweep(keep func(approval string) bool) error
}

// Vote records one person's answer. It counts when its record is durable.
//
// # Errors
//
// [ErrReason], [ErrAsserted], [state.ErrNoApproval], [state.ErrMayNotVote] for the
// requester, whom they act for, agents, whoever is revoked, and whoever no rule asks; a
// [*Denial] with principal_invalid or log_unavailable.
func (e *Engine) Vote(ctx context.Context, v Vote) (state.Approval, error) {
	leave, code := e.enter(ctx)
	if code != "" {
		return state.Approval{}, &Denial{Tool: "vote", Code: code, Receipt: Receipt{-1}}
	}
	defer leave()
	if len(v.Reason) > MaxReason || !plain(v.Reason) {
		return state.Approval{}, ErrReason
	}
	ctx = context.WithoutCancel(ctx)
	by, digest, err := e.approver(ctx, "vote", v.By)
	if err != nil {
		return state.Approval{}, err
	}
	now := e.o.Now().UTC()
	vote := call.Vote{Approval: v.Approval, By: by, Principal: digest, At: now.Round(0), Deny: v.Deny, Reason: v.Reason}
	if err := e.vote(ctx, vote, now); err != nil {
		return state.Approval{}, err
	}
	a, err := e.o.State.Approval(ctx, v.Approval, now)
	if err == nil && a.Standing == state.Denied {
		e.drop(a.ID)
	}
	return a, err
}

// approver checks who wants to answer, or to see what only those who are asked see.
func (e *Engine) approver(ctx context.Context, what string, p call.Principal) (by call.RecordPrincipal, digest string, err error) {
	p = clonePrincipal(p)
	if err := checkPrincipal(p, false); err != nil {
		return by, "", &Denial{Tool: what, Code: call.CodePrincipalInvalid, Receipt: Receipt{-1}}
	}
	if p.Auth.Method == "asserted" && !e.o.AssertedApprovers {
		return by, "", ErrAsserted
	}
	if p.Kind == "agent" { // whatever role it has: approvals are what people say of agents
		return by, "", state.ErrMayNotVote
	}
	digest = principalDigest(p, "")
	revoked, err := e.o.State.Revoked(ctx, digest)
	if err == nil && revoked {
		err = state.ErrMayNotVote
	}
	return recordPrincipal(p), digest, err
}

// vote takes a vote and records it, if it says anything new.
func (e *Engine) vote(ctx context.Context, v call.Vote, now time.Time) error {
	e.asking.RLock()
	defer e.asking.RUnlock()
	change, err := e.o.State.Vote(ctx, v, now)
	if err != nil || change.IsZero() {
		return err
	}
	rec := call.Record{Type: call.TypeApproval, Time: now, Node: e.o.Node, Principal: &v.By, Change: &change}
	if err := e.appendRecord(rec); err != nil {
		return &Denial{Tool: "vote", Code: call.CodeLogUnavailable, Receipt: Receipt{-1}}
	}
	if err := e.o.State.Apply(ctx, change); err != nil {
		return err
	}
	e.log.Info().Str("approval", v.Approval).Str("by", v.By.ID).Bool("deny", v.Deny).Msg("voted")
	return nil
}

// Approvals lists what waits for people, the oldest first.
func (e *Engine) Approvals(ctx context.Context) ([]state.Approval, error) {
	// An engine that is closed or failed knows less than the log says, and must not
	// remove anything on the strength of that.
	if leave, code := e.enter(ctx); code == "" {
		if err := e.sweep(ctx); err != nil { // the next start tries again
			e.log.Error().AnErr("cause", err).Msg("pending arguments not swept")
		}
		leave()
	}
	return e.o.State.Approvals(ctx, e.o.Now())
}

// Wait waits until the approval is given or over. It holds nothing of the road:
// make the call again afterwards.
//
// # Errors
//
// nil when it is given; [ErrNotApproved] when it is denied, expired or consumed;
// [state.ErrNoApproval]; the context's error.
func (e *Engine) Wait(ctx context.Context, id string) (state.Approval, error) {
	for {
		changed := e.o.State.Changed()
		now := e.o.Now()
		a, err := e.o.State.Approval(ctx, id, now)
		if err != nil {
			return a, err
		}
		switch a.Standing {
		case state.Open:
		case state.Approved:
			return a, nil
		default:
			return a, fmt.Errorf("%w: %s", ErrNotApproved, a.Standing)
		}
		expiry, cancel := context.WithTimeout(ctx, a.Expires.Sub(now))
		select {
		case <-changed:
		case <-expiry.Done():
		case <-e.stopped.Done():
		}
		cancel()
		if err := errors.Join(ctx.Err(), e.stopped.Err()); err != nil {
			return a, err
		}
	}
}
