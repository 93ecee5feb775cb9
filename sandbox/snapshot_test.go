package sandbox_test

import (
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// A guest that starts from a snapshot, in an instance of its own or one that was
// used, burns the fuel, takes the memory and ends as one that initialises itself.
func TestSnapshotsAreNotNoticed(t *testing.T) {
	plain, fast := open(t, sandbox.Options{Fresh: true}), open(t, sandbox.Options{})
	for _, guest := range []string{"settled", "counter", "echo", "randomness", "early", "exitinit", "startinf", "starttrap"} {
		_, want := plain.run(t, guest, `{}`, call.Bounds{Fuel: 1_000_000})
		for n := range 4 {
			_, o := fast.run(t, guest, `{}`, call.Bounds{Fuel: 1_000_000})
			if o.Status != want.Status || o.Code != want.Code || o.Exit != want.Exit || o.Fuel != want.Fuel || o.MemoryBytes != want.MemoryBytes {
				t.Errorf("%s: call %d ended %+v, want %+v", guest, n+1, o, want)
			}
		}
	}
}

// Bounds hold for a guest that starts from a snapshot as if it had initialised
// itself.
func TestBoundsOfSnapshots(t *testing.T) {
	plain, fast := open(t, sandbox.Options{Fresh: true}), open(t, sandbox.Options{})
	_, whole := fast.run(t, "settled", `{}`, call.Bounds{})
	if whole.Code != call.CodeOK {
		t.Fatalf("it ended %+v", whole)
	}
	for _, b := range []call.Bounds{
		{Fuel: whole.Fuel}, {Fuel: whole.Fuel - 1}, {Fuel: whole.Fuel / 2}, {Fuel: 1},
		{MemoryBytes: whole.MemoryBytes}, {MemoryBytes: whole.MemoryBytes - 1}, {MemoryBytes: 2 << 16}, {MemoryBytes: 1},
	} {
		_, want := plain.run(t, "settled", `{}`, b)
		for range 2 {
			if _, o := fast.run(t, "settled", `{}`, b); o.Code != want.Code || o.Exit != want.Exit || o.Fuel != want.Fuel || o.MemoryRefused != want.MemoryRefused {
				t.Errorf("within %+v it ended %+v, want %+v", b, o, want)
			}
		}
	}
}

// A guest whose initialisation looks at what belongs to one call, or does
// something, initialises itself in each; and what that gives and does is there once
// for each call.
func TestSnapshotsLookAtNothing(t *testing.T) {
	for _, guest := range []string{"peek-stdin", "peek-file", "peek-log", "peek-write"} {
		t.Run(guest, func(t *testing.T) {
			w := open(t, sandbox.Options{})
			w.more.Log = true
			digest := w.install(t, guest)
			for _, in := range []string{`{"s":"one"}`, `{"s":"two"}`} {
				out, o := w.run(t, guest, in, call.Bounds{}, "read", "list")
				want := map[string]string{"peek-stdin": in, "peek-write": "written"}[guest]
				if o.Code != call.CodeOK || out != want {
					t.Errorf("a call with %s gives %q, and ended %+v", in, out, o)
				}
				if effects := map[string]int{"peek-file": 1, "peek-log": 1}[guest]; len(o.Effects) != effects {
					t.Errorf("it has the effects %v", o.Effects)
				}
			}
			if n := w.box.Snapshots(digest); n != 0 {
				t.Errorf("there are %d snapshots", n)
			}
		})
	}
}

// What a guest sees without touching anything tells snapshots apart.
func TestSnapshotsAreOfOneWorld(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest := w.install(t, "names")
	for n, caps := range []call.Caps{{}, {PreciseClock: true}, {FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}}, {FS: []call.FS{{Root: "docs", Path: "reports/sub", Modes: []string{"read"}}}}} {
		w.more = caps
		for range 2 {
			if _, o := w.run(t, "names", `{}`, call.Bounds{}); o.Code != call.CodeOK {
				t.Errorf("in world %d its names are not what they were when it was initialised: %+v", n, o)
			}
		}
		if got := w.box.Snapshots(digest); got != n+1 {
			t.Errorf("in world %d there are %d snapshots", n, got)
		}
	}
}

// What initialising did to stdio is there for each call.
func TestSnapshotsKeepFlags(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest := w.install(t, "flags")
	for range 3 {
		if _, o := w.run(t, "flags", `{}`, call.Bounds{}); o.Exit != 4 {
			t.Errorf("stdout has other flags than the guest set: %+v", o)
		}
	}
	if n := w.box.Snapshots(digest); n != 1 {
		t.Errorf("there are %d snapshots", n)
	}
}

// A guest that got less memory than it asked for, and lived with that, asks again
// where there may be more.
func TestSnapshotsDependOnNoBound(t *testing.T) {
	small, large := call.Bounds{MemoryBytes: 1 << 20}, call.Bounds{MemoryBytes: 64 << 20}
	for _, order := range [][]call.Bounds{{small, large, small}, {large, small, large}} {
		w := open(t, sandbox.Options{})
		for _, b := range order {
			want := uint32(1)
			if b == large {
				want = 0
			}
			for range 2 {
				if _, o := w.run(t, "grasp", `{}`, b); o.Exit != want || o.MemoryRefused != (want == 1) {
					t.Errorf("with %d bytes it ended %+v, want %d", b.MemoryBytes, o, want)
				}
			}
		}
	}
}
