package sandbox_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// plainly gives what a call costs with wazero alone and its defaults: its own
// WASI, its own memory, and an instance of its own for each call.
func plainly(b *testing.B, wasm, in []byte, entry string) func() {
	b.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	b.Cleanup(func() { rt.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	_, err := rt.NewHostModuleBuilder("callgate").NewFunctionBuilder().WithFunc(func(int32, int32) int32 { return 0 }).Export("log").Instantiate(ctx)
	must(b, err)
	compiled, err := rt.CompileModule(ctx, wasm)
	must(b, err)
	return func() {
		var out bytes.Buffer
		m, err := rt.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithArgs("tool").
			WithStdin(bytes.NewReader(in)).WithStdout(&out).WithStartFunctions("_initialize"))
		must(b, err)
		_, _ = m.ExportedFunction(entry).Call(ctx) // exit is an error
		must(b, m.Close(ctx))
	}
}

// ours gives what a call costs in a sandbox.
func (w *world) ours(b *testing.B, wasm []byte, in string) func() {
	b.Helper()
	digest := call.Digest(wasm)
	must(b, w.box.Install(b.Context(), digest, wasm))
	a, fx := args(b, in), w.effects(b, call.Bounds{})
	return func() {
		if _, o := w.box.Run(b.Context(), digest, a, fx); o.Code != call.CodeOK {
			b.Fatalf("it ended %+v", o)
		}
	}
}

func goCommand(b *testing.B) []byte {
	b.Helper()
	out := filepath.Join(b.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-o", out, "./meter/testdata/goguest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("building the guest: %v\n%s", err, text)
	}
	wasm, err := os.ReadFile(out)
	must(b, err)
	return wasm
}

// BenchmarkCall makes calls of one guest in turn, in one process: in plain wazero;
// alone, with [sandbox.Options.Fresh]; in a fresh instance, of a snapshot if there
// is one; and in one that served calls before, if it can. It reports the medians
// as ratios to plain wazero's.
func BenchmarkCall(b *testing.B) {
	reactor, err := goReactor()
	must(b, err)
	hello, err := os.ReadFile("meter/testdata/hello_c.wasm")
	must(b, err)
	command := goCommand(b)
	for _, g := range []struct {
		name, entry, in string
		wasm            []byte
	}{
		{"tiny", "callgate_call", `{}`, module(b, "tiny")},
		{"c-reactor", "callgate_call", `{"text":"hello"}`, module(b, "echo")},
		{"c-command", "_start", `{"text":"hello"}`, hello},
		{"go-reactor", "callgate_call", `{}`, reactor},
		{"go-command", "_start", `{"text":"hello"}`, command},
		{"quickjs", "callgate_call", `{"source":"({n: args.text.length})","text":"hello"}`, module(b, "quickjs")},
	} {
		b.Run(g.name, func(b *testing.B) {
			alone, fresh, warm := open(b, sandbox.Options{Fresh: true}), open(b, sandbox.Options{}), open(b, sandbox.Options{})
			fresh.box.Once()
			ways := []func(){plainly(b, g.wasm, []byte(g.in), g.entry), alone.ours(b, g.wasm, g.in), fresh.ours(b, g.wasm, g.in), warm.ours(b, g.wasm, g.in)}
			took := make([][]float64, len(ways))
			for _, f := range ways {
				f()
			}
			for b.Loop() {
				for i, f := range ways {
					t := time.Now()
					f()
					took[i] = append(took[i], float64(time.Since(t)))
				}
			}
			at := func(way int, part float64) float64 {
				slices.Sort(took[way])
				return took[way][int(part*float64(len(took[way])-1))]
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(at(0, 0.5), "ns/plain")
			b.ReportMetric(at(1, 0.5)/at(0, 0.5), "alone/plain")
			b.ReportMetric(at(2, 0.5)/at(0, 0.5), "fresh/plain")
			b.ReportMetric(at(3, 0.5)/at(0, 0.5), "warm/plain")
			b.ReportMetric(at(3, 0.99)/at(0, 0.5), "warm-p99/plain")
			b.ReportMetric(at(3, 0.99), "ns/warm-p99")
			b.ReportMetric(testing.AllocsPerRun(100, ways[3]), "allocs/warm")
		})
	}
}
