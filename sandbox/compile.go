package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tetratelabs/wazero"
)

// maxChildren is how many modules a sandbox compiles at a time.
const maxChildren = 2

// maxComplaint is how much of what a compile child writes to stderr is read.
const maxComplaint = 4 << 10

// compiler starts processes that compile.
type compiler struct {
	command []string      // program and arguments before ours
	cpu     time.Duration // zero: by the size of the module
	wall    func(cpu time.Duration) time.Duration
	slots   chan struct{} // one for each child
}

// newCompiler refuses what cannot work: without Main, our own program would not
// compile but start once more.
func newCompiler(command []string, cpu time.Duration) (*compiler, error) {
	if cpu < 0 {
		return nil, fmt.Errorf("CompileCPU is %v", cpu)
	}
	if len(command) == 0 {
		if !mainCalled.Load() {
			return nil, errors.New("the program does not call sandbox.Main first in its main function, and no other is named in Compiler that would compile")
		}
		self, err := selfCommand()
		if err != nil {
			return nil, err
		}
		command = []string{self}
	}
	command = slices.Clone(command)
	if strings.ContainsRune(command[0], os.PathSeparator) { // a child starts elsewhere
		var err error
		if command[0], err = filepath.Abs(command[0]); err != nil {
			return nil, err
		}
	}
	return &compiler{
		command: command, cpu: cpu, slots: make(chan struct{}, maxChildren),
		// A busy machine gives a process of low priority little of its time; one that
		// does nothing at all ends here.
		wall: func(cpu time.Duration) time.Duration { return 30*cpu + 30*time.Second },
	}, nil
}

// allowance is the processor time for a module: what is usual is well below a
// second for a megabyte.
func (c *compiler) allowance(wasm []byte) time.Duration {
	if c.cpu == 0 {
		return slowdown * (5 + time.Duration(len(wasm)>>20)) * time.Second
	}
	return (c.cpu + time.Second - 1).Truncate(time.Second) // the kernel counts those
}

// run compiles wasm in a child that works in dir, and returns what that wrote.
func (c *compiler) run(ctx context.Context, dir string, wasm []byte) ([]byte, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	cpu := c.allowance(wasm)
	limited, cancel := context.WithTimeout(ctx, c.wall(cpu))
	defer cancel()
	cmd := exec.CommandContext(limited, c.command[0], append(c.command[1:len(c.command):len(c.command)], compileWord, strconv.Itoa(int(cpu/time.Second)))...)
	out, complaint := &capped{most: maxArtefact(len(wasm)), over: cancel}, &capped{most: maxComplaint}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(wasm), out, complaint
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{}, dir, attributes()
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second // for pipes that somebody else holds, too
	err := onThread(cmd.Run)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.full:
		return nil, fmt.Errorf("compiling gave more than %d bytes", out.most)
	case limited.Err() != nil:
		return nil, fmt.Errorf("compiling took longer than %v", c.wall(cpu))
	case err != nil:
		return nil, failure(err, cpu, string(complaint.kept))
	}
	return out.kept, nil
}

// failure says what became of a child that did not end well.
func failure(err error, cpu time.Duration, complaint string) error {
	exit, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case !ran:
		return fmt.Errorf("the process that compiles cannot run: %w", err)
	case exit.ExitCode() == exitRefused:
		return errors.New(printed(complaint))
	case exit.ExitCode() < 0 && exit.UserTime()+exit.SystemTime() > cpu/2: // a signal; what is told here is less than what counted
		return fmt.Errorf("compiling took more than %v of processor time", cpu)
	case strings.Contains(complaint, "out of memory") || strings.Contains(complaint, "cannot allocate memory"):
		return fmt.Errorf("compiling took more than %d bytes of memory", int64(compileAddress))
	default:
		first, _, _ := strings.Cut(complaint, "\n")
		return fmt.Errorf("the process that compiles ended with %v: %s", exit.ProcessState, printed(first))
	}
}

// printed is text of a process that a hostile module had a part in.
func printed(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " ")))
}

// capped keeps at most so many bytes. Of more it keeps nothing more, and calls
// over if there is one.
type capped struct {
	kept []byte
	most int64
	full bool
	over func()
}

func (c *capped) Write(b []byte) (int, error) {
	room := c.most - int64(len(c.kept))
	if int64(len(b)) > room {
		c.kept, c.full = append(c.kept, b[:room]...), true
		if c.over != nil {
			c.over()
		}
		return len(b), nil
	}
	c.kept = append(c.kept, b...)
	return len(b), nil
}

// compile makes a module that meter wrote ready to run. This process never
// compiles it: a child does, or did before.
func (s *Sandbox) compile(ctx context.Context, wasm []byte) (wazero.CompiledModule, error) {
	artefact := s.disk.get(wasm)
	if artefact == nil || s.store.verify(artefact, wasm) != nil {
		if err := s.store.ready(); err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp(s.store.dir, "child-")
		if err != nil {
			return nil, err
		}
		artefact, err = s.compiler.run(ctx, dir, wasm)
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return nil, err
		}
		if err := s.store.verify(artefact, wasm); err != nil {
			return nil, err
		}
		s.disk.put(wasm, artefact)
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	return s.store.load(ctx, s.runtime, wasm, artefact)
}
