package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// goReactor builds the guest gocanary, once for all tests.
var goReactor = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, "./testdata/gocanary")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the guest: %v\n%s", err, b)
	}
	return os.ReadFile(out)
})

func (w *world) installGo(t testing.TB) string {
	t.Helper()
	b, err := goReactor()
	must(t, err)
	must(t, w.box.Install(t.Context(), call.Digest(b), b))
	return call.Digest(b)
}

// A program in Go starts where its initialisation ended, which took it most of its
// time, and finds nothing of the calls before.
func TestCanaryInGo(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest := w.installGo(t)
	run := func(m int) (string, call.Outcome) {
		fx := w.effects(t, call.Bounds{}, "read", "list")
		defer fx.Close()
		out, o := w.box.Run(t.Context(), digest, args(t, fmt.Sprintf(`{"m":%d}`, m)), fx)
		return string(out), o
	}
	const want = `calls 1, kept 0, names 1, environment "", goroutines 1, started true, file false`
	for _, end := range []struct {
		m    int
		code call.Code
	}{{0, call.CodeOK}, {1, call.CodeOK}, {2, call.CodeOK}, {3, call.CodeGuestTrap}} {
		for range 2 {
			if _, o := run(end.m); o.Code != end.code {
				t.Fatalf("end %d: it ended %+v, want %s\n%s", end.m, o, end.code, o.Stderr)
			}
			if out, o := run(0); out != want || len(o.Stderr) != 0 {
				t.Errorf("after end %d a call says\n%s, want\n%s (%+v)", end.m, out, want, o)
			}
		}
	}
	if n := w.box.Snapshots(digest); n != 1 {
		t.Errorf("there are %d snapshots of it", n)
	}
}
