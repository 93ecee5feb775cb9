package hostfx

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"github.com/callgate/callgate/engine/call"
)

// How far the kernel holds a command to its grant.
const (
	// Enforced: files, signals and the network by Landlock, and by a filter of
	// system calls what Landlock does not know.
	Enforced = "enforced"

	// Partial: as Enforced, but the kernel's Landlock is older than Linux 6.12. It
	// does not keep commands from signalling processes of the same user, and before
	// Linux 6.2 not from emptying files outside.
	Partial = "partial"

	// Unavailable: the kernel confines nothing. What a command does is between it and
	// the user that it runs as.
	Unavailable = "unavailable"
)

// Limits of one command.
const (
	maxArgv      = 128 << 10 // bytes of all arguments together, as Linux has for one
	maxProcesses = 128       // that a command and what it starts have at once
	maxExecFiles = 256       // descriptors of each process
)

// ErrEnded says that a command was ended before it was done. It is also
// [context.DeadlineExceeded] or [context.Canceled] when that is why, and otherwise
// the command had too many processes.
var ErrEnded = errors.New("the command was ended")

// Command is what a tool asks to be run.
type Command struct {
	Path  string   // absolute, as the grant has it
	Args  []string // without the command itself; passed as they are, never through a shell
	Dir   string   // where it runs: /<root>/<granted path>/x; "" for an empty directory of its own
	Stdin []byte   // all that it can read there; nil for nothing
}

// Ran is what a command did that ended by itself, well or not.
type Ran struct {
	Exit           int    // its exit status; -1 when a signal ended it
	Signal         string // that ended it, such as "killed"; "" for none
	Stdout, Stderr []byte
	Enforcement    string // [Enforced], [Partial] or [Unavailable]
}

// Run runs one command and waits for its end. The command must be in the grant by its
// very path, and its arguments must match the grant's patterns for it, one by one.
//
// The path is followed once, and the file that was looked at there is the one that
// runs. Links in it are the operator's own, as in [Root]. A file inside a granted
// directory in which the call may write or remove does not run.
//
// The command has nothing of this process: no descriptors (but a script has its own
// file's), no terminal, and of the environment LANG=C alone. It can write where the grant lets the call write, and
// nowhere else. What it starts ends with it, and so does everything with the call, with
// this process, with ctx, and with more than 128 processes at once. What it prints is
// at most the grant's output_bytes (1 MiB unless it says), stdout and stderr together.
// No file that it writes becomes larger than what the call may still write; together
// they may.
//
// On Linux it is confined to the granted directories, in their modes, and to reading
// and starting what is in /usr, /bin, /sbin and /lib. It has no network and no
// sockets but pairs of them, signals no processes outside, sees nothing of /proc, gains
// no privileges, and has none of root's. The mode append gives it nothing, since the
// kernel cannot hold it to that. Modes, owners, times and attributes of files are not its
// to change, nor links, FIFOs and devices to make. Elsewhere there is no confinement
// and so no command.
//
// It is the effect exec, with the command's path as Within and Target, and the bytes
// of stdin and of what it printed. Its code is ok for exit status 0 and error for
// others. It counts as an open file while it runs, and as one of the grant's calls.
//
// # Errors
//
// [ErrNotGranted], also for a command that is no regular file or not executable, for a
// directory that is not within the grant, and when no calls are left;
// [ErrTooLarge] for arguments of more than 128 KiB and for too much output, of which
// nothing is returned then; [ErrChanged]; [ErrTooManyOpen]; [ErrEnded]; or one that says
// why the command could not be started.
func (fx *Effects) Run(ctx context.Context, c Command) (*Ran, error) {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return nil, err
	}
	x := &execution{fx: fx, Command: c}
	ran, err := x.do(ctx)
	fx.log.addExec(x, execCode(ran, err))
	if err != nil {
		return nil, err
	}
	return ran, nil
}

// execution is one command.
type execution struct {
	Command
	fx      *Effects
	granted string // the command, once it is granted
	level   string // once it is confined
	moved   int64  // bytes of stdin and of what it printed
}

// do must be called with life held.
func (x *execution) do(ctx context.Context) (*Ran, error) {
	if !x.allowed() {
		return nil, ErrNotGranted
	}
	x.granted = x.Path
	size := 0
	for _, a := range x.Args {
		size += len(a) + 1
	}
	if size > maxArgv {
		return nil, fmt.Errorf("%w: arguments of more than %d bytes", ErrTooLarge, maxArgv)
	}
	if err := x.fx.unchanged(); err != nil {
		return nil, err
	}
	if !x.fx.budget.call() {
		return nil, fmt.Errorf("%w: no calls are left", ErrNotGranted)
	}
	if !x.fx.keep(x) {
		return nil, ErrTooManyOpen
	}
	defer x.fx.drop(x)
	return x.run(ctx)
}

func (x *execution) allowed() bool {
	return path.IsAbs(x.Path) && path.Clean(x.Path) == x.Path && !strings.ContainsRune(x.Path, 0) && len(x.Path) <= maxPath &&
		x.fx.caps.Allows(call.Op{Kind: call.OpExec, Command: x.Path, Argv: x.Args})
}

// Close and end are for the list of open handles. They do nothing: a command ends
// with the call's context, and Close of Effects waits for it.
func (x *execution) Close() error { return nil }
func (x *execution) end() error   { return nil }

func execCode(ran *Ran, err error) string {
	switch {
	case err == nil && ran.Exit == 0:
		return ok
	case errors.Is(err, ErrNotGranted):
		return refused
	case errors.Is(err, ErrTooLarge):
		return overCap
	case errors.Is(err, ErrChanged):
		return changed
	case errors.Is(err, ErrEnded):
		return stopped
	}
	return failed
}

func (l *effectLog) addExec(x *execution, code string) {
	e := l.add("exec", x.granted, x.Path, code)
	e.bytes.Add(x.moved)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e != l.rest {
		e.effect.Enforcement = x.level
	}
}

// commands is what a Host knows about running them.
type commands struct {
	demand   string // the least that must hold
	launcher string // a program that calls Main; "" is this one
	kernel   func() confinement
}

// confinement is what a kernel can do.
type confinement struct {
	abi    int  // of Landlock, 0 for none
	filter bool // of system calls
}

func (c confinement) level() string {
	switch {
	case c.abi >= abiScope && c.filter:
		return Enforced
	case c.abi > 0 && c.filter:
		return Partial
	}
	return Unavailable
}

// abiScope is the first of Landlock's ABIs that keeps signals and abstract sockets
// within, Linux 6.12.
const abiScope = 6

var levels = map[string]int{Unavailable: 0, Partial: 1, Enforced: 2}

func newCommands(o Options) (commands, error) {
	c := commands{demand: o.ExecEnforcement, launcher: o.Launcher, kernel: kernelConfines}
	if c.demand == "" {
		c.demand = Enforced
	}
	if _, known := levels[c.demand]; !known {
		return commands{}, fmt.Errorf("hostfx: ExecEnforcement is %q and not %s, %s or %s", c.demand, Enforced, Partial, Unavailable)
	}
	if c.launcher != "" && !path.IsAbs(c.launcher) {
		return commands{}, errors.New("hostfx: Launcher is not an absolute path")
	}
	return c, nil
}

// commands of a nil Host are none.
func (h *Host) commands() commands {
	if h == nil {
		return commands{kernel: func() confinement { return confinement{} }}
	}
	return h.exec
}

// ready says why commands cannot run here as the operator demands.
func (c commands) ready() error {
	unconfined := func(why string) error { return &call.Error{Code: call.CodeExecUnconfined, Detail: why} }
	has := c.kernel().level()
	switch {
	case !execHere:
		return unconfined("commands run on Linux only")
	case c.demand == "":
		return unconfined("there is no host to run commands on")
	case levels[has] < levels[c.demand]:
		return unconfined(fmt.Sprintf("the kernel's confinement is %s, and the operator demands %s", has, c.demand))
	case c.launcher == "" && !mainCalled.Load():
		return unconfined("the program does not call hostfx.Main first in its main function, and no other is named as Launcher")
	}
	return nil
}

var mainCalled atomic.Bool
