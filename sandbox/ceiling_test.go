package sandbox_test

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/sandbox"
)

// resident is the memory that this process holds, or 0 where that is not told.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// Guests that take all that they can get take no more together than the operator
// allows, and others have their turn all the same.
func TestHostileGuestsUnderOneCeiling(t *testing.T) {
	const ceiling = 256 << 20 // room for one at a time; all together would fill more
	w := open(t, sandbox.Options{MaxConcurrent: 24, MaxMemory: ceiling})
	bounds := call.Bounds{MemoryBytes: 32 << 20, TimeoutMS: 60_000, Fuel: 1 << 24}
	hostile := []string{w.install(t, "fill"), w.install(t, "fill"), w.install(t, "recurse"), w.install(t, "hog")}
	echo := w.install(t, "echo")

	debug.FreeOSMemory()
	start, most := resident(), int64(0)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for i := range 24 {
		wg.Go(func() {
			_, o := w.box.Run(t.Context(), hostile[i%len(hostile)], args(t, `{}`), w.effects(t, bounds))
			if o.Status == call.NotStarted {
				t.Errorf("guest %d: %s", i, o.Code)
			}
		})
		wg.Go(func() {
			if out, o := w.box.Run(t.Context(), echo, args(t, `{"a":1}`), w.effects(t, bounds)); string(out) != `{"a":1}` {
				t.Errorf("meanwhile: %q, %v", out, o)
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
			most = max(most, resident()-start)
			runtime.Gosched()
		}
	}
	if most > ceiling {
		t.Errorf("together they held %d MiB, and may %d", most>>20, ceiling>>20)
	}

	// What could never have its place does not wait for it.
	_, o := w.box.Run(t.Context(), echo, args(t, `{}`), w.effects(t, call.Bounds{MemoryBytes: ceiling, TimeoutMS: 60_000}))
	if o.Status != call.NotStarted || o.Code != call.CodeMemoryCeiling {
		t.Errorf("a grant of all: %v", o)
	}
	if found, _ := filepath.Glob("/proc/self/statm"); len(found) > 0 && most == 0 {
		t.Error("nothing was measured")
	}
}

// What idles for a faster start of the next call is gone when a run needs the room.
func TestIdleInstancesGiveWay(t *testing.T) {
	large := call.Bounds{OutputBytes: 64 << 20}
	w := open(t, sandbox.Options{MaxMemory: sandbox.Reserve(large)})
	for _, b := range []call.Bounds{{}, large, {}} {
		before := w.box.Held()
		if out, o := w.run(t, "echo", `{"a":1}`, b); out != `{"a":1}` {
			t.Errorf("%+v: %q, %v", b, out, o)
		}
		if b == large && before == 0 {
			t.Error("nothing idles, so nothing could give way")
		}
	}
}

// So are snapshots, for a run that has no room beside them however long it waits.
func TestSnapshotsGiveWay(t *testing.T) {
	large := call.Bounds{OutputBytes: 64 << 20, TimeoutMS: 20_000}
	w := open(t, sandbox.Options{MaxMemory: sandbox.Reserve(large)})
	settled := w.install(t, "settled")
	for range 2 {
		if _, o := w.run(t, "settled", `{}`, call.Bounds{}); o.Code != call.CodeOK {
			t.Errorf("ended %+v", o)
		}
		if n := w.box.Snapshots(settled); n != 1 {
			t.Fatalf("there are %d snapshots, so nothing could give way", n)
		}
		if out, o := w.run(t, "echo", `{"a":1}`, large); out != `{"a":1}` {
			t.Errorf("%q, %v", out, o)
		}
	}
}

// Two tools with one module share no instance.
func TestToolsShareNoInstance(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest := w.install(t, "tiny")
	for n, tool := range []string{"one", "two", "one"} {
		fx, err := w.host.Open(t.Context(), granttest.MintOf(t, tool, digest, args(t, `{}`), call.Caps{}))
		must(t, err)
		_, o := w.box.Run(t.Context(), digest, args(t, `{}`), fx)
		fx.Close()
		if instances, _ := w.box.Idle(); o.Code != call.CodeOK || instances != min(n+1, 2) {
			t.Errorf("after call %d, of tool %s, which ended %s, %d instances idle", n+1, tool, o.Code, instances)
		}
	}
}
