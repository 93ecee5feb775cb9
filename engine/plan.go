package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// planner keeps the plan of the session that a call is made in. What it changes acts at
// once, and is recorded with the call's outcome.
type planner struct {
	p *passage

	mu    sync.Mutex          // protects the fields below
	last  *call.SessionChange // nil: this call changed nothing
	tried int                 // changes
}

// maxReplans is how often one call may try to change the plan: after each change all
// other calls of the session are decided again, and none would come through.
const maxReplans = 1000

// effectsSession says whose call it is to its effects. A call of a session that nobody
// here knows, since another engine decided it, leaves nothing behind.
func (p *passage) effectsSession() hostfx.Session {
	s := hostfx.Session{Call: p.id, Owner: p.owner, ActsFor: p.actsFor(), Tool: p.tool.manifest.Name}
	if p.known && p.travels == nil {
		p.planner = &planner{p: p}
		s.ID, s.Ends, s.Plan = p.session, p.ends, p.planner
	}
	return s
}

// Plan implements [hostfx.Planner].
func (k *planner) Plan(ctx context.Context) (plan call.Plan, err error) {
	err = k.ask(ctx, func(ctx context.Context) error {
		s, err := k.p.e.o.State.Session(ctx, k.p.session, k.p.e.o.Now())
		if err == nil && k.p.call.Session != "" && s.Owner != k.p.owner {
			err = state.ErrSessionForeign
		}
		plan = s.Plan
		return err
	})
	if err != nil {
		return nil, err
	}
	return plan, nil
}

// Replan implements [hostfx.Planner].
func (k *planner) Replan(ctx context.Context, op call.PlanOp) error {
	return k.ask(ctx, func(ctx context.Context) error {
		if k.tooOften() {
			return call.ErrPlanFull
		}
		now := k.p.e.o.Now()
		if !k.p.ends.IsZero() && !now.Before(k.p.ends) {
			return state.ErrSessionForeign // to the state it is anybody's
		}
		change, err := k.p.e.o.State.Replan(ctx, state.Replan{
			Now: now, Principal: k.p.owner, Session: k.p.session, Op: op, Ends: now.Add(k.p.e.o.LabelsLast),
		})
		if err != nil {
			return err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.last == nil {
			k.last = &call.SessionChange{ID: k.p.session}
		}
		k.last.Merge(*change.Session)
		return nil
	})
}

func (k *planner) tooOften() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried++
	return k.tried > maxReplans
}

// planErrors are those that tools are told of as they are.
var planErrors = []error{call.ErrTask, call.ErrNoTask, call.ErrTaskThere, call.ErrTaskStatus, call.ErrPlanFull}

// ask asks the state, and says what came of it in the words of tools.
func (k *planner) ask(ctx context.Context, do func(context.Context) error) error {
	err := k.try(ctx, do)
	if err == nil {
		return nil
	}
	if i := slices.IndexFunc(planErrors, func(e error) bool { return errors.Is(err, e) }); i >= 0 {
		return planErrors[i]
	}
	if !errors.Is(err, state.ErrSessionForeign) && ctx.Err() == nil {
		k.p.e.log.Error().AnErr("cause", err).Str("call", k.p.id).Msg("the plan is not available")
	}
	return hostfx.ErrPlanUnavailable
}

// try asks the state. What has begun is not cut short by the tool: nobody would know
// whether the plan changed.
func (k *planner) try(ctx context.Context, do func(context.Context) error) (err error) {
	defer k.p.e.caught(&err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return do(ctx)
}

// changed is what the record of the outcome carries.
func (k *planner) changed() *call.SessionChange {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}
