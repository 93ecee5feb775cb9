package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/state"
)

// sweeper is when arguments are looked for next that nobody waits for any more.
type sweeper struct {
	mu    sync.Mutex // protects the fields below
	timer *time.Timer
	next  time.Time // zero: no timer runs
	over  bool
}

// sweepBy has the arguments swept when that time is there, or before.
func (e *Engine) sweepBy(at time.Time) {
	s := &e.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.o.Pending == nil || s.over || !s.next.IsZero() && !at.Before(s.next) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.next = at
	s.timer = time.AfterFunc(max(at.Sub(e.o.Now()), 10*time.Millisecond), e.sweepNow)
}

// sweepNow sweeps, and once more when the next question expires.
func (e *Engine) sweepNow() {
	e.sweeper.mu.Lock()
	e.sweeper.next = time.Time{}
	e.sweeper.mu.Unlock()
	ctx := context.Background()
	if leave, code := e.enter(ctx); code == "" {
		defer leave()
		if err := e.sweep(ctx); err != nil { // the next start tries again
			e.log.Error().AnErr("cause", err).Msg("pending arguments not swept")
		}
	}
	e.sweepNext(ctx)
}

// sweepNext has the arguments swept when the next question expires.
func (e *Engine) sweepNext(ctx context.Context) {
	if e.o.Pending == nil {
		return
	}
	list, err := e.o.State.Approvals(ctx, e.o.Now())
	if err != nil {
		e.sweepBy(e.o.Now().Add(time.Minute))
		return
	}
	for _, a := range list {
		e.sweepBy(a.Expires)
	}
}

func (s *sweeper) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
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
	var err error
	defer e.caught(&err) // the record is written, and the call goes on
	if err = e.o.Pending.Drop(id); err != nil {
		e.log.Error().AnErr("cause", err).Str("approval", id).Msg("pending arguments not removed")
	}
}
