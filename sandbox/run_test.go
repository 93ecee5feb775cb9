package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/meter"
)

func TestInstallRefuses(t *testing.T) {
	w := open(t, sandbox.Options{})
	tests := []struct{ guest, want string }{
		{"import", `no function "system" of "env"`},
		{"importtype", `"proc_exit" of "wasi_snapshot_preview1" has another type`},
		{"nofunction", `no function "eval" of "callgate"`},
		{"oldtype", `"log" of "callgate" has another type`},
		{"injected", "imports from callgate:meter"},
		{"nomemory", "no memory"},
		{"bare", "no memory"},
		{"noentry", "exports neither"},
		{"twoentries", "exports both"},
		{"entrytype", `"_start" has another type`},
	}
	for _, tt := range tests {
		t.Run(tt.guest, func(t *testing.T) {
			b := module(t, tt.guest)
			err := w.box.Install(t.Context(), call.Digest(b), b)
			if call.CodeOf(err, "") != call.CodeGuestUnavailable || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Install() = %v, want %q", err, tt.want)
			}
			fx := w.effects(t, call.Bounds{})
			if _, o := w.box.Run(t.Context(), call.Digest(b), args(t, `{}`), fx); o.Status != call.NotStarted || o.Code != call.CodeGuestUnavailable {
				t.Errorf("Run() = %v", o)
			}
		})
	}
	t.Run("another digest", func(t *testing.T) {
		b := module(t, "echo")
		if err := w.box.Install(t.Context(), call.Digest(module(t, "spin")), b); call.CodeOf(err, "") != call.CodeGuestUnavailable {
			t.Errorf("Install() = %v", err)
		}
	})
	t.Run("no module", func(t *testing.T) {
		b := []byte("#!/bin/sh\n")
		err := w.box.Install(t.Context(), call.Digest(b), b)
		if e, ok := errors.AsType[*meter.Error](err); !ok || e.Reason != meter.NotWasm {
			t.Errorf("Install() = %v", err)
		}
	})
	t.Run("ill typed", func(t *testing.T) {
		// (func (export "_start") i32.add): fine for meter, not for the compiler.
		b := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x05\x01\x03\x00\x6a\x0b")
		if err := w.box.Install(t.Context(), call.Digest(b), b); call.CodeOf(err, "") != call.CodeGuestUnavailable {
			t.Errorf("Install() = %v", err)
		}
	})
	t.Run("context done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b := module(t, "echo")
		if err := w.box.Install(ctx, call.Digest(b), b); !errors.Is(err, context.Canceled) {
			t.Errorf("Install() = %v", err)
		}
	})
}

func TestRunNeedsAGrantAndArguments(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest := w.install(t, "echo")
	if _, o := w.box.Run(t.Context(), digest, args(t, `{}`), nil); o.Status != call.NotStarted || o.Code != call.CodeGrantMismatch {
		t.Errorf("without effects: %v", o)
	}
	if _, o := w.box.Run(t.Context(), digest, call.Args{}, w.effects(t, call.Bounds{})); o.Status != call.NotStarted || o.Code != call.CodeArgsInvalid {
		t.Errorf("without arguments: %v", o)
	}
}

func TestEndsFromOutside(t *testing.T) {
	tests := []struct {
		name string
		want call.Code
		end  func(context.CancelFunc, *world, func())
	}{
		{"cancelled", call.CodeCancelled, func(cancel context.CancelFunc, _ *world, _ func()) { cancel() }},
		{"sandbox closed", call.CodeCancelled, func(_ context.CancelFunc, w *world, _ func()) { _ = w.box.Close(context.Background()) }},
		{"grant dead", call.CodeCancelled, func(_ context.CancelFunc, _ *world, kill func()) { kill() }},
	}
	for _, guest := range []string{"spin", "sleep"} {
		for _, tt := range tests {
			t.Run(guest+" "+tt.name, func(t *testing.T) {
				w := open(t, sandbox.Options{})
				digest, fx := w.install(t, guest), w.effects(t, call.Bounds{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				timer := time.AfterFunc(50*time.Millisecond, func() { tt.end(cancel, w, func() { granttest.Kill(fx.Grant()) }) })
				defer timer.Stop()
				out, o := w.box.Run(ctx, digest, args(t, `{}`), fx)
				if out != nil || o.Code != tt.want {
					t.Errorf("Run() = %q, %v, want %s", out, o, tt.want)
				}
			})
		}
	}
	t.Run("deadline of the caller", func(t *testing.T) {
		w := open(t, sandbox.Options{})
		digest, fx := w.install(t, "spin"), w.effects(t, call.Bounds{})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, o := w.box.Run(ctx, digest, args(t, `{}`), fx); o.Status != call.Failed || o.Code != call.CodeTimeExceeded {
			t.Errorf("Run() = %v", o)
		}
	})
}

func TestWaitingForASlot(t *testing.T) {
	w := open(t, sandbox.Options{MaxConcurrent: 1})
	spin := w.install(t, "spin")
	ctx, cancel := context.WithCancel(t.Context())
	busy := w.effects(t, call.Bounds{})
	ended := make(chan call.Outcome)
	go func() {
		_, o := w.box.Run(ctx, spin, args(t, `{}`), busy)
		ended <- o
	}()
	// Whoever is second may be the spinning one; a run of no length tells.
	for {
		_, o := w.box.Run(t.Context(), spin, args(t, `{}`), w.effects(t, call.Bounds{TimeoutMS: 5}))
		if o.Code == call.CodeOverloaded {
			break
		}
	}
	late, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, o := w.box.Run(late, spin, args(t, `{}`), w.effects(t, call.Bounds{})); o.Status != call.NotStarted || o.Code != call.CodeTimeExceeded {
		t.Errorf("deadline while waiting: %v", o)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, o := w.box.Run(gone, spin, args(t, `{}`), w.effects(t, call.Bounds{})); o.Status != call.NotStarted || o.Code != call.CodeCancelled {
		t.Errorf("cancelled while waiting: %v", o)
	}
	cancel()
	if o := <-ended; o.Status != call.Failed || o.Code != call.CodeCancelled {
		t.Errorf("the busy one: %v", o)
	}
	must(t, w.box.Close(t.Context()))
	if _, o := w.box.Run(t.Context(), spin, args(t, `{}`), w.effects(t, call.Bounds{})); o.Status != call.NotStarted || o.Code != call.CodeEngineClosed {
		t.Errorf("after Close: %v", o)
	}
	b := module(t, "echo")
	if err := w.box.Install(t.Context(), call.Digest(b), b); call.CodeOf(err, "") != call.CodeEngineClosed {
		t.Errorf("Install() after Close = %v", err)
	}
}

// Guests on every processor must leave room for the collector: native code is
// not preempted, and stopping the world would wait for it for ever.
func TestCollectorRunsBesideGuests(t *testing.T) {
	n := runtime.GOMAXPROCS(0)
	w := open(t, sandbox.Options{MaxConcurrent: n})
	var wg sync.WaitGroup
	for i := range n {
		digest, fx := w.install(t, []string{"spin", "fib"}[i%2]), w.effects(t, call.Bounds{TimeoutMS: 400})
		wg.Go(func() {
			if _, o := w.box.Run(t.Context(), digest, args(t, `{}`), fx); o.Code != call.CodeTimeExceeded {
				t.Errorf("ended %s", o.Code)
			}
		})
	}
	for range 5 {
		runtime.GC()
	}
	wg.Wait()
}

func TestConcurrentRuns(t *testing.T) {
	w := open(t, sandbox.Options{MaxConcurrent: 8})
	echo, read, grow := w.install(t, "echo"), w.install(t, "read-file"), w.install(t, "hog")
	var wg sync.WaitGroup
	for i := range 16 {
		fx := w.effects(t, call.Bounds{MemoryBytes: 2 << 20}, "read")
		digest, in, want := echo, fmt.Sprintf(`{"n":%d}`, i), fmt.Sprintf(`{"n":%d}`, i)
		switch i % 3 {
		case 1:
			digest, in, want = read, `{"path":"/docs/reports/a.txt"}`, `{"text":"alpha"}`
		case 2:
			digest, want = grow, ""
		}
		wg.Go(func() {
			for range 5 {
				if out, o := w.box.Run(t.Context(), digest, args(t, in), fx); string(out) != want || (want == "") != (o.Code == call.CodeToolError) {
					t.Errorf("run %d: %q, %v", i, out, o)
				}
			}
		})
	}
	wg.Wait()
}
