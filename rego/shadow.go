package rego

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/engine/call"
)

const (
	maxShadowQueue   = 128      // calls that wait to be tried
	maxShadowBytes   = 16 << 20 // their inputs together
	maxShadowLast    = 100      // differences of one bundle that are kept
	maxShadowReports = 32       // bundles
)

// Shadow asks layers that decide nothing, after the answer was given, and keeps
// count of where the answer would have been another one with them. It does so for
// one call after the other; when calls come faster, those that find no place in its
// queue are left out. Explained calls count too, and each principal of a chain.
//
// Make one with [NewShadow] and give it to [Set.Beside]. It outlives sets: what it
// found about a bundle stays when another set takes over.
type Shadow struct {
	// Found is told each difference, one after the other. Set it before the shadow is
	// given to anybody; nil for nobody.
	Found func(bundle call.Revision, d ShadowDifference)

	timeout time.Duration
	queue   chan *tryout
	waiting atomic.Int64 // bytes of inputs in the queue
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	reports []*ShadowReport // the newest bundle last
}

// tryout is one call to be tried.
type tryout struct {
	layers          []*Policy
	input           []byte
	answers         []reply // of the layers that decided
	was             reply   // of all of them
	nowNS           int64
	tool, principal string
}

// NewShadow returns a shadow whose layers each have that long for an answer; zero
// means 50 ms. Close it.
func NewShadow(timeout time.Duration) *Shadow {
	if timeout <= 0 {
		timeout = 50 * time.Millisecond
	}
	s := idleShadow(timeout)
	s.wg.Go(s.work)
	return s
}

func idleShadow(timeout time.Duration) *Shadow {
	s := &Shadow{timeout: timeout, queue: make(chan *tryout, maxShadowQueue)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

func (s *Shadow) work() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case t := <-s.queue:
			s.waiting.Add(-int64(len(t.input)))
			s.run(t)
		}
	}
}

// Close ends what is under way, and what waits is never tried. It is idempotent.
func (s *Shadow) Close() error {
	s.stop()
	s.wg.Wait()
	return nil
}

// Reports says what was found about each bundle that was tried, the newest last.
func (s *Shadow) Reports() []ShadowReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]ShadowReport, len(s.reports))
	for i, r := range s.reports {
		out[i] = r.clone()
	}
	return out
}

// offer never waits.
func (s *Shadow) offer(t *tryout) {
	if s.ctx.Err() != nil {
		return
	}
	size := int64(len(t.input))
	if s.waiting.Add(size) <= maxShadowBytes {
		select {
		case s.queue <- t:
			return
		default:
		}
	}
	s.waiting.Add(-size)
	for _, p := range t.layers {
		s.note(p, func(r *ShadowReport) { r.Dropped++ })
	}
}

func (s *Shadow) run(t *tryout) {
	for _, p := range t.layers {
		found, err := s.try(t, p)
		switch {
		case s.ctx.Err() != nil:
			return // what it said may only say that
		case err != nil:
			s.note(p, func(r *ShadowReport) { r.Dropped++ })
		default:
			s.note(p, func(r *ShadowReport) { r.add(found) })
			for _, d := range found {
				if s.Found != nil {
					s.Found(p.revision, d)
				}
			}
		}
	}
}

// try asks one layer, and says where the answer would have differed.
func (s *Shadow) try(t *tryout, p *Policy) (found []ShadowDifference, err error) {
	defer func() {
		if recover() != nil {
			err = errDefect
		}
	}()
	// Each has its own: evaluators keep things in values.
	v, err := parseValue(t.input)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	d, err := p.decide(ctx, v, t.nowNS)
	with := reply{p, d, err}
	answers := slices.Clone(t.answers)
	if i := slices.IndexFunc(answers, func(a reply) bool { return a.by.revision.Name == p.revision.Name }); i >= 0 {
		answers[i] = with
	} else {
		answers = append(answers, with)
	}
	d, err = combine(answers)
	would := reply{nil, d, err}
	for _, kind := range differences(t.was, would) {
		found = append(found, ShadowDifference{
			TimeNS: t.nowNS, Tool: t.tool, Principal: t.principal, Kind: kind, Was: t.was.summary(), Would: would.summary(),
		})
	}
	return found, nil
}

// note changes the report about p's bundle.
func (s *Shadow) note(p *Policy, change func(*ShadowReport)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.reports, func(r *ShadowReport) bool { return r.Bundle == p.revision })
	if i < 0 {
		if len(s.reports) == maxShadowReports {
			s.reports = slices.Delete(s.reports, 0, 1)
		}
		i = len(s.reports)
		s.reports = append(s.reports, &ShadowReport{Bundle: p.revision, Role: p.role, Differences: map[ShadowKind]int64{}})
	}
	change(s.reports[i])
}
