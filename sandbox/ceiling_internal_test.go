package sandbox

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

// Whatever comes and goes in whatever order: there are never more runs or bytes
// than may be, none is passed by, and in the end nothing is held.
func TestCeilingHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCeiling(rapid.IntRange(1, 3).Draw(t, "runs"), 10)
		idle := int64(0)
		c.evict = func(int64) { c.drop(idle); idle = 0 }
		var running, queue []*waiting
		// take, without a goroutine: it waits by its place in the queue.
		ask := func(n int64) {
			c.mu.Lock()
			w := &waiting{n, make(chan struct{})}
			c.waiting = append(c.waiting, w)
			c.start()
			c.mu.Unlock()
			queue = append(queue, w)
		}
		started := func() {
			for len(queue) > 0 {
				select {
				case <-queue[0].ready:
					running, queue = append(running, queue[0]), queue[1:]
					continue
				default:
				}
				break
			}
			for _, w := range queue {
				select {
				case <-w.ready:
					t.Fatal("a run passed another by")
				default:
				}
			}
			held := idle
			for _, w := range running {
				held += w.bytes
			}
			if held != c.held || held > c.bytes || len(running) != c.running || len(running) > c.runs {
				t.Fatalf("%d runs of %d, %d bytes, %d are counted", len(running), c.runs, held, c.held)
			}
			if len(queue) > 0 && c.running < c.runs && queue[0].bytes <= c.bytes-c.held {
				t.Fatal("the first could start")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) { ask(rapid.Int64Range(1, 10).Draw(t, "bytes")) },
			"end": func(t *rapid.T) {
				if len(running) > 0 {
					at := rapid.IntRange(0, len(running)-1).Draw(t, "which")
					w := running[at]
					running = append(running[:at:at], running[at+1:]...)
					c.give(w.bytes)
				}
			},
			"give up": func(t *rapid.T) {
				if len(queue) > 0 {
					at := rapid.IntRange(0, len(queue)-1).Draw(t, "which")
					w := queue[at]
					queue = append(queue[:at:at], queue[at+1:]...)
					c.leave(w)
				}
			},
			"keep": func(t *rapid.T) {
				n := rapid.Int64Range(1, 5).Draw(t, "bytes")
				if c.keep(n) {
					idle += n
					all := c.held
					for _, w := range c.waiting {
						all += w.bytes
					}
					if all > c.bytes {
						t.Fatal("something idles in the room that a run waits for")
					}
				}
			},
			"drop": func(*rapid.T) { c.evict(0) },
			"":     func(*rapid.T) { started() },
		})
		c.evict(0)
		for started(); len(running)+len(queue) > 0; started() {
			w := running[0]
			running = running[1:]
			c.give(w.bytes)
		}
		c.wait()
	})
}

// What take says to those who do not get a place, and that what idles goes first.
func TestCeilingTake(t *testing.T) {
	never := make(chan struct{})
	closed := make(chan struct{})
	close(closed)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	c := newCeiling(2, 100)
	if code := c.take(t.Context(), never, time.Minute, 101); code != call.CodeMemoryCeiling {
		t.Errorf("more than all: %q", code)
	}
	if code := c.take(t.Context(), never, 0, 60); code != "" {
		t.Errorf("there is room: %q", code)
	}
	for _, tt := range []struct {
		ctx     context.Context
		closing chan struct{}
		atMost  time.Duration
		want    call.Code
	}{
		{t.Context(), never, time.Millisecond, call.CodeOverloaded},
		{t.Context(), closed, time.Minute, call.CodeEngineClosed},
		{done, never, time.Minute, call.CodeCancelled},
		{late, never, time.Minute, call.CodeTimeExceeded},
	} {
		if code := c.take(tt.ctx, tt.closing, tt.atMost, 41); code != tt.want {
			t.Errorf("there is no room: %q, want %q", code, tt.want)
		}
	}
	if !c.keep(40) || c.keep(1) {
		t.Error("what is free can be kept, and no more")
	}
	asked := int64(0)
	c.evict = func(n int64) { asked = n; c.drop(40) }
	if code := c.take(t.Context(), never, time.Minute, 30); code != "" || asked != 30 {
		t.Errorf("what idles gives %d for 30: %q", asked, code)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if code := c.take(t.Context(), never, time.Minute, 10); code != "" {
				t.Errorf("a place that becomes free: %q", code)
			}
			c.give(10)
		})
	}
	c.give(60)
	wg.Wait()
	c.give(30)
	c.wait()
	if c.held != 0 || c.running != 0 || len(c.waiting) != 0 {
		t.Errorf("in the end %d bytes of %d runs are held", c.held, c.running)
	}
}

func TestReserve(t *testing.T) {
	const fixed = maxStack + maxTables + 2*(1<<20+defaultLog)
	for _, tt := range []struct {
		bounds call.Bounds
		memory int64 // that the module can have
		want   int64
	}{
		{call.Bounds{}, 1 << 32, 2*defaultMemory + fixed},
		{call.Bounds{MemoryBytes: 1 << 30}, 1 << 32, 2<<30 + fixed},
		{call.Bounds{MemoryBytes: 1 << 30}, 1 << 20, 1<<20 + 1<<20 + 2_000_000 + fixed},
		{call.Bounds{}, 0, 2_000_000 + fixed},
		{call.Bounds{HTTPBytes: 1 << 40}, 1 << 32, 2*defaultMemory + 1<<40 + fixed},
		{call.Bounds{OutputBytes: math.MaxInt64}, 1 << 32, math.MaxInt64},
		{call.Bounds{HTTPBytes: math.MaxInt64, MemoryBytes: math.MaxInt64}, math.MaxInt64, math.MaxInt64},
	} {
		if got := boundsOf(tt.bounds).reserve(tt.memory); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.bounds, got, tt.want)
		}
	}
	for runs, want := range map[int]int64{1: leastMemory, 100: 100 * (2*defaultMemory + fixed)} {
		if got := defaultMaxMemory(runs); got != want {
			t.Errorf("%d runs: %d, want %d", runs, got, want)
		}
	}
}
