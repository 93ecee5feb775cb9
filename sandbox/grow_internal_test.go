package sandbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/meter"
)

// A file that grows after its size was looked at is not cut: it is too large once
// it is larger than the guest's memory, and whole before that.
func TestFileThatGrowsWhileItIsRead(t *testing.T) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	host, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: dir}}})
	ok(err)
	defer host.Close()
	args, err := call.Canonical([]byte(`{}`))
	ok(err)
	fx, err := host.Open(t.Context(), granttest.Mint(t, "sha256:0", args, call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}}}))
	ok(err)
	defer fx.Close()
	for becomes, tooLarge := range map[int64]bool{2 * meter.PageSize: false, 2*meter.PageSize + 1: true, 4 * meter.PageSize: true} {
		ok(os.WriteFile(name, make([]byte, meter.PageSize), 0o600))
		looked := 0
		r := &run{
			ctx: t.Context(), fx: fx, deadline: time.Unix(1, 0), memory: &memory{space: make([]byte, 2*meter.PageSize)},
			sandbox: &Sandbox{closing: make(chan struct{}), now: func() time.Time { // asked before each read
				looked++
				ok(os.Truncate(name, becomes))
				return time.Unix(0, 0)
			}},
		}
		q := &request{run: r}
		k, err := q.readFile([]byte("/docs/a"))
		if looked == 0 {
			t.Fatal("nothing was read")
		}
		ok(err)
		if got := k.size() > r.room(); got != tooLarge || !tooLarge && k.size() != uint64(becomes) {
			t.Errorf("a file that becomes %d bytes: %d were read", becomes, k.size())
		}
	}
}
