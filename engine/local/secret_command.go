package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limits of commands that print credentials.
const (
	commandTime    = 10 * time.Second
	commandOutput  = 64 << 10 // bytes
	commandsAtOnce = 8        // further ones wait, for the same time
)

// commands runs what prints credentials.
type commands struct {
	time  time.Duration
	slots chan struct{}
	hides []string        // variables of the environment with other credentials
	ctx   context.Context // of all of them
	close func()          // ends them, and waits until they are gone; none starts afterwards
}

// commands are those of one engine.
func (c Config) commands() *commands {
	m := newCommands()
	for _, l := range c.Layers {
		m.hides = append(m.hides, l.TokenEnv)
	}
	if c.State != nil {
		m.hides = append(m.hides, c.State.PasswordEnv)
	}
	return m
}

func newCommands() *commands {
	c := &commands{time: commandTime, slots: make(chan struct{}, commandsAtOnce)}
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx, c.close = ctx, sync.OnceFunc(func() {
		cancel()
		for range commandsAtOnce {
			c.slots <- struct{}{}
		}
	})
	return c
}

// read is what a command prints. Its errors name the command's path, and neither its
// arguments nor anything that it said.
func (c *commands) read(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return "", fmt.Errorf("%s: others took too long", argv[0])
	}
	out := &output{b: make([]byte, commandOutput+1), over: cancel}
	defer out.wipe()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout = c.environment(), "/", out
	// A group of its own, so that what it started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if cmd.Process != nil { // no other group has its number while anything of it is left
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return line(out.b[:out.n]), nil
	case out.n > commandOutput:
		return "", fmt.Errorf("%s: printed more than %d bytes, and was ended", argv[0], commandOutput)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: took more than %v, and was ended", argv[0], c.time)
	case errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("%s: left something behind that holds its output", argv[0])
	case exited && exit.Exited():
		return "", fmt.Errorf("%s: exit status %d", argv[0], exit.ExitCode())
	case exited:
		return "", fmt.Errorf("%s: a signal ended it", argv[0])
	}
	return "", fmt.Errorf("%s: cannot be run: %w", argv[0], err) // of the system's words only
}

// environment is that of this process without its credentials. The command needs none
// of them, and other processes of the user can read its environment: what keeps them
// from reading ours, [hostfx.Harden], ends where another program begins.
func (c *commands) environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, variables) || slices.Contains(c.hides, name)
	})
}

// output keeps what a command prints in one piece of memory, which can be wiped.
type output struct {
	b    []byte
	n    int
	over func() // it is full
}

// ReadFrom implements [io.ReaderFrom], so that nobody copies it through a buffer of
// their own.
func (o *output) ReadFrom(r io.Reader) (int64, error) {
	begin := o.n
	for o.n < len(o.b) {
		n, err := r.Read(o.b[o.n:])
		o.n += n
		if err == io.EOF {
			return int64(o.n - begin), nil
		}
		if err != nil {
			return int64(o.n - begin), err
		}
	}
	o.over()
	return int64(o.n - begin), io.ErrShortWrite
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	n := copy(o.b[o.n:], b)
	if o.n += n; o.n == len(o.b) {
		o.over()
		return n, io.ErrShortWrite
	}
	return n, nil
}

func (o *output) wipe() { clear(o.b) }
