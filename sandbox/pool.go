package sandbox

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/callgate/callgate/engine/call"
)

// poolKey says whom an instance can serve: calls of one tool, which has one module,
// from one snapshot of that, with one bound of memory, decided by the same revisions
// of policy.
type poolKey struct {
	tool     string
	guest    *guest
	from     *snapshot
	memory   int64
	policies string
	bare     bool // it is its memory alone, as new
}

// pool keeps instances that were reset, within bounds. The oldest make room.
type pool struct {
	count int   // instances at most
	bytes int64 // at most, of what they hold
	room  room

	mu     sync.Mutex  // protects the fields below
	idle   []*instance // the last used comes last
	held   int64       // bytes
	closed bool
}

// room is what idle instances take their bytes from.
type room interface {
	keep(bytes int64) bool
	drop(bytes int64)
}

// Bounds of a pool.
const (
	pooledEach  = 4        // instances, for each run that may be under way
	pooledBytes = 64 << 20 // of what they hold
)

func newPool(concurrent int, room room) *pool {
	return &pool{count: pooledEach * concurrent, bytes: pooledBytes, room: room}
}

// take gives the instance that was used last, or nil. Its bytes are then those of
// the run.
func (p *pool) take(key poolKey) *instance {
	i := p.find(key)
	if i != nil {
		p.room.drop(i.own)
	}
	return i
}

func (p *pool) find(key poolKey) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := len(p.idle) - 1; k >= 0; k-- {
		if i := p.idle[k]; i.key == key {
			p.idle = slices.Delete(p.idle, k, k+1)
			p.held -= i.own
			return i
		}
	}
	return nil
}

// put keeps an instance that was reset, or closes it.
func (p *pool) put(ctx context.Context, i *instance) {
	if !p.room.keep(i.own) {
		i.close(ctx)
		return
	}
	p.mu.Lock()
	p.idle = append(p.idle, i)
	p.held += i.own
	out := p.shrink(p.bytes)
	p.mu.Unlock()
	p.part(ctx, out)
}

// shrink removes the oldest until the rest is within the pool's bounds and holds
// at most so many bytes. The caller holds mu, and parts with them without it.
func (p *pool) shrink(bytes int64) []*instance {
	n := 0
	for n < len(p.idle) && (p.closed || len(p.idle)-n > p.count || p.held > bytes) {
		p.held -= p.idle[n].own
		n++
	}
	if n == 0 {
		return nil
	}
	out := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	return out
}

func (p *pool) part(ctx context.Context, from []*instance) {
	for _, i := range from {
		i.close(ctx)
		p.room.drop(i.own)
	}
}

// evict closes the oldest instances until they held at least so many bytes, or
// none is left.
func (p *pool) evict(bytes int64) {
	p.mu.Lock()
	out := p.shrink(p.held - bytes)
	p.mu.Unlock()
	p.part(context.Background(), out)
}

// close closes every instance, and those that come later.
func (p *pool) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	out := p.shrink(0)
	p.mu.Unlock()
	p.part(ctx, out)
}

// policiesOf are the revisions of policy that decided, as one word.
func policiesOf(revisions []call.Revision) string {
	var b []byte
	for _, r := range revisions {
		for _, s := range [...]string{r.Name, r.Revision, r.Digest, r.Role, r.Entrypoint} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	return string(b)
}
