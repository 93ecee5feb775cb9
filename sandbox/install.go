package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/meter"
)

// guest is one installed module.
type guest struct {
	compiled  wazero.CompiledModule
	memoryMin int64 // bytes that it needs to start
	memoryMax int64 // bytes that it declares to be enough
	init      bool  // a reactor with something to run first
	entry     string

	parts     *parts
	snapshots snapshots
}

// Exports that make a guest a command or a reactor.
const (
	entryCommand = "_start"
	entryReactor = "callgate_call"
	entryInit    = "_initialize"
)

// signature is the type of a function, as bytes of the binary format.
type signature struct{ params, results []byte }

// Install checks and rewrites a module and has it compiled, so that Run can run it
// by its digest. Installing a digest again does nothing. Compiling happens in a
// process of its own, which is killed when ctx is done or it takes too much.
//
// # Errors
//
// [*call.Error] with [call.CodeGuestUnavailable]: the digest is not that of the
// module, the module is malformed or over a limit (then also a [*meter.Error]),
// it imports anything but functions of wasi_snapshot_preview1 and callgate, it is neither a
// command nor a reactor, it does not compile, compiling it takes more time or
// memory than it may, or there is no process that compiles. ctx's error when ctx
// is done; [call.CodeEngineClosed] after Close.
func (s *Sandbox) Install(ctx context.Context, digest string, module []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if got := call.Digest(module); got != digest {
		return unusable(fmt.Errorf("the module's digest is %s, not %s", got, digest))
	}
	done, err := s.claim(ctx, digest)
	if done == nil || err != nil {
		return err
	}
	defer done()
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-during.Done():
		}
	}()
	g, err := s.build(during, module)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case during.Err() != nil:
		return &call.Error{Code: call.CodeEngineClosed}
	case err != nil:
		return unusable(err)
	}
	s.mu.Lock()
	s.modules[digest] = g
	s.mu.Unlock()
	return nil
}

// claim waits until nobody else installs the module. Both results are nil if it
// is there already; else done is to be called.
func (s *Sandbox) claim(ctx context.Context, digest string) (done func(), err error) {
	for {
		s.mu.Lock()
		other := s.installing[digest]
		switch {
		case s.closed:
			err = &call.Error{Code: call.CodeEngineClosed}
		case s.modules[digest] != nil:
		case other == nil:
			mine := make(chan struct{})
			s.installing[digest] = mine
			s.installs.Add(1)
			done = func() {
				s.mu.Lock()
				delete(s.installing, digest)
				s.mu.Unlock()
				close(mine)
				s.installs.Done()
			}
		}
		s.mu.Unlock()
		if other == nil || err != nil {
			return done, err
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// build makes a guest of a module.
func (s *Sandbox) build(ctx context.Context, module []byte) (*guest, error) {
	m, err := meter.Rewrite(module, meter.Limits{})
	if err != nil {
		return nil, err
	}
	g := &guest{memoryMin: int64(m.MemoryMin) * meter.PageSize, memoryMax: int64(m.MemoryMax) * meter.PageSize}
	if err := errors.Join(s.checkImports(m), g.checkExports(m)); err != nil {
		return nil, err
	}
	wasm, parts, err := prepare(m)
	if err != nil {
		return nil, err
	}
	g.parts = parts
	g.compiled, err = s.compile(ctx, wasm)
	return g, err
}

func unusable(err error) error {
	return &call.Error{Code: call.CodeGuestUnavailable, Detail: "the module cannot be used", Err: err}
}

// checkImports refuses at install what would fail when it is instantiated.
func (s *Sandbox) checkImports(m *meter.Module) error {
	var errs []error
	for _, i := range m.Imports {
		want, known := s.functions[i.Module][i.Name]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("the host has no function %q of %q", i.Name, i.Module))
		case !slices.Equal(i.Type.Params, want.params) || !slices.Equal(i.Type.Results, want.results):
			errs = append(errs, fmt.Errorf("the function %q of %q has another type", i.Name, i.Module))
		}
	}
	if len(m.Imports) > 0 && !m.HasMemory {
		errs = append(errs, errors.New("the module uses functions of the host and has no memory for them"))
	}
	return errors.Join(errs...)
}

// checkExports finds out what kind of guest it is.
func (g *guest) checkExports(m *meter.Module) error {
	var command, reactor bool
	for _, e := range m.Exports {
		if e.Kind != meter.Func {
			continue
		}
		results := 0
		switch e.Name {
		case entryCommand:
			command = true
		case entryReactor:
			reactor, results = true, 1
		case entryInit:
			g.init = true
		default:
			continue
		}
		if len(e.Type.Params) != 0 || len(e.Type.Results) != results || results == 1 && e.Type.Results[0] != i32 {
			return fmt.Errorf("the exported function %q has another type", e.Name)
		}
	}
	switch {
	case command && reactor:
		return fmt.Errorf("the module exports both %q and %q", entryCommand, entryReactor)
	case command:
		g.entry, g.init = entryCommand, false
	case reactor:
		g.entry = entryReactor
	default:
		return fmt.Errorf("the module exports neither %q nor %q", entryCommand, entryReactor)
	}
	return nil
}

func (s *Sandbox) guest(digest string) *guest {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.modules[digest]
}
