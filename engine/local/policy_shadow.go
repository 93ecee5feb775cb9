package local

import (
	"context"
	"errors"
	"time"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// shadowGrace is for how long an owner who closes waits for layers in shadow.
const shadowGrace = time.Second

// try brings in a layer in shadow and keeps it up to date, until ctx ends. Each has
// its own goroutine: what it takes, and whether it ever ends, is no matter to others.
func (l *live) try(ctx context.Context, c Config, f *followed) {
	_ = f.Poll(ctx) // is logged
	if c.Watch >= 0 {
		f.Run(ctx)
	}
}

// tryAll follows all layers in shadow until stop is called.
func (l *live) tryAll(c Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, len(l.layers)) // those who are late find nobody
	n := 0
	for _, f := range l.layers {
		if f.Mode != InShadow || c.polls != nil {
			continue
		}
		n++
		go func() {
			defer func() { done <- struct{}{} }()
			l.try(ctx, c, f)
		}()
	}
	return func() {
		cancel()
		grace := time.NewTimer(shadowGrace)
		defer grace.Stop()
		for range n {
			select {
			case <-done:
			case <-grace.C:
				return
			}
		}
	}
}

// maxStuck is how many bundles of one layer may be given up while work on them goes on.
const maxStuck = 4

// stuck is a bundle that took too long, and what still runs of it.
type stuck struct {
	archive string
	err     error
	done    <-chan struct{}
}

// begun says whether the bundle must not be tried now: work on it, or on too many
// others, still goes on, and nothing can end it.
func (f *followed) begun(s *source.Snapshot) error {
	var last error
	var left []stuck
	for _, x := range f.stuck {
		select {
		case <-x.done:
			continue
		default:
		}
		left = append(left, x)
		if x.archive == s.Digest {
			last = x.err
		}
	}
	f.stuck = left
	if last == nil && len(left) >= maxStuck {
		last = left[len(left)-1].err
	}
	return last
}

// giveUp remembers a bundle that took too long.
func (f *followed) giveUp(s *source.Snapshot, err error) {
	if still, ok := errors.AsType[*rego.StillRuns](err); ok {
		f.stuck = append(f.stuck, stuck{s.Digest, err, still.Done})
	}
}
