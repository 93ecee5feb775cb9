package hostfx_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// The component that was a directory when it was looked at is swapped for a
// link to a sibling: what opens is the directory of that name or nothing.
func TestOpenGrantedPathSwapped(t *testing.T) { both(t, testOpenGrantedPathSwapped) }

func testOpenGrantedPathSwapped(t *testing.T) {
	dir := tree(t)
	at := filepath.Join(dir, "docs")
	must(t, os.MkdirAll(filepath.Join(at, "decoy"), 0o755))
	must(t, os.WriteFile(filepath.Join(at, "decoy/a.txt"), []byte(canary), 0o600))
	must(t, os.Symlink("decoy", filepath.Join(at, "link")))
	stop := make(chan struct{})
	done := swap(at, "reports", "link", stop)
	h := host(t, dir)
	for range 8000 {
		fx, err := h.Open(t.Context(), mint(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}}))
		if err != nil {
			continue
		}
		if b, err := fx.ReadFile("/docs/reports/a.txt"); err == nil && string(b) == canary {
			t.Error("the grant of reports opened decoy through a link")
		}
		fx.Close()
	}
	close(stop)
	<-done
}

// A file and a directory are swapped for links that lead out while they are
// read: nothing outside is ever read.
func TestSwapRace(t *testing.T) { both(t, testSwapRace) }

func testSwapRace(t *testing.T) {
	dir := tree(t)
	at := filepath.Join(dir, "docs/reports")
	must(t, os.Symlink("../../outside", filepath.Join(at, "sublink")))
	must(t, os.WriteFile(filepath.Join(at, "sub/c.txt"), []byte("fine"), 0o600))
	stop := make(chan struct{})
	a, b := swap(at, "a.txt", "out", stop), swap(at, "sub", "sublink", stop)
	fx := open(t, dir, "read")
	for range 1500 {
		for _, p := range []string{"a.txt", "out", "sub/c.txt", "sublink/c.txt"} {
			if got, err := fx.ReadFile("/docs/reports/" + p); err == nil && string(got) == canary {
				t.Fatalf("read %s outside of the granted folder", p)
			}
		}
	}
	close(stop)
	<-a
	<-b
}

// swap exchanges two names, each time in one step, until stop is closed.
func swap(dir, a, b string, stop chan struct{}) chan struct{} {
	return counted(new(atomic.Int64), filepath.Join(dir, a), filepath.Join(dir, b), stop)
}
