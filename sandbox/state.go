package sandbox

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/meter"
)

// run is the state of one run. Only the goroutine that runs the guest uses it.
type run struct {
	sandbox  *Sandbox
	ctx      context.Context
	fx       *hostfx.Effects
	deadline time.Time

	account  meter.Account
	fuelLeft int64 // of the slice that the account gave last
	memory   *memory
	stdout   output
	stderr   logged
	entered  bool // an instruction of the guest ran
	called   bool // the guest's entry was called
	ended    *end // why we ended it, nil while it runs or when it ended itself

	full   bool            // an open was refused since too many are open
	places map[int32]place // descriptor -> where it is, for directories
	kept   *kept           // the answer that the guest has not taken yet, or nil
}

// place is a directory as a guest's path starts from it.
type place struct {
	dir *hostfx.Dir
	at  string // below dir, "." for itself
}

// end is why the host ended a guest. It travels up through the guest's frames
// as a panic; what the engine makes of that is not looked at.
type end struct {
	code   call.Code
	exited bool // the guest asked for it, with exit
	exit   uint32
}

func (e *end) Error() string { return "guest ended: " + string(e.code) }

type runKey struct{}

// runOf returns the run that a host function is called in.
func runOf(ctx context.Context) *run { return ctx.Value(runKey{}).(*run) }

func newRun(ctx context.Context, s *Sandbox, fx *hostfx.Effects, b bounds) *run {
	r := &run{
		sandbox: s, ctx: ctx, fx: fx, deadline: s.now().Add(b.timeout),
		account: meter.Account{Budget: b.fuel},
		memory:  &memory{limit: uint64(b.memory)},
		stderr:  logged{left: b.log},
		places:  map[int32]place{},
	}
	r.stdout = output{run: r, left: b.output}
	for i, d := range fx.Dirs() {
		r.places[firstPreopen+int32(i)] = place{d, "."}
	}
	return r
}

// stop ends the guest and does not return.
func (r *run) stop(code call.Code) {
	r.ended = &end{code: code}
	panic(r.ended)
}

func (r *run) exit(code uint32) {
	r.ended = &end{exited: true, exit: code}
	panic(r.ended)
}

// check ends the guest if its time is over. Every function of the host calls it.
func (r *run) check() {
	r.entered = true
	if r.ended != nil {
		panic(r.ended) // a guest that goes on after its end
	}
	select {
	case <-r.ctx.Done():
		r.stop(endOf(r.ctx))
	case <-r.sandbox.closing:
		r.stop(call.CodeCancelled)
	default:
	}
	if !r.sandbox.now().Before(r.deadline) {
		r.stop(call.CodeTimeExceeded)
	}
	if !r.fx.Grant().Live() {
		r.stop(call.CodeCancelled)
	}
}

// yield is where a guest that used up its slice of fuel comes to.
func (r *run) yield(fuel, stack int64) int64 {
	r.fuelLeft = fuel
	r.check()
	next, err := r.account.Yield(fuel, stack)
	switch {
	case errors.Is(err, meter.ErrStack):
		r.stop(call.CodeStackExhausted)
	case err != nil:
		r.stop(call.CodeFuelExhausted)
	}
	// Native code is not preempted: without this, guests on every processor
	// would leave timers and the collector waiting.
	runtime.Gosched()
	r.fuelLeft = next
	return next
}

// sleep waits, or ends the guest if its time ends before.
func (r *run) sleep(d time.Duration) {
	timer := time.NewTimer(min(d, r.deadline.Sub(r.sandbox.now())))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	case <-r.sandbox.closing:
	}
	r.check()
}

// output is stdout: one byte too many ends the guest.
type output struct {
	bytes.Buffer
	run  *run
	left int64
}

func (o *output) Write(p []byte) (int, error) {
	if int64(len(p)) > o.left {
		o.run.stop(call.CodeOutputExceeded)
	}
	o.left -= int64(len(p))
	return o.Buffer.Write(p)
}

// logged is stderr: what is too much is dropped.
type logged struct {
	bytes.Buffer
	left int64
}

func (l *logged) Write(p []byte) (int, error) {
	k := min(int64(len(p)), l.left)
	l.left -= k
	l.Buffer.Write(p[:k])
	return len(p), nil
}
