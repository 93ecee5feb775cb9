package sandbox

import "github.com/tetratelabs/wazero/experimental"

// memory is the linear memory of one instance, and its bound. It lies outside
// of Go's heap where it can: reserved once for all that it may become, so that
// it never moves and what was never touched costs nothing.
type memory struct {
	limit   uint64 // bytes
	peak    int64  // most bytes held
	refused bool   // the guest asked for more than limit
	failed  bool   // the host had none to give

	space []byte // reserved
	size  uint64 // bytes of space in use
}

// Allocate reserves for a memory of at most max bytes. There is one memory in
// a module, and one module in a run.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	space, err := reserve(min(most, m.limit))
	m.space, m.failed = space, err != nil
	return m
}

// Reallocate makes size bytes usable. The engine refuses growth on nil; it
// panics if that happens to the minimum, which Run has checked before.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > uint64(len(m.space)) || commit(m.space, size) != nil {
		m.failed = true
		return nil
	}
	m.size = size
	m.peak = max(m.peak, int64(size))
	return m.space[:size:size]
}

// Free gives the memory back. It may be called again.
func (m *memory) Free() {
	if m.space != nil {
		release(m.space)
	}
	m.space, m.size = nil, 0
}
