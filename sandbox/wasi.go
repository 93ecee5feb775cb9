package sandbox

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/meter"
	"github.com/callgate/callgate/sandbox/wasi"
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

const maxPath = 4096 // bytes

// Replay makes runs repeatable: see [Options.Replay].
type Replay struct {
	Seed [32]byte  // of randomness, together with the arguments
	Time time.Time // when every run begins, as its guest sees it
}

// hostMeter links what meter injects: the only place where a guest that calls
// nothing can be stopped.
func hostMeter(ctx context.Context, rt wazero.Runtime) error {
	yield := api.GoFunc(func(ctx context.Context, stack []uint64) {
		stack[0] = uint64(runOf(ctx).yield(int64(stack[0]), int64(stack[1])))
	})
	_, err := rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(yield, []api.ValueType{i64, i64}, []api.ValueType{i64}).
		Export(meter.YieldFunc).Instantiate(ctx)
	return err
}

// hostWASI links the functions of wasi_snapshot_preview1, each on the state of the
// run that it is called in.
func hostWASI(ctx context.Context, rt wazero.Runtime) (map[string]signature, error) {
	host := rt.NewHostModuleBuilder(wasi.ModuleName)
	signatures := map[string]signature{}
	for i := range wasi.Functions {
		f := &wasi.Functions[i]
		host.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
			r := runOf(ctx)
			r.check()
			defer r.internal()
			f.Call(r.wasi, mod.Memory(), stack)
		}), f.Params, f.Results).Export(f.Name)
		signatures[f.Name] = signature{f.Params, f.Results}
	}
	_, err := host.Instantiate(ctx)
	return signatures, err
}

// wasiState is what the guest of r finds in its world. stdin may be nil.
func (r *run) wasiState(stdin []byte, output, log int64) *wasi.State {
	s := r.sandbox
	o := wasi.Options{
		Run: wasiRun{r}, Stdin: stdin, Dirs: r.fx.Dirs(), OutputBytes: output, LogBytes: log,
		Now: s.now, Start: s.started, PreciseClock: r.fx.Grant().Caps().PreciseClock, World: s.world,
	}
	if s.replay != nil {
		o.Replay = &wasi.Replay{Seed: s.replay.Seed, Time: s.replay.Time, Args: stdin}
	}
	return wasi.New(o)
}

// wasiRun is a run as package wasi sees it.
type wasiRun struct{ r *run }

func (w wasiRun) Check()                { w.r.check() }
func (w wasiRun) Sleep(d time.Duration) { w.r.sleep(d) }
func (w wasiRun) Exit(code uint32)      { w.r.exit(code) }
func (w wasiRun) Touch()                { w.r.touch() }
func (w wasiRun) OutputExceeded()       { w.r.stop(call.CodeOutputExceeded) }

// request is one call of a function of the module callgate by a guest.
type request struct {
	*run
	ctx  context.Context
	mod  api.Module
	args []uint64 // the result goes to args[0]
}

func (q *request) u32(i int) uint32 { return uint32(q.args[i]) }

// guarded returns what the guest gets to call.
func guarded(do func(*request) uint32) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
		r := runOf(ctx)
		r.check()
		defer r.internal()
		if errno := do(&request{r, ctx, mod, stack}); len(stack) > 0 {
			stack[0] = uint64(errno)
		}
	})
}

// internal is deferred by every function of the host: a panic in one is not the
// guest's fault, or at least not only, unless the guest was ended by it.
func (r *run) internal() {
	if x := recover(); x != nil {
		if r.ended == nil {
			r.ended = &end{code: call.CodeInternal}
		}
		panic(r.ended)
	}
}
