package sandbox_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// Large operations on memory are interrupted in the middle: the clock, which
// moves on whenever it is looked at, comes to the deadline while there is only
// one instruction to do, or none but such.
func TestBulkOperationsEndAtTheDeadline(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	w := open(t, sandbox.Options{MaxMemory: 8 << 30, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}})
	guests := map[string][]byte{"onefill": module(t, "onefill"), "onecopy": module(t, "onecopy")}
	for _, name := range []string{"memfill", "memcopy", "bulkseq"} {
		b, err := os.ReadFile(filepath.Join("../../shared/fixtures/hostile-guests", name+".wasm"))
		must(t, err)
		guests[name] = b
	}
	for name, b := range guests {
		must(t, w.box.Install(t.Context(), call.Digest(b), b))
		for _, timeout := range []int64{40, 100_000} {
			if timeout > 40 && name != "onefill" && name != "onecopy" {
				continue
			}
			want := call.CodeTimeExceeded
			if timeout > 40 {
				want = call.CodeOK
			}
			fx := w.effects(t, call.Bounds{TimeoutMS: timeout, MemoryBytes: 2 << 30})
			if _, o := w.box.Run(t.Context(), call.Digest(b), args(t, `{}`), fx); o.Code != want {
				t.Errorf("%s ended %s after at most %d looks, want %s", name, o.Code, timeout, want)
			}
		}
	}
}
