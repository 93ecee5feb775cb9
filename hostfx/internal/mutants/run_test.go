//go:build mutants

package mutants

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// only limits a run, as in `make mutants ONLY=http`.
var only = flag.String("only", "", "run the mutants alone whose table or name holds this")

// Each mutant is killed by a test. Nothing in the tree is touched: the compiler is given
// the mutant's file in the place of the real one.
func TestMutants(t *testing.T) {
	all := chosen(t)
	together := map[string][]string{}
	for _, m := range all {
		for _, c := range m.tests {
			together[c.pkg] = append(together[c.pkg], c.names...)
		}
	}
	for pkg, names := range together {
		if out, err := run(t, "", cited{pkg, names}); err != nil {
			t.Fatalf("without any mutant, tests of %s fail: %v\n%s", pkg, err, out)
		}
	}
	killed := 0
	for _, m := range all {
		how := try(t, m)
		if how == "killed" || how == "killed (too slow)" {
			killed++
		} else {
			t.Errorf("%s: %s: %s", m.table, m.name, how)
		}
		t.Logf("%-17s %s: %s", how, m.table, m.name)
	}
	t.Logf("%d mutants, %d killed", len(all), killed)
	if len(all) == 0 {
		t.Error("there are none")
	}
}

func chosen(t *testing.T) []mutant {
	t.Helper()
	return slices.DeleteFunc(tables(t), func(m mutant) bool { return !strings.Contains(m.table+": "+m.name, *only) })
}

// try makes a mutant and says what became of it.
func try(t *testing.T, m mutant) string {
	t.Helper()
	text, err := m.apply()
	if err != nil {
		return err.Error()
	}
	file, overlay := filepath.Join(t.TempDir(), filepath.Base(m.file)), filepath.Join(t.TempDir(), "overlay.json")
	real, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {real: file}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{file: text, overlay: b} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range m.tests {
		switch out, err := run(t, overlay, c); {
		case err == nil:
		case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
			return "does not compile:\n" + string(out)
		case bytes.Contains(out, []byte("panic: test timed out")):
			return "killed (too slow)"
		case bytes.Contains(out, []byte("\nFAIL\t")):
			return "killed"
		default:
			return "cannot be tried: " + err.Error() + "\n" + string(out)
		}
	}
	return "SURVIVED"
}

// run runs tests, with an overlay unless that is "".
func run(t *testing.T, overlay string, c cited) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=60s", "-run=^(" + strings.Join(c.names, "|") + ")$"}
	if overlay == "" {
		args = append(args, "-timeout=5m")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+c.pkg)...)
	cmd.Dir = root
	if overlay != "" { // what the tests build is to be the mutant as well
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	return cmd.CombinedOutput()
}
