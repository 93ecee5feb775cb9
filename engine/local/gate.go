package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Gate is what an owner and its clients have in common. Its methods do what those
// of [engine.Engine] do, and return the same errors. Those of a [Client] can
// return [ErrNoOwner], [ErrConfigDiffers] and [ErrUnknown] as well.
type Gate interface {
	Do(ctx context.Context, c call.Call) (*engine.Result, error)
	Explain(ctx context.Context, c call.Call) (*engine.Explanation, error)
	Issue(ctx context.Context, c call.Call, aud string) (token string, err error)
	Execute(ctx context.Context, token string, args jsontext.Value) (*engine.Result, error)
	Revoke(ctx context.Context, r call.Revocation) error
	Vote(ctx context.Context, v engine.Vote) (state.Approval, error)
	Approvals(ctx context.Context) ([]state.Approval, error)
	Approval(ctx context.Context, id string) (engine.Question, error)
	Reveal(ctx context.Context, id string, who call.Principal) (engine.Question, error)
	Wait(ctx context.Context, id string) (state.Approval, error)
	Close() error
}

var _ Gate = (*Engine)(nil)

// Join opens the data directory, or becomes a client of the process that has it
// open. While one owner ends and the next one opens it tries again, for 20 seconds
// at most, and waits as long for one that is still opening. If its owner
// ends later, the gate does the same for whatever that owner did not take, and so
// may become the owner itself.
//
// # Errors
//
// As [Open] and [Dial], but [ErrOwned] and [ErrNoOwner] only together, when the
// owner did not answer in time.
func Join(ctx context.Context, c Config) (Gate, error) {
	g, err := join(ctx, c)
	if err != nil {
		return nil, err
	}
	return &joined{config: c, gate: g}, nil
}

func join(ctx context.Context, c Config) (Gate, error) {
	late, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e, openErr := Open(ctx, c)
		if openErr == nil {
			return e, nil
		}
		if !errors.Is(openErr, ErrOwned) {
			return nil, openErr
		}
		k, dialErr := Dial(ctx, c)
		if dialErr == nil {
			return k, nil
		}
		if !errors.Is(dialErr, ErrNoOwner) {
			return nil, dialErr
		}
		select {
		case <-late.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("%w, yet %w", openErr, dialErr)
		case <-time.After(pause):
		}
	}
}

// joined is a gate that outlives its owner.
type joined struct {
	config Config

	mu     sync.Mutex // protects the fields below, also while they are made anew
	gate   Gate
	closed bool
}

func (j *joined) now() Gate {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.gate
}

// again replaces a gate that led nowhere, unless somebody else just did.
func (j *joined) again(ctx context.Context, old Gate) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gate != old || j.closed {
		return nil
	}
	g, err := join(ctx, j.config)
	if err != nil {
		return err
	}
	j.gate = g // what the old one still does for others may go on
	return nil
}

// on asks the gate, and the next one if that owner did not take the question.
func on[T any](ctx context.Context, j *joined, ask func(Gate) (T, error)) (T, error) {
	for {
		g := j.now()
		v, err := ask(g)
		if !errors.Is(err, ErrNoOwner) {
			return v, err
		}
		if err := j.again(ctx, g); err != nil {
			return v, err
		}
	}
}

func (j *joined) Do(ctx context.Context, c call.Call) (*engine.Result, error) {
	return on(ctx, j, func(g Gate) (*engine.Result, error) { return g.Do(ctx, c) })
}

func (j *joined) Explain(ctx context.Context, c call.Call) (*engine.Explanation, error) {
	return on(ctx, j, func(g Gate) (*engine.Explanation, error) { return g.Explain(ctx, c) })
}

func (j *joined) Issue(ctx context.Context, c call.Call, aud string) (string, error) {
	return on(ctx, j, func(g Gate) (string, error) { return g.Issue(ctx, c, aud) })
}

func (j *joined) Execute(ctx context.Context, token string, args jsontext.Value) (*engine.Result, error) {
	return on(ctx, j, func(g Gate) (*engine.Result, error) { return g.Execute(ctx, token, args) })
}

func (j *joined) Revoke(ctx context.Context, r call.Revocation) error {
	_, err := on(ctx, j, func(g Gate) (struct{}, error) { return struct{}{}, g.Revoke(ctx, r) })
	return err
}

func (j *joined) Vote(ctx context.Context, v engine.Vote) (state.Approval, error) {
	return on(ctx, j, func(g Gate) (state.Approval, error) { return g.Vote(ctx, v) })
}

func (j *joined) Approvals(ctx context.Context) ([]state.Approval, error) {
	return on(ctx, j, func(g Gate) ([]state.Approval, error) { return g.Approvals(ctx) })
}

func (j *joined) Approval(ctx context.Context, id string) (engine.Question, error) {
	return on(ctx, j, func(g Gate) (engine.Question, error) { return g.Approval(ctx, id) })
}

func (j *joined) Reveal(ctx context.Context, id string, who call.Principal) (engine.Question, error) {
	return on(ctx, j, func(g Gate) (engine.Question, error) { return g.Reveal(ctx, id, who) })
}

func (j *joined) Wait(ctx context.Context, id string) (state.Approval, error) {
	return on(ctx, j, func(g Gate) (state.Approval, error) { return g.Wait(ctx, id) })
}

// Close implements [Gate].
func (j *joined) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return j.gate.Close()
}
