package hostfx_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// However a process ends, nothing is left of what it started, not even what is in another
// session and has lost its parent.
func TestNothingOutlivesAProcess(t *testing.T) {
	tests := []struct {
		name string
		life time.Duration
		ends time.Duration // of the session, from now
		end  func(h *hostfx.Host, fx *hostfx.Effects, id, stay string) error
		is   error // what it is stopped with, nil when nobody can ask
	}{
		{name: "it ends itself", end: func(_ *hostfx.Host, _ *hostfx.Effects, _, stay string) error {
			return os.WriteFile(stay, []byte("x"), 0)
		}},
		{name: "kill", end: func(_ *hostfx.Host, fx *hostfx.Effects, id, _ string) error { return fx.Kill(id) }, is: context.Canceled},
		{name: "its session", end: func(h *hostfx.Host, _ *hostfx.Effects, _, _ string) error { h.EndSession("o", "so"); return nil }},
		{name: "its owner", end: func(h *hostfx.Host, _ *hostfx.Effects, _, _ string) error { h.EndOwner("o"); return nil }},
		{name: "one that it acts for", end: func(h *hostfx.Host, _ *hostfx.Effects, _, _ string) error { h.EndOwner("boss"); return nil }},
		{name: "its tool", end: func(h *hostfx.Host, _ *hostfx.Effects, _, _ string) error { h.EndTool("t"); return nil }},
		{name: "its host", end: func(h *hostfx.Host, _ *hostfx.Effects, _, _ string) error { return h.Close() }},
		{name: "its life", life: 500 * time.Millisecond, is: context.DeadlineExceeded},
		{name: "its session's time", ends: 500 * time.Millisecond, is: context.DeadlineExceeded},
	}
	for _, abi := range []int{newestABI, 5} { // with a fence around signals, and without
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := newShop(t)
				var err error
				s.host, err = newHost(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: s.root}}, ExecEnforcement: hostfx.Unavailable, Launcher: probe(t), ProcessLife: tt.life})
				must(t, err)
				t.Cleanup(func() { s.host.Close() })
				hostfx.SetKernel(s.host, abi, true)
				of := ours
				if tt.ends != 0 {
					of.Ends = time.Now().Add(tt.ends)
				}
				var id string
				var caps call.Caps
				started := make(chan struct{})
				l := s.linger(t, func(args []string) {
					defer close(started)
					caps = call.Caps{FS: work("read", "write"), Exec: exactly(probe(t), args...)}
					fx := s.openFor(t, of, caps)
					id, err = fx.Start(t.Context(), hostfx.Command{Path: probe(t), Args: args})
					fx.Close()
				})
				<-started
				must(t, err)
				fx := s.openFor(t, of, caps)
				if tt.end != nil {
					must(t, tt.end(s.host, fx, id, l.stay))
				}
				l.gone(t)
				if tt.is == nil {
					return
				}
				if o := until(t, fx, id, never); o.State != hostfx.ProcessStopped || !errors.Is(o.Err, hostfx.ErrEnded) || !errors.Is(o.Err, tt.is) {
					t.Errorf("stopped: %+v", o)
				}
			})
		}
	}
}

// A process that the kernel holds up does not hold up the end of the call that kills it.
func TestKillEndsWithTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fx, err := host(t, tree(t)).OpenFor(ctx, mint(t, call.Caps{Exec: []call.Exec{{Command: "/bin/true", Args: []string{}}}}), ours)
	must(t, err)
	id, free, err := hostfx.Stuck(fx, "/bin/true")
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- fx.Kill(id) }()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, hostfx.ErrClosed) {
			t.Errorf("Kill = %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Kill goes on when the call is over")
	}
	free()
	fx.Close()
}
