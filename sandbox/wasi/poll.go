package wasi

import (
	"encoding/binary"
	"math"
	"time"
)

// Sizes and tags of poll_oneoff.
const (
	subscriptionSize = 48
	eventSize        = 32

	tagClock = 0
	tagRead  = 1
	tagWrite = 2

	absolute = 1 // flag of a clock
	hangup   = 1 // flag of an event: nothing more will come
)

// pollOneoff is poll_oneoff(in, out, nsubscriptions, nevents). Nothing that a
// guest can open ever blocks, so a descriptor is always ready and only clocks are
// waited for.
func (s *State) pollOneoff() errno {
	n := s.u32(2)
	if n == 0 || n > maxPolled {
		return inval
	}
	in, out, count := s.param(0, n*subscriptionSize), s.param(1, n*eventSize), s.param(3, 4)
	if in == nil || out == nil || count == nil {
		return fault
	}
	// The lists may overlap, so all is read before anything is written.
	var events []byte
	shortest := time.Duration(math.MaxInt64)
	waits := make([]time.Duration, 0, n)
	for sub := in; len(sub) > 0; sub = sub[subscriptionSize:] {
		wait := time.Duration(math.MaxInt64)
		switch tag := sub[8]; tag {
		case tagClock:
			if binary.LittleEndian.Uint32(sub[16:]) > monotonic || binary.LittleEndian.Uint16(sub[40:]) > absolute {
				events = append(events, event(sub, inval, 0, 0)...)
				break
			}
			wait = s.wait(sub)
			shortest = min(shortest, wait)
		case tagRead, tagWrite:
			events = append(events, s.ready(sub, tag == tagWrite)...)
		default:
			return inval
		}
		waits = append(waits, wait)
	}
	due := time.Duration(0)
	if len(events) == 0 {
		s.sleep(shortest)
		due = shortest
	}
	for i, wait := range waits {
		if wait <= due {
			events = append(events, event(in[i*subscriptionSize:], success, 0, 0)...)
		}
	}
	copy(out, events)
	put32(count, uint32(len(events)/eventSize))
	return success
}

// wait is how long it takes until the clock that is subscribed to rings.
func (s *State) wait(sub []byte) time.Duration {
	id, t := binary.LittleEndian.Uint32(sub[16:]), binary.LittleEndian.Uint64(sub[24:])
	if binary.LittleEndian.Uint16(sub[40:]) != absolute {
		if t == 0 {
			return 0
		}
		t = min(t, 1<<61) + uint64(s.clock.round(s.clock.read(id)))
	}
	return s.clock.until(id, t)
}

// ready answers for a descriptor.
func (s *State) ready(sub []byte, write bool) []byte {
	right := fdRead
	if write {
		right = fdWrite
	}
	d := s.fds.get(binary.LittleEndian.Uint32(sub[16:]))
	switch {
	case d == nil || d.kind.can()&right == 0:
		return event(sub, badf, 0, 0)
	case d.base&pollFdReadwrite == 0 || d.base&right == 0:
		return event(sub, notcapable, 0, 0)
	case d.kind != stdin:
		return event(sub, success, 1, 0)
	}
	s.touch()
	if len(s.in) == 0 {
		return event(sub, success, 0, hangup)
	}
	return event(sub, success, uint64(len(s.in)), 0)
}

// event answers the subscription sub; n is how many bytes can be moved.
func event(sub []byte, err errno, n uint64, flags uint16) []byte {
	e := make([]byte, eventSize)
	copy(e, sub[:8]) // the guest's own word
	put16(e[8:], uint16(err))
	e[10] = sub[8]
	put64(e[16:], n)
	put16(e[24:], flags)
	return e
}
