package hostfx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

const execHere = true

// graceToEnd is how long the processes of a command have once they are told to end
// with SIGKILL. Only ones that the kernel itself holds up take longer.
const graceToEnd = 5 * time.Second

// Descriptors of the two processes between this one and the command. The first, which
// keeps the command, has all; the second, which becomes it, has no control.
const (
	fdOrders  = 3 + iota // a sealed file
	fdCommand            // the executable
	fdDir                // where it runs
	fdReport             // to write how it ended; of the second, why it did not begin
	fdControl            // ends when the command must
	fdGranted            // and on: the granted directories
)

// orders are what the two processes are told.
type orders struct {
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Ports   []int    `json:"ports"`
	Private bool     `json:"private"` // the directory is the command's own
	ABI     int      `json:"abi"`     // of Landlock, to be used
	Filter  bool     `json:"filter"`  // of system calls
	Script  bool     `json:"script"`  // its interpreter reads it by its descriptor
	Granted []uint64 `json:"granted"`
	CPU     uint64   `json:"cpu"`  // seconds
	Size    uint64   `json:"size"` // of any file that is written
	Data    uint64   `json:"data"` // of memory of each process, 0 for any
}

// ending is what became of a command.
type ending struct {
	Failed string `json:"failed,omitzero"` // why it did not begin
	Exit   int    `json:"exit,omitzero"`
	Signal int    `json:"signal,omitzero"`
	Crowd  bool   `json:"crowd,omitzero"` // it had too many processes
}

// running is a command that was started.
type running struct {
	ctx    context.Context // its end is the command's
	cmd    *exec.Cmd       // its keeper
	report *os.File
	level  string
	open   closers
}

// begin starts a command, which ends with ctx. What it prints goes to out. It may use
// as much of the processor as fits in left.
func (x *execution) begin(ctx context.Context, out *printed, left time.Duration) (_ *running, err error) {
	r := &running{ctx: ctx}
	defer func() {
		if err != nil {
			r.open.close()
		}
	}()
	command, script, err := x.executable()
	if err != nil {
		return nil, err
	}
	r.open.add(command)
	dir, err := x.workdir(&r.open)
	if err != nil {
		return nil, err
	}
	told, err := x.orders(script, left)
	if err != nil {
		return nil, err
	}
	r.open.add(told)
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.open.add(reportR, reportW)
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.open.add(controlR, controlW)

	launcher := x.fx.host.exec.launcher
	if launcher == "" {
		launcher = "/proc/self/exe" // the program that runs, also when its file was replaced
	}
	cmd := exec.CommandContext(ctx, launcher, execWord, "keep")
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = printing{out, 0}, printing{out, 1}, []string{}, "/"
	if x.Stdin != nil {
		cmd.Stdin = bytes.NewReader(x.Stdin)
	}
	cmd.ExtraFiles = []*os.File{told, command, dir, reportW, controlR}
	for _, d := range x.fx.dirs {
		cmd.ExtraFiles = append(cmd.ExtraFiles, d.self.at.dir)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel, cmd.WaitDelay = controlW.Close, graceToEnd
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrEnded, context.Cause(ctx))
		}
		return nil, fmt.Errorf("the command's keeper: %w", err)
	}
	x.out = int64(len(x.Stdin))
	x.level = x.would()
	r.cmd, r.report, r.level = cmd, reportR, x.level
	reportW.Close()
	controlR.Close()
	return r, nil
}

// wait waits until nothing is left of the command. What it printed is not in the
// answer.
func (r *running) wait() (*Ran, error) {
	defer r.open.close()
	waited := r.cmd.Wait()
	if cause := context.Cause(r.ctx); errors.Is(cause, ErrTooLarge) {
		return nil, ErrTooLarge
	} else if r.ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnded, cause)
	}
	var e ending
	report, err := io.ReadAll(io.LimitReader(r.report, 1<<16))
	if err == nil {
		err = json.Unmarshal(report, &e)
	}
	switch {
	case err != nil || waited != nil:
		return nil, errors.Join(errors.New("the command's keeper ended without a word"), waited)
	case e.Failed != "":
		return nil, fmt.Errorf("%w: %s", errNotBegun, e.Failed)
	case e.Crowd:
		return nil, fmt.Errorf("%w: it had more than %d processes", ErrEnded, maxProcesses)
	}
	ran := &Ran{Exit: e.Exit, Enforcement: r.level}
	if e.Signal != 0 {
		ran.Exit, ran.Signal = -1, syscall.Signal(e.Signal).String()
	}
	return ran, nil
}

// environment is all that a command has of one. Without a language of its own it speaks
// the one that programs expect to read.
func environment(env []string) []string {
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "LANG=") }) {
		return env
	}
	return append([]string{"LANG=C"}, env...)
}

// executable opens what the path leads to, once. All that follows is about the open
// file: it is what runs.
func (x *execution) executable() (f *os.File, script bool, err error) {
	fd, err := retried(func() (int, error) { return unix.Open(x.Path, unix.O_RDONLY|looking, 0) })
	if err != nil {
		return nil, false, fmt.Errorf("the command: %w", err)
	}
	f = os.NewFile(uintptr(fd), "")
	i, err := statFile(f)
	switch {
	case err != nil:
	case !i.Mode().IsRegular() || i.Mode()&0o111 == 0:
		err = fmt.Errorf("%w: no executable file", ErrNotGranted)
	case x.writable(f):
		err = fmt.Errorf("%w: the call may write the command itself", ErrNotGranted)
	}
	if err != nil {
		f.Close()
		return nil, false, err
	}
	var magic [2]byte
	n, _ := f.ReadAt(magic[:], 0)
	return f, string(magic[:n]) == "#!", nil
}

// writable reports whether the call may change or replace a file, and takes doubt for
// that.
func (x *execution) writable(f *os.File) bool {
	name, err := realName(f)
	if err != nil {
		return true
	}
	for _, d := range x.fx.dirs {
		if d.modes.Write || d.modes.Append || d.modes.Remove {
			if dir, err := realName(d.self.at.dir); err != nil || dir == "/" || below(dir, name) {
				return true
			}
		}
	}
	return false
}

// realName is where an open file is, without links.
func realName(f *os.File) (name string, err error) {
	err = control(f, func(fd int) (err error) {
		name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return err
	})
	return name, err
}

// workdir opens the directory in which the command runs.
func (x *execution) workdir(open *closers) (*os.File, error) {
	if x.Dir == "" {
		name, err := os.MkdirTemp("", "callgate-exec-")
		if err != nil {
			return nil, err
		}
		open.then(func() { os.RemoveAll(name) })
		fd, err := unix.Open(name, pathOnly|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), "")
		open.add(f)
		return f, nil
	}
	clean := path.Clean(x.Dir)
	if !path.IsAbs(x.Dir) || len(x.Dir) > maxPath || strings.ContainsRune(x.Dir, 0) {
		return nil, fmt.Errorf("%w: the directory", ErrNotGranted)
	}
	var best *Dir
	for _, d := range x.fx.dirs {
		if (clean == d.name || below(d.name, clean)) && d.modes != (Modes{}) && (best == nil || len(d.name) > len(best.name)) {
			best = d
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: the directory", ErrNotGranted)
	}
	at, err := best.self.at.sub(relative(strings.TrimPrefix(clean, best.name)))
	if errors.Is(err, errOutside) {
		err = ErrNotGranted
	}
	if err != nil {
		return nil, fmt.Errorf("the directory: %w", err)
	}
	open.then(func() { at.close() })
	return at.dir, nil
}

// orders are in a file that nobody can change any more.
func (x *execution) orders(script bool, left time.Duration) (*os.File, error) {
	k := x.fx.host.exec.kernel()
	o := orders{
		Argv: append([]string{x.Path}, x.Args...), Env: environment(x.Env), Ports: x.Ports, Private: x.Dir == "", ABI: k.abi, Filter: k.filter, Script: script,
		CPU:  uint64(left/time.Second) + 1,
		Size: uint64(x.fx.quota.left()), Data: uint64(max(x.fx.caps.Bounds.MemoryBytes, 0)),
	}
	for _, d := range x.fx.dirs {
		o.Granted = append(o.Granted, landlockRights(d.modes))
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("orders", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "")
	_, err = f.Write(b)
	if err == nil {
		err = control(f, func(fd int) error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
			return err
		})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// left is how many bytes the call may still write.
func (q *quota) left() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// closers are closed in the end, and closing one earlier does no harm.
type closers []func()

func (c *closers) add(files ...*os.File) {
	for _, f := range files {
		c.then(func() { f.Close() })
	}
}

func (c *closers) then(f func()) { *c = append(*c, f) }

func (c *closers) close() {
	for _, f := range *c {
		f()
	}
}
