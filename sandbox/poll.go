package sandbox

import (
	"encoding/binary"
	"math"
	"time"
)

// Sizes and tags of poll_oneoff, from the description of
// wasi_snapshot_preview1.
const (
	subscriptionSize = 48
	eventSize        = 32

	tagClock   = 0
	tagFDRead  = 1
	tagFDWrite = 2
)

// poll is poll_oneoff. Nothing that a guest can open ever blocks, so a
// descriptor is always ready and only a clock is worth waiting for. Clocks are
// relative; absolute ones are not supported.
func (w wasi) poll(q *request) uint32 {
	in, out, n, result := q.u32(0), q.u32(1), q.u32(2), q.u32(3)
	if n == 0 || n > maxPolled {
		return wasiInval
	}
	mem := q.mod.Memory()
	subs, ok := mem.Read(in, n*subscriptionSize)
	if !ok {
		return wasiFault
	}
	if _, ok := mem.Read(out, n*eventSize); !ok {
		return wasiFault
	}
	// The two may overlap, so everything is read before anything is written.
	var events []byte
	shortest := time.Duration(math.MaxInt64)
	for s := subs; len(s) > 0; s = s[subscriptionSize:] {
		switch s[8] {
		case tagClock:
			if binary.LittleEndian.Uint16(s[40:]) != 0 {
				return wasiNotsup
			}
			shortest = min(shortest, timeout(s))
		case tagFDRead, tagFDWrite:
			errno := uint16(wasiOK)
			if !w.isOpen(q, binary.LittleEndian.Uint32(s[16:])) {
				errno = wasiBadf
			}
			events = append(events, event(s, errno)...)
		default:
			return wasiInval
		}
	}
	if len(events) == 0 {
		for s := subs; len(s) > 0; s = s[subscriptionSize:] {
			if timeout(s) == shortest {
				events = append(events, event(s, wasiOK)...)
			}
		}
		q.sleep(shortest)
	}
	if !mem.Write(out, events) || !mem.WriteUint32Le(result, uint32(len(events)/eventSize)) {
		return wasiFault
	}
	return wasiOK
}

func timeout(s []byte) time.Duration {
	return time.Duration(min(binary.LittleEndian.Uint64(s[24:]), math.MaxInt64))
}

// event answers the subscription s.
func event(s []byte, errno uint16) []byte {
	e := make([]byte, eventSize)
	copy(e, s[:8]) // the guest's own word
	binary.LittleEndian.PutUint16(e[8:], errno)
	e[10] = s[8]
	if s[8] != tagClock {
		e[16] = 1 // bytes that can be moved, at least
	}
	return e
}
