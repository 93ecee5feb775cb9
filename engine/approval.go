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
)

// Vote is one person's answer to a pending approval. A deny ends it.
type Vote struct {
	Approval string
	By       call.Principal // as the ingress authenticated them
	Deny     bool
}

// Pending keeps the arguments of calls that wait for approval, so that people can
// see what they are asked about. Put MUST be durable before it returns nil.
type Pending interface {
	Put(approval string, args []byte) error
	Get(approval string) ([]byte, error)
	Drop(approval string) error
	Sweep(keep func(approval string) bool) error
}

// Question is an approval with what its approvers must see.
type Question struct {
	state.Approval
	Args []byte // canonical; nil when they are not kept, or lost
}

// Vote records one person's answer. It counts when its record is durable.
//
// # Errors
//
// [ErrAsserted], [state.ErrNoApproval], [state.ErrMayNotVote] for the requester,
// whom they act for, whoever is revoked, and whoever no rule asks; a [*Denial] with
// log_unavailable.
func (e *Engine) Vote(ctx context.Context, v Vote) (state.Approval, error) {
	leave, code := e.enter(ctx)
	if code != "" {
		return state.Approval{}, &Denial{Tool: "vote", Code: code, Receipt: Receipt{-1}}
	}
	defer leave()
	v.By = clonePrincipal(v.By)
	if err := checkPrincipal(v.By, false); err != nil {
		return state.Approval{}, &Denial{Tool: "vote", Code: call.CodePrincipalInvalid, Receipt: Receipt{-1}}
	}
	if v.By.Auth.Method == "asserted" && !e.o.AssertedApprovers {
		return state.Approval{}, ErrAsserted
	}
	ctx = context.WithoutCancel(ctx)
	digest := principalDigest(v.By, "")
	revoked, err := e.o.State.Revoked(ctx, digest)
	if err != nil {
		return state.Approval{}, err
	}
	if revoked {
		return state.Approval{}, state.ErrMayNotVote
	}
	by := recordPrincipal(v.By)
	now := e.o.Now().UTC()
	if err := e.vote(ctx, call.Vote{Approval: v.Approval, By: by, Principal: digest, Deny: v.Deny}, now); err != nil {
		return state.Approval{}, err
	}
	a, err := e.o.State.Approval(ctx, v.Approval, now)
	if err == nil && a.Standing == state.Denied {
		e.drop(a.ID)
	}
	return a, err
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
	e.o.State.Apply(change)
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

// Approval is one question, with the arguments that it is about.
//
// # Errors
//
// [state.ErrNoApproval].
func (e *Engine) Approval(ctx context.Context, id string) (Question, error) {
	a, err := e.o.State.Approval(ctx, id, e.o.Now())
	if err != nil {
		return Question{}, err
	}
	q := Question{Approval: a}
	if e.o.Pending != nil && (a.Standing == state.Open || a.Standing == state.Approved) {
		if q.Args, err = e.o.Pending.Get(id); err != nil {
			e.log.Error().AnErr("cause", err).Str("approval", id).Msg("pending arguments not readable")
		}
	}
	return q, nil
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

// sweep removes the arguments of every approval that ended without anybody doing
// something about it: it expired, or its epoch did.
func (e *Engine) sweep(ctx context.Context) error {
	if e.o.Pending == nil {
		return nil
	}
	e.asking.Lock()
	defer e.asking.Unlock()
	now := e.o.Now()
	return e.o.Pending.Sweep(func(id string) bool {
		a, err := e.o.State.Approval(ctx, id, now)
		if errors.Is(err, state.ErrNoApproval) {
			return false
		}
		return err != nil || a.Standing == state.Open || a.Standing == state.Approved // doubt keeps
	})
}

// drop removes arguments that nobody will look at again. That they stay encrypted
// on disk until the next sweep when it cannot is no reason to fail.
func (e *Engine) drop(id string) {
	if e.o.Pending == nil {
		return
	}
	if err := e.o.Pending.Drop(id); err != nil {
		e.log.Error().AnErr("cause", err).Str("approval", id).Msg("pending arguments not removed")
	}
}
