package hostfx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits of commands that go on, where Options do not say.
const (
	defaultProcessLife  = time.Hour
	defaultProcesses    = 8
	defaultAllProcesses = 64
)

// endedFor is how long it is remembered that a session was ended: longer than a grant waits
// to be spent, so that no call that was on its way starts anything in it.
const endedFor = 2 * time.Minute

// processes are the commands of a Host that go on after a call.
type processes struct {
	now       func() time.Time
	life      time.Duration
	each, all int // most of a session, and of all together

	mu     sync.Mutex             // protects the fields below, and those of callers
	list   []*process             // in order of start
	calls  map[*caller]struct{}   // that are under way
	ended  map[sessions]time.Time // when they were
	closed bool
}

// caller is one call, which may start processes. A nil one may not, and finds none.
type caller struct {
	of      *processes
	session Session
	over    bool // it starts nothing any more
}

// process is one command.
type process struct {
	id      string
	of      Session
	command Command // without stdin
	started time.Time
	out     *printed
	stop    context.CancelCauseFunc
	level   string

	done chan struct{} // closed when nothing is left of it; then the fields below are set
	ran  *Ran
	err  error
}

// sessions are some that end together: one, if it has an id; all in which an owner calls
// or is called for; or all of a tool.
type sessions struct{ owner, id, tool string }

// among reports whether what was started in s is among them.
func (e sessions) among(s Session) bool {
	switch {
	case e.tool != "":
		return s.Tool == e.tool
	case e.id != "":
		return s.Owner == e.owner && s.ID == e.id
	}
	return s.Owner == e.owner || slices.Contains(s.ActsFor, e.owner)
}

func newProcesses(o Options, now func() time.Time) (*processes, error) {
	t := &processes{
		now: now, life: o.ProcessLife, each: o.Processes, all: o.AllProcesses,
		calls: map[*caller]struct{}{}, ended: map[sessions]time.Time{},
	}
	if t.life < 0 || t.each < 0 || t.all < 0 {
		return t, errors.New("hostfx: ProcessLife, Processes or AllProcesses is less than 0")
	}
	if t.life == 0 {
		t.life = defaultProcessLife
	}
	if t.each == 0 {
		t.each = defaultProcesses
	}
	if t.all == 0 {
		t.all = defaultAllProcesses
	}
	return t, nil
}

// join is for a call that begins, and gives nil if its processes would be nobody's.
func (t *processes) join(s Session) *caller {
	if s.ID == "" {
		return nil
	}
	s.Plan = nil // a process would keep the call that started it
	c := &caller{of: t, session: s}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[c] = struct{}{}
	for e, at := range t.ended {
		c.over = c.over || e.among(s) && t.now().Sub(at) < endedFor
	}
	return c
}

// leave is for a call that ends.
func (c *caller) leave() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.calls, c)
}

// found are the processes of the call's session.
func (c *caller) found() []*process {
	if c == nil {
		return nil
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.own()
}

// own must be called with mu held.
func (c *caller) own() (own []*process) {
	for _, p := range c.of.list {
		if p.of.Owner == c.session.Owner && p.of.ID == c.session.ID {
			own = append(own, p)
		}
	}
	return own
}

// admit makes a process, with the context that it lives in.
func (c *caller) admit(command Command, level string, output int64) (*process, context.Context, error) {
	t := c.of
	t.mu.Lock()
	defer t.mu.Unlock()
	now, life, own := t.now(), t.life, c.own()
	if ends := c.session.Ends; !ends.IsZero() {
		life = min(life, ends.Sub(now))
	}
	switch {
	case t.closed:
		return nil, nil, ErrClosed
	case c.over || life <= 0:
		return nil, nil, fmt.Errorf("%w: the session is over", ErrNotGranted)
	case len(own) >= t.each && !t.evict(own):
		return nil, nil, fmt.Errorf("%w: %d in the session", ErrTooManyProcesses, t.each)
	case len(t.list) >= t.all && !t.evict(own) && !t.evict(t.list):
		return nil, nil, fmt.Errorf("%w: %d in all", ErrTooManyProcesses, t.all)
	}
	command.Stdin = nil
	alive, over := context.WithTimeout(context.Background(), life)
	alive, stop := context.WithCancelCause(alive)
	p := &process{
		id: rand.Text(), of: c.session, command: command, level: level, started: now, done: make(chan struct{}),
		stop: func(why error) { stop(why); over() },
		out:  &printed{left: output, over: func() { stop(ErrTooLarge) }},
	}
	t.list = append(t.list, p)
	return p, alive, nil
}

// evict forgets the oldest of some processes that ended. It must be called with mu held.
func (t *processes) evict(some []*process) bool {
	i := slices.IndexFunc(some, (*process).isDone)
	if i < 0 {
		return false
	}
	t.drop(some[i])
	return true
}

// drop must be called with mu held.
func (t *processes) drop(p *process) {
	t.list = slices.DeleteFunc(slices.Clone(t.list), func(q *process) bool { return q == p })
}

func (t *processes) forget(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(p)
}

// end ends sessions, for good, and waits until nothing is left of what went on in them.
func (t *processes) end(e sessions) {
	t.mu.Lock()
	now := t.now()
	for k, at := range t.ended {
		if now.Sub(at) >= endedFor {
			delete(t.ended, k)
		}
	}
	t.ended[e] = now
	for c := range t.calls {
		c.over = c.over || e.among(c.session)
	}
	t.mu.Unlock()
	t.clear(e.among)
}

func (t *processes) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.clear(func(Session) bool { return true })
}

// clear stops processes and forgets them.
func (t *processes) clear(which func(Session) bool) {
	var all []*process
	t.mu.Lock()
	t.list = slices.DeleteFunc(slices.Clone(t.list), func(p *process) bool {
		if !which(p.of) {
			return false
		}
		all = append(all, p)
		return true
	})
	t.mu.Unlock()
	for _, p := range all {
		p.stop(context.Canceled)
	}
	for _, p := range all {
		<-p.done
	}
}

// EndSession ends all commands that calls of a session left running, and returns when
// nothing is left of them. No call of it that is under way starts another, nor one that
// begins in the next two minutes. On a nil Host it does nothing.
func (h *Host) EndSession(owner, id string) {
	if h != nil && id != "" {
		h.processes.end(sessions{owner: owner, id: id})
	}
}

// EndOwner is [Host.EndSession] for all sessions of a principal, and for what others left
// running in that one's name.
func (h *Host) EndOwner(owner string) {
	if h != nil {
		h.processes.end(sessions{owner: owner})
	}
}

// EndTool is [Host.EndSession] for what a tool left running, in any session.
func (h *Host) EndTool(name string) {
	if h != nil && name != "" {
		h.processes.end(sessions{tool: name})
	}
}

// ended says what became of a process, once.
func (p *process) ended(ran *Ran, err error) {
	p.ran, p.err = ran, err
	p.stop(nil) // its clock
	close(p.done)
}

func (p *process) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// is says how the process is.
func (p *process) is() Process {
	s := Process{ID: p.id, Path: p.command.Path, Args: slices.Clone(p.command.Args), Started: p.started, State: ProcessRuns, Enforcement: p.level}
	if !p.isDone() {
		return s
	}
	switch s.Err = p.err; {
	case p.err == nil:
		s.State, s.Exit, s.Signal = ProcessExited, p.ran.Exit, p.ran.Signal
	case errors.Is(p.err, ErrTooLarge):
		s.State = ProcessOverCap
	case errors.Is(p.err, ErrEnded):
		s.State = ProcessStopped
	default:
		s.State, s.Enforcement = ProcessFailed, ""
	}
	return s
}
