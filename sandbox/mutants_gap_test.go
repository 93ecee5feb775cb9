package sandbox_test

import (
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// What a guest gives as one value of JSON is no larger than the first line of a request
// may be, though the rest of it be blanks.
func TestCallgateLargeValues(t *testing.T) {
	w := open(t, sandbox.Options{})
	w.more = call.Caps{Plan: true}
	for size, want := range map[int]string{64 << 10: "0", 64<<10 + 1: "2"} {
		const task = `{"id":"x"}`
		p := program{}.put(0, task).step(fill, uint32(len(task)), uint32(size-len(task)), ' ').step(callRegister, 0, uint32(size))
		fx := w.inSession(t, hostfx.Session{ID: "s", Owner: "alice", Plan: &planner{}})
		out, o := w.box.Run(t.Context(), w.install(t, "poke"), args(t, p.args()), fx)
		if string(out) != want || o.Code != call.CodeOK {
			t.Errorf("%d bytes: number %s, %s, want %s", size, out, o.Code, want)
		}
		fx.Close()
	}
}

// A request without parameters of its own forgets the answer before as well.
func TestPlanForgetsTheAnswer(t *testing.T) {
	w := open(t, sandbox.Options{})
	const path = "/docs/reports/a.txt"
	p := program{}.put(0, path).step(callRead, 0, uint32(len(path)), lengthAt).step(callPlan, 0, 0, lengthAt).step(callAnswer, 0x8000, 5)
	if out, o := w.poke(t, p, call.Bounds{}, "read"); out != "034" || o.Code != call.CodeOK {
		t.Errorf("numbers %s, %s", out, o.Code)
	}
}
