package sandbox

import "github.com/tetratelabs/wazero/experimental"

// keepWritten is how many bytes of pages that a call wrote to stay with an
// instance that is reset. Beyond it they are given back: copying costs less than
// faults on the same pages again, and holds memory that nobody uses.
const keepWritten = 8 << 20

// memory is the linear memory of one instance, and its bound. It lies outside
// of Go's heap where it can: reserved once for all that it may become, so that
// it never moves and what was never touched costs nothing.
type memory struct {
	limit uint64 // bytes
	image *image // what it holds at first

	seen

	space  []byte // reserved
	size   uint64 // bytes of space in use
	usable uint64 // bytes of space that were in use at some time
	placed bool   // the image is in space
	held   bool   // it outlives the engine's instance
}

// seen is what the outcome of a run says about its memory.
type seen struct {
	peak    int64 // most bytes held
	refused bool  // the guest asked for more than limit
	failed  bool  // the host had none to give
}

// Allocate reserves for a memory of at most max bytes. There is one memory in
// a module, and one module in a run.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	if m.space == nil {
		space, err := reserve(min(most, m.limit))
		m.space, m.failed = space, err != nil
	}
	return m
}

// Reallocate makes size bytes usable. The engine refuses growth on nil; it
// panics if that happens to the minimum, which Run has checked before.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > m.usable {
		if size > uint64(len(m.space)) || commit(m.space, size) != nil {
			m.failed = true
			return nil
		}
		m.usable = size
	}
	// The image of a snapshot may be longer than the memory is at first; nothing
	// runs before it has grown to that.
	if image := m.image.bytes(); len(image) > 0 && !m.placed && size >= uint64(len(image)) {
		if m.image.place(m.space) != nil {
			m.failed = true
			return nil
		}
		m.placed = true
	}
	m.size = size
	m.peak = max(m.peak, int64(size))
	return m.space[:size:size]
}

// again readies a memory for another call.
func (m *memory) again() { m.seen = seen{peak: int64(m.size)} }

// reset makes the memory hold what the image says, and reports how many bytes
// of it are the instance's own from here on.
func (m *memory) reset() (own int) { return m.restore(written, forget) }

func (m *memory) restore(written func([]byte, func(from, to int)) bool, forget func([]byte) error) (own int) {
	b, image := m.space[:m.size], m.image.bytes()
	again := func(from, to int) {
		n := copy(b[from:to], image[min(from, len(image)):])
		clear(b[from+n : to])
	}
	known := written(b, func(from, to int) {
		if own += to - from; own <= keepWritten {
			again(from, to)
		}
	})
	switch {
	case known && own <= keepWritten:
		return own
	case forget(b) == nil:
		if m.image.copied() {
			return copy(b, image)
		}
		return 0
	}
	again(0, len(b))
	return len(b)
}

// empty makes the memory ready for another instance of the same guest, which will
// find it as if it were new. Nothing has it in use.
func (m *memory) empty() (own int) {
	own = m.reset()
	m.size = 0
	return own
}

// Free gives the memory back, unless it is held. It may be called again.
func (m *memory) Free() {
	if m.held || m.space == nil {
		return
	}
	release(m.space)
	m.space, m.size, m.usable = nil, 0, 0
}
