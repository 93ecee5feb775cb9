package sandbox

import (
	"math"

	"github.com/callgate/callgate/engine/call"
)

// LimitSelf is what a compile child does before it reads its module.
var LimitSelf = limitSelf

// Address is the address space of a compile child, or 0 where it is not limited.
func Address() int64 {
	if addressLimited {
		return compileAddress
	}
	return 0
}

// Held is how many bytes runs and what idles have reserved.
func (s *Sandbox) Held() int64 {
	s.ceiling.mu.Lock()
	defer s.ceiling.mu.Unlock()
	return s.ceiling.held
}

// Reserve is what a run within these bounds reserves, of a module with any memory.
func Reserve(b call.Bounds) int64 { return boundsOf(b).reserve(math.MaxInt64) }
