package state

import (
	"context"
	"errors"
	"slices"

	"github.com/callgate/callgate/engine/call"
)

// Release implements [Store].
func (l *Local) Release(_ context.Context, callID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, ok := l.admitted[callID]; ok && t.Admitted {
		l.giveBack(callID, t)
	}
	delete(l.admitted, callID)
	return nil
}

// Refund implements [Store].
func (l *Local) Refund(_ context.Context, callID string, units call.Uses) (call.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change := call.Change{Used: l.refundable(callID, units)}
	delete(l.counted, callID)
	l.apply(change)
	return change, nil
}

// Spend implements [Store].
func (l *Local) Spend(_ context.Context, s Spend) (call.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.since(s.Now), s.check()); err != nil {
		return call.Change{}, err
	}
	l.prune(s.Now) // an executor may never admit anything
	if _, ok := l.spent[s.ID]; ok {
		return call.Change{}, ErrSpent
	}
	if s.Epoch != l.epoch || l.revoked["t"+s.Tool] || slices.ContainsFunc(s.Principals, l.isRevoked) {
		return call.Change{}, ErrRevoked
	}
	change := call.Change{Spent: []call.Spent{{ID: s.ID, Expires: s.Expires.UTC()}}}
	l.apply(change)
	return change, nil
}

// check refuses a grant that nobody could remember to be spent.
func (s Spend) check() error {
	if s.ID == "" || len(s.Principals) == 0 {
		return errors.New("a grant without an id or a principal")
	}
	if !s.Now.Before(s.Expires) {
		return errors.New("a grant whose time is over")
	}
	return nil
}

// Epoch implements [Store].
func (l *Local) Epoch(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch, nil
}
