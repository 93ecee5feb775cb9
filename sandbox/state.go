package sandbox

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/meter"
	"github.com/callgate/callgate/sandbox/wasi"
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
	seen     seen // of memory, once the run is over
	entered  bool // an instruction of the guest ran
	called   bool // the guest's entry was called
	ended    *end // why we ended it, nil while it runs or when it ended itself

	isNeutral bool // it initialises a guest for more calls than one

	wasi *wasi.State // what the guest sees through WASI
	kept *kept       // the answer that the guest has not taken yet, or nil
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

func newRun(ctx context.Context, s *Sandbox, fx *hostfx.Effects, args call.Args, b bounds) *run {
	r := &run{
		sandbox: s, ctx: ctx, fx: fx, deadline: s.now().Add(b.timeout),
		account: meter.Account{Budget: b.fuel, Slice: b.slice()},
		memory:  &memory{limit: uint64(b.memory)},
	}
	r.wasi = r.wasiState(args.Bytes(), b.output, b.log)
	return r
}

// neutral is a run in the bounds of r that has nothing of its call: no arguments,
// and it ends at the first look at anything but the names of what is granted. It
// has a quarter of the time that is left.
func (r *run) neutral() *run {
	now := r.sandbox.now()
	n := &run{
		sandbox: r.sandbox, ctx: r.ctx, fx: r.fx, isNeutral: true,
		deadline: now.Add(r.deadline.Sub(now) / 4),
		account:  meter.Account{Budget: r.account.Budget, Slice: r.account.Slice},
		memory:   &memory{limit: r.memory.limit},
	}
	n.wasi = n.wasiState(nil, 0, 0)
	return n
}

// touch is called before the guest looks at or does anything that belongs to one
// call. A run that is for more calls ends there.
func (r *run) touch() {
	if r.isNeutral {
		r.stop(call.CodeCancelled)
	}
}

// world is what a guest can see of its call without touching anything.
func (r *run) world() string {
	var b strings.Builder
	if r.fx.Grant().Caps().PreciseClock {
		b.WriteByte(1)
	}
	for _, d := range r.fx.Dirs() {
		b.WriteByte(0)
		b.WriteString(d.Name())
	}
	return b.String()
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

// nap is how long a guest sleeps at most before it is looked at whether its grant
// is still alive.
const nap = 50 * time.Millisecond

// sleep waits, or ends the guest if its time ends before.
func (r *run) sleep(d time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for d > 0 {
		step := max(0, min(d, nap, r.deadline.Sub(r.sandbox.now())))
		timer.Reset(step)
		select {
		case <-timer.C:
		case <-r.ctx.Done():
		case <-r.sandbox.closing:
		}
		r.check()
		d -= step
	}
}
