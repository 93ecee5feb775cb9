package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// Changed implements [state.Store]. After the connection was lost for a moment it is
// closed too, since nobody knows what happened meanwhile.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// wake wakes whoever waits.
func (s *Store) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// heard is for when another process may have changed anything.
func (s *Store) heard() {
	s.wake()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// listen hears what other processes change, until Close.
func (s *Store) listen(listening chan<- struct{}) {
	first := true
	for s.done.Err() == nil {
		s.subscribed(func() {
			if first {
				first = false
				close(listening)
				return
			}
			s.heard()
		})
		select {
		case <-s.done.Done():
		case <-time.After(maxPause):
		}
	}
}

// subscribed hears until the connection is lost.
func (s *Store) subscribed(begin func()) {
	c, giveBack := s.client.Dedicate()
	defer giveBack()
	ended := c.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(rueidis.PubSubSubscription) { begin() },
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Message == s.me {
				return // whoever changed something here wakes by itself
			}
			s.heard()
		},
	})
	ctx, cancel := context.WithTimeout(s.done, s.o.Timeout)
	defer cancel()
	if err := c.Do(ctx, c.B().Subscribe().Channel(s.prefix[0]+"changed").Build()).Error(); err != nil {
		return
	}
	select {
	case <-s.done.Done():
	case <-ended:
	}
}

// learn looks whether more is revoked now.
func (s *Store) learn() {
	ctx, cancel := context.WithTimeout(s.done, s.o.Timeout)
	defer cancel()
	_ = s.refresh(ctx) // whatever is asked next does it again
}
