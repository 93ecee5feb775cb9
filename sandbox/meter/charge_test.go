package meter_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/sandbox/meter"
)

// A program of random control flow counts its own instructions in global 0; its
// branches are decided by a generator in global 1. No path may run more
// instructions than were charged, finished or stopped.
func TestNoPathIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{t: t}
		body := g.block(nil, 0)
		wasm := build(types, funcs,
			section(6, []byte{0x7e, 1, 0x42, 0, 0x0b}, cat([]byte{0x7f, 1, 0x41}, sleb(int64(rapid.Int32().Draw(t, "seed"))), []byte{0x0b})),
			section(7, cat(str("f"), []byte{0, 0}), cat(str("count"), []byte{3, 0})),
			section(10, code(body...)))
		m, err := meter.Rewrite(wasm, meter.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		h := newHostIn(t, 20_000)
		defer h.Close(t.Context())
		i, err := h.InstantiateWithConfig(t.Context(), m.Wasm, wazero.NewModuleConfig())
		if err != nil {
			t.Fatal(err)
		}
		_, err = i.ExportedFunction("f").Call(t.Context())
		if err != nil && !errors.Is(err, meter.ErrFuel) {
			t.Fatal(err)
		}
		ran, used := int64(i.ExportedGlobal("count").Get()), h.used(i)
		if used < ran {
			t.Fatalf("ran %d instructions for %d fuel", ran, used)
		}
	})
}

type generator struct {
	t     *rapid.T
	calls bool // of functions 0 to 4 but 1, and of items 0 to 3 of a table
}

// count adds the number of instructions of b, with its own, to the count.
func count(n int, b []byte) []byte {
	return slices.Concat([]byte{0x23, 0, 0x42}, sleb(int64(n+4)), []byte{0x7c, 0x24, 0}, b)
}

// decide leaves a number below n, a power of two, on the stack.
func decide(n int64) []byte {
	return count(11, slices.Concat(
		[]byte{0x23, 1, 0x41}, sleb(1664525), []byte{0x6c, 0x41}, sleb(1013904223), []byte{0x6a, 0x24, 1},
		[]byte{0x23, 1, 0x41, 16, 0x76, 0x41}, sleb(n-1), []byte{0x71}))
}

func (g *generator) pick(name string, n int) int { return rapid.IntRange(0, n-1).Draw(g.t, name) }

func (g *generator) block(b []byte, depth int) []byte {
	for range g.pick("statements", 5) {
		b = append(b, g.statement(depth)...)
	}
	return b
}

func (g *generator) statement(depth int) []byte {
	label := func() byte { return byte(g.pick("label", depth+1)) }
	kind := g.pick("kind", 9)
	if g.calls && kind > 5 && g.pick("call", 2) == 0 {
		if g.pick("indirect", 2) == 0 {
			return slices.Concat(decide(4), []byte{0x11, 0, 0})
		}
		return count(1, []byte{0x10, byte([]int{0, 2, 3, 4}[g.pick("function", 4)])})
	}
	if depth >= 5 && kind < 4 {
		kind = 4
	}
	switch kind {
	case 0:
		return slices.Concat([]byte{0x02, 0x40}, g.block(nil, depth+1), []byte{0x0b})
	case 1:
		return slices.Concat([]byte{0x03, 0x40}, g.block(nil, depth+1), []byte{0x0b})
	case 2:
		return slices.Concat(decide(2), []byte{0x04, 0x40}, g.block(nil, depth+1), []byte{0x0b})
	case 3:
		return slices.Concat(decide(2), []byte{0x04, 0x40}, g.block(nil, depth+1), []byte{0x05}, g.block(nil, depth+1), []byte{0x0b})
	case 4:
		return slices.Concat(decide(2), []byte{0x0d, label()})
	case 5:
		return slices.Concat(decide(4), []byte{0x0e, 2, label(), label(), label()})
	case 6:
		return count(1, []byte{0x0c, label()})
	default:
		n := g.pick("length", 20)
		return count(2*n, slices.Repeat([]byte{0x41, 0, 0x45, 0x1a}, n))
	}
}

func sleb(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// What a run costs, in numbers: so that a change of the scheme is seen. The host's
// call costs 16, which pays for as much of the function's entry: one and 15
// instructions that stand before each body.
func TestCosts(t *testing.T) {
	pair := section(1, void, []byte{0x60, 2, 0x7f, 0x7f, 2, 0x7f, 0x7f})
	tests := []struct {
		name string
		body []byte
		want int64
	}{
		{"nothing", nil, 1},
		{"block that passes four values", []byte{0x41, 0, 0x41, 0, 0x02, 1, 0x0b, 0x1a, 0x1a}, 1 + 2 + 4},
		{"call that passes four values, twice counted", []byte{0x41, 0, 0x41, 0, 0x10, 1, 0x1a, 0x1a}, 1 + 2 + 1 + 4 + 16},
		{"one instruction and its drop", []byte{0x41, 0, 0x1a}, 2},
		{"loop of one pass", []byte{0x03, 0x40, 0x0b}, 2},
		{"small arm not taken", []byte{0x41, 0, 0x04, 0x40, 0x41, 0, 0x1a, 0x0b}, 4},
		{"large arm not taken", slices.Concat([]byte{0x41, 0, 0x04, 0x40}, slices.Repeat([]byte{0x41, 0, 0x1a}, 20), []byte{0x0b}), 3},
		{"large arm taken", slices.Concat([]byte{0x41, 1, 0x04, 0x40}, slices.Repeat([]byte{0x41, 0, 0x1a}, 20), []byte{0x0b}), 23},
		{"large arm skipped by a branch", slices.Concat([]byte{0x02, 0x40, 0x41, 1, 0x0d, 0}, slices.Repeat([]byte{0x41, 0, 0x1a}, 20), []byte{0x0b}), 3},
		{"case of a switch", slices.Concat([]byte{0x02, 0x40, 0x02, 0x40, 0x02, 0x40, 0x41, 1, 0x0e, 2, 0, 1, 2, 0x0b},
			slices.Repeat([]byte{0x41, 0, 0x1a}, 10), []byte{0x0c, 1, 0x0b}, // case 0
			slices.Repeat([]byte{0x41, 0, 0x1a}, 12), []byte{0x0c, 0, 0x0b}), // case 1
			1 + 2 + 13},
		{"ref.func", []byte{0xd2, 0, 0x1a}, 1 + 1},
		{"call of a longer function", []byte{0x10, 2}, 1 + 1 + 16 + (1 + 20 - 16)},
	}
	one := []byte{0x41, 0, 0x1a}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, 1<<40)
			m, err := h.start(t, rewrite(t, build(pair, section(3, []byte{0}, []byte{1}, []byte{0}), export,
				section(10, code(slices.Concat(slices.Repeat(one, 15), tt.body)...), code(0x20, 0, 0x20, 1),
					code(slices.Repeat(one, 20)...)))).Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.ExportedFunction("_start").Call(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := h.used(m); got != 15+tt.want {
				t.Errorf("used %d, want %d", got, 15+tt.want)
			}
		})
	}
}
