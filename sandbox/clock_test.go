package sandbox_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// told is what the guest clocks prints.
type told struct {
	res    [2]uint64 // real time, monotonic
	shown  [2]uint64
	random string
}

func (w *world) told(t *testing.T, in string) told {
	t.Helper()
	out, o := w.run(t, "clocks", in, call.Bounds{})
	if o.Code != call.CodeOK || len(out) != 48 {
		t.Fatalf("ended %s with %d bytes", o.Code, len(out))
	}
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64([]byte(out[at:])) }
	return told{[2]uint64{u64(0), u64(8)}, [2]uint64{u64(16), u64(24)}, out[32:]}
}

// A guest sees milliseconds, unless the grant gives more.
func TestClocksAreAsGranted(t *testing.T) {
	now := time.Unix(1_800_000_000, 987_654_321)
	w := open(t, sandbox.Options{Now: func() time.Time { return now }})
	if got := w.told(t, `{}`); got.res != [2]uint64{1e6, 1e6} || got.shown != [2]uint64{1_800_000_000_987e6, 1e9} {
		t.Errorf("coarse clocks: %v", got)
	}
	w.more.PreciseClock = true
	if got := w.told(t, `{}`); got.res != [2]uint64{1, 1} || got.shown != [2]uint64{1_800_000_000_987_654_321, 1e9} {
		t.Errorf("precise clocks: %v", got)
	}
}

// With Replay a run is a function of the seed, the time and the arguments; and with
// another sandbox it is the same.
func TestReplay(t *testing.T) {
	replay := sandbox.Replay{Seed: [32]byte{7}, Time: time.Unix(1_000_000_000, 5e6)}
	w, v := open(t, sandbox.Options{Replay: &replay}), open(t, sandbox.Options{Replay: &replay})
	want := w.told(t, `{"a":1}`)
	if want.shown != [2]uint64{1_000_000_000_005e6, 1_001e6} { // the second look is a millisecond later
		t.Errorf("the clocks show %d", want.shown)
	}
	for _, w := range []*world{w, v} {
		if got := w.told(t, `{"a":1}`); got != want {
			t.Errorf("%v, want %v", got, want)
		}
		if got := w.told(t, `{"a":2}`); got.random == want.random || got.shown != want.shown {
			t.Errorf("with other arguments %v, want other bytes than %v", got, want)
		}
	}
	other := replay
	other.Seed[0]++
	if got := open(t, sandbox.Options{Replay: &other}).told(t, `{"a":1}`); got.random == want.random {
		t.Errorf("with another seed %v", got)
	}
	if a, b := open(t, sandbox.Options{}).told(t, `{}`), w.told(t, `{}`); a.random == b.random {
		t.Errorf("without Replay %v", a)
	}
}
