package sandbox_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// refused is the error of installing a guest, which has to be guest_unavailable.
func refused(t *testing.T, o sandbox.Options, b []byte) string {
	t.Helper()
	box, err := sandbox.New(t.Context(), o)
	must(t, err)
	defer box.Close(t.Context())
	err = box.Install(t.Context(), call.Digest(b), b)
	if call.CodeOf(err, "") != call.CodeGuestUnavailable {
		t.Fatalf("Install() = %v, want %s", err, call.CodeGuestUnavailable)
	}
	if _, out := box.Run(t.Context(), call.Digest(b), args(t, `{}`), nil); out.Code != call.CodeGuestUnavailable {
		t.Errorf("Run() = %s of a module that is not installed", out.Code)
	}
	return err.Error()
}

// Whatever becomes of the process that compiles, the module is refused, and the
// reason is one that helps and does nothing to a terminal.
func TestCompileChildFails(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	must(t, os.WriteFile(plain, []byte("no program"), 0o600))
	tests := []struct {
		name     string
		compiler []string
		cpu      time.Duration
		want     string
	}{
		{name: "garbage", compiler: playing(t, "garbage", ""), want: "not in the form that belongs to the module: it begins otherwise"},
		{name: "nothing", compiler: playing(t, "silent", ""), want: "not in the form that belongs to the module"},
		{name: "too much", compiler: playing(t, "flood", ""), want: "compiling gave more than"},
		{name: "a reason", compiler: playing(t, "complain", ""), want: "bad [31m news more"},
		{name: "a crash", compiler: playing(t, "crash", ""), want: "ended with exit status 2: first line"},
		{name: "killed", compiler: playing(t, "killed", ""), want: "ended with signal: killed"},
		{name: "too long", compiler: playing(t, "spin", ""), cpu: time.Second, want: "more than 1s of processor time"},
		{name: "no program", compiler: []string{filepath.Join(t.TempDir(), "missing")}, want: "no such file"},
		{name: "not executable", compiler: []string{plain}, want: "permission denied"},
		{name: "of another kind", compiler: []string{"/dev/null"}, want: "permission denied"},
	}
	if sandbox.Address() > 0 {
		tests = append(tests, slices.Clone(tests[:1])...)
		hog := &tests[len(tests)-1]
		hog.name, hog.compiler, hog.want = "too much memory", playing(t, "hog", ""), "more than 3221225472 bytes of memory"
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := refused(t, sandbox.Options{Compiler: tt.compiler, CompileCPU: tt.cpu}, module(t, "echo"))
			if !strings.Contains(got, tt.want) || strings.ContainsAny(got, "\x1b\n") {
				t.Errorf("Install() = %q, want %q in it", got, tt.want)
			}
		})
	}
}

// A child has the module, its limits, and nothing of ours: no environment, and no
// descriptor, not even one that every program of this process would get.
func TestCompileChildHasNothing(t *testing.T) {
	t.Setenv("CALLGATE_CANARY", canary)
	f, err := os.Open(os.DevNull)
	must(t, err)
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd())) // not closed on exec
	must(t, err)
	defer unix.Close(fd)
	got := refused(t, sandbox.Options{Compiler: playing(t, "look", "")}, module(t, "echo"))
	want := "error <nil> env 0 open [] leads true cpu 7/7 core 0 module true " + lookedMore
	if !strings.Contains(got, want) {
		t.Errorf("the child found %q, want %q", got, want)
	}
}

// bomb is a module that meter lets pass and that takes many seconds to compile: MiBs of
// plain arithmetic.
func bomb() []byte {
	const functions = 240
	sized := func(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }
	section := func(id byte, b []byte) []byte { return append([]byte{id}, sized(b)...) }
	body := []byte{0}
	for len(body) < 100<<10 {
		body = append(body, 0x23, 0, 0x41, 3, 0x6c, 0x24, 0) // a global, times 3
	}
	body = sized(append(body, 0x0b))
	count := binary.AppendUvarint(nil, functions+1)
	code := append(slices.Clone(count), 2, 0, 0x0b)
	for range functions {
		code = append(code, body...)
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{1, 0x60, 0, 0}),
		section(3, slices.Concat(count, make([]byte, functions+1))),
		section(6, []byte{1, 0x7f, 1, 0x41, 0, 0x0b}),
		section(7, slices.Concat([]byte{1, 6}, []byte("_start"), []byte{0, 0})),
		section(10, code))
}

// A module that takes long to compile is refused when its time is over, and until
// then the host notices nothing: guests run, garbage is collected, timers fire.
func TestCompileBomb(t *testing.T) {
	w := open(t, sandbox.Options{CompileCPU: time.Second})
	digest := w.install(t, "echo")
	b := bomb()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = w.box.Install(t.Context(), call.Digest(b), b)
	}()
	ran := 0
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(time.Millisecond):
			runtime.GC()
			if out, o := w.box.Run(t.Context(), digest, args(t, `{"a":1}`), w.effects(t, call.Bounds{})); string(out) != `{"a":1}` {
				t.Fatalf("a run meanwhile: %q, %v", out, o)
			}
			ran++
		}
	}
	if call.CodeOf(err, "") != call.CodeGuestUnavailable || !strings.Contains(err.Error(), "processor time") {
		t.Errorf("Install() = %v", err)
	}
	if ran == 0 {
		t.Error("nothing ran meanwhile")
	}
}

// held waits until a child that hangs has its file.
func held(t *testing.T, file string) {
	t.Helper()
	for b, _ := os.ReadFile(file); string(b) != "held"; b, _ = os.ReadFile(file) {
		runtime.Gosched()
	}
}

// gone waits until the child that hangs is no more.
func gone(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
}

// A child ends with the wish to compile, with the sandbox, and with the process
// that has it, however that ends.
func TestCompileChildEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	b := module(t, "echo")
	hanging := func(t *testing.T, end func(*sandbox.Sandbox, context.CancelFunc)) error {
		must(t, os.Truncate(file, 0))
		box, err := sandbox.New(t.Context(), sandbox.Options{Compiler: playing(t, "hang", file)})
		must(t, err)
		defer box.Close(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() { done <- box.Install(ctx, call.Digest(b), b) }()
		held(t, file)
		end(box, cancel)
		err = <-done
		gone(t, file)
		return err
	}
	t.Run("cancelled", func(t *testing.T) {
		err := hanging(t, func(_ *sandbox.Sandbox, cancel context.CancelFunc) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Install() = %v", err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		err := hanging(t, func(box *sandbox.Sandbox, _ context.CancelFunc) { go box.Close(context.Background()) })
		if call.CodeOf(err, "") != call.CodeEngineClosed {
			t.Errorf("Install() = %v", err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			return // nothing ties a child to its parent's end
		}
		must(t, os.Truncate(file, 0))
		self, err := os.Executable()
		must(t, err)
		cmd := exec.Command(self, "waiter", file)
		must(t, cmd.Start())
		held(t, file)
		must(t, cmd.Process.Kill())
		cmd.Wait()
		gone(t, file)
	})
}

// Two who install the same module wait for one compilation.
func TestInstallAtOnce(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	w := open(t, sandbox.Options{CacheDir: dir, CacheKey: cacheKey})
	b := module(t, "echo")
	var failed atomic.Int32
	done := make(chan struct{})
	for range 8 {
		go func() {
			if err := w.box.Install(t.Context(), call.Digest(b), b); err != nil {
				failed.Add(1)
			}
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	if n := failed.Load(); n > 0 {
		t.Errorf("%d failed", n)
	}
	if out, o := w.run(t, "echo", `{"a":1}`, call.Bounds{}); out != `{"a":1}` {
		t.Errorf("run = %q, %v", out, o)
	}
}
