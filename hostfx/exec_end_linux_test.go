package hostfx_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// lingering is a command that left a process behind, in another session and without
// its parent, which holds a FIFO open.
type lingering struct {
	held io.ReadCloser // ends with the last process that holds it
	stay string        // a FIFO: the command stays until something is written to it
}

// linger has the probe do that, by run, and returns when the process is there.
func (s shop) linger(t *testing.T, run func(args []string)) lingering {
	t.Helper()
	held, stay := filepath.Join(s.root, "work/held"), filepath.Join(s.root, "work/stay")
	must(t, unix.Mkfifo(held, 0o644))
	must(t, unix.Mkfifo(stay, 0o644))
	go run([]string{"linger", held, stay})
	f, err := os.OpenFile(held, os.O_RDONLY, 0) // returns when somebody opens it for writing
	must(t, err)
	t.Cleanup(func() { f.Close() })
	if line, err := bufio.NewReader(f).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	return lingering{f, stay}
}

func (l lingering) gone(t *testing.T) {
	t.Helper()
	if b, err := io.ReadAll(l.held); err != nil || len(b) > 0 {
		t.Errorf("the process that was left: %q, %v", b, err)
	}
}

// However a command ends, nothing that it started is left.
func TestNothingOutlivesACommand(t *testing.T) {
	type result struct {
		ran *hostfx.Ran
		err error
	}
	tests := []struct {
		name string
		end  func(l lingering, fx *hostfx.Effects, cancel func())
		want error
		code string
	}{
		{"it ends itself", func(l lingering, _ *hostfx.Effects, _ func()) { os.WriteFile(l.stay, []byte("x"), 0) }, nil, "ok"},
		{"the caller goes away", func(_ lingering, _ *hostfx.Effects, cancel func()) { cancel() }, context.Canceled, "stopped"},
		{"the call ends", func(_ lingering, fx *hostfx.Effects, _ func()) { fx.Close() }, context.Canceled, "stopped"},
	}
	for _, abi := range []int{newestABI, 5} { // with a fence around signals, and without
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := newShop(t)
				hostfx.SetKernel(s.host, abi, true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan result, 1)
				var fx *hostfx.Effects
				opened := make(chan struct{})
				l := s.linger(t, func(args []string) {
					fx = s.open(t, call.Caps{FS: work("read", "write"), Exec: exactly(probe(t), args...), Bounds: call.Bounds{TimeoutMS: 600_000}})
					close(opened)
					ran, err := fx.Run(ctx, hostfx.Command{Path: probe(t), Args: args})
					done <- result{ran, err}
				})
				<-opened
				tt.end(l, fx, cancel)
				r := <-done
				if !errors.Is(r.err, tt.want) || tt.want != nil && !errors.Is(r.err, hostfx.ErrEnded) || tt.want == nil && r.ran.Exit != 0 {
					t.Errorf("Run() = %v, %v, want %v", r.ran, r.err, tt.want)
				}
				l.gone(t)
				if got := fx.Close(); len(got) != 1 || got[0].Code != tt.code {
					t.Errorf("effects %v", got)
				}
			})
		}
	}
}

// An owner that is killed has no time to end anything, not even what goes on without a
// call.
func TestCommandsEndWithTheirOwner(t *testing.T) {
	const variable = "CALLGATE_TEST_OWNER"
	if args := os.Getenv(variable); args != "" {
		split := strings.Split(args, "\n")
		h, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: split[1]}}})
		must(t, err)
		fx, err := h.OpenFor(t.Context(), mint(t, call.Caps{FS: work("read", "write"), Exec: exactly(split[2], split[3:]...), Bounds: call.Bounds{TimeoutMS: 600_000}}), ours)
		must(t, err)
		c := hostfx.Command{Path: split[2], Args: split[3:]}
		if split[0] == "run" {
			_, err = fx.Run(t.Context(), c)
			t.Fatalf("the command ended: %v", err)
		}
		_, err = fx.Start(t.Context(), c)
		must(t, err)
		fx.Close()
		select {}
	}
	for _, how := range []string{"run", "start"} {
		t.Run(how, func(t *testing.T) {
			s := newShop(t)
			self, err := os.Executable()
			must(t, err)
			cmd := exec.Command(self, "-test.run=^TestCommandsEndWithTheirOwner$")
			cmd.Stdout = new(bytes.Buffer)
			begun := make(chan error, 1)
			l := s.linger(t, func(args []string) {
				cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), variable+"="+strings.Join(append([]string{how, s.root, probe(t)}, args...), "\n"))
				begun <- cmd.Start()
			})
			must(t, <-begun)
			must(t, cmd.Process.Signal(syscall.SIGKILL))
			cmd.Wait()
			l.gone(t)
		})
	}
}

func TestCommandsAreBounded(t *testing.T) {
	s := newShop(t)
	tests := []struct {
		name   string
		args   []string
		bounds call.Bounds
		want   error
		code   string
	}{
		{"time", []string{"hang"}, call.Bounds{TimeoutMS: 200}, context.DeadlineExceeded, "stopped"},
		{"no time at all", []string{"hang"}, call.Bounds{TimeoutMS: 1}, context.DeadlineExceeded, "stopped"},
		{"output", []string{"flood"}, call.Bounds{OutputBytes: 100_000}, hostfx.ErrTooLarge, "over_cap"},
		{"a byte of output", []string{"args", "1234"}, call.Bounds{OutputBytes: 7}, hostfx.ErrTooLarge, "over_cap"},
		{"just the output", []string{"args", "1234"}, call.Bounds{OutputBytes: 8}, nil, "ok"},
		{"processes", []string{"crowd"}, call.Bounds{TimeoutMS: 600_000}, hostfx.ErrEnded, "stopped"},
		{"a process that is ever another one", []string{"start", "/bin/sh", "-c", "c() { c & }; c; sleep 10000"}, call.Bounds{TimeoutMS: 500}, context.DeadlineExceeded, "stopped"},
	}
	for _, abi := range []int{newestABI, 5} {
		hostfx.SetKernel(s.host, abi, true)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				fx := s.open(t, call.Caps{Exec: exactly(probe(t), tt.args...), Bounds: tt.bounds})
				ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: tt.args})
				if !errors.Is(err, tt.want) || (ran == nil) != (tt.want != nil) {
					t.Errorf("Run() = %v, %v, want %v", ran, err, tt.want)
				}
				if got := fx.Close(); len(got) != 1 || got[0].Code != tt.code {
					t.Errorf("effects %v", got)
				}
			})
		}
	}
}

// A command counts as an open file while it runs, and several run at once.
func TestCommandsAtOnce(t *testing.T) {
	s := newShop(t)
	var fx *hostfx.Effects
	opened, done := make(chan struct{}), make(chan error, 1)
	l := s.linger(t, func(args []string) {
		fx = s.open(t, call.Caps{FS: work("read", "write"), Bounds: call.Bounds{OpenFiles: 2, TimeoutMS: 600_000}, Exec: []call.Exec{{Command: probe(t), Args: args}, {Command: "/bin/true"}}})
		close(opened)
		_, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: args})
		done <- err
	})
	<-opened
	if _, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"}); err != nil {
		t.Errorf("a second command: %v", err)
	}
	f, err := fx.OpenRead("/docs/work/a.txt")
	must(t, err)
	if _, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"}); !errors.Is(err, hostfx.ErrTooManyOpen) {
		t.Errorf("with all files open: %v", err)
	}
	must(t, f.Close())
	must(t, os.WriteFile(l.stay, []byte("x"), 0))
	must(t, <-done)
}
