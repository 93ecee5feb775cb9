package meter_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"

	"github.com/callgate/callgate/sandbox/meter"
)

func TestKernelsGiveTheSameResults(t *testing.T) {
	calls := []struct {
		wasm, f string
		args    []uint64
	}{
		{"tiny", "add", []uint64{3, 4}},
		{"tiny", "loop", []uint64{1000}},
		{"compute_c", "sha", []uint64{1}},
		{"compute_c", "matmul", []uint64{1}},
		{"compute_c", "sieve", []uint64{1}},
		{"compute_c", "fib", []uint64{20}},
		{"compute_c", "scan", []uint64{2}},
	}
	for _, c := range calls {
		t.Run(c.wasm+" "+c.f, func(t *testing.T) {
			plain := file(t, c.wasm)
			var got [2]string
			for i, wasm := range [][]byte{plain, rewrite(t, plain).Wasm} {
				h := newHost(t, 1<<60)
				m, err := h.start(t, wasm, wazero.NewModuleConfig())
				if err != nil {
					t.Fatal(err)
				}
				r, err := m.ExportedFunction(c.f).Call(t.Context(), c.args...)
				if err != nil {
					t.Fatal(err)
				}
				got[i] = fmt.Sprint(r)
				if i == 1 && h.yields == 0 {
					t.Error("the host was never asked")
				}
			}
			if got[0] != got[1] {
				t.Errorf("%s%v = %s rewritten, %s plain", c.f, c.args, got[1], got[0])
			}
		})
	}
}

// command runs a wasip1 command and gives its output and, if it was rewritten,
// the fuel it used.
func command(t *testing.T, wasm []byte, stdin string, slice int64) (string, int64) {
	t.Helper()
	h := newHost(t, 1<<60)
	h.account.Slice = slice
	var out, errs bytes.Buffer
	m, err := h.start(t, wasm, wazero.NewModuleConfig().WithArgs("guest").
		WithStdin(strings.NewReader(stdin)).WithStdout(&out).WithStderr(&errs))
	if err != nil {
		t.Fatal(err)
	}
	fuel := m.ExportedGlobal(meter.FuelGlobal)
	if _, err := m.ExportedFunction("_start").Call(t.Context()); err != nil && !strings.Contains(err.Error(), "exit_code(0)") {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	if fuel == nil {
		return out.String(), 0
	}
	return out.String(), h.account.Used(int64(fuel.Get()))
}

func TestCommandsPrintTheSame(t *testing.T) {
	guests := []struct {
		name string
		wasm func(t *testing.T) []byte
		want string
	}{
		{"c", func(t *testing.T) []byte { return file(t, "hello_c") }, "{\"ok\":true,\"n\":7}\n"},
		{"go", func(t *testing.T) []byte { return goGuest(t) }, "[a b c] {\"a\":2,\"b\":1,\"c\":1} 54725 runtime error: index out of range [4] with length 0 10000\n"},
	}
	for _, g := range guests {
		t.Run(g.name, func(t *testing.T) {
			wasm := g.wasm(t)
			m := rewrite(t, wasm)
			if len(m.Wasm) > len(wasm)*3/2 {
				t.Errorf("rewritten module has %d bytes, the original %d", len(m.Wasm), len(wasm))
			}
			if raceEnabled && len(wasm) > 1<<20 {
				return
			}
			plain, _ := command(t, wasm, "a b a c", 1)
			if plain != g.want {
				t.Fatalf("plain guest printed %q, want %q", plain, g.want)
			}
			metered, used := command(t, m.Wasm, "a b a c", meter.DefaultSlice)
			if metered != g.want || used <= 0 {
				t.Errorf("rewritten guest printed %q with %d fuel, want %q", metered, used, g.want)
			}
		})
	}
}

// The same program uses the same fuel: in each run, and however large the slices.
func TestFuelIsDeterministic(t *testing.T) {
	m := rewrite(t, file(t, "hello_c"))
	_, want := command(t, m.Wasm, "hello", meter.DefaultSlice)
	for _, slice := range []int64{meter.DefaultSlice, 1000, 1} {
		if _, got := command(t, m.Wasm, "hello", slice); got != want {
			t.Errorf("used %d with slices of %d, want %d", got, slice, want)
		}
	}
	if _, other := command(t, m.Wasm, "hello, world", 1000); other == want {
		t.Errorf("other input used the same %d fuel", other)
	}
	if again := rewrite(t, file(t, "hello_c")); !bytes.Equal(again.Wasm, m.Wasm) {
		t.Error("rewriting twice gives different modules")
	}
}

func goGuest(t *testing.T, flags ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", out, "./testdata/goguest"})...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the guest: %v\n%s", err, b)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestModuleTellsWhatItNeeds(t *testing.T) {
	i32 := byte(0x7f)
	wasm := build(
		section(1, []byte{0x60, 1, i32, 0}, []byte{0x60, 0, 1, 0x7e}),
		section(2, cat(str("wasi_snapshot_preview1"), str("proc_exit"), []byte{0, 0})),
		section(3, []byte{1}, []byte{0}),
		section(4, []byte{0x70, 0, 1}),
		section(5, []byte{1, 2, 5}),
		section(6, []byte{i32, 1, 0x41, 7, 0x0b}),
		section(7, cat(str("f"), []byte{0, 1}), cat(str("memory"), []byte{2, 0}), cat(str("t"), []byte{1, 0}), cat(str("g"), []byte{3, 0}), cat(str("exit"), []byte{0, 0})),
		section(10, code(0x42, 1), code()),
	)
	m := rewrite(t, wasm)
	exit := meter.FuncType{Params: []byte{i32}}
	want := &meter.Module{
		Wasm:    m.Wasm,
		Imports: []meter.Import{{Module: "wasi_snapshot_preview1", Name: "proc_exit", Type: exit}},
		Exports: []meter.Export{
			{Name: "f", Kind: meter.Func, Type: meter.FuncType{Results: []byte{0x7e}}},
			{Name: "memory", Kind: meter.Memory},
			{Name: "t", Kind: meter.Table},
			{Name: "g", Kind: meter.Global},
			{Name: "exit", Kind: meter.Func, Type: exit},
		},
		HasMemory: true, MemoryMin: 2, MemoryMax: 5,
	}
	if d := cmp.Diff(want, m); d != "" {
		t.Errorf("Rewrite() (-want +got):\n%s", d)
	}
	if m := rewrite(t, build(section(5, []byte{0, 3}))); m.MemoryMin != 3 || m.MemoryMax != 65536 {
		t.Errorf("memory without a maximum is %d to %d pages", m.MemoryMin, m.MemoryMax)
	}
	if m := rewrite(t, magic); m.HasMemory || m.HasStart || len(m.Imports)+len(m.Exports) != 0 {
		t.Errorf("empty module gives %+v", m)
	}
	if m := rewrite(t, file(t, "startinf")); !m.HasStart {
		t.Error("start function not told")
	}
}
