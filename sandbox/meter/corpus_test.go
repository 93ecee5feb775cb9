package meter_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/callgate/callgate/sandbox/meter"
)

const fixtures = "../../../shared/fixtures"

func glob(tb testing.TB, least int, pattern string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(fixtures, pattern))
	if err != nil || len(files) < least {
		tb.Fatalf("%d files are like %s, want %d: %v", len(files), pattern, least, err)
	}
	return files
}

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// The public test programs of WASI, from C, Rust and AssemblyScript, exit and
// print the same whether rewritten or not. That is not always what they should:
// this WASI is the engine's.
func TestWASIProgramsDoTheSame(t *testing.T) {
	for i, program := range glob(t, 72, "wasi-testsuite/*/*.wasm") {
		if i%6 != 0 && strings.Contains(program, "/rust/") || raceEnabled && i%12 != 0 {
			continue // the sandbox runs them all
		}
		t.Run(filepath.Base(program), func(t *testing.T) {
			var about struct {
				Args []string
				Env  map[string]string
				Root string
			}
			if b, err := os.ReadFile(strings.TrimSuffix(program, ".wasm") + ".json"); err == nil {
				if err := json.Unmarshal(b, &about, json.MatchCaseInsensitiveNames(true)); err != nil {
					t.Fatal(err)
				}
			}
			plain := read(t, program)
			var ends [2]string
			for i, wasm := range [][]byte{plain, rewrite(t, plain).Wasm} {
				h := newHost(t, 1<<60)
				var out, errs bytes.Buffer
				conf := wazero.NewModuleConfig().WithStdout(&out).WithStderr(&errs).WithArgs(append([]string{"program"}, about.Args...)...)
				for k, v := range about.Env {
					conf = conf.WithEnv(k, v)
				}
				if about.Root != "" {
					dir := t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(filepath.Join(filepath.Dir(program), about.Root))); err != nil {
						t.Fatal(err)
					}
					conf = conf.WithFSConfig(wazero.NewFSConfig().WithDirMount(dir, "/"))
				}
				m, err := h.start(t, wasm, conf)
				if err == nil {
					_, err = m.ExportedFunction("_start").Call(t.Context())
				}
				if exit, ok := errors.AsType[*sys.ExitError](err); ok {
					err = fmt.Errorf("exit %d", exit.ExitCode())
				}
				ends[i] = fmt.Sprintf("%s\n%s\n%s", cause(err), out.String(), errs.String())
			}
			if ends[0] != ends[1] {
				t.Errorf("rewritten it ends with\n%s\nplain with\n%s", ends[1], ends[0])
			}
		})
	}
}

// What toolchains write is within the limits, with room: with limits half as high
// it is, too.
func TestLimitsFitToolchains(t *testing.T) {
	def := meter.DefaultLimits()
	half := meter.Limits{
		Module: def.Module / 2, Types: def.Types / 2, Params: def.Params / 2, Imports: def.Imports / 2, Exports: def.Exports / 2,
		Functions: def.Functions / 2, Globals: def.Globals / 2, Data: def.Data / 2, Elements: def.Elements / 2,
		ElementItems: def.ElementItems / 2, Tables: def.Tables / 2, TableItems: def.TableItems / 2, Body: def.Body / 2,
		Locals: def.Locals / 2, AllLocals: def.AllLocals / 2, Work: def.Work / 2, Fans: def.Fans / 2, Blocks: def.Blocks / 2,
		Nesting: def.Nesting, Loops: def.Loops / 2, BrTable: def.BrTable / 2,
	}
	modules := map[string][]byte{
		"Go command": goGuest(t),
		"Go reactor": goGuest(t, "-buildmode=c-shared"),
		"C":          file(t, "hello_c"),
		"C reactor":  file(t, "compute_c"),
		"QuickJS":    read(t, "../testdata/quickjs.wasm"),
	}
	for _, name := range slices.Concat(glob(t, 72, "wasi-testsuite/*/*.wasm"), glob(t, 2, "components/p1-*.wasm"), glob(t, 1, "hostile-guests/as.wasm")) {
		modules[strings.TrimPrefix(name, fixtures+"/")] = read(t, name)
	}
	// The first core module of a component is the tool's own.
	for _, name := range []string{"tool-c", "tool-rust"} {
		component := read(t, filepath.Join(fixtures, "components", name+".wasm"))
		modules[name] = coreModule(t, component)
	}
	for name, wasm := range modules {
		limits := half
		if strings.HasPrefix(name, "Go") {
			limits.Data = 0 // 36,000 segments, and more in a larger program
		}
		if _, err := meter.Rewrite(wasm, limits); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// coreModule is the first core module in a component.
func coreModule(t *testing.T, component []byte) []byte {
	t.Helper()
	for rest := component[8:]; len(rest) > 0; {
		id, size, n := sectionHead(rest)
		if id == 1 {
			return rest[n : n+size]
		}
		rest = rest[n+size:]
	}
	t.Fatal("no core module")
	return nil
}
