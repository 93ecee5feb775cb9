package sandbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/sandbox"
)

// leave runs the canary so that it leaves secrets wherever it can and ends in one
// of its ways; look runs it for somebody else and reports what it finds.
func (w *world) leave(t testing.TB, digest string, how int) call.Outcome {
	t.Helper()
	b := call.Bounds{MemoryBytes: 5 << 16, TimeoutMS: 60_000, Fuel: 50_000_000}
	if how == 4 {
		b.Fuel = 2_000_000 // it spins
	}
	fx := w.effects(t, b, "read", "list")
	_, o := w.box.Run(t.Context(), digest, args(t, fmt.Sprintf(`{"m":%d}`, how)), fx)
	fx.Close()
	return o
}

func (w *world) look(t testing.TB, digest string) (string, call.Outcome) {
	t.Helper()
	caps := call.Caps{
		FS:     []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "list"}}},
		Bounds: call.Bounds{MemoryBytes: 5 << 16, TimeoutMS: 60_000, Fuel: 50_000_000},
	}
	fx, err := w.host.Open(t.Context(), granttest.MintFor(t, "mallory", nil, digest, args(t, `{"m":0}`), caps))
	must(t, err)
	out, o := w.box.Run(t.Context(), digest, args(t, `{"m":0}`), fx)
	fx.Close()
	return string(out), o
}

// However a call ends, the next one finds nothing of it: not in memory, globals,
// descriptors, stdin, output, log or environment, and memory is not larger.
func TestCanary(t *testing.T) {
	ends := []struct {
		how  int
		code call.Code
		exit uint32
		kept bool // the instance serves the next call
	}{
		{1, call.CodeOK, 0, true}, {2, call.CodeOK, 0, true}, {3, call.CodeGuestTrap, 0, false}, {4, call.CodeFuelExhausted, 0, false},
		{5, call.CodeOK, 0, false}, {6, call.CodeOK, 0, true}, {7, call.CodeToolError, 7, true}, {8, call.CodeStackExhausted, 0, false},
		{9, call.CodeToolError, 1, true},
	}
	w := open(t, sandbox.Options{})
	digest := w.install(t, "canary")
	want, first := w.look(t, digest)
	if want != "0000" {
		t.Fatalf("a first call finds %q and ended %+v", want, first)
	}
	for _, e := range ends {
		for range 2 {
			o := w.leave(t, digest, e.how)
			if o.Code != e.code || o.Exit != e.exit {
				t.Fatalf("end %d: it ended %+v, want %s with %d", e.how, o, e.code, e.exit)
			}
			if n, _ := w.box.Idle(); (n == 1) != e.kept {
				t.Errorf("end %d: %d instances are kept, and it can be: %v", e.how, n, e.kept)
			}
			out, o := w.look(t, digest)
			if out != "0000" || o.Code != call.CodeOK || len(o.Stderr) != 0 || o.Fuel != first.Fuel || o.MemoryBytes != first.MemoryBytes {
				t.Errorf("after end %d the next call finds %q, and ended %+v", e.how, out, o)
			}
		}
	}
}

// The same with many calls at a time, also those that run out of time.
func TestCanaryConcurrently(t *testing.T) {
	w := open(t, sandbox.Options{MaxConcurrent: 4})
	digest := w.install(t, "canary")
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 12 {
				switch how := (n + i) % 12; {
				case how == 10:
					ctx, cancel := context.WithCancel(t.Context())
					fx := w.effects(t, call.Bounds{MemoryBytes: 5 << 16, TimeoutMS: 20}, "read")
					w.box.Run(ctx, digest, args(t, `{"m":4}`), fx)
					fx.Close()
					cancel()
				case how > 0 && how < 10:
					w.leave(t, digest, how)
				}
				if out, o := w.look(t, digest); out != "0000" || o.Code != call.CodeOK {
					t.Errorf("a call finds %q, and ended %+v", out, o)
				}
			}
		})
	}
	wg.Wait()
}

// What a call costs at the least, as far as it can be counted.
func TestCallsAllocateLittle(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest, fx, in := w.install(t, "tiny"), w.effects(t, call.Bounds{}), args(t, `{}`)
	n := testing.AllocsPerRun(100, func() {
		if _, o := w.box.Run(t.Context(), digest, in, fx); o.Code != call.CodeOK {
			t.Fatalf("it ended %+v", o)
		}
	})
	if n > 25 {
		t.Errorf("a call of a guest that does nothing allocates %v times", n)
	}
}

// What no reset would restore is never used again: tables, vectors, references and
// dropped segments.
func TestCanaryInTables(t *testing.T) {
	w := open(t, sandbox.Options{})
	for range 3 {
		if _, o := w.run(t, "lasting", `{}`, call.Bounds{}); o.Code != call.CodeOK || o.Exit != 0 {
			t.Fatalf("it ended %+v", o)
		}
		if n, _ := w.box.Idle(); n != 0 {
			t.Fatalf("%d instances are kept", n)
		}
	}
}

// Calls under another revision of policy, or with another bound of memory, get
// instances of their own; calls of another principal do not.
func TestInstancesAreOfOnePolicy(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest := w.install(t, "tiny")
	was, now := []call.Revision{{Name: "org", Digest: "sha256:1"}}, []call.Revision{{Name: "org", Digest: "sha256:2"}}
	for n, c := range []struct {
		principal string
		policy    []call.Revision
		memory    int64
		idle      int
	}{{"alice", was, 1 << 20, 1}, {"bob", was, 1 << 20, 1}, {"bob", now, 1 << 20, 2}, {"bob", nil, 1 << 20, 3}, {"alice", now, 1 << 20, 3}, {"alice", now, 2 << 20, 4}} {
		fx, err := w.host.Open(t.Context(), granttest.MintFor(t, c.principal, c.policy, digest, args(t, `{}`), call.Caps{Bounds: call.Bounds{MemoryBytes: c.memory}}))
		must(t, err)
		if _, o := w.box.Run(t.Context(), digest, args(t, `{}`), fx); o.Code != call.CodeOK {
			t.Fatalf("call %d ended %+v", n, o)
		}
		fx.Close()
		if idle, _ := w.box.Idle(); idle != c.idle {
			t.Errorf("after call %d there are %d instances, want %d", n, idle, c.idle)
		}
	}
}
