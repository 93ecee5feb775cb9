package hostfx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// States of a [Process].
const (
	ProcessRuns    = "running"
	ProcessExited  = "exited"   // by itself, well or not
	ProcessStopped = "stopped"  // by Kill, at the end of its life, or with too many processes
	ProcessOverCap = "over_cap" // stopped, since nobody read what it printed
	ProcessFailed  = "failed"   // it never began, or nobody knows what became of it
)

// ErrTooManyProcesses says that as many commands go on as may.
var ErrTooManyProcesses = errors.New("too many processes")

// Process is a command that goes on after the call that started it.
type Process struct {
	ID      string
	Path    string
	Args    []string
	Started time.Time
	State   string // one of those above

	Exit        int    // once it exited: its exit status; -1 when a signal ended it
	Signal      string // that ended it, such as "killed"; "" for none
	Enforcement string // as in [Ran]

	// Err says why it is stopped, over its cap or failed: [ErrEnded], which is also
	// [context.DeadlineExceeded] at the end of its life, [ErrTooLarge], or another. Nil
	// otherwise.
	Err error
}

// Output is what a process printed since the last time that somebody asked, and its
// state then. Once it does not run, there is nothing more to come.
type Output struct {
	Process
	Stdout, Stderr []byte
}

// Start starts a command that goes on when the call is over, and returns its id. All that
// [Effects.Run] says of commands holds for it, but for its end, and that it is no open
// file of the call. It ends
//
//   - when [Effects.Kill] says so;
//   - with the session of the call: at [Session.Ends], [Host.EndSession];
//   - when its owner, one of those that the owner acts for, or its tool is not to call
//     any more: [Host.EndOwner], [Host.EndTool];
//   - with the Host and with this process, however that ends;
//   - after [Options.ProcessLife], whatever the grant's timeout_ms;
//   - with more than 128 processes at once;
//   - when more than the grant's output_bytes of what it printed wait to be read.
//
// Nothing that it started outlives it. What it may write is what the starting call may,
// for as long as it runs. Therefore a call of a workspace whose grant lets it change files
// starts none: what is written after the call is in no journal.
//
// Only calls of the same session and the same owner, whose own grants have this very
// command with its arguments, environment and ports, find it: for all others there is no
// such process. A session has at most [Options.Processes] of them, and the Host
// [Options.AllProcesses]; those that ended are forgotten when there is need of room, the
// oldest of the session first.
//
// It is the effect exec.start, and one of the grant's calls.
//
// # Errors
//
// As those of [Effects.Run]; [ErrTooLarge] also for more on stdin than the grant's
// output_bytes, since what is not read is kept; [ErrNotGranted] also for a call of no
// session, or of one that was ended; [ErrTooManyProcesses]; [ErrClosed] once the Host is closed. Why it could
// not begin in the end, if so, is the Err of its [Process].
func (fx *Effects) Start(ctx context.Context, c Command) (id string, err error) {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return "", err
	}
	x, began := &execution{fx: fx, Command: c.clone()}, fx.now()
	p, err := x.start(ctx)
	x.took = fx.since(began)
	fx.log.addExec("exec.start", x, execCode(&Ran{}, err))
	if err != nil {
		return "", err
	}
	return p.id, nil
}

// start must be called with life held.
func (x *execution) start(ctx context.Context) (*process, error) {
	switch {
	case x.fx.caller == nil:
		return nil, fmt.Errorf("%w: a call of no session leaves nothing behind", ErrNotGranted)
	case x.fx.caps.Workspace && slices.ContainsFunc(x.fx.dirs, func(d *Dir) bool { return d.modes.Write || d.modes.Append || d.modes.Remove }):
		return nil, fmt.Errorf("%w: a workspace keeps track of what its calls change", ErrNotGranted)
	case int64(len(x.Stdin)) > x.fx.caps.Bounds.Output():
		return nil, fmt.Errorf("%w: what the command may never read is kept as long as it runs", ErrTooLarge)
	}
	if err := x.admit(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnded, context.Cause(ctx))
	}
	p, alive, err := x.fx.caller.admit(x.Command, x.would(), x.fx.caps.Bounds.Output())
	if err != nil {
		return nil, err
	}
	left, _ := alive.Deadline()
	r, err := x.begin(alive, p.out, time.Until(left))
	if err != nil {
		p.ended(nil, err)
		x.fx.host.processes.forget(p)
		return nil, err
	}
	go func() { p.ended(r.wait()) }()
	return p, nil
}

// Output returns what the process printed since it was last asked, by this call or
// another, and how it is. What was read makes room for more.
//
// It is the effect exec.read, with the command's path and the bytes of what it returns.
//
// # Errors
//
// [ErrNotGranted] when there is no such process for this call, which is then not told
// whether there is one for others; [ErrClosed].
func (fx *Effects) Output(id string) (*Output, error) {
	fx.life.RLock()
	defer fx.life.RUnlock()
	p, err := fx.process("exec.read", id)
	if err != nil {
		return nil, err
	}
	o := &Output{Process: p.is()} // before what it printed: nothing comes after its end
	o.Stdout, o.Stderr = p.out.take()
	fx.log.add("exec.read", p.command.Path, p.command.Path, ok).in.Add(int64(len(o.Stdout) + len(o.Stderr)))
	return o, nil
}

// Kill ends the process and all that came of it, and returns when nothing is left. What it
// printed can still be read. It does nothing to one that ended. It is the effect exec.kill.
//
// # Errors
//
// As those of [Effects.Output]; [ErrClosed] also when the call ends first, and the process
// ends all the same.
func (fx *Effects) Kill(id string) error {
	fx.life.RLock()
	defer fx.life.RUnlock()
	p, err := fx.process("exec.kill", id)
	if err != nil {
		return err
	}
	began := fx.now()
	p.stop(context.Canceled)
	select {
	case <-p.done:
	case <-fx.ctx.Done(): // what the kernel holds up does not hold up the end of the call
		err = ErrClosed
	}
	fx.log.add("exec.kill", p.command.Path, p.command.Path, ok).lasted(fx.since(began))
	return err
}

// Processes are those that [Effects.Output] would return something of, in the order of
// their start. It is no effect.
func (fx *Effects) Processes() []Process {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if fx.gone() != nil {
		return nil
	}
	var all []Process
	for _, p := range fx.caller.found() {
		if fx.allowsCommand(p.command) {
			all = append(all, p.is())
		}
	}
	return all
}

// process must be called with life held. It records what it refuses.
func (fx *Effects) process(kind, id string) (*process, error) {
	if err := fx.gone(); err != nil {
		return nil, err
	}
	for _, p := range fx.caller.found() {
		if p.id == id && fx.allowsCommand(p.command) {
			return p, nil
		}
	}
	const longest = 64 // of what a tool may call an id
	fx.log.add(kind, "", shortened(id, longest), refused)
	return nil, ErrNotGranted
}
