package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"

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
	memory, fuel, output, log int64
	timeout                   time.Duration
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
		output: b.Output(), log: or(b.LogBytes, defaultLog),
		timeout: b.Timeout(),
	}
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
// (zero args), memory_minimum, overloaded (no slot became free within the run's
// time), engine_closed, cancelled and time_exceeded (while it waited).
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
	release, code := s.acquire(ctx, b.timeout)
	if code != "" {
		return notStarted(code)
	}
	defer release()
	r := newRun(ctx, s, fx, b)
	defer r.memory.Free() // an instance that never came to be does not
	return r.outcome(r.do(g, args))
}

// do instantiates g and calls its entry. A reactor's own code comes back in
// status.
func (r *run) do(g *guest, args call.Args) (status uint32, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = errPanic // wazero's, or ours: what it says may quote the guest
		}
	}()
	ctx := context.WithValue(r.ctx, runKey{}, r)
	ctx = experimental.WithMemoryAllocator(ctx, r.memory)
	inst, err := r.sandbox.runtime.InstantiateModule(ctx, g.compiled, r.config(args))
	if inst != nil {
		defer inst.Close(ctx)
	}
	if err != nil {
		return 0, err
	}
	if fuel := inst.ExportedGlobal(meter.FuelGlobal); fuel != nil {
		defer func() { r.fuelLeft = int64(fuel.Get()) }() // before the instance is closed
	}
	if g.init {
		if _, err := inst.ExportedFunction(entryInit).Call(ctx); err != nil {
			return 0, err
		}
	}
	r.called = true
	res, err := inst.ExportedFunction(g.entry).Call(ctx)
	if err == nil && len(res) == 1 {
		status = uint32(res[0])
	}
	return status, err
}

// config is what a guest finds in its world: its arguments, its output, the
// granted directories, clocks and randomness. The name is empty, for two
// instances may not share one.
func (r *run) config(args call.Args) wazero.ModuleConfig {
	files := wazero.NewFSConfig()
	for _, d := range r.fx.Dirs() {
		files = files.(sysfs.FSConfig).WithSysFSMount(&dirFS{run: r, dir: d}, d.Name())
	}
	return wazero.NewModuleConfig().WithName("").WithStartFunctions().WithArgs("tool").
		WithStdin(bytes.NewReader(args.Bytes())).WithStdout(&r.stdout).WithStderr(&r.stderr).
		WithFSConfig(files).WithRandSource(rand.Reader).
		WithSysWalltime().WithSysNanotime()
}

var errPanic = errors.New("panic while the guest ran")

// outcome says how the run ended. Texts of traps stay here: they may quote
// what the guest made up.
func (r *run) outcome(status uint32, err error) ([]byte, call.Outcome) {
	out := call.Outcome{
		Status: call.Failed, Fuel: min(r.account.Used(r.fuelLeft), r.account.Budget), Stderr: r.stderr.Bytes(),
		MemoryBytes: r.memory.peak, MemoryRefused: r.memory.refused,
	}
	switch {
	case r.memory.failed && r.ended == nil && !r.entered:
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
	return r.stdout.Bytes(), out
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
