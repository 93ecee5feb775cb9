package local

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// watchEvery is how often the files of the policy are looked at by default.
const watchEvery = time.Second

// live is the policy of bundles that may change. Each layer only ever is one that was
// checked as a whole, and all of them are one snapshot.
type live struct {
	layers []*followed
	epochs rego.Epochs
	load   func(context.Context, fs.FS, rego.Options) (*rego.Policy, error) // rego.Open, but in tests
	shadow *rego.Shadow                                                     // nil without layers of that mode
	stop   func()                                                           // ends the following of those; nil before
	opened bool                                                             // what is new may decide at once
	now    atomic.Pointer[rego.Set]

	mu sync.Mutex // of swaps; protects followed.now
}

// followed is one layer. Whoever polls it owns what is not said to be of live.mu.
type followed struct {
	Layer
	*source.Follower
	verify *rego.Verification // nil: unsigned
	now    *rego.Policy       // the last good one; nil for one in shadow that never was
	next   *rego.Policy       // checked, and to be swapped in; nil for none
	tools  map[string][]byte  // the manifests that the bundle carries
	stuck  []stuck            // bundles that were given up
}

var _ engine.Snapshotter = (*live)(nil)

func openLive(ctx context.Context, c Config) (*live, error) {
	l := &live{load: rego.Open, epochs: rego.Epochs{Dir: filepath.Join(c.Data, "epochs")}}
	return l, l.open(ctx, c)
}

func (l *live) open(ctx context.Context, c Config) (err error) {
	layers, err := c.layers()
	if err != nil {
		return err
	}
	if len(c.Layers) == 0 && c.Bundle == "" {
		return errors.New("local: there is no bundle")
	}
	if slices.ContainsFunc(layers, func(l Layer) bool { return l.Mode == InShadow }) {
		l.shadow = rego.NewShadow(c.DecideTimeout)
		l.shadow.Found = func(bundle call.Revision, d rego.ShadowDifference) {
			c.Logger.Info().Str("layer", bundle.Name).Str("bundle", bundle.Digest).Str("tool", d.Tool).Str("principal", d.Principal).
				Str("kind", string(d.Kind)).Str("was", string(d.Was.Verdict)).Str("would", string(d.Would.Verdict)).
				Strs("reasons", d.Would.Reasons).Msg("the layer in shadow answers otherwise")
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, l.close())
			}
		}()
	}
	for _, layer := range layers {
		f, err := l.follow(c, layer)
		if err != nil {
			return err
		}
		l.layers = append(l.layers, f)
	}
	for _, f := range l.layers {
		if f.Mode == InShadow {
			continue // what decides nothing must not keep the others from deciding
		}
		if err := f.Start(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	l.opened = true
	if err := l.swap(l.layers...); err != nil {
		return err
	}
	l.stop = l.tryAll(c)
	return nil
}

// follow makes the follower of one layer. What decides is kept in the data directory;
// what is in shadow leaves nothing there, for it may have the name of a layer that
// decides.
func (l *live) follow(c Config, layer Layer) (*followed, error) {
	f := &followed{Layer: layer}
	o := source.Options{
		Layer: layer.Name, Every: layer.Every, MaxAge: layer.MaxAge, Now: c.Now,
		Logger: c.Logger.With().Str("mode", layer.Mode).Logger(),
		Activate: func(ctx context.Context, s *source.Snapshot) (*source.Prepared, error) {
			return l.activate(ctx, f, s)
		},
	}
	var err error
	if !layer.remote() {
		o.Every = cmp.Or(max(c.Watch, 0), watchEvery)
	}
	if f.Bundle, err = layer.place(); err != nil {
		return nil, err
	}
	if layer.Mode == Enforce {
		o.Store = source.NewStore(filepath.Join(c.Data, keptBundles))
	}
	if f.verify, err = layer.verification(c.Now); err != nil {
		return nil, err
	}
	if o.Source, err = f.source(); err != nil {
		return nil, err
	}
	f.Follower, err = source.New(o)
	return f, err
}

// activate checks a bundle as a whole. It changes nothing: that is for Commit.
func (l *live) activate(ctx context.Context, f *followed, s *source.Snapshot) (*source.Prepared, error) {
	if err := f.begun(s); err != nil {
		return nil, err
	}
	fsys, out := s.FS, &source.Prepared{}
	if f.verify != nil {
		// From here on, the verified bytes and no others.
		verified, signature, err := rego.Verify(fsys, f.verify)
		if err != nil {
			return nil, err
		}
		fsys, out.Expires = verified, signature.Expires
	}
	if err := checkBase(source.Redacted(f.Bundle), fsys); err != nil {
		return nil, err
	}
	tools, err := rego.Manifests(fsys)
	if err != nil {
		return nil, err
	}
	if f.now != nil && !sameManifests(f.tools, tools) {
		return nil, errToolsChanged
	}
	raise := func() error { return nil }
	if f.verify != nil && f.Mode == Enforce {
		facts, err := rego.Inspect(fsys)
		if err != nil {
			return nil, err
		}
		if err := l.epochs.Check(f.Name, facts, f.AllowRevisions); err != nil {
			return nil, err
		}
		raise = func() error { return l.epochs.Raise(f.Name, facts) }
	}
	p, err := l.load(ctx, fsys, rego.Options{Name: f.Name, Role: rego.Role(f.Role), Entrypoint: f.Entrypoint})
	if err != nil {
		f.giveUp(s, err)
		return nil, err
	}
	if f.now != nil {
		if err := f.now.Retyped(ctx, p); err != nil {
			return nil, err
		}
	}
	out.Revision = p.Revision()
	out.Commit = func() error {
		if err := raise(); err != nil {
			return err
		}
		f.next, f.tools = p, tools
		if f.Mode == Enforce && (!l.opened || !f.remote()) {
			return nil // all layers together, once they were asked
		}
		return l.swap(f)
	}
	return out, nil
}

// swap makes what is new in the given layers decide, all of it at once. If that
// cannot be, which is a defect, all layers stay as they are.
func (l *live) swap(changed ...*followed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var decide, tried []*rego.Policy
	for _, f := range l.layers {
		p := f.now
		if slices.Contains(changed, f) && f.next != nil {
			p = f.next
		}
		switch {
		case p == nil:
		case f.Mode == InShadow:
			tried = append(tried, p)
		default:
			decide = append(decide, p)
		}
	}
	set, err := rego.NewSet(decide...)
	if err == nil && len(tried) > 0 {
		set, err = set.Beside(l.shadow, tried...)
	}
	for _, f := range changed {
		if err == nil && f.next != nil {
			f.now = f.next
		}
		f.next = nil
	}
	if err == nil {
		l.now.Store(set)
	}
	return err
}

func (l *live) close() error {
	if l.shadow == nil {
		return nil
	}
	if l.stop != nil {
		l.stop()
	}
	return l.shadow.Close()
}

// reports is what was found about the layers in shadow.
func (l *live) reports() []rego.ShadowReport {
	if l.shadow == nil {
		return nil
	}
	return l.shadow.Reports()
}

// Snapshot implements [engine.Snapshotter].
func (l *live) Snapshot() engine.Policy {
	set := l.now.Load()
	for _, f := range l.layers {
		if f.Mode == Enforce {
			if err := f.Check(); err != nil {
				return stale{err}
			}
		}
	}
	return set
}

// stale is a policy that may be out of date, and so decides nothing.
type stale struct{ err error }

func (s stale) Decide(context.Context, *call.Input) (call.Decision, error) {
	return call.Decision{}, s.err
}

// Decide implements [engine.Policy].
func (l *live) Decide(ctx context.Context, in *call.Input) (call.Decision, error) {
	return l.Snapshot().Decide(ctx, in)
}

// watch follows all layers that decide until stop is called, which waits for the polls
// under way.
// Files are looked at together, so that layers that change together are taken up
// together; URLs are asked each at its own pace.
func (l *live) watch(c Config) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var files []*followed
	for _, f := range l.layers {
		if f.Mode == InShadow && c.polls == nil {
			continue
		}
		if c.polls != nil || !f.remote() {
			files = append(files, f)
		} else {
			wg.Go(func() { f.Run(ctx) })
		}
	}
	wg.Go(func() {
		var tick <-chan time.Time
		if c.polls == nil {
			t := time.NewTicker(cmp.Or(c.Watch, watchEvery))
			defer t.Stop()
			tick = t.C
		}
		for {
			select {
			case <-tick:
				l.poll(ctx, files...)
			case done := <-c.polls:
				l.poll(ctx, files...)
				close(done)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() error { cancel(); wg.Wait(); return nil }
}

// poll asks the given layers, and takes up what is new in them at once.
func (l *live) poll(ctx context.Context, layers ...*followed) {
	changed := false
	for _, f := range layers {
		_ = f.Poll(ctx) // is logged
		changed = changed || f.next != nil
	}
	if changed && ctx.Err() == nil {
		_ = l.swap(layers...) // layers keep their names and roles, so it does not fail
	}
}
