package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// heap is what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // also what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// reloads is how many policies take each other's place in the test of what they leave:
// fewer where each takes ten times as long.
func reloads() int {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 20
	}
	return 100
}

// A policy that no longer decides leaves nothing in memory.
func TestReloadsKeepNothing(t *testing.T) {
	l, name, _ := liveOf(t)
	data := filepath.Join(filepath.Dir(name), "wide", "data.json")
	if err := os.Mkdir(filepath.Dir(data), 0o700); err != nil {
		t.Fatal(err)
	}
	args, err := call.Canonical([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	release := func(n int) {
		overwrite(t, data, fmt.Sprintf(`{"n": %d, "text": %q}`, n, strings.Repeat(string(rune('a'+n%26)), 256<<10)))
		before := l.Snapshot()
		for range 2 {
			l.poll(t.Context(), l.layers...)
		}
		if l.Snapshot() == before {
			t.Fatal("not taken")
		}
		if d, err := l.Decide(t.Context(), &call.Input{Args: args}); err != nil || d.Verdict != call.Deny {
			t.Fatal(d, err)
		}
	}
	release(0)
	// What other tests gave up may still run, and take and give back memory meanwhile.
	var more int64
	for try := range 3 {
		before := heap()
		for n := range reloads() {
			release(1 + try*reloads() + n)
		}
		if more = heap() - before; more <= 4<<20 {
			break
		}
	}
	if more > 4<<20 {
		t.Errorf("after %d policies of 256 KiB each the heap has grown by %d bytes, three times", reloads(), more)
	}
	runtime.KeepAlive(l)
}
