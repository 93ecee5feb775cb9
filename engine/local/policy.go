package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// watchEvery is how often the files of the policy are looked at by default.
const watchEvery = time.Second

// live is the policy of a bundle whose files may change. It only ever is a policy
// that was loaded and checked as a whole.
type live struct {
	path string
	log  zerolog.Logger
	load func(context.Context, string) (*rego.Policy, error) // loadPolicy, but in tests
	now  atomic.Pointer[rego.Policy]

	// Owned by whoever polls.
	tried string // signature of the files that were loaded or refused last
	told  string // signature of the files whose refusal was logged last
	seen  string // signature that the last poll saw
}

var _ engine.Snapshotter = (*live)(nil)

func openLive(ctx context.Context, c Config) (*live, error) {
	path, err := filepath.Abs(c.Bundle) // once: the process may go elsewhere
	if err != nil {
		return nil, err
	}
	l := &live{path: path, log: c.Logger, load: loadPolicy, tried: signature(path)}
	l.seen = l.tried
	p, err := l.load(ctx, l.path)
	if err != nil {
		return nil, err
	}
	l.now.Store(p)
	return l, nil
}

// Snapshot implements [engine.Snapshotter].
func (l *live) Snapshot() engine.Policy { return l.now.Load() }

// Decide implements [engine.Policy].
func (l *live) Decide(ctx context.Context, in *call.Input) (call.Decision, error) {
	return l.now.Load().Decide(ctx, in)
}

// watch polls until stop is called, which waits for the poll under way.
func (l *live) watch(c Config) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		var tick <-chan time.Time
		if c.polls == nil {
			every := c.Watch
			if every == 0 {
				every = watchEvery
			}
			t := time.NewTicker(every)
			defer t.Stop()
			tick = t.C
		}
		for {
			select {
			case <-tick:
				l.poll(ctx)
			case done := <-c.polls:
				l.poll(ctx)
				close(done)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() error { cancel(); wg.Wait(); return nil }
}

// poll takes up files that have changed, once they have stood still from one poll
// to the next and while they were read. What does not load is told once and not
// tried again until it changes.
func (l *live) poll(ctx context.Context) {
	s := signature(l.path)
	moving := s != l.seen
	l.seen = s
	if moving || s == l.tried {
		return
	}
	p, err := l.try(ctx)
	if ctx.Err() != nil {
		return
	}
	if after := signature(l.path); after != s {
		l.seen = after
		return
	}
	if err == nil || hopeless(err) {
		l.tried = s
	}
	if err != nil {
		if l.told == s {
			return // it is tried again, not told again
		}
		l.told = s
		// Not its text: that quotes the policy.
		l.log.Error().Str("bundle", l.path).Strs("mend", mend(l.path, err)).Msg("the changed policy is refused, the last good one stays")
		return
	}
	l.now.Store(p)
	l.log.Info().Str("bundle", l.path).Str("digest", p.Revision().Digest).Msg("the changed policy decides from now on")
}

// try loads files that must not end the process.
func (l *live) try(ctx context.Context) (_ *rego.Policy, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic while the policy was loaded: %v", r)
		}
	}()
	return l.load(ctx, l.path)
}

// loadPolicy reads the bundle once and checks all of what it read.
func loadPolicy(ctx context.Context, bundle string) (*rego.Policy, error) {
	fsys, err := rego.Load(bundle)
	if err != nil {
		return nil, err
	}
	if err := checkBase(bundle, fsys); err != nil {
		return nil, err
	}
	return rego.Open(ctx, fsys, rego.Options{})
}

// hopeless reports whether the files themselves are wrong, so that trying again
// without a change leads nowhere. All else, such as a lack of descriptors or of time,
// may pass.
func hopeless(err error) bool {
	if call.CodeOf(err, "") == call.CodePolicyTimeout {
		return false
	}
	return len(rego.Places(err)) > 0 || errors.Is(err, ErrBaseChanged) || errors.Is(err, fs.ErrNotExist)
}

// mend lists what is to be mended, without a word of what stands there.
func mend(bundle string, err error) []string {
	if places := rego.Places(err); len(places) > 0 {
		return places[:min(len(places), 8)]
	}
	if base, ok := errors.AsType[*baseError](err); ok {
		return []string{base.Error()}
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return []string{p.Error()}
	}
	return []string{bundle}
}

// library is where a bundle has the base library.
const library = "callgate"

// baseError says where a base library is that is not ours, or not in its place.
type baseError struct{ at, advice string }

func (e *baseError) Error() string { return e.at + ": " + ErrBaseChanged.Error() + "; " + e.advice }

func (e *baseError) Unwrap() error { return ErrBaseChanged }

// checkBase compares the base library that the bundle vendors with ours: a rule
// slipped into it could allow anything. It compares bytes. Those of an archive are
// what `opa build` made of the files, which it formats; the library is formatted,
// and so stays as it is.
func checkBase(bundle string, fsys fs.FS) error {
	want, err := bundles.Digest(bundles.Base())
	if err != nil {
		return err
	}
	at := filepath.Join(bundle, library)
	vendored, err := fs.Sub(fsys, library)
	if err != nil {
		return err
	}
	got, err := bundles.Digest(vendored)
	if errors.Is(err, fs.ErrNotExist) {
		return checkNested(bundle, fsys)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if got != want {
		return &baseError{at, "copy it anew from `callgate init` into an empty directory"}
	}
	return nil
}

// checkNested is for a policy of its own making. Where a directory has the
// library's name, it must not be one that nobody compares.
func checkNested(bundle string, fsys fs.FS) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".rego") {
			return err
		}
		if dir := path.Dir(name); dir == library || strings.HasSuffix(dir, "/"+library) {
			return &baseError{filepath.Join(bundle, dir), "it belongs at the top of the bundle"}
		}
		return nil
	})
}
