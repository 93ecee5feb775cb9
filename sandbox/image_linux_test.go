package sandbox_test

import (
	"os"
	"strings"
	"testing"

	"github.com/callgate/callgate/sandbox"
)

// However calls end, what maps the images of guests does not pile up.
func TestMappingsDoNotPileUp(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest := w.install(t, "canary")
	mapped := func() int {
		b, err := os.ReadFile("/proc/self/maps")
		must(t, err)
		return strings.Count(string(b), "memfd:callgate-image")
	}
	w.look(t, digest)
	before := mapped()
	for range 10 {
		for _, how := range []int{1, 2, 3, 5, 6, 7, 8, 9} {
			w.leave(t, digest, how)
		}
	}
	// Each memory that idles is one, or two if some of its pages differ.
	instances, memories := w.box.Idle()
	if after := mapped(); before == 0 || after > before+2*(instances+memories) || instances+memories > 4 {
		t.Errorf("images were mapped %d times, and now %d times for %d instances and %d memories", before, after, instances, memories)
	}
}
