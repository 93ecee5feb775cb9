// Package sandbox runs WebAssembly guests inside the bounds of a grant.
//
// Most callers want [New], [Sandbox.Install] once for each module that a tool
// names by its digest, and [Sandbox.Run] once for each call. A run gets a fresh
// instance, the canonical arguments on stdin, and the call's
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
// is a hole. Time is bounded between two looks at the clock, which guests are
// made to take every few milliseconds; a host operation (a read, at most one
// bulk copy of memory) is waited for. The disk cache holds native code, so
// whoever can write to it can run code; it is refused unless it is private.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/callgate/callgate/engine/call"
)

// Options configure a Sandbox. The zero value is useful.
type Options struct {
	// CacheDir keeps compiled modules between processes. It must be a directory
	// of our own that nobody else can enter (mode 0700); it is made if it is
	// missing. "" keeps them in memory only.
	CacheDir string

	// MaxConcurrent is how many guests run at a time; others wait. Each may
	// use the memory of its grant, and once more as much for each of a request
	// under way and an answer not taken. Zero means twice GOMAXPROCS.
	MaxConcurrent int

	// Now is the clock of deadlines and of [call.Outcome].Took. Zero means
	// time.Now.
	Now func() time.Time
}

// Sandbox holds compiled modules and runs them. It is safe for concurrent use.
type Sandbox struct {
	now     func() time.Time
	cache   wazero.CompilationCache // nil without a directory
	runtime wazero.Runtime

	// functions are what a guest may import: module -> name -> type.
	functions map[string]map[string]signature

	slots   chan struct{} // one for each run under way
	closing chan struct{} // closed by Close

	installing sync.Mutex // held while a module compiles; protects closed
	closed     bool

	mu      sync.RWMutex // protects the field below
	modules map[string]*guest
}

// New returns a Sandbox without modules. The error says what is wrong with the
// options or the cache directory.
func New(ctx context.Context, o Options) (*Sandbox, error) {
	if o.MaxConcurrent < 0 {
		return nil, fmt.Errorf("sandbox: MaxConcurrent is %d", o.MaxConcurrent)
	}
	if o.MaxConcurrent == 0 {
		o.MaxConcurrent = 2 * runtime.GOMAXPROCS(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sandbox{
		now: o.Now, modules: map[string]*guest{}, functions: map[string]map[string]signature{},
		slots: make(chan struct{}, o.MaxConcurrent), closing: make(chan struct{}),
	}
	// Not WithCloseOnContextDone: it misses recursion and slows loops tenfold.
	// Guests are stopped by what meter injects.
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	if o.CacheDir != "" {
		if err := private(o.CacheDir); err != nil {
			return nil, fmt.Errorf("sandbox: cache directory: %w", err)
		}
		cache, err := wazero.NewCompilationCacheWithDir(o.CacheDir)
		if err != nil {
			return nil, fmt.Errorf("sandbox: cache directory: %w", err)
		}
		s.cache, config = cache, config.WithCompilationCache(cache)
	}
	s.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	err := hostMeter(ctx, s.runtime)
	if err == nil {
		s.functions[wasi_snapshot_preview1.ModuleName], err = hostWASI(ctx, s.runtime)
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
	s.installing.Lock()
	defer s.installing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.closing)
	for range cap(s.slots) {
		s.slots <- struct{}{} // never given back, so nothing runs from here on
	}
	err := s.runtime.Close(ctx)
	if s.cache != nil {
		err = errors.Join(err, s.cache.Close(ctx))
	}
	return err
}

// acquire waits for a slot, for as long as the run itself could last.
func (s *Sandbox) acquire(ctx context.Context, atMost time.Duration) (release func(), code call.Code) {
	select {
	case <-s.closing:
		return nil, call.CodeEngineClosed
	default:
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, ""
	case <-s.closing:
		return nil, call.CodeEngineClosed
	case <-timer.C:
		return nil, call.CodeOverloaded
	case <-ctx.Done():
		return nil, endOf(ctx)
	}
}

// endOf is the code for a context that is done.
func endOf(ctx context.Context) call.Code {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return call.CodeTimeExceeded
	}
	return call.CodeCancelled
}
