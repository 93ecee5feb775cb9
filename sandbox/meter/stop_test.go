package meter_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/callgate/callgate/sandbox/meter"
)

// Each of these never ends by itself, or takes the host's memory. All run with a
// small budget of fuel; nothing here looks at a clock.
func TestStops(t *testing.T) {
	table := section(4, []byte{0x70, 0, 10})
	tests := []struct {
		name string
		wasm []byte
		want error
	}{
		{"loop", file(t, "inf"), meter.ErrFuel},
		{"loop in a start function", file(t, "startinf"), meter.ErrFuel},
		{"recursion of exponential time", file(t, "fibrec"), meter.ErrFuel},
		{"recursion", file(t, "recurse"), meter.ErrStack},
		{"tight recursion", file(t, "bigframe"), meter.ErrStack},
		{"recursion through a table", build(types, funcs, table, export, section(9, []byte{0, 0x41, 0, 0x0b, 1, 0}),
			section(10, code(0x41, 0, 0x11, 0, 0))), meter.ErrStack},
		{"memory.fill in a loop", file(t, "memfill"), meter.ErrFuel},
		{"memory.copy in a loop", file(t, "memcopy"), meter.ErrFuel},
		{"memory.fill without a loop", file(t, "bulkseq"), meter.ErrFuel},
		{"memory.fill of 4 GiB, for which fuel comes before bounds", build(types, funcs, section(5, []byte{0, 1}), export,
			section(10, code(0x41, 0, 0x41, 0, 0x41, 0x7f, 0xfc, 11, 0))), meter.ErrFuel},
		{"memory.grow of 0 in a loop", build(types, funcs, section(5, []byte{0, 1}), export, section(10, code(
			0x03, 0x40, 0x41, 0, 0x40, 0, 0x1a, 0x0c, 0, 0x0b))), meter.ErrFuel},
		{"br_table in a loop", one(0x03, 0x40, 0x41, 0, 0x0e, 0, 0, 0x0b), meter.ErrFuel},
		{"br_if in a loop", one(0x03, 0x40, 0x41, 1, 0x0d, 0, 0x0b), meter.ErrFuel},
		{"table.fill in a loop", build(types, funcs, section(4, cat([]byte{0x70, 0}, uleb(1<<20))), export, section(10, code(
			0x03, 0x40, 0x41, 0, 0xd0, 0x70, 0x41, 0x80, 0x80, 0xc0, 0, 0xfc, 17, 0, 0x0c, 0, 0x0b))), meter.ErrFuel},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, 50_000_000)
			m, err := h.start(t, rewrite(t, tt.wasm).Wasm, wazero.NewModuleConfig())
			if err == nil {
				_, err = m.ExportedFunction("_start").Call(t.Context())
			}
			if !errors.Is(err, tt.want) || h.stopped != tt.want {
				t.Fatalf("ended with %v, want %v", err, tt.want)
			}
		})
	}
}

// What a bulk operation costs is taken before it runs: the host stops it when
// it has moved nothing.
func TestBulkIsChargedBeforeItRuns(t *testing.T) {
	memory, table := section(5, []byte{0, 2}), section(4, []byte{0x70, 0, 100})
	const n0, n1 = 0x80, 0x08 // 1,024
	tests := []struct {
		name string
		body []byte
		want int64
	}{
		{"memory.fill", []byte{0x41, 0, 0x41, 7, 0x41, n0, n1, 0xfc, 11, 0}, 1024 / 8},
		{"memory.copy", []byte{0x41, 0, 0x41, 7, 0x41, n0, n1, 0xfc, 10, 0, 0}, 1024 / 8},
		{"memory.init", []byte{0x41, 0, 0x41, 0, 0x41, n0, n1, 0xfc, 8, 0, 0}, 1024 / 8},
		{"memory.grow", []byte{0x41, 3, 0x40, 0, 0x1a}, 3 * 1024},
		{"memory.grow of -1", []byte{0x41, 0x7f, 0x40, 0, 0x1a}, 65536 * 1024},
		{"table.fill", []byte{0x41, 0, 0xd0, 0x70, 0x41, 60, 0xfc, 17, 0}, 60},
		{"table.copy", []byte{0x41, 0, 0x41, 1, 0x41, 60, 0xfc, 14, 0, 0}, 60},
		{"table.init", []byte{0x41, 0, 0x41, 0, 0x41, 5, 0xfc, 12, 0, 0}, 5},
		{"table.grow", []byte{0xd0, 0x70, 0x41, 60, 0xfc, 15, 0, 0x1a}, 60},
		{"table.grow of -1", []byte{0xd0, 0x70, 0x41, 0x7f, 0xfc, 15, 0, 0x1a}, 1 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wasm := build(types, funcs, table, memory, cat(section(7, cat(str("_start"), []byte{0, 0}))),
				section(9, []byte{1, 0, 5, 0, 0, 0, 0, 0}), raw(12, []byte{1}), section(10, code(tt.body...)),
				section(11, cat([]byte{1}, uleb(1024), make([]byte, 1024))))
			h := newHost(t, 1<<40)
			m, err := h.start(t, rewrite(t, wasm).Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.ExportedFunction("_start").Call(t.Context()); err != nil {
				t.Fatal(err)
			}
			used := h.used(m)
			if used < tt.want || used > tt.want+100 {
				t.Errorf("used %d, want a little over %d", used, tt.want)
			}

			h = newHost(t, used-1)
			m, err = h.start(t, rewrite(t, wasm).Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			if size := m.Memory(); size != nil {
				size.WriteByte(5, 42)
			}
			if _, err := m.ExportedFunction("_start").Call(t.Context()); !errors.Is(err, meter.ErrFuel) {
				t.Errorf("ended with %v, want %v", err, meter.ErrFuel)
			}
		})
	}
}

func TestFillIsNotRunWithoutFuel(t *testing.T) {
	// Writes one byte by a store, then fills: only the store must be seen.
	wasm := build(types, funcs, section(5, []byte{0, 1}),
		section(7, cat(str("_start"), []byte{0, 0}), cat(str("memory"), []byte{2, 0})),
		section(10, code(0x41, 9, 0x41, 1, 0x3a, 0, 0, 0x41, 0, 0x41, 7, 0x41, 0x80, 0x80, 0x04, 0xfc, 11, 0)))
	h := newHost(t, 1000)
	m, err := h.start(t, rewrite(t, wasm).Wasm, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.ExportedFunction("_start").Call(t.Context()); !errors.Is(err, meter.ErrFuel) {
		t.Fatalf("ended with %v, want %v", err, meter.ErrFuel)
	}
	b, _ := m.Memory().Read(0, 10)
	if want := []byte{9: 1}; !slices.Equal(b, want) {
		t.Errorf("memory is %v, want %v", b, want)
	}
}

func TestTablesStayWithinTheirLimit(t *testing.T) {
	// A table grown until it will not: its size is what the limit leaves.
	tests := []struct {
		name   string
		tables []byte
		want   uint64
	}{
		{"one", section(4, []byte{0x70, 0, 1}), 1000},
		{"one with a lower maximum", section(4, []byte{0x70, 1, 1, 100}), 100},
		{"two", section(4, []byte{0x70, 0, 0}, []byte{0x6f, 0, 10}), 495},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wasm := build(section(1, []byte{0x60, 0, 1, 0x7f}), funcs, tt.tables, section(7, cat(str("f"), []byte{0, 0})), section(10, code(
				0x03, 0x40, 0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b, 0xfc, 16, 0)))
			r, err := meter.Rewrite(wasm, meter.Limits{TableItems: 1000})
			if err != nil {
				t.Fatal(err)
			}
			h := newHost(t, 1<<40)
			m, err := h.start(t, r.Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.ExportedFunction("f").Call(t.Context())
			if err != nil || got[0] != tt.want {
				t.Errorf("table grew to %v, %v, want %d", got, err, tt.want)
			}
		})
	}
}

// Growing a table to 2^31 items, which kills a process, is -1 to the guest.
func TestTableGrowIsRefusedNotTried(t *testing.T) {
	for _, name := range []string{"tablegrow", "tablegrow256m"} {
		h := newHost(t, 1<<30)
		m, err := h.start(t, rewrite(t, file(t, name)).Wasm, wazero.NewModuleConfig())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.ExportedFunction("_start").Call(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Recursion of every shape of frame must end by our count, before the engine's
// stack does, which takes 170 MB to find out.
func TestStackEndsBeforeTheEngines(t *testing.T) {
	load := []byte{0x41, 0, 0x28, 2, 0}
	store := []byte{0x36, 2, 0}
	rep := func(b []byte, n int) []byte { return slices.Repeat(b, n) }
	repeat := func(n int, f func(i uint64) []byte) (b []byte) {
		for i := range n {
			b = append(b, f(uint64(i))...)
		}
		return b
	}
	get := func(i uint64) []byte { return cat([]byte{0x20}, uleb(i)) }
	set := func(i uint64) []byte { return cat([]byte{0x21}, uleb(i)) }
	bump := func(i uint64) []byte { return cat(get(i), []byte{0x41, 1, 0x6a}, set(i)) }
	params := func(n int, typ byte) []byte {
		return cat([]byte{0x60}, uleb(uint64(n)), rep([]byte{typ}, n), []byte{0})
	}
	i32s := func(n uint64) []byte { return cat([]byte{1}, uleb(n), []byte{0x7f}) }
	none := []byte{0}
	self := []byte{0x10, 0}
	vectors := cat(uleb(1000), rep([]byte{0x7b}, 1000))
	tests := []struct {
		name   string
		typ    []byte
		locals []byte
		body   []byte
	}{
		{"nothing", void, none, self},
		{"1,000 values kept", void, none, cat([]byte{0x41, 0}, rep(load, 1000), self, rep([]byte{0x6a}, 999), store)},
		{"1,000 vectors kept", void, none, cat([]byte{0x41, 0}, rep(cat(load, []byte{0xfd, 0x11}), 1000), self, rep([]byte{0xfd, 0xae, 1}, 999), []byte{0xfd, 0x0b, 2, 0})},
		{"1,000 locals", void, i32s(1000), cat(repeat(1000, func(i uint64) []byte { return cat(load, set(i)) }), self, []byte{0x41, 0}, repeat(1000, get), rep([]byte{0x6a}, 999), store)},
		{"1,000 parameters", params(1000, 0x7f), none, cat(repeat(1000, get), self)},
		{"1,000 vector parameters", params(1000, 0x7b), none, cat(repeat(1000, get), self)},
		{"100 locals in 50 loops", void, i32s(100), cat(rep([]byte{3, 0x40}, 50), self, repeat(100, bump),
			repeat(50, func(i uint64) []byte { return cat([]byte{0x41, 0}, get(i), store, load, []byte{0x0d, 0, 0x0b}) }))},
		{"20,000 results kept", void, none, cat(rep([]byte{0x10, 1}, 20), self, rep([]byte{0x10, 2}, 20))},
		{"100 locals in 100 arms", void, i32s(100), cat(rep(cat(load, []byte{4, 0x40}, repeat(100, bump), []byte{0x0b}, self), 100),
			repeat(100, func(i uint64) []byte { return cat([]byte{0x41, 0}, get(i), store) }))},
	}
	for _, tt := range tests {
		if raceEnabled && len(tt.body) > 20_000 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			// Functions 1 and 2 give and take 1,000 vectors.
			wasm := build(section(1, tt.typ, cat([]byte{0x60, 0}, vectors), cat([]byte{0x60}, vectors, []byte{0})),
				section(3, []byte{0}, []byte{1}, []byte{2}), section(5, []byte{0, 1}), section(7, cat(str("f"), []byte{0, 0})),
				section(10, withLocals(tt.locals, tt.body...), withLocals([]byte{1, 1, 0x7b}, rep([]byte{0x20, 0}, 1000)...), code()))
			h := newHost(t, 1<<40)
			m, err := h.start(t, rewrite(t, wasm).Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			f := m.ExportedFunction("f")
			params := 0
			for _, p := range f.Definition().ParamTypes() {
				params++
				if p == 0x7b {
					params++
				}
			}
			if err := f.CallWithStack(t.Context(), make([]uint64, max(params, 1))); !errors.Is(err, meter.ErrStack) {
				t.Errorf("ended with %.100v, want %v", err, meter.ErrStack)
			}
		})
	}
}

// A function that calls nothing is weighed too, if it is large.
func TestLargeFramesAreWeighed(t *testing.T) {
	large := withLocals([]byte{1, 100, 0x7e})
	for stack, want := range map[int64]error{1_000: meter.ErrStack, 10_000: nil} {
		m, err := meter.Rewrite(build(types, funcs, export, section(10, large)), meter.Limits{Stack: stack})
		if err != nil {
			t.Fatal(err)
		}
		h := newHost(t, 1<<40)
		i, err := h.start(t, m.Wasm, wazero.NewModuleConfig())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.ExportedFunction("_start").Call(t.Context()); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("with a stack of %d it ended with %v, want %v", stack, err, want)
		}
	}
}

func TestOrdinaryRecursionIsDeepEnough(t *testing.T) {
	// f(n) = n == 0 ? 0 : 1 + f(n-1), as a C compiler writes it.
	wasm := build(section(1, []byte{0x60, 1, 0x7f, 1, 0x7f}), funcs, section(7, cat(str("f"), []byte{0, 0})), section(10, code(
		0x20, 0, 0x04, 0x7f, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0, 0x41, 1, 0x6a, 0x05, 0x41, 0, 0x0b)))
	h := newHost(t, 1<<40)
	m, err := h.start(t, rewrite(t, wasm).Wasm, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	const depth = 100_000
	got, err := m.ExportedFunction("f").Call(t.Context(), depth)
	if err != nil || got[0] != depth {
		t.Fatalf("f(%d) = %v, %v", depth, got, err)
	}
	if left := m.ExportedGlobal(meter.StackGlobal).Get(); left != 16<<20 {
		t.Errorf("stack left after the call is %d, want all of it", left)
	}
}

// Every way out of a function gives its caller's stack back.
func TestStackIsGivenBack(t *testing.T) {
	tests := []struct {
		name   string
		callee []byte
	}{
		{"end", nil},
		{"return", []byte{0x0f}},
		{"return in blocks", []byte{0x02, 0x40, 0x03, 0x40, 0x0f, 0x0b, 0x0b}},
		{"branch to the function", []byte{0x02, 0x40, 0x0c, 1, 0x0b}},
		{"conditional branch to the function", []byte{0x02, 0x40, 0x41, 1, 0x0d, 1, 0x0b}},
		{"br_table to the function", []byte{0x02, 0x40, 0x41, 7, 0x0e, 1, 0, 1, 0x0b}},
		{"import", []byte{0x10, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wasm := build(types, section(2, cat(str("env"), str("f"), []byte{0, 0})), section(3, []byte{0}, []byte{0}),
				section(4, []byte{0x70, 0, 1}), section(7, cat(str("f"), []byte{0, 1})),
				section(9, []byte{0, 0x41, 0, 0x0b, 1, 2}),
				section(10, code(0x10, 2, 0x10, 2, 0x41, 0, 0x11, 0, 0), code(tt.callee...)))
			h := newHost(t, 1<<40)
			calls := 0
			_, err := h.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() { calls++ }).Export("f").Instantiate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m, err := h.start(t, rewrite(t, wasm).Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.ExportedFunction("f").Call(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := m.ExportedGlobal(meter.StackGlobal).Get(); left != 16<<20 {
				t.Errorf("stack left is %d, want %d", left, 16<<20)
			}
			if tt.name == "import" && calls != 3 {
				t.Errorf("import was called %d times, want 3", calls)
			}
		})
	}
}

// Memory that the host refuses to give is -1 to the guest, as without metering.
func TestGrowIsTheHostsToRefuse(t *testing.T) {
	wasm := build(section(1, []byte{0x60, 1, 0x7f, 1, 0x7f}), funcs, section(5, []byte{1, 1, 10}), section(7, cat(str("f"), []byte{0, 0})),
		section(10, code(0x20, 0, 0x40, 0)))
	h := newHost(t, 1<<40)
	ctx := experimental.WithMemoryAllocator(context.Background(), experimental.MemoryAllocatorFunc(func(c, m uint64) experimental.LinearMemory {
		return &fixed{b: make([]byte, c, 2*meter.PageSize)}
	}))
	cm, err := h.CompileModule(ctx, rewrite(t, wasm).Wasm)
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.InstantiateModule(ctx, cm, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ give, want uint64 }{{1, 1}, {1, 1<<32 - 1}, {0, 2}, {1<<32 - 1, 1<<32 - 1}} {
		got, err := m.ExportedFunction("f").Call(ctx, tt.give)
		if err != nil || got[0] != tt.want {
			t.Errorf("memory.grow %d = %v, %v, want %d", tt.give, got, err, tt.want)
		}
	}
}

type fixed struct{ b []byte }

func (f *fixed) Reallocate(n uint64) []byte {
	if n > uint64(cap(f.b)) {
		return nil
	}
	f.b = f.b[:n]
	return f.b
}

func (f *fixed) Free() {}
