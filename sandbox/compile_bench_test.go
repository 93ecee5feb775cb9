package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// BenchmarkInstall compares what it takes until a module can run, in a process of
// its own and from the cache, with plain wazero, which compiles it in this one.
func BenchmarkInstall(b *testing.B) {
	hello, err := os.ReadFile("meter/testdata/hello_c.wasm")
	must(b, err)
	reactor, err := goReactor()
	must(b, err)
	for name, wasm := range map[string][]byte{"echo": module(b, "echo"), "hello-c": hello, "go": reactor} {
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			installed := func(o sandbox.Options) {
				box, err := sandbox.New(ctx, o)
				must(b, err)
				must(b, box.Install(ctx, call.Digest(wasm), wasm))
				must(b, box.Close(ctx))
			}
			cached := sandbox.Options{CacheDir: filepath.Join(b.TempDir(), "cache"), CacheKey: cacheKey}
			installed(cached)
			ways := []func(){
				func() {
					rt := wazero.NewRuntime(ctx)
					_, err := rt.CompileModule(ctx, wasm)
					must(b, err)
					must(b, rt.Close(ctx))
				},
				func() { installed(sandbox.Options{}) },
				func() { installed(cached) },
			}
			took := make([][]float64, len(ways))
			for b.Loop() {
				for i, f := range ways {
					start := time.Now()
					f()
					took[i] = append(took[i], float64(time.Since(start)))
				}
			}
			middle := func(f []float64) float64 { slices.Sort(f); return f[len(f)/2] }
			plain := middle(took[0])
			b.ReportMetric(middle(took[1])/plain, "compiled/plain")
			b.ReportMetric(middle(took[2])/plain, "cached/plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}
