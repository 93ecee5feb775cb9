package sandbox

import (
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// However much memory a grant gives, a guest touches few pages for the first time
// between two looks at the clock: it needs three instructions for one.
func TestFewPagesInASlice(t *testing.T) {
	for _, memory := range []int64{0, 1 << 16, defaultMemory, defaultMemory + 1, 1 << 30, 4 << 30} {
		b := boundsOf(call.Bounds{MemoryBytes: memory})
		if pages := min(b.memory/4096, b.slice()/3); pages > 25_000 {
			t.Errorf("with %d bytes of memory %d pages are touched in a slice", memory, pages)
		}
	}
}
