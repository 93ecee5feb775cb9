package meter_test

import (
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/callgate/callgate/sandbox/meter"
)

var kernels = []struct {
	name string
	wasm string
	n    uint64
}{
	{"loop", "tiny", 2_000_000},
	{"fib", "compute_c", 24},
	{"sha", "compute_c", 2},
	{"matmul", "compute_c", 1},
	{"sieve", "compute_c", 1},
	{"scan", "compute_c", 10},
}

// BenchmarkLoops runs plain and rewritten kernels in turn, in one process, and
// reports the ratio of the fastest runs of each as x-plain.
func BenchmarkLoops(b *testing.B) {
	for _, k := range kernels {
		b.Run(k.name, func(b *testing.B) {
			h := newHost(b, 1<<60)
			h.account.Slice = meter.DefaultSlice
			plain := file(b, k.wasm)
			var fns [2]func() time.Duration
			for i, wasm := range [][]byte{plain, rewrite(b, plain).Wasm} {
				m, err := h.start(b, wasm, wazero.NewModuleConfig())
				if err != nil {
					b.Fatal(err)
				}
				f := m.ExportedFunction(k.name)
				fns[i] = func() time.Duration {
					t := time.Now()
					if _, err := f.Call(b.Context(), k.n); err != nil {
						b.Fatal(err)
					}
					return time.Since(t)
				}
			}
			best := [2]time.Duration{1 << 62, 1 << 62}
			for b.Loop() {
				for i, f := range fns {
					best[i] = min(best[i], f())
				}
			}
			b.ReportMetric(float64(best[1])/float64(best[0]), "x-plain")
			b.ReportMetric(float64(best[1]), "ns/metered")
			b.ReportMetric(0, "ns/op")
		})
	}
}
