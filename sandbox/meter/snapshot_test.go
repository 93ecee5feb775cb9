package meter_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/sandbox/meter"
)

func parts(tb failer, wasm []byte) *meter.Parts {
	tb.Helper()
	m, err := meter.Rewrite(wasm, meter.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	p, err := m.Parts()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func compiles(tb failer, h *host, wasm []byte) wazero.CompiledModule {
	tb.Helper()
	cm, err := h.CompileModule(context.Background(), wasm)
	if err != nil {
		tb.Fatal(err)
	}
	return cm
}

// What code does decides what a reset restores, and whether data may go.
func TestWhatCanBeTakenApart(t *testing.T) {
	drop, i32, i64 := byte(0x1a), byte(0x7f), byte(0x7e)
	// with gives a module with everything that the body may name.
	with := func(body ...byte) []byte {
		return build(types, funcs, section(4, []byte{0x70, 0, 4}), section(5, []byte{0, 1}),
			section(6, []byte{i32, 1, 0x41, 7, 0x0b}, []byte{i64, 0, 0x42, 9, 0x0b}), export,
			section(9, []byte{0, 0x41, 0, 0x0b, 1, 0}, []byte{1, 0, 1, 0}), raw(12, []byte{1}),
			section(10, code(body...)), section(11, cat([]byte{0, 0x41, 8, 0x0b}, str("data"))))
	}
	three := []byte{0x41, 0, 0x41, 0, 0x41, 0}
	globals := func(g ...[]byte) []byte { return build(types, funcs, section(6, g...), export, section(10, code())) }
	data := func(s ...[]byte) []byte {
		return build(types, funcs, section(5, []byte{0, 1}), section(6, []byte{i32, 0, 0x41, 7, 0x0b}), export, section(10, code()), section(11, s...))
	}
	segment := func(offset ...byte) []byte { return cat([]byte{0}, offset, []byte{0x0b}, str("data")) }
	tests := []struct {
		name          string
		wasm          []byte
		split, resets bool
	}{
		{"nothing", with(), true, true},
		{"memory.fill", with(append(three, 0xfc, 11, 0)...), true, true},
		{"memory.copy", with(append(three, 0xfc, 10, 0, 0)...), true, true},
		{"memory.grow", with(0x41, 0, 0x40, 0, drop), true, true},
		{"table.get", with(0x41, 0, 0x25, 0, drop), true, true},
		{"table.size", with(0xfc, 16, 0, drop), true, true},
		{"table.set", with(0x41, 0, 0xd0, 0x70, 0x26, 0), true, false},
		{"table.grow", with(0xd0, 0x70, 0x41, 0, 0xfc, 15, 0, drop), true, false},
		{"table.fill", with(0x41, 0, 0xd0, 0x70, 0x41, 0, 0xfc, 17, 0), true, false},
		{"table.copy", with(append(three, 0xfc, 14, 0, 0)...), true, false},
		{"table.init", with(append(three, 0xfc, 12, 1, 0)...), true, false},
		{"elem.drop", with(0xfc, 13, 1), true, false},
		{"ref.func", with(0xd2, 0, drop), true, true},
		{"memory.init", with(append(three, 0xfc, 8, 0, 0)...), false, false},
		{"data.drop", with(0xfc, 9, 0), false, false},
		{"padded opcode", with(0xfc, 0x8d, 0x80, 0, 1), true, false},

		{"numbers", globals([]byte{i32, 1, 0x41, 1, 0x0b}, []byte{0x7d, 1, 0x43, 0, 0, 0, 0, 0x0b}, cat([]byte{0x7c, 1, 0x44}, make([]byte, 8), []byte{0x0b})), true, true},
		{"vector", globals(cat([]byte{0x7b, 1, 0xfd, 12}, make([]byte, 16), []byte{0x0b})), true, false},
		{"fixed vector", globals(cat([]byte{0x7b, 0, 0xfd, 12}, make([]byte, 16), []byte{0x0b})), true, true},
		{"reference", globals([]byte{0x70, 1, 0xd0, 0x70, 0x0b}), true, false},
		{"fixed reference", globals([]byte{0x70, 0, 0xd2, 0, 0x0b}), true, true},

		{"segments", data(segment(0x41, 0), segment(0x41, 0xfc, 0xff, 3)), true, true},
		{"beyond the end", data(segment(0x41, 0xfd, 0xff, 3)), false, false},
		{"negative offset", data(segment(0x41, 0x7f)), false, false},
		{"offset in a global", data(segment(0x23, 0)), false, false},
		{"nobody names it", data(cat([]byte{1}, str("passive"))), true, true},
	}
	h := newHost(t, 1<<60)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := parts(t, tt.wasm)
			if p.Split != tt.split || p.Resets != tt.resets {
				t.Errorf("Split, Resets = %v, %v, want %v, %v", p.Split, p.Resets, tt.split, tt.resets)
			}
			if p.Resets != (p.Globals != nil) {
				t.Errorf("Globals = %q", p.Globals)
			}
			if tt.name == "offset in a global" {
				return // the engine has no globals that it could be in
			}
			if got := len(compiles(t, h, p.Wasm).ExportedFunctions()); got != 1 {
				t.Errorf("%d functions are exported", got)
			}
		})
	}
}

// Every mutable global can be read and written by its name, and nothing else.
func TestGlobalsAreExported(t *testing.T) {
	i32, i64 := byte(0x7f), byte(0x7e)
	p := parts(t, build(types, funcs, section(6, []byte{i32, 0, 0x41, 1, 0x0b}, []byte{i32, 1, 0x41, 2, 0x0b}, []byte{i64, 1, 0x42, 3, 0x0b}), export, section(10, code())))
	h := newHost(t, 1<<60)
	m, err := h.start(t, p.Wasm, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, name := range p.Globals {
		if !strings.HasPrefix(name, meter.ImportModule+"/") {
			t.Errorf("a guest could export %q", name)
		}
		g, ok := m.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			t.Fatalf("%q is no mutable global", name)
		}
		got = append(got, g.Get())
	}
	if want := []uint64{2, 3, 0, 16 << 20}; !slices.Equal(got, want) {
		t.Errorf("globals are %d, want %d", got, want)
	}
	if !slices.Contains(p.Globals, meter.FuelGlobal) || !slices.Contains(p.Globals, meter.StackGlobal) {
		t.Errorf("the injected globals are not among %q", p.Globals)
	}
}

// A start function runs when the host says so, once.
func TestStartIsTheHosts(t *testing.T) {
	wasm := build(types, funcs, section(6, []byte{0x7f, 1, 0x41, 5, 0x0b}), section(7, cat(str("n"), []byte{3, 0})), raw(8, []byte{0}),
		section(10, code(0x23, 0, 0x41, 1, 0x6a, 0x24, 0)))
	p := parts(t, wasm)
	h := newHost(t, 1<<60)
	m, err := h.start(t, p.Wasm, wazero.NewModuleConfig())
	if err != nil || !p.HasStart {
		t.Fatal(err, p.HasStart)
	}
	for i := range uint64(2) {
		if got := m.ExportedGlobal("n").Get(); got != 5+i {
			t.Errorf("after %d runs it is %d", i, got)
		}
		if _, err := m.ExportedFunction(meter.StartFunc).Call(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Data applied to zeroes is what instantiating gives, for any segments that fit;
// those that do not stay where they are, and trap there.
func TestDataIsWhatTheEngineWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(0, 3).Draw(t, "pages")
		var segments [][]byte
		for range rapid.IntRange(0, 6).Draw(t, "segments") {
			near := rapid.SampledFrom([]int{0, 1, 4095, 4096, 65535, 65536, 131071, 196608, 1 << 31, 1<<32 - 1}).Draw(t, "near")
			offset := int64(int32(uint32(near - rapid.IntRange(0, 9).Draw(t, "before"))))
			b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
			head := []byte{0, 0x41}
			if rapid.Bool().Draw(t, "explicit") {
				head = []byte{2, 0, 0x41}
			}
			segments = append(segments, cat(head, sleb(offset), []byte{0x0b}, str(string(b))))
		}
		wasm := build(types, funcs, section(5, []byte{0, byte(pages)}), section(7, cat(str("memory"), []byte{2, 0})), section(10, code()), section(11, segments...))
		h := newHostIn(t, 1<<60)
		defer h.Close(context.Background())
		start := func(wasm []byte) ([]byte, error) {
			m, err := h.InstantiateModule(context.Background(), compiles(t, h, wasm), wazero.NewModuleConfig().WithName(""))
			if err != nil {
				return nil, err
			}
			b, _ := m.Memory().Read(0, m.Memory().Size())
			return b, nil
		}
		want, wantErr := start(wasm)
		p := parts(t, wasm)
		got, err := start(p.Wasm)
		for _, s := range p.Data {
			copy(got[s.Offset:], s.Bytes)
		}
		if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
			t.Fatalf("instantiating gives %v plain and %v taken apart, the same memory: %v", wantErr, err, bytes.Equal(got, want))
		}
		if wantErr != nil && p.Split {
			t.Fatal("a segment that does not fit was taken")
		}
	})
}
