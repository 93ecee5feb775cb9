package meter_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/sandbox/meter"
)

type specCommand struct {
	Type     string
	Line     int
	Filename string
	Action   specAction
}

type specAction struct {
	Type, Module, Field string
	Args                []specValue
}

// specValue is a number or a reference as a string, or a vector as a list of lanes.
type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    any
}

// Modules of the corpus that use what we refuse, by the reason.
var specRefused = []meter.Reason{
	meter.ImportedGlobal, meter.ImportedMemory, meter.ImportedTable,
	meter.TableTooLarge,
}

// The corpus of the WebAssembly specification, as wazero carries it: what wazero
// accepts is accepted after rewriting, or refused for a listed reason, and each
// action that the corpus runs ends as it does without rewriting.
func TestSpecCorpus(t *testing.T) {
	dir := specDir(t)
	scripts, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no corpus in %s: %v", dir, err)
	}
	var sum specSum
	t.Run("scripts", func(t *testing.T) {
		for i, s := range scripts {
			if raceEnabled && i%10 != 0 {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(s), ".json"), func(t *testing.T) {
				runSpec(t, dir, s, &sum)
			})
		}
	})
	t.Logf("%+v", sum)
	// A corpus that silently shrinks tests nothing.
	if !raceEnabled && (sum.Accepted < 1_000 || sum.Actions < 40_000) {
		t.Errorf("corpus is too small: %+v", sum)
	}
}

func specDir(tb testing.TB) string {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		tb.Fatalf("finding wazero: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "internal/integration_test/spectest/v2/testdata")
}

type specSum struct{ Accepted, Refused, Actions, Traps int }

func runSpec(t *testing.T, dir, script string, sum *specSum) {
	b, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Commands []specCommand }
	if err := json.Unmarshal(b, &s, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	plain, metered := newHost(t, 1<<50), newHost(t, 1<<50)
	if !raceEnabled {
		metered.account.Slice = 1 // so that the host is asked wherever it can be
	}
	spectest(t, plain)
	spectest(t, metered)
	var a, z api.Module // the current module, plain and rewritten
	for _, c := range s.Commands {
		switch c.Type {
		case "module":
			a, z = nil, nil
			wasm, err := os.ReadFile(filepath.Join(dir, c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			ca, err := plain.CompileModule(ctx, wasm)
			if err != nil {
				continue
			}
			r, err := meter.Rewrite(wasm, meter.Limits{})
			if err != nil {
				sum.Refused++
				if !slices.Contains(specRefused, reason(err)) {
					t.Errorf("%s: %v", c.Filename, err)
				}
				continue
			}
			sum.Accepted++
			cz, err := metered.CompileModule(ctx, r.Wasm)
			if err != nil {
				t.Errorf("%s: wazero refuses it rewritten: %v", c.Filename, err)
				continue
			}
			conf := wazero.NewModuleConfig().WithName("")
			var ea, ez error
			a, ea = plain.InstantiateModule(ctx, ca, conf)
			z, ez = metered.InstantiateModule(ctx, cz, conf)
			if cause(ea) != cause(ez) {
				t.Errorf("%s: instantiate: %v plain, %v rewritten", c.Filename, ea, ez)
			}
			if ea != nil || ez != nil {
				a, z = nil, nil
			}
		case "action", "assert_return", "assert_trap", "assert_exhaustion":
			if a == nil || c.Action.Type != "invoke" || c.Action.Module != "" {
				continue
			}
			args, ok := specArgs(c.Action)
			if !ok {
				continue
			}
			sum.Actions++
			ra, ea := a.ExportedFunction(c.Action.Field).Call(ctx, args...)
			rz, ez := z.ExportedFunction(c.Action.Field).Call(ctx, args...)
			if c.Type == "assert_exhaustion" {
				// Ours says so first, and leaves the instance unusable.
				if !strings.Contains(ez.Error(), meter.ErrStack.Error()) {
					t.Errorf("line %d: ended with %v, want %v", c.Line, ez, meter.ErrStack)
				}
				a, z = nil, nil
				continue
			}
			if ea != nil {
				sum.Traps++
			}
			if cause(ea) != cause(ez) || !sameResults(a, c.Action.Field, ra, rz) {
				t.Errorf("line %d: %s%v = %v, %v plain and %v, %v rewritten", c.Line, c.Action.Field, args, ra, ea, rz, ez)
			}
			if ea != nil {
				// The stack that was left at a trap is not given back; a host drops the
				// instance. Here it lives on, so it is given back by hand.
				z.ExportedGlobal(meter.StackGlobal).(api.MutableGlobal).Set(16 << 20)
			}
		}
	}
}

// cause is an error without its stack trace.
func cause(err error) string {
	if err == nil {
		return ""
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// sameResults compares results.
func sameResults(m api.Module, name string, a, z []uint64) bool {
	types := m.ExportedFunction(name).Definition().ResultTypes()
	if len(a) != len(z) {
		return false
	}
	for i := range a {
		if i < len(types) && (types[i] == 0x70 || types[i] == 0x6f) {
			if !sameValue(types[i], a[i], z[i]) {
				return false
			}
		} else if a[i] != z[i] {
			return false
		}
	}
	return true
}

// specArgs gives the arguments of an action; false for those that the corpus
// leaves open.
func specArgs(a specAction) ([]uint64, bool) {
	var args []uint64
	for _, v := range a.Args {
		switch value := v.Value.(type) {
		case string:
			n, err := strconv.ParseUint(value, 10, 64)
			switch {
			case v.Type == "externref" || v.Type == "funcref":
				if err == nil {
					n++ // zero is null
				}
			case err != nil:
				return nil, false
			}
			args = append(args, n)
		case []any:
			bits := 128 / len(value)
			var words [2]uint64
			for i, lane := range value {
				n, err := strconv.ParseUint(lane.(string), 10, 64)
				if err != nil {
					return nil, false
				}
				words[i*bits/64] |= n << (i * bits % 64)
			}
			args = append(args, words[0], words[1])
		default:
			return nil, false
		}
	}
	return args, true
}

// spectest is the host module that the corpus imports from; its memory, table
// and globals are left out, since modules that import those are refused.
func spectest(t *testing.T, h *host) {
	t.Helper()
	b := h.NewHostModuleBuilder("spectest")
	for _, p := range []string{"", "i32", "i64", "f32", "f64", "i32_f32", "f64_f64"} {
		name, params := "print", []api.ValueType(nil)
		if p != "" {
			name += "_" + p
			for v := range strings.SplitSeq(p, "_") {
				params = append(params, map[string]api.ValueType{"i32": 0x7f, "i64": 0x7e, "f32": 0x7d, "f64": 0x7c}[v])
			}
		}
		b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), params, nil).Export(name)
	}
	if _, err := b.Instantiate(t.Context()); err != nil {
		t.Fatal(fmt.Errorf("spectest: %w", err))
	}
}
