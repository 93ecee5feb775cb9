package wasi

import (
	"crypto/cipher"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/hostfx"
)

// Run is the run that a State belongs to, as far as a State needs it. Where a
// method does not return, it panics with a value that the caller of
// [Function.Call] knows.
type Run interface {
	// Check returns if the run may go on.
	Check()

	// Sleep waits, and returns if the run may go on then.
	Sleep(d time.Duration)

	// Exit ends the run with the guest's own code and does not return.
	Exit(code uint32)

	// Touch is called before the guest learns or changes the first thing that
	// belongs to this call: see [State.Touched].
	Touch()

	// OutputExceeded ends the run, and does not return.
	OutputExceeded()
}

// Options are what a guest finds in its world.
type Options struct {
	Run   Run           // required
	Stdin []byte        // is read only
	Dirs  []*hostfx.Dir // are preopened under their names, in this order

	OutputBytes int64 // most that stdout takes; one byte more ends the run
	LogBytes    int64 // most that stderr keeps; the rest is dropped

	// Now is the clock. Required.
	Now func() time.Time

	// Start is a time at or before Now's, from which the monotonic clock counts.
	Start time.Time

	// PreciseClock gives clocks and the times of files a precision of 1 ns
	// instead of 1 ms.
	PreciseClock bool

	// Replay, unless it is nil, makes clocks and randomness a function of it.
	Replay *Replay

	// World, unless it is nil, replaces what every guest gets otherwise.
	World *World
}

// World is what the test programs of the standard need, and no guest gets
// otherwise: its arguments are "tool", and its environment is empty.
type World struct {
	Args, Env []string
	Name      func(*hostfx.Dir) string // by which a directory is preopened
}

var ordinary = World{Args: []string{"tool"}, Name: (*hostfx.Dir).Name}

// State is what one call of a guest sees of the world. Only the goroutine that
// runs the guest may use it.
type State struct {
	run   Run
	world *World
	fds   table

	in       []byte // of stdin, not yet read
	out, log output

	clock      clock
	stream     cipher.Stream // randomness of a replay, or nil
	randomLeft int64

	touched bool
	vectors [][]byte // space for the buffers of one call

	mem  api.Memory // of the guest that calls
	args []uint64   // parameters of the function under way
}

// New returns the State of one call.
func New(o Options) *State {
	s := &State{
		run: o.Run, world: o.World, in: o.Stdin, out: output{most: o.OutputBytes}, log: output{most: o.LogBytes},
		clock: newClock(o), randomLeft: maxRandom,
	}
	if s.world == nil {
		s.world = &ordinary
	}
	if o.Replay != nil {
		s.stream = o.Replay.stream()
	}
	s.fds.start(o.Dirs)
	return s
}

// Close closes what the guest left open.
func (s *State) Close() {
	for i := range s.fds.slots {
		_ = s.fds.slots[i].close()
	}
	s.fds = table{}
}

// Stdout is what the guest wrote to stdout.
func (s *State) Stdout() []byte { return s.out.bytes }

// Stderr is what the guest wrote to stderr, as far as it was kept.
func (s *State) Stderr() []byte { return s.log.bytes }

// Touched reports whether the guest has learnt or changed anything that belongs
// to this call: it read stdin, wrote, looked at a file or at what is granted
// beyond its name, or changed a descriptor. Arguments, environment, names of
// preopened directories, clocks and randomness do not count.
func (s *State) Touched() bool { return s.touched }

func (s *State) touch() {
	if !s.touched {
		s.touched = true
		s.run.Touch()
	}
}

// argsGet is args_get(argv, argv_buf).
func (s *State) argsGet() errno { return s.strings(s.world.Args) }

// argsSizesGet is args_sizes_get(argc, argv_buf_size).
func (s *State) argsSizesGet() errno { return s.sizes(s.world.Args) }

// environGet is environ_get(environ, environ_buf).
func (s *State) environGet() errno { return s.strings(s.world.Env) }

// environSizesGet is environ_sizes_get(environc, environ_buf_size).
func (s *State) environSizesGet() errno { return s.sizes(s.world.Env) }

// strings writes a list as C has it: pointers, and what they point to.
func (s *State) strings(list []string) errno {
	size := 0
	for _, x := range list {
		size += len(x) + 1
	}
	pointers, text := s.param(0, uint32(4*len(list))), s.param(1, uint32(size))
	if pointers == nil || text == nil {
		return fault
	}
	at := s.u32(1)
	for i, x := range list {
		put32(pointers[4*i:], at)
		n := copy(text, x)
		text[n] = 0
		text, at = text[n+1:], at+uint32(n)+1
	}
	return success
}

func (s *State) sizes(list []string) errno {
	count, size := s.param(0, 4), s.param(1, 4)
	if count == nil || size == nil {
		return fault
	}
	n := 0
	for _, x := range list {
		n += len(x) + 1
	}
	put32(count, uint32(len(list)))
	put32(size, uint32(n))
	return success
}

// procExit is proc_exit(rval).
func (s *State) procExit() errno {
	s.run.Exit(s.u32(0))
	return success
}

// noSocket is every function of sockets: there are none.
func (s *State) noSocket() errno {
	if s.fds.get(s.u32(0)) == nil {
		return badf
	}
	return notsock
}
