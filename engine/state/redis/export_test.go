package redis

import (
	"context"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// UseOperationClock takes the time of each operation for the server's clock.
func (o *Options) UseOperationClock() { o.operationClock = true }

// Crash ends the store as a crash of its process does: nothing is told to the server.
func (s *Store) Crash() {
	s.queue.mu.Lock()
	s.queue.items = nil
	s.queue.mu.Unlock()
	s.stop()
	s.wg.Wait()
	s.client.Close()
}

// Dial connects to an address as [Options.Address] says it.
var Dial = dial

// Renew does now what a node does every few seconds.
func (s *Store) Renew(ctx context.Context) error { return s.renew(ctx) }

// Against sends a vote against so many times, as when answers are lost on the way, and
// returns what the server says each time.
func (s *Store) Against(ctx context.Context, v call.Vote, times int) (said []string, err error) {
	on, err := s.look(ctx, &lookRequest{request: request{at: time.Now()}, IDs: []string{v.Approval}})
	if err != nil {
		return nil, err
	}
	r := &applyRequest{Version: on.questions[0].version, Epoch: decimal(on.of.epoch)}
	if err := r.vote(&v); err != nil {
		return nil, err
	}
	for range times {
		ans, err := s.run(ctx, apply, r)
		if err != nil {
			return said, err
		}
		said = append(said, ans.status)
	}
	return said, nil
}
