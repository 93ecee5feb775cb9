package redis

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/state"
)

const (
	// queued bounds what waits to be told to the server. What is left out is found out
	// on the next start.
	queued = 1 << 16

	// batch is how many calls are settled by one script.
	batch = 256
)

// item is one call to settle or to give back.
type item struct {
	id      string
	index   int64
	release bool
}

// queue is what the server is told when it has time.
type queue struct {
	mu    sync.Mutex // protects items
	items []item
	wake  chan struct{}
}

func (s *Store) push(it item) {
	s.queue.mu.Lock()
	if len(s.queue.items) < queued {
		s.queue.items = append(s.queue.items, it)
	}
	s.queue.mu.Unlock()
	select {
	case s.queue.wake <- struct{}{}:
	default:
	}
}

// Settle implements [state.Store]. It does not wait for the server.
func (s *Store) Settle(callID string, index int64) { s.push(item{id: callID, index: index}) }

type settleRequest struct {
	request
	IDs     []string `json:"ids"`
	Indexes []string `json:"indexes"`
}

// settle tells the server, until Close and what is queued by then.
func (s *Store) settle() {
	for {
		select {
		case <-s.queue.wake:
			s.drain(s.done)
		case <-s.done.Done():
			ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
			defer cancel()
			s.drain(ctx)
			return
		}
	}
}

// drain sends all that is queued, or as much as it can until ctx is done.
func (s *Store) drain(ctx context.Context) {
	for pause := minPause; ; pause = min(2*pause, time.Second) {
		s.queue.mu.Lock()
		items := s.queue.items
		s.queue.items = nil
		s.queue.mu.Unlock()
		if len(items) == 0 {
			return
		}
		left := s.send(ctx, items)
		if len(left) == 0 {
			pause = minPause
			continue
		}
		s.queue.mu.Lock()
		s.queue.items = append(left, s.queue.items...)
		s.queue.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// send tells the server about items and returns those that it may not know about.
func (s *Store) send(ctx context.Context, items []item) []item {
	for len(items) > 0 {
		r, n := &settleRequest{}, 0
		for n < min(len(items), batch) && !items[n].release {
			r.IDs, r.Indexes = append(r.IDs, items[n].id), append(r.Indexes, strconv.FormatInt(items[n].index, 10))
			n++
		}
		once, cancel := context.WithTimeout(ctx, s.o.Timeout)
		var (
			ans answer
			err error
		)
		if n == 0 {
			n = 1
			ans, err = s.once(once, release, &releaseRequest{ID: items[0].id})
		} else {
			ans, err = s.once(once, settled, r)
		}
		if err == nil && ans.status == "lease" {
			// Whoever has the name now learns of these calls from the log, or gives them back.
			if err = s.renew(once); errors.Is(err, errTaken) {
				cancel()
				return nil
			}
			n = 0
		}
		cancel()
		if err != nil {
			return items
		}
		items = items[n:]
	}
	return nil
}

type releaseRequest struct {
	request
	ID string `json:"id"`
}

// Release implements [state.Store]. The call cannot be admitted any more, not even by a
// request that is still on its way.
func (s *Store) Release(ctx context.Context, callID string) error {
	r := &releaseRequest{ID: callID}
	if s.o.operationClock {
		s.mu.Lock()
		r.at = s.latest
		s.mu.Unlock()
	}
	_, err := s.run(ctx, release, r)
	if err != nil {
		s.push(item{id: callID, release: true})
	}
	return err
}

type beginRequest struct{ request }

// Begin implements [state.Lasting].
func (s *Store) Begin(ctx context.Context) (state.Mark, error) {
	ans, err := s.run(ctx, begin, &beginRequest{})
	if err != nil {
		return state.Mark{}, err
	}
	index, err := units(ans.text(0))
	if err != nil {
		return state.Mark{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = ans.texts(1)
	return state.Mark{Index: index, Open: s.open}, nil
}

type recoverRequest struct {
	request
	Size     string   `json:"size"`
	Lost     bool     `json:"lost,omitzero"`
	Recorded []string `json:"recorded"`
	Indexes  []string `json:"indexes"`
	Released []string `json:"released"`
}

// Recover implements [state.Lasting].
func (s *Store) Recover(ctx context.Context, r state.Recovery) (released []string, err error) {
	s.remember(r.Revoked)
	for _, c := range r.Sessions {
		s.recall(c, time.Unix(0, 0))
	}
	req := &recoverRequest{Size: decimal(r.Size), Lost: r.Lost}
	for _, id := range s.open {
		if index, ok := r.Recorded[id]; ok {
			req.Recorded, req.Indexes = append(req.Recorded, id), append(req.Indexes, decimal(index))
		} else {
			req.Released = append(req.Released, id)
		}
	}
	ans, err := s.run(ctx, recovering, req)
	switch {
	case err != nil:
		return nil, err
	case ans.status == "behind":
		return nil, state.ErrLogBehind
	}
	s.mu.Lock()
	s.recovered = true
	s.mu.Unlock()
	s.refreshing.Lock()
	err = s.putBack(ctx, ans.of.epoch) // for as long as it takes: without it there is no start
	s.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return req.Released, errors.Join(err, s.refresh(ctx))
}
