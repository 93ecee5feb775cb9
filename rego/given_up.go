package rego

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/engine/call"
)

const (
	// maxGivenUp is how many evaluations of one policy may still run that nobody waits
	// for any more. A policy with that many answers nothing until one of them ends.
	maxGivenUp = 4

	// lastMoment is how long an evaluation whose time is over has to notice it. OPA
	// looks at that before each expression; some of what it does for one takes minutes.
	lastMoment = 10 * time.Millisecond
)

// StillRuns is in the chain of an error that says that time is over, if work was given
// up that nothing can end: OPA does not look everywhere whether it should stop.
type StillRuns struct {
	Done <-chan struct{} // closed when it ends, if it ever does
}

func (*StillRuns) Error() string { return "it still runs, for nothing can end it" }

// givenUp counts the work of one policy that was given up and still runs. The zero value
// begins a goroutine for each.
type givenUp struct {
	n    atomic.Int32
	idle chan func() // to goroutines that are done, and keep their stacks for a while; may be nil
}

// The states of work that can be given up.
const (
	awaited int32 = iota
	abandoned
	finished
)

// run does f, and waits for it no longer than until ctx ends; f is told to stop then,
// and has a last moment. What f uses must not be used by others after an error with
// [StillRuns], nor may f change what they use.
func run[T any](ctx context.Context, g *givenUp, f func() (T, error), stop func()) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, &call.Error{Code: call.CodePolicyTimeout, Err: err}
	}
	if g.n.Load() >= maxGivenUp {
		return none, &call.Error{Code: call.CodePolicyTimeout, Detail: "evaluations that were given up still run"}
	}
	var (
		out   T
		err   error
		state atomic.Int32
		done  = make(chan struct{})
	)
	g.begin(func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = &call.Error{Code: call.CodePolicyError, Err: fmt.Errorf("panic in the evaluator: %v", r)}
			}
			if !state.CompareAndSwap(awaited, finished) {
				g.n.Add(-1)
			}
		}()
		growStack()
		out, err = f()
	})
	select {
	case <-done:
		return out, err
	case <-ctx.Done():
	}
	stop()
	last := time.NewTimer(lastMoment)
	defer last.Stop()
	select {
	case <-done:
		return out, err
	case <-last.C:
	}
	g.n.Add(1)
	if !state.CompareAndSwap(awaited, abandoned) {
		g.n.Add(-1)
		<-done
		return out, err
	}
	return none, &call.Error{Code: call.CodePolicyTimeout, Err: errors.Join(ctx.Err(), &StillRuns{done})}
}

// keepIdle is for how long a goroutine waits for more work.
const keepIdle = time.Second

// begin has some goroutine do f.
func (g *givenUp) begin(f func()) {
	select {
	case g.idle <- f:
	default:
		go work(f, g.idle)
	}
}

// work does f and what comes after. While it waits, it holds nothing of any policy.
func work(f func(), idle <-chan func()) {
	t := time.NewTimer(keepIdle)
	defer t.Stop()
	for {
		f()
		if f = nil; idle == nil {
			return
		}
		t.Reset(keepIdle)
		select {
		case f = <-idle:
		case <-t.C:
			return
		}
	}
}

// firstStack is about what the stack of an evaluation comes to. One that grows to that
// in steps is copied each time with what OPA's recursion has left there, and that takes
// as long as the evaluation itself.
const firstStack = 128 << 10

//go:noinline
func growStack() {
	var room [firstStack]byte
	runtime.KeepAlive(&room)
}
