package meter_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/sandbox/meter"
)

const mib = 1 << 20

// bulkModule exports fill, copy, init, small and drop over a memory of so many
// pages, with a passive segment of 2.5 MiB and one of ten bytes.
func bulkModule(pages uint64) []byte {
	three, get := []byte{0x60, 3, 0x7f, 0x7f, 0x7f, 0}, []byte{0x20, 0, 0x20, 1, 0x20, 2}
	name := func(s string, i byte) []byte { return cat(str(s), []byte{0, i}) }
	large := bytes.Repeat([]byte("abcdefghijk"), 5*mib/2/11)
	return build(section(1, void, three), section(3, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{0}),
		section(5, cat([]byte{0}, uleb(pages))),
		section(7, name("fill", 0), name("copy", 1), name("init", 2), name("small", 3), name("drop", 4)), raw(12, []byte{2}),
		section(10, code(slices.Concat(get, []byte{0xfc, 11, 0})...), code(slices.Concat(get, []byte{0xfc, 10, 0, 0})...),
			code(slices.Concat(get, []byte{0xfc, 8, 0, 0})...), code(slices.Concat(get, []byte{0xfc, 8, 1, 0})...),
			code(0xfc, 9, 0, 0xfc, 9, 1)),
		section(11, cat([]byte{1}, uleb(uint64(len(large))), large), cat([]byte{1}, str("0123456789"))))
}

// What is done in chunks ends as what is done at once: in the same bytes, the
// same traps, before any write, and for the same fuel.
func TestBulkInChunksIsTheSame(t *testing.T) {
	const pages, size = 4 * mib / meter.PageSize, 4 * mib
	wasm := bulkModule(pages)
	plain, whole, chunks := newHost(t, 1<<60), newHost(t, 1<<60), newHost(t, 1<<60)
	whole.account.Slice, chunks.account.Slice = 1<<50, 1
	hosts := []*host{plain, whole, chunks}
	var compiled []wazero.CompiledModule
	for i, b := range [][]byte{wasm, rewrite(t, wasm).Wasm, rewrite(t, wasm).Wasm} {
		compiled = append(compiled, compiles(t, hosts[i], b))
	}
	pattern := make([]byte, size)
	for i := range pattern {
		pattern[i] = byte(i*2654435761>>7) ^ byte(i>>13)
	}
	ctx := context.Background()
	same := func(t failer, ops [][]any) {
		var insts []api.Module
		for i, h := range hosts {
			*h.account = meter.Account{Budget: h.account.Budget, Slice: h.account.Slice}
			m, err := h.InstantiateModule(ctx, compiled[i], wazero.NewModuleConfig().WithName(""))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close(ctx)
			m.Memory().Write(0, pattern)
			insts = append(insts, m)
		}
		for _, op := range ops {
			var args []uint64
			for _, a := range op[1:] {
				args = append(args, uint64(a.(int)))
			}
			var ends []string
			for _, m := range insts {
				_, err := m.ExportedFunction(op[0].(string)).Call(ctx, args...)
				ends = append(ends, cause(err))
			}
			first, _ := insts[0].Memory().Read(0, size)
			for i := 1; i < len(insts); i++ {
				b, _ := insts[i].Memory().Read(0, size)
				if ends[i] != ends[0] || !bytes.Equal(b, first) {
					t.Fatal(op, ends[0], "plain,", ends[i], "rewritten; memory is equal:", bytes.Equal(b, first))
				}
			}
			if a, b := whole.used(insts[1]), chunks.used(insts[2]); a != b {
				t.Fatal(op, "used", a, "at once,", b, "in chunks")
			}
		}
	}
	for _, ops := range [][][]any{
		{{"copy", mib - 1, mib, 3 * mib}, {"copy", mib + 1, 5, 3*mib - 1}, {"copy", 0, 3, size}, {"copy", 3, 0, size}, {"copy", 3, 0, size - 3}, {"copy", size, size, 0}, {"copy", size + 1, 0, 0}},
		{{"fill", 1, 300, size - 1}, {"fill", 2, 7, size - 1}, {"fill", size, 0, 0}, {"fill", size + 1, 0, 0}, {"fill", 0, 0, huge}},
		{{"init", 0, mib, 3 * mib / 2}, {"init", 0, mib + 20, 3 * mib / 2}, {"init", 3 * mib, 0, mib + 1}, {"init", 3 * mib, 0, mib}, {"init", 0, 5 * mib / 2, 1}, {"small", 0, 0, 10}, {"small", 0, 1, 10}},
		{{"init", 0, 0, 2 * mib}, {"drop"}, {"init", 0, 0, 2 * mib}, {"init", 0, 0, 0}, {"small", 0, 0, 1}},
	} {
		same(t, ops)
	}
	limit := 30
	if raceEnabled {
		limit = 3
	}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		if n++; n > limit { // each moves some 100 MiB
			return
		}
		place := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(size-3, size+3), rapid.IntRange(mib-2, mib+2),
			rapid.IntRange(2*mib-2, 2*mib+2), rapid.IntRange(0, size), rapid.Just(huge))
		var ops [][]any
		for range rapid.IntRange(1, 6).Draw(t, "operations") {
			op := rapid.SampledFrom([]string{"fill", "copy", "copy", "copy", "init", "init", "small", "drop"}).Draw(t, "op")
			to, from := place.Draw(t, "to"), place.Draw(t, "from")
			if rapid.Bool().Draw(t, "near") { // so that they overlap
				from = max(0, to+rapid.IntRange(-2, 2).Draw(t, "distance"))
			}
			if op == "drop" {
				ops = append(ops, []any{op})
			} else {
				ops = append(ops, []any{op, to, from, place.Draw(t, "n")})
			}
		}
		same(t, ops)
	})
}

// The host is asked at least once for each MiB, and when it stops the guest, the
// rest is not done.
func TestBulkIsStoppedInTheMiddle(t *testing.T) {
	const size = 64 * mib
	m := rewrite(t, bulkModule(size/meter.PageSize))
	tests := []struct {
		op         string
		args       []uint64
		done, left uint32 // addresses
	}{
		{"fill", []uint64{0, 7, size}, 0, size - 1},
		{"copy", []uint64{0, mib, size - mib}, 0, size - 2*mib},
		{"copy", []uint64{mib, 0, size - mib}, size - 1, mib},
		{"init", []uint64{0, 0, 2 * mib}, 0, 2*mib - 1},
	}
	for _, tt := range tests {
		t.Run(tt.op, func(t *testing.T) {
			h := newHost(t, 1<<40)
			h.account.Slice = meter.DefaultSlice
			if tt.op == "init" {
				h.account.Slice = 1000 // a slice would pay for all of it
			}
			i, err := h.start(t, m.Wasm, wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			if tt.op == "copy" {
				all, _ := i.Memory().Read(0, size)
				for at := 0; at < size; at += mib {
					copy(all[at:at+mib], bytes.Repeat([]byte{byte(at/mib) + 1}, mib))
				}
			}
			before := make(map[uint32]byte)
			for _, at := range []uint32{tt.done, tt.left} {
				before[at], _ = i.Memory().ReadByte(at)
			}
			h.yields, h.most = 0, 2
			if _, err := i.ExportedFunction(tt.op).Call(t.Context(), tt.args...); !errors.Is(err, errStopped) {
				t.Fatalf("ended with %v, want %v", err, errStopped)
			}
			if b, _ := i.Memory().ReadByte(tt.done); b == before[tt.done] {
				t.Errorf("nothing was done before the stop")
			}
			if b, _ := i.Memory().ReadByte(tt.left); b != before[tt.left] {
				t.Errorf("all was done before the stop")
			}
		})
	}
	h := newHost(t, 1<<40)
	h.account.Slice = meter.DefaultSlice
	i, err := h.start(t, m.Wasm, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.ExportedFunction("fill").Call(t.Context(), 0, 7, size); err != nil || h.yields < size/mib {
		t.Errorf("fill of %d MiB asked the host %d times, %v", size/mib, h.yields, err)
	}
}
