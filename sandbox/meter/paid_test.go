package meter_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/sandbox/meter"
)

// A program of random control flow, with calls of functions short and long and
// of the host, directly and through a table: whenever the host is called, the
// fuel for all that ran before is paid, and the end is within the budget or out
// of fuel. That is so for slices of every size, which change nothing.
func TestHostCallsArePaidFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{t: t, calls: true}
		// Functions: 0 the host's, 1 the program, 2 short, 3 long, 4 with a loop.
		wasm := build(types, section(2, cat(str("env"), str("f"), []byte{0, 0})),
			section(3, []byte{0}, []byte{0}, []byte{0}, []byte{0}), section(4, []byte{0x70, 0, 4}),
			section(6, []byte{0x7e, 1, 0x42, 0, 0x0b}, cat([]byte{0x7f, 1, 0x41}, sleb(int64(rapid.Int32().Draw(t, "seed"))), []byte{0x0b})),
			section(7, cat(str("f"), []byte{0, 1}), cat(str("count"), []byte{3, 0})),
			section(9, []byte{0, 0x41, 0, 0x0b, 4, 0, 2, 3, 4}),
			section(10, code(g.block(nil, 0)...),
				code(count(1, []byte{0x41, 0, 0x1a})...),
				code(count(200, slices.Repeat([]byte{0x41, 0, 0x45, 0x1a}, 100))...),
				code(slices.Concat([]byte{0x03, 0x40}, decide(2), []byte{0x0d, 0, 0x0b})...)))
		m, err := meter.Rewrite(wasm, meter.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		type end struct {
			err              string
			used, ran, calls int64
		}
		run := func(budget, slice int64) (e end) {
			h := newHostIn(t, budget)
			defer h.Close(context.Background())
			h.account.Slice = slice
			b := h.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module) {
				e.calls++
				ran := int64(m.ExportedGlobal("count").Get())
				if used := h.used(m); used > budget || used < ran {
					t.Fatalf("the host was called after %d instructions with %d of %d fuel used", ran, used, budget)
				}
			})
			if _, err := b.Export("f").Instantiate(context.Background()); err != nil {
				t.Fatal(err)
			}
			i, err := h.InstantiateWithConfig(context.Background(), m.Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			_, err = i.ExportedFunction("f").Call(context.Background())
			if err != nil && !errors.Is(err, meter.ErrFuel) {
				t.Fatal(err)
			}
			e.err, e.used, e.ran = cause(err), h.used(i), int64(i.ExportedGlobal("count").Get())
			if e.used < e.ran || (err != nil) != (e.used > budget) {
				t.Fatalf("ran %d instructions for %d of %d fuel: %v", e.ran, e.used, budget, err)
			}
			return e
		}
		all := run(30_000, meter.DefaultSlice)
		if again := run(30_000, 7); again != all {
			t.Fatalf("%+v with large slices, %+v with small ones", all, again)
		}
		if all.err == "" {
			run(all.used, 1<<40)
			if e := run(all.used-1, 1<<40); e.err == "" {
				t.Fatal("ended well with less fuel than it takes")
			}
		}
		run(rapid.Int64Range(0, 30_000).Draw(t, "budget"), 100)
	})
}

// What initialising used is owed by whoever starts from a snapshot. Its run then
// uses what a run that initialises itself does, and if it ends in a trap, in the
// middle of a loop that keeps its fuel in a local.
func TestOwedFuelIsTheSameFuel(t *testing.T) {
	// init and f loop that often; f ends with a trap in its loop.
	loop := func(end ...byte) []byte {
		return code(slices.Concat([]byte{0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0}, end, []byte{0x0d, 0, 0x0b})...)
	}
	wasm := build(section(1, []byte{0x60, 1, 0x7f, 0}), section(3, []byte{0}, []byte{0}),
		section(7, cat(str("init"), []byte{0, 0}), cat(str("f"), []byte{0, 1})),
		section(10, loop(), loop(0x41, 0x20, 0x20, 0, 0x6e, 0x1a))) // 32 / n
	m := rewrite(t, wasm)
	for _, n := range []uint64{1, 1000, 100_000, 123_456} {
		first := newHost(t, 1<<40)
		a, err := first.start(t, m.Wasm, wazero.NewModuleConfig())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.ExportedFunction("init").Call(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		owed := first.used(a)
		_, want := a.ExportedFunction("f").Call(t.Context(), 200_000)

		second := newHost(t, 1<<40)
		b, err := second.start(t, m.Wasm, wazero.NewModuleConfig())
		if err != nil {
			t.Fatal(err)
		}
		b.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal).Set(uint64(-owed))
		_, got := b.ExportedFunction("f").Call(t.Context(), 200_000)
		if cause(got) != cause(want) || want == nil || second.used(b) != first.used(a) {
			t.Errorf("after %d rounds: %v with %d fuel at once, %v with %d from a snapshot", n, want, first.used(a), got, second.used(b))
		}
		if least := owed + 200_000*5; first.used(a) < least-first.account.Slice {
			t.Errorf("the trap leaves %d fuel counted, want less than a slice below %d", first.used(a), least)
		}
	}
}

// The host's own check comes before anything of the guest, whatever it calls
// first.
func TestHostIsAskedFirst(t *testing.T) {
	tests := []struct {
		name string
		wasm []byte
	}{
		{"short function", one()},
		{"start function", build(types, funcs, raw(8, []byte{0}), section(10, code()))},
		{"function of another name", build(types, funcs, section(7, cat(str("a"), []byte{0, 0}), cat(str("_start"), []byte{0, 0})), section(10, code()))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, 0)
			m, err := h.start(t, rewrite(t, tt.wasm).Wasm, wazero.NewModuleConfig())
			if err == nil {
				_, err = m.ExportedFunction("_start").Call(t.Context())
			}
			if !errors.Is(err, meter.ErrFuel) || h.yields != 1 {
				t.Errorf("ended with %v after asking %d times, want %v after one", err, h.yields, meter.ErrFuel)
			}
		})
	}
}

// A function that only calls another, as often as its body has room for. If that
// is short, and does not look at its fuel, the caller looks; else it does.
func TestLooksAreNotFarBetween(t *testing.T) {
	for _, tt := range []struct{ calls, length int }{{900, 60}, {900, 250}, {8_000, 250}, {900, 20_000}} {
		callee := code(slices.Repeat([]byte{0x41, 0, 0x1a}, tt.length)...)
		direct := code(slices.Repeat([]byte{0x10, 1}, tt.calls)...)
		through := code(slices.Repeat([]byte{0x41, 0, 0x11, 0, 0}, tt.calls)...)
		for _, body := range [][]byte{direct, through} {
			h := newHost(t, 1<<40)
			m, err := h.start(t, rewrite(t, build(types, section(3, []byte{0}, []byte{0}), section(4, []byte{0x70, 0, 1}), export,
				section(9, []byte{0, 0x41, 0, 0x0b, 1, 1}), section(10, body, callee))).Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.ExportedFunction("_start").Call(t.Context()); err != nil {
				t.Fatal(err)
			}
			if h.lowest < -150_000 {
				t.Errorf("with %d calls, the host was asked with %d fuel", tt.calls, h.lowest)
			}
		}
	}
}
