package wasi_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// sub is a subscription.
type sub struct {
	word  uint64
	tag   byte
	id    uint32 // of a clock or descriptor
	time  uint64
	flags uint16
}

func (s sub) bytes() []byte {
	b := make([]byte, 48)
	binary.LittleEndian.PutUint64(b, s.word)
	b[8] = s.tag
	binary.LittleEndian.PutUint32(b[16:], s.id)
	binary.LittleEndian.PutUint64(b[24:], s.time)
	binary.LittleEndian.PutUint16(b[40:], s.flags)
	return b
}

// got is an event.
type got struct {
	word  uint64
	errno uint16
	tag   byte
	bytes uint64
	flags uint16
}

// poll asks for subscriptions, and returns the events.
func (w *world) poll(subs ...sub) (events []got) {
	w.t.Helper()
	for i, s := range subs {
		w.put(vectorAt+uint32(48*i), string(s.bytes()))
	}
	w.want(success, "poll_oneoff", vectorAt, bufAt, uint64(len(subs)), resultAt)
	for i := range w.u32(resultAt) {
		b := []byte(w.text(bufAt+32*i, 32))
		events = append(events, got{
			binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint16(b[8:]), b[10],
			binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint16(b[24:]),
		})
	}
	return events
}

// sleep waits for one clock, which must ring.
func (w *world) sleep(t *testing.T, id uint32, ns uint64, flags uint16) {
	t.Helper()
	if e := w.poll(sub{word: 7, id: id, time: ns, flags: flags}); len(e) != 1 || e[0] != (got{word: 7}) {
		t.Errorf("events are %v", e)
	}
}

func TestSleep(t *testing.T) {
	const second = uint64(time.Second)
	now := uint64(begin.UnixNano())
	for _, tt := range []struct {
		name  string
		id    uint32
		time  uint64
		flags uint16
		want  time.Duration // what a coarse clock waits for ends at a whole millisecond
	}{
		{"relative", monotonic, second, 0, time.Second},
		{"relative, by the other clock", realtime, second, 0, time.Second - 456_789},
		{"nothing", monotonic, 0, 0, 0},
		{"a little", monotonic, 1, 0, time.Millisecond},
		{"absolute", realtime, now + second, 1, time.Second + 1e6 - 456_789},
		{"absolute and monotonic", monotonic, 61*second + second, 1, time.Second},
		{"past", realtime, now - second, 1, 0},
		{"for ever", monotonic, 1<<64 - 1, 0, 1 << 61},
		{"for ever, absolute", realtime, 1<<64 - 1, 1, 1<<62 - time.Duration(now)},
	} {
		w := newWorld(t, nil, call.Bounds{}, nil)
		w.sleep(t, tt.id, tt.time, tt.flags)
		if d := w.life.slept - tt.want; d < 0 || d > 1e6 {
			t.Errorf("%s: slept %v, want %v", tt.name, w.life.slept, tt.want)
		}
		if w.state.Touched() {
			t.Errorf("%s: to sleep is a touch", tt.name)
		}
	}
}

func TestSleepWithPreciseClocks(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, precise)
	w.sleep(t, realtime, 1234, 0)
	if w.life.slept != 1234 {
		t.Errorf("slept %v", w.life.slept)
	}
}

func TestShortestClock(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	events := w.poll(sub{word: 1, id: monotonic, time: 9e9}, sub{word: 2, id: monotonic, time: 3e9}, sub{word: 3, id: monotonic, time: 3e9})
	if len(events) != 2 || events[0].word != 2 || events[1].word != 3 || w.life.slept != 3*time.Second {
		t.Errorf("events %v after %v", events, w.life.slept)
	}
}

// Descriptors are ready at once, whatever else is waited for.
func TestPollDescriptors(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	file := w.must(3, "a.txt", 0, rightRead|1<<27, 0, 0)
	weak := w.must(3, "a.txt", 0, rightRead, 0, 0)
	events := w.poll(
		sub{word: 1, id: monotonic, time: 1e9},
		sub{word: 2, id: monotonic},
		sub{word: 3, tag: 1, id: 0},
		sub{word: 4, tag: 2, id: 1},
		sub{word: 5, tag: 1, id: uint32(file)},
		sub{word: 6, tag: 2, id: uint32(file)},
		sub{word: 7, tag: 1, id: uint32(weak)},
		sub{word: 8, tag: 1, id: 1},
		sub{word: 9, tag: 1, id: 77},
		sub{word: 10, tag: 1, id: 3},
		sub{word: 11, id: 2, time: 1},                   // no such clock
		sub{word: 12, id: monotonic, time: 1, flags: 2}, // no such flag
	)
	want := map[uint64]got{
		2: {word: 2}, 3: {word: 3, tag: 1, bytes: 13}, 4: {word: 4, tag: 2, bytes: 1}, 5: {word: 5, tag: 1, bytes: 1},
		6: {word: 6, tag: 2, errno: notcapable}, 7: {word: 7, tag: 1, errno: notcapable}, 8: {word: 8, tag: 1, errno: badf},
		9: {word: 9, tag: 1, errno: badf}, 10: {word: 10, tag: 1, errno: badf}, 11: {word: 11, errno: inval}, 12: {word: 12, errno: inval},
	}
	if len(events) != len(want) {
		t.Errorf("%d events, want %d", len(events), len(want))
	}
	for _, e := range events {
		if e != want[e.word] {
			t.Errorf("event %v, want %v", e, want[e.word])
		}
	}
	if w.life.slept != 0 {
		t.Errorf("slept %v", w.life.slept)
	}
	w.read(0, 100)
	if e := w.poll(sub{tag: 1, id: 0}); len(e) != 1 || e[0] != (got{tag: 1, flags: 1}) {
		t.Errorf("at the end of stdin: %v", e)
	}
}

func TestPollIsChecked(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	w.want(inval, "poll_oneoff", vectorAt, bufAt, 0, resultAt)
	w.want(inval, "poll_oneoff", vectorAt, bufAt, 1025, resultAt)
	w.want(inval, "poll_oneoff", vectorAt, bufAt, 1<<28, resultAt)
	w.want(fault, "poll_oneoff", 65536-47, bufAt, 1, resultAt)
	w.want(fault, "poll_oneoff", vectorAt, 65536-31, 1, resultAt)
	w.want(fault, "poll_oneoff", vectorAt, bufAt, 1, 65536-3)
	w.put(vectorAt, string(sub{tag: 3}.bytes()))
	w.want(inval, "poll_oneoff", vectorAt, bufAt, 1, resultAt)

	// The lists may overlap.
	w.put(bufAt, string(sub{word: 1, tag: 1, id: 0}.bytes())+string(sub{word: 2, tag: 2, id: 1}.bytes()))
	w.want(success, "poll_oneoff", bufAt, bufAt, 2, resultAt)
	if w.u32(resultAt) != 2 || w.u64(bufAt) != 1 || w.u64(bufAt+32) != 2 {
		t.Errorf("%d events, %d and %d", w.u32(resultAt), w.u64(bufAt), w.u64(bufAt+32))
	}
}

// A run that is over while its guest sleeps is over.
func TestSleepEndsWithTheRun(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	w.life.limit = 1
	w.life.checks = 1
	w.put(vectorAt, string(sub{id: monotonic, time: 1e9}.bytes()))
	w.call("poll_oneoff", vectorAt, bufAt, 1, resultAt)
	if w.ends.what != "over" {
		t.Errorf("ended %v", w.ends)
	}
}
