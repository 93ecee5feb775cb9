package meter_test

import (
	"fmt"
	"slices"
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

func BenchmarkLoops(b *testing.B) {
	for _, k := range kernels {
		b.Run(k.name, func(b *testing.B) { compare(b, file(b, k.wasm), k.name, k.n) })
	}
}

// BenchmarkCopies copies memory in small pieces, of sizes that the code says or
// that it does not.
func BenchmarkCopies(b *testing.B) {
	// f(n) copies n times.
	loop := func(size ...byte) []byte {
		return build(section(1, []byte{0x60, 1, 0x7f, 0}), funcs, section(5, []byte{0, 2}), section(7, cat(str("f"), []byte{0, 0})),
			section(10, code(slices.Concat([]byte{0x03, 0x40, 0x41, 0, 0x41}, sleb(70_000), size,
				[]byte{0xfc, 10, 0, 0, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b})...)))
	}
	for _, size := range []int64{16, 1024} {
		literal := cat([]byte{0x41}, sleb(size))
		b.Run(fmt.Sprintf("literal-%d", size), func(b *testing.B) { compare(b, loop(literal...), "f", 100_000) })
		b.Run(fmt.Sprintf("size-%d", size), func(b *testing.B) {
			compare(b, loop(slices.Concat(literal, []byte{0x41, 0, 0x6a})...), "f", 100_000)
		})
	}
}

// compare runs an export of the plain and of the rewritten module in turn, in one
// process, and reports the ratio of the fastest runs of each as x-plain.
func compare(b *testing.B, plain []byte, name string, n uint64) {
	h := newHost(b, 1<<60)
	h.account.Slice = meter.DefaultSlice
	var fns [2]func() time.Duration
	for i, wasm := range [][]byte{plain, rewrite(b, plain).Wasm} {
		m, err := h.start(b, wasm, wazero.NewModuleConfig())
		if err != nil {
			b.Fatal(err)
		}
		f := m.ExportedFunction(name)
		fns[i] = func() time.Duration {
			t := time.Now()
			if _, err := f.Call(b.Context(), n); err != nil {
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
}
