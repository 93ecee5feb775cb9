package sandbox_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

func TestCallgateCharge(t *testing.T) {
	w := open(t, sandbox.Options{})
	charge := func(p program, name string, units int64) program {
		return p.put(0, name).words(uint32(units), uint32(units>>32)).step(callCharge, 0, uint32(len(name)), moreAt)
	}
	digest, fx := w.install(t, "poke"), w.effects(t, call.Bounds{})
	p := charge(charge(charge(nil, "rows", 1<<40), "rows", 2), "tokens", 0)
	for _, name := range []string{"", "fuel", strings.Repeat("x", 65), strings.Repeat("x", 10_000)} {
		p = charge(p, name, 1)
	}
	p = charge(p, "rows", -1)
	for i := range 63 {
		p = charge(p, "n"+strconv.Itoa(i), 1)
	}
	raw, o := w.box.Run(t.Context(), digest, args(t, p.args()), fx)
	if want := "000" + "2222" + "2" + strings.Repeat("0", 62) + "2"; string(raw) != want || o.Code != call.CodeOK {
		t.Errorf("numbers %s, %s, want %s", raw, o.Code, want)
	}
	fx.Close()
	used, _ := fx.Charged()
	if d := cmp.Diff([]int64{1<<40 + 2, 0, 1}, []int64{used["rows"], used["tokens"], used["n61"]}); d != "" || len(used) != 64 {
		t.Errorf("%d charges (-want +got):\n%s", len(used), d)
	}
	if raw, _ := w.box.Run(t.Context(), digest, args(t, charge(nil, "rows", 1).args()), fx); string(raw) != "9" {
		t.Errorf("after Close: %s", raw)
	}
}
