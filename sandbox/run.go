package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/meter"
)

// Bounds of a run where the grant states none. A grant without a fuel bound
// has no limit on fuel; time bounds it.
const (
	defaultMemory = 64 << 20
	defaultLog    = 4096
)

// bounds are a grant's bounds with the defaults filled in.
type bounds struct {
	memory, fuel, output, log, http int64
	timeout                         time.Duration
}

func boundsOf(b call.Bounds) bounds {
	or := func(v, def int64) int64 {
		if v > 0 {
			return v
		}
		return def
	}
	return bounds{
		memory: or(b.MemoryBytes, defaultMemory), fuel: or(b.Fuel, math.MaxInt64),
		output: b.Output(), log: or(b.LogBytes, defaultLog), http: b.HTTP(),
		timeout: b.Timeout(),
	}
}

// slice is the fuel between two looks at the clock. Three instructions can touch a
// page of memory for the first time, which takes the system a microsecond or two, so
// that with much memory a slice of the usual size could take longer than 100 ms.
func (b bounds) slice() int64 {
	if b.memory > defaultMemory {
		return meter.DefaultSlice / 4
	}
	return meter.DefaultSlice
}

// Run runs the installed module with this digest once, in a fresh instance,
// inside the bounds of fx's grant, and returns what it wrote to stdout. It
// never panics, and it does not close fx: the Outcome has no effects until the
// caller fills them in from fx.Close. Took includes the wait for a slot.
//
// Only a guest that ended by itself has output: a run that was stopped or that
// trapped returns nil.
//
// # Outcomes
//
// not_started: guest_unavailable, grant_mismatch (no live grant), args_invalid
// (zero args), memory_minimum, memory_ceiling, overloaded (no place became free
// within the run's time), engine_closed, cancelled and time_exceeded (while it waited).
// succeeded: ok. failed: tool_error with Exit (a command's exit code, or what a
// reactor returned), guest_trap, time_exceeded (the grant's time or ctx's
// deadline), cancelled (ctx, Close or the end of the grant), fuel_exhausted,
// stack_exhausted, output_exceeded.
func (s *Sandbox) Run(ctx context.Context, module string, args call.Args, fx *hostfx.Effects) (output []byte, out call.Outcome) {
	start := s.now()
	defer func() { out.Took = s.now().Sub(start) }()
	notStarted := func(c call.Code) ([]byte, call.Outcome) {
		return nil, call.Outcome{Status: call.NotStarted, Code: c}
	}
	g := s.guest(module)
	if g == nil {
		return notStarted(call.CodeGuestUnavailable)
	}
	if fx == nil || !fx.Grant().Live() {
		return notStarted(call.CodeGrantMismatch)
	}
	if args.IsZero() {
		return notStarted(call.CodeArgsInvalid)
	}
	b := boundsOf(fx.Grant().Caps().Bounds)
	if g.memoryMin > b.memory {
		return notStarted(call.CodeMemoryMinimum)
	}
	release, code := s.acquire(ctx, g, b)
	if code != "" {
		return notStarted(code)
	}
	defer release()
	r := newRun(ctx, s, fx, args, b)
	defer r.wasi.Close()
	return r.outcome(r.do(g))
}

// do has g called in an instance that is as new. A reactor's own code comes back
// in status.
func (r *run) do(g *guest) (status uint32, err error) {
	var i *instance
	defer func() {
		if x := recover(); x != nil {
			err = errPanic // wazero's, or ours: what it says may quote the guest
		}
		r.release(i, err)
	}()
	ctx := context.WithValue(r.ctx, runKey{}, r)
	key := poolKey{tool: r.fx.Grant().Tool(), guest: g, from: r.snapshot(g), memory: int64(r.memory.limit), policies: policiesOf(r.fx.Grant().Policy())}
	if key.from != nil {
		r.wasi.SetStdio(key.from.stdio)
	}
	if i = r.take(key); i != nil {
		i.memory.again()
		r.memory = i.memory
	}
	if i == nil || i.key.bare {
		if i, err = r.instantiate(ctx, g, key.from); err != nil {
			return 0, err
		}
		i.key = key
	}
	if err := i.initialise(ctx); err != nil {
		return 0, err
	}
	r.called = true
	return i.call(ctx, callEntry)
}

// take gives an instance that served another call, or the memory of one, or nil.
func (r *run) take(key poolKey) *instance {
	if r.sandbox.fresh {
		return nil
	}
	if i := r.sandbox.pool.take(key); i != nil {
		return i
	}
	key.bare = true
	return r.sandbox.pool.take(key)
}

// release takes the instance back from a run that is over: for another call if
// the guest ended by itself and the instance can be made new, else for good, and
// then only its memory is.
func (r *run) release(i *instance, err error) {
	r.seen = r.memory.seen // the memory is somebody else's soon
	if i == nil || i.module == nil {
		r.memory.Free()
		return
	}
	if i.fuel != nil {
		r.fuelLeft = int64(i.fuel.Get())
	}
	// exit leaves by a panic, through Go's own frames alone: the engine had
	// returned to Go before it called the host.
	byItself := err == nil && r.ended == nil || r.ended != nil && r.ended.exited
	s := r.sandbox
	switch {
	case !s.fresh && !s.once && byItself && i.reset():
		s.pool.put(r.ctx, i)
	case !s.fresh && cheapReset && i.memory.space != nil && !i.memory.failed:
		s.pool.put(r.ctx, i.bare(r.ctx))
	default:
		i.close(r.ctx)
	}
}

// instanceConfig gives an instance nothing: what a guest finds in its world is
// r.wasi. The name is empty, for two instances may not share one. Without a source
// of randomness wazero seeds one for each instance, which takes its time.
var instanceConfig = wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(rand.Reader)

var errPanic = errors.New("panic while the guest ran")

// outcome says how the run ended. Texts of traps stay here: they may quote
// what the guest made up.
func (r *run) outcome(status uint32, err error) ([]byte, call.Outcome) {
	out := call.Outcome{
		Status: call.Failed, Fuel: min(r.account.Used(r.fuelLeft), r.account.Budget), Stderr: r.wasi.Stderr(),
		MemoryBytes: r.seen.peak, MemoryRefused: r.seen.refused,
	}
	switch {
	case r.seen.failed && r.ended == nil && !r.entered:
		return nil, call.Outcome{Status: call.NotStarted, Code: call.CodeGuestUnavailable}
	case r.ended != nil && !r.ended.exited:
		out.Code = r.ended.code
		return nil, out
	case r.ended != nil:
		if status = r.ended.exit; !r.called {
			// Whatever it says, what it was called for was not done.
			out.Code, out.Exit = call.CodeToolError, status
			return nil, out
		}
	case errors.Is(err, errPanic):
		out.Code = call.CodeInternal
		return nil, out
	case stackOverflow(err):
		out.Code = call.CodeStackExhausted
		return nil, out
	case err != nil:
		out.Code = call.CodeGuestTrap
		return nil, out
	}
	if status != 0 {
		out.Code, out.Exit = call.CodeToolError, status
	} else {
		out.Status, out.Code = call.Succeeded, call.CodeOK
	}
	return r.wasi.Stdout(), out
}

// stackOverflow reports whether the engine's own stack ran out before the one
// that meter weighs. Its error is not exported.
func stackOverflow(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if err.Error() == "stack overflow" {
			return true
		}
	}
	return false
}
