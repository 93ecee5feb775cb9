package hostfx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	Env   []string // of its environment, NAME=value, each as the grant has it
	Ports []int    // that it may connect to over TCP, each in the grant
	Dir   string   // where it runs: /<root>/<granted path>/x; "" for an empty directory of its own
	Stdin []byte   // all that it can read there; nil for nothing
}

// clone is what is checked and then run, whatever becomes of c.
func (c Command) clone() Command {
	c.Args, c.Env, c.Ports, c.Stdin = slices.Clone(c.Args), slices.Clone(c.Env), slices.Clone(c.Ports), bytes.Clone(c.Stdin)
	return c
}

// Ran is what a command did that ended by itself, well or not.
type Ran struct {
	Exit           int    // its exit status; -1 when a signal ended it
	Signal         string // that ended it, such as "killed"; "" for none
	Stdout, Stderr []byte
	Enforcement    string // [Enforced], [Partial] or [Unavailable]
}

// Run runs one command and waits for its end. The command must be in the grant by its
// very path, its arguments must match the grant's patterns for it, one by one, and the
// same entry must have all of its environment and ports.
//
// The path is followed once, and the file that was looked at there is the one that
// runs. Links in it are the operator's own, as in [Root]. A file inside a granted
// directory in which the call may write or remove does not run.
//
// The command has nothing of this process: no descriptors (but a script has its own
// file's), no terminal, and nothing of its environment. Its own is what Env says, and
// LANG=C if that says no LANG. It can write where the grant lets the call write, and
// nowhere else. What it starts ends with it, and so does everything with the call, with
// this process, with ctx, and with more than 128 processes at once. What it prints is
// at most the grant's output_bytes (1 MiB unless it says), stdout and stderr together.
// No file that it writes becomes larger than what the call may still write; together
// they may.
//
// On Linux it is confined to the granted directories, in their modes, and to reading
// and starting what is in /usr, /bin, /sbin and /lib. It has no network, but what Ports
// are, and no sockets else but connected pairs of them. The kernel knows ports and no
// addresses: the command reaches every host of the network on these ports, this machine
// and what serves metadata to it included. It cannot ask for names, listen, or use
// anything but TCP. It signals no processes outside, reads nothing of /proc, gains
// no privileges, and has none of root's. The mode append gives it nothing, since the
// kernel cannot hold it to that. Modes, owners, times and attributes of files are not its
// to change, nor links, FIFOs, devices and files that run as their owner to make. Elsewhere there is no confinement
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
// nothing is returned then; [ErrChanged]; [ErrTooManyOpen]; [ErrEnded]; in a [Workspace]
// [ErrQuota], when there is more that the command may change than the journal takes; or
// one that says why the command could not be started.
func (fx *Effects) Run(ctx context.Context, c Command) (*Ran, error) {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return nil, err
	}
	x, began := &execution{fx: fx, Command: c.clone()}, fx.now()
	ran, err := x.do(ctx)
	x.took = fx.since(began)
	fx.log.addExec("exec", x, execCode(ran, err))
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
	in, out int64  // bytes that it printed, and of stdin
	took    time.Duration
}

// do must be called with life held.
func (x *execution) do(ctx context.Context) (*Ran, error) {
	if err := x.admit(); err != nil {
		return nil, err
	}
	if !x.fx.keep(x) {
		return nil, ErrTooManyOpen
	}
	defer x.fx.drop(x)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.fx.ctx, func() { cancel(context.Cause(x.fx.ctx)) })()
	left := maxExecTime
	if at, ok := x.fx.ctx.Deadline(); ok {
		left = max(time.Until(at), 0)
	}
	out := &printed{left: x.fx.caps.Bounds.Output(), over: func() { cancel(ErrTooLarge) }}
	r, err := x.begin(ctx, out, left)
	if err != nil {
		return nil, err
	}
	ran, err := r.wait()
	x.in = out.count()
	if errors.Is(err, errNotBegun) {
		x.level = ""
	}
	if err != nil {
		return nil, err
	}
	ran.Stdout, ran.Stderr = out.take()
	return ran, nil
}

// maxExecTime is more than any grant has.
const maxExecTime = 24 * time.Hour

// admit checks all that can be said before there is a process.
func (x *execution) admit() error {
	if !x.fx.allowsCommand(x.Command) {
		return ErrNotGranted
	}
	x.granted = x.Path
	size := 0
	for _, a := range x.Args {
		size += len(a) + 1
	}
	if size > maxArgv {
		return fmt.Errorf("%w: arguments of more than %d bytes", ErrTooLarge, maxArgv)
	}
	if err := x.fx.unchanged(); err != nil {
		return err
	}
	if !x.fx.budget.call() {
		return fmt.Errorf("%w: no calls are left", ErrNotGranted)
	}
	return x.fx.journalTrees()
}

// would is how far the kernel is going to hold it.
func (x *execution) would() string { return x.fx.host.exec.kernel().levelWith(len(x.Ports) > 0) }

func (fx *Effects) allowsCommand(c Command) bool {
	return path.IsAbs(c.Path) && path.Clean(c.Path) == c.Path && !strings.ContainsRune(c.Path, 0) && len(c.Path) <= maxPath &&
		fx.caps.Allows(call.Op{Kind: call.OpExec, Command: c.Path, Argv: c.Args, Env: c.Env, Ports: c.Ports, Enforcement: fx.host.commands().kernel().levelWith(len(c.Ports) > 0)})
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
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrQuota):
		return overCap
	case errors.Is(err, ErrChanged):
		return changed
	case errors.Is(err, ErrEnded):
		return stopped
	}
	return failed
}

func (l *effectLog) addExec(kind string, x *execution, code string) {
	e := l.record(call.Effect{Kind: kind, Within: x.granted, Target: x.Path, Code: code, Enforcement: x.level})
	e.in.Add(x.in)
	e.out.Add(x.out)
	e.lasted(x.took)
}

// errNotBegun says that a command did not become what was asked for.
var errNotBegun = errors.New("the command cannot start")

// printed is what a command printed, to stdout and to stderr.
type printed struct {
	over func() // is called once there is more than there may be

	mu   sync.Mutex // protects the fields below
	left int64      // bytes that there is room for
	all  int64      // bytes that came
	full bool
	kept [2][]byte
}

// printing is one of the two.
type printing struct {
	p      *printed
	stream int
}

func (w printing) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.all += int64(len(b))
	if w.p.full {
		return len(b), nil
	}
	fits := min(int64(len(b)), w.p.left)
	w.p.left -= fits
	w.p.kept[w.stream] = append(w.p.kept[w.stream], b[:fits]...)
	if int(fits) < len(b) {
		w.p.full = true
		w.p.over()
	}
	return len(b), nil
}

func (p *printed) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// take returns what is there, which makes room for more.
func (p *printed) take() (stdout, stderr []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stdout, stderr = p.kept[0], p.kept[1]
	p.left += int64(len(stdout) + len(stderr))
	p.kept = [2][]byte{}
	return stdout, stderr
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

// ports reports whether it keeps a command to its ports.
func (c confinement) ports() bool { return c.abi >= abiNetwork && c.filter }

// levelWith is the level of a command that has ports, or has none.
func (c confinement) levelWith(ports bool) string {
	if ports && !c.ports() {
		return Unavailable
	}
	return c.level()
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

// abiNetwork is the first that knows ports, Linux 6.7.
const abiNetwork = 4

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

// ready says why commands of the entry cannot run here as it and the operator demand.
func (c commands) ready(e call.Exec) error {
	unconfined := func(why string) error { return &call.Error{Code: call.CodeExecUnconfined, Detail: why} }
	has := c.kernel().levelWith(len(e.Ports) > 0)
	switch {
	case !execHere:
		return unconfined("commands run on Linux only")
	case c.demand == "":
		return unconfined("there is no host to run commands on")
	case levels[has] < levels[c.demand]:
		return unconfined(fmt.Sprintf("the kernel's confinement of such commands is %s, and the operator demands %s", has, c.demand))
	case !e.EnforcedAs(has):
		return unconfined(fmt.Sprintf("the kernel's confinement of such commands is %s, and the grant demands %s", has, e.Enforcement))
	case c.launcher == "" && !mainCalled.Load():
		return unconfined("the program does not call hostfx.Main first in its main function, and no other is named as Launcher")
	}
	return nil
}

var mainCalled atomic.Bool
