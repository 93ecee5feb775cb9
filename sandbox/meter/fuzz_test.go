package meter_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/sandbox/meter"
)

// Whatever the bytes: no panic, an *Error or a module, the output within a small
// factor of the input, and what wazero accepts it accepts rewritten. Rewriting
// what was rewritten is refused, since it has our names.
func FuzzRewrite(f *testing.F) {
	files, err := filepath.Glob("testdata/*.wasm")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(magic)
	f.Add(one(0x02, 0x40, 0x03, 0x40, 0x41, 0, 0x0d, 1, 0x0c, 0, 0x0b, 0x0b))
	f.Add(one(0x41, 0, 0x04, 0x7f, 0x41, 1, 0x05, 0x41, 2, 0x0b, 0x1a, 0xd2, 0, 0x1a))
	f.Add(build(types, section(2, cat(str("m"), str("x"), []byte{0, 0})), section(3, []byte{0}), section(4, []byte{0x70, 0, 1}),
		section(5, []byte{0, 1}), section(6, []byte{0x70, 1, 0xd2, 1, 0x0b}), section(7, cat(str("f"), []byte{0, 1})), raw(8, []byte{1}),
		section(9, []byte{0, 0x41, 0, 0x0b, 1, 0}, []byte{5, 0x70, 1, 0xd2, 1, 0x0b}, []byte{3, 0, 1, 1}), raw(12, []byte{1}),
		section(10, code(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 0, 0x41, 0, 0x11, 0, 0, 0x41, 0, 0xfd, 0x11, 0xfd, 0x80, 1, 0x1a)),
		section(11, []byte{1, 1, 9})))

	l := meter.Limits{Locals: 1000, AllLocals: 10_000, Nesting: 50, Loops: 5, BrTable: 100, TableItems: 1000}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := meter.Rewrite(wasm, l)
		if err != nil {
			if reason(err) == "" || m != nil {
				t.Fatalf("Rewrite() = %v, %v, want an *Error alone", m, err)
			}
			return
		}
		if len(m.Wasm) > 16*len(wasm)+256 {
			t.Fatalf("%d bytes became %d", len(wasm), len(m.Wasm))
		}
		if _, err := meter.Rewrite(m.Wasm, l); reason(err) != meter.ReservedName {
			t.Fatalf("Rewrite() of what was rewritten = %v, want %s", err, meter.ReservedName)
		}
		if len(wasm) > 2_000 {
			return // the compiler is not what is tested
		}
		ctx := context.Background()
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2))
		defer r.Close(ctx)
		if _, err := r.CompileModule(ctx, bare(wasm)); err != nil {
			return
		}
		if _, err := r.CompileModule(ctx, m.Wasm); err != nil {
			t.Fatalf("wazero accepts the original and refuses it rewritten: %v", err)
		}
		p, err := m.Parts()
		if err != nil {
			t.Fatalf("Parts() = %v", err)
		}
		if _, err := r.CompileModule(ctx, p.Wasm); err != nil {
			t.Fatalf("wazero accepts the original and refuses it taken apart: %v", err)
		}
	})
}
