package sandbox_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/wasi"
)

// suite holds the public test programs of WASI preview 1.
const suite = "../../shared/fixtures/wasi-testsuite"

// expectation is what the file beside a test program says.
type expectation struct {
	Args   []string          `json:"args"`
	Env    map[string]string `json:"env"`
	Root   string            `json:"root"` // the directory it works in
	Exit   uint32            `json:"exit_code"`
	Stdout string            `json:"stdout"`
}

// copyTree copies a directory, so that what the programs do to it is forgotten.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	must(t, filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == from {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	}))
	return to
}

// All public test programs of the standard pass, in the sandbox as it is but for
// what their descriptions ask for: arguments, an environment, and a directory that
// is called "/". Under the race detector there is one of four; the Makefile runs all
// without it.
func TestSuiteOfTheStandard(t *testing.T) {
	programs, err := filepath.Glob(suite + "/*/*.wasm")
	must(t, err)
	if len(programs) != 72 {
		t.Fatalf("%d programs, want 72", len(programs))
	}
	w := open(t, sandbox.Options{})
	for i, program := range programs {
		if sandbox.Raced && i%4 != 0 {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(program), suite+"/"), ".wasm")
		t.Run(name, func(t *testing.T) {
			var want expectation
			switch b, err := os.ReadFile(strings.TrimSuffix(program, ".wasm") + ".json"); {
			case err == nil:
				must(t, json.Unmarshal(b, &want, json.RejectUnknownMembers(true)))
			case !os.IsNotExist(err):
				t.Fatal(err)
			}
			world := &wasi.World{Args: slices.Concat([]string{filepath.Base(program)}, want.Args), Name: func(*hostfx.Dir) string { return "/" }}
			for _, k := range slices.Sorted(maps.Keys(want.Env)) {
				world.Env = append(world.Env, k+"="+want.Env[k])
			}
			sandbox.SetWorld(w.box, world)

			caps, roots := call.Caps{PreciseClock: true}, []hostfx.Root{}
			if want.Root != "" {
				caps.FS = []call.FS{{Root: "w", Path: ".", Modes: []string{"read", "append", "write", "list", "remove"}}}
				roots = append(roots, hostfx.Root{Name: "w", Path: copyTree(t, filepath.Join(filepath.Dir(program), want.Root))})
			}
			host, err := hostfx.New(hostfx.Options{Roots: roots})
			must(t, err)
			defer host.Close()
			fx, err := host.Open(t.Context(), granttest.Mint(t, "sha256:0", args(t, `{}`), caps))
			must(t, err)
			defer fx.Close()

			b, err := os.ReadFile(program)
			must(t, err)
			must(t, w.box.Install(t.Context(), call.Digest(b), b))
			out, o := w.box.Run(t.Context(), call.Digest(b), args(t, `{}`), fx)
			if o.Exit != want.Exit || (o.Code != call.CodeOK) != (want.Exit != 0) || want.Stdout != "" && string(out) != want.Stdout {
				t.Errorf("ended %s with %d and %q, want %d and %q; it says:\n%s", o.Code, o.Exit, out, want.Exit, want.Stdout, o.Stderr)
			}
		})
	}
}
