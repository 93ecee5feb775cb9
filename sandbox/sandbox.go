// Package sandbox runs WebAssembly guests inside the bounds of a grant.
//
// Most callers want [New], [Sandbox.Install] once for each module that a tool
// names by its digest, and [Sandbox.Run] once for each call. A run gets an
// instance that is as new, the canonical arguments on stdin, and the call's
// [hostfx.Effects] as its only way to the world; its result is what it writes
// to stdout.
//
// # Kinds of guests
//
// A command exports _start. A reactor exports callgate_call, which takes
// nothing and returns an i32 (0 is success), and may export _initialize. Both
// may import functions of wasi_snapshot_preview1 and of callgate (see
// docs/guest-abi.md), and nothing else.
//
// # What the sandbox does not protect
//
// Guests are compiled to native code in this process: a defect in the compiler
// is a hole, though compiling itself happens in a process of its own: see [Main].
// Time is bounded between two looks at the clock, which guests are made to take
// every few milliseconds; one operation of the host (a read, an fsync) is waited
// for. The disk cache holds native code: whoever has its key and can write to it
// can run code.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/wasi"
)

// Options configure a Sandbox. The zero value is useful.
type Options struct {
	// CacheDir keeps compiled modules between processes. It must be a directory
	// of our own that nobody else can enter (mode 0700); it is made if it is
	// missing. Processes may share it. "" keeps them in memory only.
	CacheDir string

	// CacheKey authenticates what is in CacheDir, and is required with it: at
	// least 32 random bytes, kept elsewhere. What was not written with it, or is
	// not whole, is compiled anew and replaced.
	CacheKey []byte

	// CacheBytes is how large CacheDir may become; what was used longest ago goes
	// first. Zero means 1 GiB.
	CacheBytes int64

	// Compiler is a program, with arguments, that compiles modules when it is
	// started with two more arguments: one that calls [Main] first. It must be
	// built with the same version of wazero, else what it gives is refused. Nil
	// means this program, which then must have called [Main].
	Compiler []string

	// CompileCPU is the processor time for compiling one module, rounded up to
	// seconds. Zero means 5 s, and one second more for each MiB of the rewritten
	// module. The process that compiles has 3 GiB of address space besides, where
	// the system can limit that.
	CompileCPU time.Duration

	// MaxConcurrent is how many guests run at a time; others wait. Zero means
	// twice GOMAXPROCS.
	MaxConcurrent int

	// MaxMemory is how many bytes all of them together may hold. A run waits until
	// there is room for the most that it may need: the memory of its grant, as much
	// again for an answer of the host (or what a request over HTTP may move, if that
	// is more), twice its output and log, and 144 MiB for stack and tables. A run that
	// needs more than MaxMemory never starts. Zero means what MaxConcurrent runs
	// need whose grants say nothing, 274 MiB each, and at least 4 GiB.
	MaxMemory int64

	// Fresh makes a new instance for each call and has it initialise itself, which
	// is the slow way. Otherwise calls of one guest share what its initialisation
	// left behind, such as the seeds of its hash tables, when that looked at nothing
	// that belongs to one call.
	Fresh bool

	// Now is the clock of deadlines and of [call.Outcome].Took. Zero means
	// time.Now.
	Now func() time.Time

	// Replay, unless it is nil, makes the randomness and the clocks of every run a
	// function of it and the arguments. Time passes as the guest sleeps, and with
	// each look at a clock. What bounds runs stays the real clock.
	Replay *Replay
}

// Sandbox holds compiled modules and runs them. It is safe for concurrent use.
type Sandbox struct {
	now      func() time.Time
	started  time.Time   // what the monotonic clocks of guests count from
	replay   *Replay     // as in Options
	world    *wasi.World // of the tests of the standard, else nil
	runtime  wazero.Runtime
	engine   wazero.CompilationCache // of the runtime; it reads store
	store    *store
	disk     *cache // nil without a directory
	compiler *compiler
	loading  sync.Mutex // held while the runtime reads store

	// functions are what a guest may import: module -> name -> type.
	functions map[string]map[string]signature

	fresh bool         // each instance initialises itself, and nothing of it is used again
	once  bool         // each instance is used once, and only its memory again
	pool  *pool        // of instances that were reset
	shots atomic.Int64 // bytes of all snapshots

	ceiling *ceiling      // of all runs
	closing chan struct{} // closed by Close

	installs sync.WaitGroup // Install, while it works

	mu         sync.RWMutex // protects the fields below, and installs.Add against Close
	closed     bool
	modules    map[string]*guest
	installing map[string]chan struct{} // digest -> closed when it is done
}

// New returns a Sandbox without modules. The error says what is wrong with the
// options or the cache directory.
func New(ctx context.Context, o Options) (*Sandbox, error) {
	if o.MaxConcurrent < 0 || o.MaxMemory < 0 {
		return nil, fmt.Errorf("sandbox: MaxConcurrent is %d, MaxMemory %d", o.MaxConcurrent, o.MaxMemory)
	}
	if o.MaxConcurrent == 0 {
		o.MaxConcurrent = 2 * runtime.GOMAXPROCS(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sandbox{
		now: o.Now, started: o.Now(), replay: o.Replay, fresh: o.Fresh || o.Replay != nil, modules: map[string]*guest{}, installing: map[string]chan struct{}{}, functions: map[string]map[string]signature{},
		ceiling: newCeiling(o.MaxConcurrent, cmp.Or(o.MaxMemory, defaultMaxMemory(o.MaxConcurrent))), closing: make(chan struct{}),
	}
	s.pool = newPool(o.MaxConcurrent, s.ceiling)
	s.ceiling.evict, s.ceiling.limit = s.pool.evict, s.limitSnapshots
	var err error
	if s.compiler, err = newCompiler(o.Compiler, o.CompileCPU); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if s.store, s.engine, err = openStore(""); err != nil {
		return nil, fmt.Errorf("sandbox: place for compiled modules: %w", err)
	}
	s.runtime = wazero.NewRuntimeWithConfig(ctx, engineConfig(s.engine))
	if err = s.store.check(ctx, s.runtime); err == nil {
		s.disk, err = openCache(o, s.store.version)
	}
	if err == nil {
		err = hostMeter(ctx, s.runtime)
	}
	if err == nil {
		s.functions[wasi.ModuleName], err = hostWASI(ctx, s.runtime)
	}
	if err == nil {
		s.functions[hostModule], err = hostCallgate(ctx, s.runtime)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %w", err), s.Close(ctx))
	}
	return s, nil
}

// Close stops every run, which ends as cancelled, waits for them, and frees
// what was compiled. Later runs end as [call.CodeEngineClosed].
func (s *Sandbox) Close(ctx context.Context) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.closing)
	s.installs.Wait()
	s.ceiling.wait()
	s.pool.close(ctx)
	return errors.Join(s.runtime.Close(ctx), s.engine.Close(ctx), s.store.close())
}

// acquire waits for a place, for as long as the run itself could last.
func (s *Sandbox) acquire(ctx context.Context, g *guest, b bounds) (release func(), code call.Code) {
	bytes := b.reserve(g.memoryMax)
	if code = s.ceiling.take(ctx, s.closing, b.timeout, bytes); code != "" {
		return nil, code
	}
	release = func() { s.ceiling.give(bytes) }
	select {
	case <-s.closing: // Close may be past waiting for us
		release()
		return nil, call.CodeEngineClosed
	default:
		return release, ""
	}
}
