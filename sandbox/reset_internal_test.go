package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/meter"
)

// bench is a sandbox whose instances a test holds in its hands.
type bench struct {
	*Sandbox
	fx *hostfx.Effects
}

func newBench(t *testing.T) *bench {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(t.Context(), Options{})
	ok(err)
	t.Cleanup(func() { ok(s.Close(context.Background())) })
	host, err := hostfx.New(hostfx.Options{})
	ok(err)
	t.Cleanup(func() { host.Close() })
	args, err := call.Canonical([]byte(`{}`))
	ok(err)
	fx, err := host.Open(t.Context(), granttest.Mint(t, "sha256:0", args, call.Caps{}))
	ok(err)
	t.Cleanup(func() { fx.Close() })
	return &bench{s, fx}
}

func (b *bench) guest(t *testing.T, name string) *guest {
	t.Helper()
	wasm, err := os.ReadFile("testdata/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Install(t.Context(), call.Digest(wasm), wasm); err != nil {
		t.Fatal(err)
	}
	return b.Sandbox.guest(call.Digest(wasm))
}

// run is a run with so much memory that has begun nothing.
func (b *bench) run(memory int64) *run {
	return newRun(context.Background(), b.Sandbox, b.fx, call.Args{}, boundsOf(call.Bounds{MemoryBytes: memory}))
}

// state is all that code can change.
func (i *instance) state() ([]byte, []uint64) {
	var globals []uint64
	for _, g := range i.globals {
		globals = append(globals, g.Get())
	}
	return bytes.Clone(i.memory.space[:i.memory.size]), globals
}

// Whatever a guest writes, and wherever: once the instance is reset, the whole
// memory and all globals are what they were, however the system finds what was
// written. An instance whose memory grew is not reset; its memory alone is.
func TestResetRestoresEverything(t *testing.T) {
	b := newBench(t)
	g := b.guest(t, "scribble")
	const limit, first = 32 * meter.PageSize, 4 * meter.PageSize
	edges := []uint64{0, 8, 4088, 4090, 4096, 8191, 16384, 65528, 65536, 100000, 131064, first - 8}
	rapid.Check(t, func(t *rapid.T) {
		g := g
		if rapid.Bool().Draw(t, "without files in memory") {
			parts := *g.parts
			parts.image = copiedImage(len(parts.image.content), func(b []byte) { copy(b, g.parts.image.content) })
			g = &guest{compiled: g.compiled, memoryMin: g.memoryMin, memoryMax: g.memoryMax, init: g.init, entry: g.entry, parts: &parts}
		}
		r := b.run(limit)
		ctx := context.WithValue(r.ctx, runKey{}, r)
		i, err := r.instantiate(ctx, g, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer i.close(ctx)
		memory, globals := i.state()
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			do := func(name string, args ...uint64) []uint64 {
				res, err := i.module.ExportedFunction(name).Call(ctx, args...)
				if err != nil {
					t.Fatalf("%s%d: %v", name, args, err)
				}
				return res
			}
			at := func(n uint64) uint64 {
				at := rapid.SampledFrom(edges).Draw(t, "at") + rapid.Uint64Range(0, 9).Draw(t, "after")
				if rapid.Bool().Draw(t, "anywhere") {
					at = rapid.Uint64Range(0, first).Draw(t, "at")
				}
				return min(at, first-n)
			}
			grown := false
			for range rapid.IntRange(0, 12).Draw(t, "steps") {
				switch rapid.IntRange(0, 6).Draw(t, "step") {
				case 0, 1:
					do("store", at(8), rapid.Uint64().Draw(t, "value"))
				case 2:
					n := rapid.Uint64Range(0, first).Draw(t, "n")
					do("fill", at(n), rapid.Uint64Range(0, 255).Draw(t, "byte"), n)
				case 3:
					n := rapid.Uint64Range(0, 9000).Draw(t, "n")
					do("copy", at(n), at(n), n)
				case 4:
					do("globals", rapid.Uint64Range(0, 1<<32-1).Draw(t, "a"), rapid.Uint64().Draw(t, "b"), rapid.Uint64Range(0, 1<<32-1).Draw(t, "c"), rapid.Uint64().Draw(t, "d"))
				case 5:
					do("read", at(8))
				case 6:
					n := rapid.SampledFrom([]uint64{0, 1, 29, 100, 1<<32 - 1}).Draw(t, "pages")
					res := do("grow", n)
					grown = grown || n > 0 && api.DecodeI32(res[0]) >= 0
				}
			}
			if grown && i.reset() {
				t.Fatal("an instance whose memory grew was reset")
			}
			if grown || rapid.IntRange(0, 3).Draw(t, "trapped") == 0 {
				most := i.memory.size
				r = b.run(limit)
				ctx = context.WithValue(r.ctx, runKey{}, r)
				r.memory = i.bare(ctx).memory
				if i, err = r.instantiate(ctx, g, nil); err != nil {
					t.Fatal(err)
				}
				defer i.close(ctx)
				if now, _ := i.state(); !bytes.Equal(now, memory) {
					t.Fatal("memory that is used again is not what it was")
				}
				if more := most - first; more > 0 {
					do("grow", more/meter.PageSize)
					if rest, _ := i.state(); len(bytes.TrimLeft(rest[first:], "\x00")) > 0 {
						t.Fatal("memory that grows again is not zero")
					}
					return
				}
			}
			blind := func([]byte, func(int, int)) bool { return false }
			switch rapid.IntRange(0, 3).Draw(t, "system") {
			case 0: // cannot tell what was written
				i.restore()
				i.memory.restore(blind, forget)
			case 1: // and cannot give pages back
				i.restore()
				i.memory.restore(blind, func([]byte) error { return errors.ErrUnsupported })
			default:
				if !i.reset() {
					t.Fatal("the instance was not reset")
				}
			}
			now, values := i.state()
			if !bytes.Equal(now, memory) {
				at := 0
				for now[at] == memory[at] {
					at++
				}
				t.Fatalf("after a reset byte %d is %#x, and was %#x", at, now[at], memory[at])
			}
			if !slices.Equal(values, globals) {
				t.Fatalf("after a reset globals are %x, and were %x", values, globals)
			}
		}
	})
}

// More than is worth keeping is given back, not copied.
func TestResetGivesBackWhatIsMuch(t *testing.T) {
	b := newBench(t)
	r := b.run(64 << 20)
	ctx := context.WithValue(r.ctx, runKey{}, r)
	i, err := r.instantiate(ctx, b.guest(t, "vast"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer i.close(ctx)
	memory, _ := i.state()
	for _, n := range []int{1, 64 << 10, keepWritten - 64<<10, keepWritten + 64<<10, len(memory)} {
		for at := range n {
			i.memory.space[at] = 0xee
		}
		if !i.reset() {
			t.Fatal("the instance was not reset")
		}
		if now, _ := i.state(); !bytes.Equal(now, memory) {
			t.Fatalf("after %d bytes were written the memory is not what it was", n)
		}
		if i.own > instanceSize+keepWritten+1<<20 {
			t.Errorf("after %d bytes were written %d are held", n, i.own)
		}
	}
}
