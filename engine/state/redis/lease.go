package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// renewEvery is how often a node says that it is there, and looks at the server.
const renewEvery = LeaseTime / 4

type leaseRequest struct {
	request
	TTL string `json:"ttl"`
}

// errTaken says that another process has the node's name.
var errTaken = errors.New("another process has the node's name, or had it until a moment ago")

// lease takes the node's name or keeps it.
func (s *Store) lease(ctx context.Context) (answer, error) {
	ans, err := s.once(ctx, lease, &leaseRequest{TTL: strconv.FormatInt(LeaseTime.Milliseconds(), 10)})
	if err == nil && ans.status == "taken" {
		err = fmt.Errorf("redis: node %s: %w", s.o.Node, errTaken)
	}
	return ans, err
}

// take takes the node's name. One that a crash left behind becomes free soon.
func (s *Store) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, LeaseTime+s.o.Timeout)
	defer cancel()
	var taken error
	for {
		_, err := s.lease(ctx)
		if err != nil && ctx.Err() != nil && taken != nil {
			return taken // says more than that the time is over
		}
		if taken = err; !errors.Is(err, errTaken) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(maxPause):
		}
	}
}

// renew keeps the node's name, or finds that another process has taken it: then
// nothing is answered any more.
func (s *Store) renew(ctx context.Context) error {
	ans, err := s.lease(ctx)
	if errors.Is(err, errTaken) {
		s.mu.Lock()
		s.refuses, s.final = err, true
		s.mu.Unlock()
		s.o.Logger.Error().AnErr("cause", err).Msg("the state is lost to another process")
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.examined = -1
	s.mu.Unlock()
	if err := s.fit(ctx); err != nil {
		return err
	}
	if s.refusal(lease) != nil {
		return nil // it is told nothing more
	}
	if ans.status == "fenced" {
		return s.refresh(ctx)
	}
	s.notice(ctx, ans)
	return nil
}

// keep renews until Close.
func (s *Store) keep() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done.Done():
			return
		case <-s.news:
			s.learn()
			continue
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(s.done, s.o.Timeout)
		if err := s.renew(ctx); err != nil && s.done.Err() == nil {
			s.o.Logger.Warn().AnErr("cause", err).Msg("the state's server does not answer as it should")
		}
		cancel()
	}
}
