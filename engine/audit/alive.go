package audit

import (
	"context"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// alive writes a record when nothing else was written for a while, so that witnesses
// see the log grow as long as it is there.
type alive struct {
	l     *Log
	after time.Duration
	end   context.CancelFunc
	ended context.Context
	wg    sync.WaitGroup

	mu   sync.Mutex // protects last
	last time.Time  // that something was written
}

func newAlive(l *Log) *alive {
	a := &alive{l: l, after: l.o.Alive, last: l.o.Now()}
	a.ended, a.end = context.WithCancel(context.Background())
	return a
}

func (a *alive) start() { a.wg.Go(a.run) }

// wrote says that something was written.
func (a *alive) wrote() {
	if a == nil {
		return
	}
	now := a.l.o.Now()
	a.mu.Lock()
	a.last = now
	a.mu.Unlock()
}

// stop ends it. Whatever it is writing is durable, or never will be.
func (a *alive) stop() {
	if a != nil {
		a.end()
		a.wg.Wait()
	}
}

func (a *alive) run() {
	timer := time.NewTimer(a.after)
	defer timer.Stop()
	for {
		select {
		case <-a.ended.Done():
			return
		case <-timer.C:
		}
		a.mu.Lock()
		last := a.last
		a.mu.Unlock()
		now := a.l.o.Now()
		silent := now.Sub(last)
		if silent >= 0 && silent < a.after { // a clock that was put back does not count
			timer.Reset(a.after - silent)
			continue
		}
		rec, err := call.Record{Type: call.TypeAlive, Time: now.UTC(), Node: a.l.o.Node}.Encode()
		if err == nil {
			_, err = a.l.Append(a.ended, rec)
		}
		if err != nil {
			return // the log is closed, or stopped
		}
		timer.Reset(a.after)
	}
}
