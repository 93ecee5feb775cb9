package hostfx

import (
	"io/fs"
	"strings"
	"sync"
)

// Limits of one call that a grant does not state, or cannot.
const (
	defaultWriteBytes = 64 << 20
	maxEntries        = 10_000
)

// quota is what one call may still write.
//
// A file can become shorter between a look at its size and a write beyond its end, which
// then makes a larger hole than was paid for. That hole ends where the file ended before, so
// the files of a call never come to more than it paid.
type quota struct {
	mu      sync.Mutex // protects the fields below
	bytes   int64
	entries int64
	links   map[fileID]uint64 // names that this call made of a file, besides the first
}

// take reserves bytes.
func (q *quota) take(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > q.bytes {
		return false
	}
	q.bytes -= n
	return true
}

// back gives bytes back that were reserved and not used.
func (q *quota) back(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes += n
}

func (q *quota) has(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return n <= q.bytes
}

// enter reserves an entry of a directory.
func (q *quota) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entries == 0 {
		return false
	}
	q.entries--
	return true
}

// leave gives an entry back that was not made.
func (q *quota) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.entries++
}

// ours reports whether every name of a file is one that was found, or that this call
// made. Another name may be outside of every granted directory.
func (q *quota) ours(i *info) bool {
	if i.IsDir() || i.stat.Links <= 1 {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return i.stat.Links <= 1+q.links[i.id()]
}

// linking makes a name of a file, and an entry.
func (q *quota) linking(at *place, rel string, link func() error) error {
	i, err := at.stat(strings.TrimRight(rel, "/"), false)
	switch {
	case err != nil:
		return err
	case !q.ours(i):
		return ErrNotGranted
	case !q.enter():
		return ErrQuota
	}
	if err := link(); err != nil {
		q.leave()
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.links == nil {
		q.links = map[fileID]uint64{}
	}
	q.links[i.id()]++
	return nil
}

// unlinking takes a name away, rel or what is put in its place.
func (q *quota) unlinking(at *place, rel string, unlink func() error) error {
	q.mu.Lock()
	some := len(q.links) > 0
	q.mu.Unlock()
	var was *info
	if some {
		if i, err := at.stat(strings.TrimRight(rel, "/"), false); err == nil && i.Mode()&fs.ModeDir == 0 {
			was = i
		}
	}
	err := unlink()
	if err != nil || was == nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.links[was.id()]; n > 1 {
		q.links[was.id()] = n - 1
	} else {
		delete(q.links, was.id())
	}
	return nil
}
