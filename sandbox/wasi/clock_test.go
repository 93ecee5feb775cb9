package wasi_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/wasi"
)

const (
	realtime  = 0
	monotonic = 1
)

func (w *world) time(id uint64) uint64 {
	w.t.Helper()
	w.want(success, "clock_time_get", id, 1, bufAt)
	return w.u64(bufAt)
}

func precise(o *wasi.Options) { o.PreciseClock = true }

func TestClocks(t *testing.T) {
	for _, tt := range []struct {
		change         func(*wasi.Options)
		res, real, mon uint64
	}{
		{nil, 1e6, 1_700_000_000_123e6, 61e9},
		{precise, 1, 1_700_000_000_123_456_789, 61e9},
	} {
		w := newWorld(t, nil, call.Bounds{}, tt.change)
		for id := range uint64(2) {
			w.want(success, "clock_res_get", id, bufAt)
			if got := w.u64(bufAt); got != tt.res {
				t.Errorf("the precision of clock %d is %d ns, want %d", id, got, tt.res)
			}
		}
		if r, m := w.time(realtime), w.time(monotonic); r != tt.real || m != tt.mon {
			t.Errorf("the clocks show %d and %d, want %d and %d", r, m, tt.real, tt.mon)
		}
		w.life.now = w.life.now.Add(999_999)
		if m := w.time(monotonic); tt.change == nil && m != tt.mon || tt.change != nil && m != tt.mon+999_999 {
			t.Errorf("and then %d", m)
		}
		for id := uint64(2); id < 5; id++ {
			w.want(inval, "clock_res_get", id, bufAt)
			w.want(inval, "clock_time_get", id, 0, bufAt)
		}
	}
}

// A file that is written and looked at tells the time no better than a clock does.
func TestTimesOfFilesAreCoarse(t *testing.T) {
	stat := func(change func(*wasi.Options)) [3]uint64 {
		w := newWorld(t, every, call.Bounds{}, change)
		must(t, os.Chtimes(filepath.Join(w.dir, "a.txt"), time.Unix(5, 1_999_999), time.Unix(6, 2_000_001)))
		w.put(pathAt, "a.txt")
		w.want(success, "path_filestat_get", 3, 0, pathAt, 5, bufAt)
		by := [3]uint64{w.u64(bufAt + 40), w.u64(bufAt + 48), w.u64(bufAt + 56)}
		fd := w.must(3, "a.txt", 0, allRights&^rightWrite, 0, 0)
		w.want(success, "fd_filestat_get", fd, bufAt)
		if again := [3]uint64{w.u64(bufAt + 40), w.u64(bufAt + 48), w.u64(bufAt + 56)}; again != by {
			t.Errorf("the times are %d by path and %d by descriptor", by, again)
		}
		return by
	}
	if got := stat(nil); got[0] != 5_001e6 || got[1] != 6_002e6 || got[2]%1e6 != 0 {
		t.Errorf("times are %d", got)
	}
	if got := stat(precise); got[0] != 5_001_999_999 || got[1] != 6_002_000_001 {
		t.Errorf("with precise clocks times are %d", got)
	}
}

func TestSetTimes(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, precise)
	fd := w.must(3, "a.txt", 0, allRights, 0, 0)
	for _, tt := range []struct {
		flags, want uint64
	}{
		{1, success}, {4, success}, {5, success}, {2, success}, {8, success}, {10, success}, {9, success}, {0, success},
		{3, inval}, {12, inval}, {15, inval}, {16, inval},
	} {
		w.want(tt.want, "fd_filestat_set_times", fd, 11, 22, tt.flags)
		w.put(pathAt, "a.txt")
		w.want(tt.want, "path_filestat_set_times", 3, 1, pathAt, 5, 11, 22, tt.flags)
	}
	w.want(success, "fd_filestat_set_times", fd, 11, 22, 5)
	w.want(success, "fd_filestat_get", fd, bufAt)
	if a, m := w.u64(bufAt+40), w.u64(bufAt+48); a != 11 || m != 22 {
		t.Errorf("times are %d and %d, want 11 and 22", a, m)
	}
	dir := w.must(3, "sub", 2, allRights&^rightWrite, 0, 0)
	w.want(success, "fd_filestat_set_times", dir, 33, 44, 4)
	w.want(success, "fd_filestat_get", dir, bufAt)
	if m := w.u64(bufAt + 48); m != 44 {
		t.Errorf("the time of a directory is %d, want 44", m)
	}
	w.want(inval, "fd_filestat_set_times", fd, 1<<63, 0, 1)
	w.want(success, "fd_filestat_set_times", fd, 1<<63, 0, 0)
}

func TestRandomness(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	w.want(success, "random_get", bufAt, 32)
	first := w.text(bufAt, 32)
	w.want(success, "random_get", bufAt, 32)
	if second := w.text(bufAt, 32); first == second || first == strings.Repeat("\x00", 32) {
		t.Errorf("random bytes are %x, then %x", first, second)
	}
	w.want(success, "random_get", 0, 0)
}

func TestRandomnessIsCapped(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	n := 0
	for ; w.call("random_get", 0, 65536) == success; n += 65536 {
		if n > 1<<30 {
			t.Fatal("no end")
		}
	}
	if n != 16<<20 {
		t.Errorf("%d bytes of randomness", n)
	}
	w.put(0, "same")
	w.want(dquot, "random_get", 0, 1)
	if w.text(0, 4) != "same" {
		t.Error("written to nevertheless")
	}
}

// The same seed, time and arguments give the same randomness and clocks, however the
// guest asks for them.
func TestReplay(t *testing.T) {
	replay := func(change func(*wasi.Replay)) func(*wasi.Options) {
		return func(o *wasi.Options) {
			o.Replay = &wasi.Replay{Seed: [32]byte{1}, Args: []byte("{}"), Time: time.Unix(1000, 0)}
			if change != nil {
				change(o.Replay)
			}
		}
	}
	random := func(w *world, pieces ...uint64) string {
		at := uint64(bufAt)
		for _, n := range pieces {
			w.want(success, "random_get", at, n)
			at += n
		}
		return w.text(bufAt, uint32(at-bufAt))
	}
	want := random(newWorld(t, nil, call.Bounds{}, replay(nil)), 100)
	if got := random(newWorld(t, nil, call.Bounds{}, replay(nil)), 1, 0, 49, 50); got != want {
		t.Errorf("in pieces: %x, want %x", got, want)
	}
	for name, change := range map[string]func(*wasi.Replay){
		"seed":      func(r *wasi.Replay) { r.Seed[31] = 1 },
		"arguments": func(r *wasi.Replay) { r.Args = []byte("[]") },
	} {
		if got := random(newWorld(t, nil, call.Bounds{}, replay(change)), 100); got == want {
			t.Errorf("another %s gives the same", name)
		}
	}

	var shown [2][]byte
	for i := range shown {
		w := newWorld(t, nil, call.Bounds{}, replay(nil))
		for range 3 {
			w.life.now = w.life.now.Add(time.Duration(i) * time.Hour) // is not seen
			shown[i] = binary.LittleEndian.AppendUint64(shown[i], w.time(realtime))
			shown[i] = binary.LittleEndian.AppendUint64(shown[i], w.time(monotonic))
		}
		was := w.time(monotonic)
		w.sleep(t, monotonic, 5e9, 0)
		if now := w.time(monotonic); now < was+5e9 || now > was+5e9+3e6 {
			t.Errorf("after 5 s the clock went on by %d ns", now-was)
		}
		if w.life.slept != 5*time.Second {
			t.Errorf("slept %v", w.life.slept)
		}
	}
	if !bytes.Equal(shown[0], shown[1]) {
		t.Error("clocks differ between two replays")
	}
	if first := binary.LittleEndian.Uint64(shown[0]); first != 1000e9 {
		t.Errorf("it begins at %d", first)
	}
}
