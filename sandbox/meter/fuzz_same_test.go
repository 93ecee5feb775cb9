package meter_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/sandbox/meter"
)

// Whatever the module: rewritten, it gives the results, the traps and the memory
// of the original, function by function, for as long as its fuel lasts. The
// seeds are our guests and modules of the specification's corpus.
func FuzzSame(f *testing.F) {
	files, err := filepath.Glob("testdata/*.wasm")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	corpus, err := filepath.Glob(filepath.Join(specDir(f), "*.wasm"))
	if err != nil || len(corpus) == 0 {
		f.Fatalf("no corpus: %v", err)
	}
	for i, name := range append(files, corpus...) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if i < len(files) || len(b) < 3_000 && i%10 == 0 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 5_000 || growsTable(wasm) {
			return
		}
		m, err := meter.Rewrite(wasm, meter.Limits{Stack: 1 << 20, TableItems: 10_000})
		if err != nil || len(m.Imports) > 0 {
			return
		}
		a, z := newPair(t, bare(wasm), m.Wasm)
		if a == nil {
			return
		}
		for _, e := range m.Exports {
			if e.Kind == meter.Func && !a.same(t, z, m, e) {
				return
			}
		}
	})
}

// bare is a module, which can be split into sections, without its custom ones:
// those that the engine reads can hold it up for as long as it likes.
func bare(wasm []byte) []byte {
	b := slices.Clone(wasm[:8])
	for rest := wasm[8:]; len(rest) > 0; {
		id, size, n := sectionHead(rest)
		if id != 0 {
			b = append(b, rest[:n+size]...)
		}
		rest = rest[n+size:]
	}
	return b
}

// sectionHead reads a section's identifier and size, and gives the size of both.
func sectionHead(b []byte) (id byte, size, n int) {
	s, n := binary.Uvarint(b[1:])
	return b[0], int(s), 1 + n
}

// growsTable tells whether there may be a table.grow, which nothing bounds in the
// original: it can end the process.
func growsTable(wasm []byte) bool {
	for i, c := range wasm {
		if c != 0xfc {
			continue
		}
		if op, n := binary.Uvarint(wasm[i+1:]); n > 0 && op == 15 {
			return true
		}
	}
	return false
}

// side is one of the two instances that are compared.
type side struct {
	api.Module
	ctx     context.Context
	stopped *error // why it was stopped, which the original is not
}

// newPair instantiates the original and what it was rewritten to. It gives nil
// if there is nothing to compare.
func newPair(t *testing.T, plain, metered []byte) (a, z *side) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithMemoryLimitPages(16)
	ra := wazero.NewRuntimeWithConfig(ctx, config.WithCloseOnContextDone(true))
	rz := wazero.NewRuntimeWithConfig(ctx, config)
	t.Cleanup(func() { ra.Close(ctx); rz.Close(ctx) })
	account := &meter.Account{Budget: 200_000, Slice: 64}
	var stopped error
	_, err := rz.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().WithFunc(func(fuel, stack int64) int64 {
		next, err := account.Yield(fuel, stack)
		if err != nil {
			stopped = err
			panic(err)
		}
		return next
	}).Export(meter.YieldFunc).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := ra.CompileModule(ctx, plain)
	if err != nil {
		return nil, nil
	}
	cz, err := rz.CompileModule(ctx, metered)
	if err != nil {
		t.Fatalf("wazero accepts the original and refuses it rewritten: %v", err)
	}
	conf := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	mz, ez := rz.InstantiateModule(ctx, cz, conf)
	if stopped != nil {
		return nil, nil
	}
	ma, ea := ra.InstantiateModule(ctx, ca, conf)
	if cause(ea) != cause(ez) {
		t.Fatalf("instantiate: %v plain, %v rewritten", ea, ez)
	}
	if ea != nil {
		return nil, nil
	}
	return &side{Module: ma, ctx: ctx}, &side{Module: mz, ctx: ctx, stopped: &stopped}
}

// same calls an export on both sides and compares. It gives false when the
// rewritten one was stopped.
func (a *side) same(t *testing.T, z *side, m *meter.Module, e meter.Export) bool {
	if slices.Contains(e.Type.Params, 0x7b) || slices.Contains(e.Type.Results, 0x7b) {
		return true
	}
	args := make([]uint64, len(e.Type.Params))
	for i, p := range e.Type.Params {
		if p >= 0x7c { // numbers; references are null
			args[i] = uint64(i + 3)
		}
	}
	rz, ez := z.ExportedFunction(e.Name).Call(z.ctx, args...)
	if *z.stopped != nil {
		if !errors.Is(ez, *z.stopped) {
			t.Fatalf("%q went on after it was stopped: %v", e.Name, ez)
		}
		return false
	}
	ra, ea := a.ExportedFunction(e.Name).Call(a.ctx, args...)
	if cause(ea) != cause(ez) || len(ra) != len(rz) {
		t.Fatalf("%q: %v, %v plain and %v, %v rewritten", e.Name, ra, ea, rz, ez)
	}
	for i, typ := range e.Type.Results {
		if ea == nil && !sameValue(typ, ra[i], rz[i]) {
			t.Fatalf("%q = %v plain, %v rewritten", e.Name, ra, rz)
		}
	}
	if m.HasMemory {
		ba, _ := a.Memory().Read(0, a.Memory().Size())
		bz, _ := z.Memory().Read(0, z.Memory().Size())
		if !bytes.Equal(ba, bz) {
			t.Fatalf("%q leaves another memory", e.Name)
		}
	}
	if ea != nil { // the instance lives on only here
		z.ExportedGlobal(meter.StackGlobal).(api.MutableGlobal).Set(1 << 20)
	}
	return true
}

// sameValue compares values of a type. References are addresses, so only whether
// they are null counts; what bits a NaN has is open.
func sameValue(typ byte, a, z uint64) bool {
	switch typ {
	case 0x70, 0x6f:
		return (a == 0) == (z == 0)
	case 0x7d:
		x, y := math.Float32frombits(uint32(a)), math.Float32frombits(uint32(z))
		return uint32(a) == uint32(z) || x != x && y != y
	case 0x7c:
		x, y := math.Float64frombits(a), math.Float64frombits(z)
		return a == z || x != x && y != y
	}
	return a == z
}
