package wasi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"runtime"
	"time"
)

// Clocks of the standard. There are two more, of processor time, that no guest
// has.
const (
	realtime  = 0
	monotonic = 1
)

// coarse is the precision of clocks, and of the times of files, without
// [Options.PreciseClock]: finer ones help to tell what others on the machine do.
const coarse = time.Millisecond

// Replay makes runs repeatable.
type Replay struct {
	Seed [32]byte  // of randomness
	Args []byte    // also of randomness
	Time time.Time // when each run begins, as the guest sees it
}

// stream is randomness that depends on nothing but the seed and the arguments.
func (r *Replay) stream() cipher.Stream {
	key := sha256.Sum256(append(append([]byte("callgate replay 1\n"), r.Seed[:]...), r.Args...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	return cipher.NewCTR(block, make([]byte, aes.BlockSize))
}

// clock is the time as the guest sees it, before it is made coarse.
type clock struct {
	now       func() time.Time
	start     time.Time
	precision time.Duration

	replayed bool
	passed   time.Duration // in a replay, since it began
}

func newClock(o Options) clock {
	c := clock{now: o.Now, start: o.Start, precision: coarse}
	if o.PreciseClock {
		c.precision = time.Nanosecond
	}
	if o.Replay != nil {
		c.replayed, c.start = true, o.Replay.Time
	}
	return c
}

// read is the exact time on a clock, in nanoseconds.
func (c *clock) read(id uint32) int64 {
	t := c.start.Add(c.passed)
	if !c.replayed {
		t = c.now()
	}
	if id == monotonic {
		// From one second on: some take a zero for a clock that does not work.
		return max(int64(t.Sub(c.start)), 0) + int64(time.Second)
	}
	return max(t.UnixNano(), 0)
}

// round makes a time as coarse as the guest may see it.
func (c *clock) round(ns int64) int64 { return ns - ns%int64(c.precision) }

// look is the time that a guest is told. A replay's clock moves with each look,
// so that a guest that waits for a time in a loop sees it come.
func (c *clock) look(id uint32) uint64 {
	t := c.round(c.read(id))
	if c.replayed {
		c.passed += c.tick()
	}
	return uint64(t)
}

func (c *clock) tick() time.Duration { return max(c.precision, time.Microsecond) }

// until is how long it takes before the guest can see the time t on a clock.
func (c *clock) until(id uint32, t uint64) time.Duration {
	at := int64(min(t, 1<<62))
	if rest := at % int64(c.precision); rest > 0 {
		at += int64(c.precision) - rest
	}
	return max(time.Duration(at-c.read(id)), 0)
}

// clockResGet is clock_res_get(id, resolution).
func (s *State) clockResGet() errno {
	if s.u32(0) > monotonic {
		return inval
	}
	out := s.param(1, 8)
	if out == nil {
		return fault
	}
	put64(out, uint64(s.clock.precision))
	return success
}

// clockTimeGet is clock_time_get(id, precision, time).
func (s *State) clockTimeGet() errno {
	if s.u32(0) > monotonic {
		return inval
	}
	out := s.param(2, 8)
	if out == nil {
		return fault
	}
	put64(out, s.clock.look(s.u32(0)))
	return success
}

// sleep waits. In a replay the guest's clock moves on by as much.
func (s *State) sleep(d time.Duration) {
	s.clock.passed += d
	s.run.Sleep(d)
}

// schedYield is sched_yield().
func (s *State) schedYield() errno {
	runtime.Gosched()
	return success
}

// maxRandom is how many bytes of randomness one State gives. A guest that needs
// more has a generator of its own to seed.
const maxRandom = 16 << 20

// randomGet is random_get(buf, buf_len).
func (s *State) randomGet() errno {
	buf := s.param(0, s.u32(1))
	if buf == nil {
		return fault
	}
	if int64(len(buf)) > s.randomLeft {
		return dquot
	}
	s.randomLeft -= int64(len(buf))
	for len(buf) > 0 {
		n := min(len(buf), chunk)
		if s.stream != nil {
			clear(buf[:n])
			s.stream.XORKeyStream(buf[:n], buf[:n])
		} else {
			_, _ = rand.Read(buf[:n]) // never fails
		}
		buf = buf[n:]
		s.run.Check()
	}
	return success
}
