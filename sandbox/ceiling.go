package sandbox

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// What a run may take besides what its grant says.
const (
	// maxStack is the engine's stack at its largest, and half of it again while it
	// grows. What meter weighs ends most guests long before.
	maxStack = 128 << 20
	// maxTables is what meter lets tables hold, and what they were while they grow.
	maxTables = 16 << 20
)

// leastMemory is the smallest ceiling that is a default.
const leastMemory = 4 << 30

// defaultMaxMemory is enough for the runs of so many calls whose grants say
// nothing.
func defaultMaxMemory(runs int) int64 {
	return max(leastMemory, saturated(slices.Repeat([]int64{boundsOf(call.Bounds{}).reserve(math.MaxInt64)}, min(runs, 1<<16))...))
}

// reserve is the most bytes that a run within these bounds may hold at a time, if
// the module's own memory can become so large.
func (b bounds) reserve(memory int64) int64 {
	memory = min(b.memory, memory)
	// A request and its answer over HTTP, or an answer that the guest has not taken.
	pending := max(memory, saturated(min(memory, b.http), b.http))
	// Output is copied while it grows.
	return saturated(memory, pending, b.output, b.output, b.log, b.log, maxStack, maxTables)
}

func saturated(terms ...int64) (sum int64) {
	for _, t := range terms {
		if t > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += t
	}
	return sum
}

// ceiling is what all runs together may take. Runs that wait start in the order
// in which they came, so that a large one is not passed by for ever. What idles
// gives way to them.
type ceiling struct {
	runs  int
	bytes int64
	evict func(bytes int64) // has what idles drop at least so much, if there is as much
	limit func(bytes int64) // has what stays for good hold at most so much

	mu      sync.Mutex // protects the fields below; evict and limit are called without it
	running int
	held    int64 // bytes, of runs and of what idles
	waiting []*waiting
	empty   *sync.Cond // running became 0
}

type waiting struct {
	bytes int64
	ready chan struct{} // closed once the run has its place
}

func newCeiling(runs int, bytes int64) *ceiling {
	c := &ceiling{runs: runs, bytes: bytes, evict: func(int64) {}, limit: func(int64) {}}
	c.empty = sync.NewCond(&c.mu)
	return c
}

// take waits for a place for one run with so many bytes, for as long as atMost. The
// place is given back with give.
func (c *ceiling) take(ctx context.Context, closing <-chan struct{}, atMost time.Duration, bytes int64) call.Code {
	if bytes > c.bytes {
		return call.CodeMemoryCeiling
	}
	c.mu.Lock()
	w := &waiting{bytes, make(chan struct{})}
	c.waiting = append(c.waiting, w)
	c.start()
	short := c.held - c.bytes
	for _, w := range c.waiting {
		short += w.bytes
	}
	still := len(c.waiting) > 0
	c.mu.Unlock()
	if still && short > 0 {
		c.evict(short)
		c.limit(c.bytes - bytes) // other runs end by themselves, and this does not
	}
	select {
	case <-w.ready:
		return ""
	default:
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	var code call.Code
	select {
	case <-w.ready:
		return ""
	case <-closing:
		code = call.CodeEngineClosed
	case <-timer.C:
		code = call.CodeOverloaded
	case <-ctx.Done():
		code = endOf(ctx)
	}
	c.leave(w)
	return code
}

// leave takes back what take asked for.
func (c *ceiling) leave(w *waiting) {
	c.mu.Lock()
	at := slices.Index(c.waiting, w)
	if at >= 0 {
		c.waiting = slices.Delete(c.waiting, at, at+1)
		c.start() // whoever waited behind it
	}
	c.mu.Unlock()
	if at < 0 { // it got its place meanwhile
		c.give(w.bytes)
	}
}

// start gives places to those who waited longest. The caller holds mu.
func (c *ceiling) start() {
	for len(c.waiting) > 0 && c.running < c.runs && c.waiting[0].bytes <= c.bytes-c.held {
		w := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.running++
		c.held += w.bytes
		close(w.ready)
	}
}

// give gives the place of a run back.
func (c *ceiling) give(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.held -= bytes
	c.start()
	if c.running == 0 {
		c.empty.Broadcast()
	}
}

// keep takes bytes for something that idles, if no run waits for them; it gives
// them back with drop.
func (c *ceiling) keep(bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := c.bytes - c.held
	for _, w := range c.waiting {
		room = max(0, room-w.bytes)
	}
	if bytes > room {
		return false
	}
	c.held += bytes
	return true
}

func (c *ceiling) drop(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= bytes
	c.start()
}

// wait returns once no run has a place. The caller sees to it that no more come.
func (c *ceiling) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running > 0 {
		c.empty.Wait()
	}
}

// endOf is the code for a context that is done.
func endOf(ctx context.Context) call.Code {
	if ctx.Err() == context.DeadlineExceeded {
		return call.CodeTimeExceeded
	}
	return call.CodeCancelled
}
