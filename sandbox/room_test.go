package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/meter"
)

// A guest's memory grows by pages, so what fits its bound but no whole number of
// pages can never be taken.
func TestAnswersFitWholePages(t *testing.T) {
	w := open(t, sandbox.Options{})
	const pages, bound = 3 * meter.PageSize, 3*meter.PageSize + 1000
	for size, want := range map[int64]uint32{
		pages:     100, // show has no room for more than a page, and says so
		pages + 1: 5,
		bound:     5,
		bound + 1: 5,
	} {
		must(t, os.Truncate(filepath.Join(w.dir, "docs/reports/a.txt"), size))
		out, o := w.run(t, "show", `{}`, call.Bounds{MemoryBytes: bound}, "read")
		if out != "" || o.Code != call.CodeToolError || o.Exit != want {
			t.Errorf("a file of %d bytes: %q, %s with %d, want %d", size, out, o.Code, o.Exit, want)
		}
	}
}

// All the memory that 32 bits can address is memory as any other.
func TestWidestMemory(t *testing.T) {
	const all = 4 << 30
	w := open(t, sandbox.Options{MaxMemory: 4 * all})
	if out, o := w.run(t, "widest", `{}`, call.Bounds{MemoryBytes: all, TimeoutMS: 60_000}); out != "wide" || o.MemoryBytes != all {
		t.Errorf("%q, %+v", out, o)
	}
}
