package meter_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/callgate/callgate/sandbox/meter"
)

// A host runs modules as the sandbox does: compiler engine, yield from an Account.
type host struct {
	wazero.Runtime
	account *meter.Account
	stopped error // why the guest was stopped
	yields  int
	most    int   // yields before it stops the guest, if not zero
	lowest  int64 // fuel that it was asked with
}

var errStopped = errors.New("stopped")

func newHost(tb testing.TB, budget int64) *host {
	tb.Helper()
	h := newHostIn(tb, budget)
	tb.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// A failer is a test or a rapid one.
type failer interface {
	Helper()
	Fatal(...any)
}

// newHostIn gives a host that the caller closes.
func newHostIn(tb failer, budget int64) *host {
	tb.Helper()
	ctx := context.Background()
	h := &host{account: &meter.Account{Budget: budget, Slice: 10_000}}
	h.Runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2).WithMemoryLimitPages(32768))
	_, err := h.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithFunc(func(fuel, stack int64) int64 {
			if h.yields++; h.most != 0 && h.yields > h.most {
				panic(errStopped)
			}
			h.lowest = min(h.lowest, fuel)
			next, err := h.account.Yield(fuel, stack)
			if err != nil {
				h.stopped = err
				panic(err)
			}
			return next
		}).Export(meter.YieldFunc).Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	wasi_snapshot_preview1.MustInstantiate(ctx, h.Runtime)
	return h
}

// start instantiates without calling _start.
func (h *host) start(tb testing.TB, wasm []byte, c wazero.ModuleConfig) (api.Module, error) {
	tb.Helper()
	ctx := context.Background()
	cm, err := h.CompileModule(ctx, wasm)
	if err != nil {
		tb.Fatalf("wazero refuses the module: %v", err)
	}
	return h.InstantiateModule(ctx, cm, c.WithName("").WithStartFunctions())
}

func (h *host) used(m api.Module) int64 {
	return h.account.Used(int64(m.ExportedGlobal(meter.FuelGlobal).Get()))
}

func rewrite(tb testing.TB, wasm []byte) *meter.Module {
	tb.Helper()
	m, err := meter.Rewrite(wasm, meter.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func file(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".wasm"))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func reason(err error) meter.Reason {
	var e *meter.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
