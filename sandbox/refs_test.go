package sandbox_test

import (
	"runtime"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// The engine keeps every reference to a function that it makes, in the heap of the
// host, for as long as the instance. A guest that makes them in a loop takes none of it.
func TestReferencesTakeNoHeap(t *testing.T) {
	w := open(t, sandbox.Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, o := w.run(t, "refs", `{}`, call.Bounds{TimeoutMS: 60_000, Fuel: 1 << 26})
	runtime.ReadMemStats(&after)
	if o.Code != call.CodeFuelExhausted {
		t.Errorf("ended %s", o.Code)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("it took %d bytes of heap", took)
	}
}
