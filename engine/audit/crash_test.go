package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("AUDIT_TEST_APPEND"); dir != "" {
		appendForEver(dir)
	}
	os.Exit(m.Run())
}

// appendForEver is the child of TestKill: 16 callers who say what was
// acknowledged.
func appendForEver(dir string) {
	l, err := Open(dir, Options{SegmentBytes: 20_000})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for range 16 {
		go func() {
			for {
				id := strings.ToLower(fmt.Sprintf("%d-%p", time.Now().UnixNano(), new(int)))
				rec, err := call.Record{Type: call.TypeDecision, Call: id}.Encode()
				if err != nil {
					panic(err)
				}
				i, err := l.Append(context.Background(), rec)
				if err != nil {
					panic(err)
				}
				// One write each, so a kill cannot mix two lines.
				os.Stdout.WriteString(fmt.Sprintf("%d %s\n", i, id))
			}
		}()
	}
	select {}
}

// Killed five times under 16 callers, the log has every record that was
// acknowledged at the index that was told.
func TestKill(t *testing.T) {
	dir := build(t, Options{})
	acked := map[int64]string{}
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "AUDIT_TEST_APPEND="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s := bufio.NewScanner(out)
		for n := 0; s.Scan(); n++ {
			if n == 300 {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			index, id, ok := strings.Cut(s.Text(), " ")
			i, err := strconv.ParseInt(index, 10, 64)
			if err != nil || !ok {
				t.Fatalf("child said %q", s.Text())
			}
			if was, twice := acked[i]; twice {
				t.Errorf("index %d given to %s and %s", i, was, id)
			}
			acked[i] = id
		}
		cmd.Wait() // killed
	}
	if len(acked) < 5*300 {
		t.Fatalf("only %d records acknowledged", len(acked))
	}
	l := open(t, dir, Options{})
	got := map[int64]string{}
	err := l.Replay(t.Context(), func(i int64, line []byte) error {
		r, err := call.DecodeRecord(line)
		if err == nil {
			got[i] = r.Call
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range acked {
		if got[i] != id {
			t.Errorf("record %d is %q, acknowledged was %q", i, got[i], id)
		}
	}
	if _, err := Verify(dir, ""); err != nil {
		t.Error(err)
	}
}

// Wherever the last write broke off, the log holds exactly what was acknowledged
// before it, and a record of the cut.
func TestTorn(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		step int // bytes
	}{
		{name: "one segment", step: 1},
		{name: "new segment", o: Options{SegmentBytes: 1}, step: 11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := build(t, tt.o, 2, 2)
			paths := files(t, dir)
			path := paths[len(paths)-1]
			whole := read(t, path)
			start := 0
			if len(paths) == 1 {
				cps := bytes.SplitAfterN(whole, []byte("\"}\n"), 4) // two records, checkpoint, rest
				start = len(cps[0]) + len(cps[1]) + len(cps[2])
			}
			when := time.Unix(1_800_000_000, 0).UTC()
			o := Options{Node: "n1", Now: func() time.Time { return when }}
			for end := start; end < len(whole); end += tt.step {
				write(t, path, whole[:end])
				rep, err := Verify(dir, "")
				if err != nil || rep.Records != 2 || rep.Unfinished != int64(end-start) {
					t.Fatalf("cut at %d of %d: Verify = %+v, %v", end, len(whole), rep, err)
				}
				l, err := Open(dir, o)
				if err != nil {
					t.Fatalf("cut at %d of %d: %v", end, len(whole), err)
				}
				want := records(2)
				if end > start {
					cut, err := call.Record{Type: call.TypeCut, Time: when, Node: "n1", CutBytes: int64(end - start)}.Encode()
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, string(cut))
				}
				if d := cmp.Diff(want, replay(t, l)); d != "" {
					t.Fatalf("cut at %d of %d: %s", end, len(whole), d)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := Verify(dir, ""); err != nil {
					t.Fatalf("cut at %d of %d: after Open: %v", end, len(whole), err)
				}
			}
		})
	}
}

// faulty fails like a disk from its nth write on.
type faulty struct {
	File
	good    int // writes before the fault
	write   func(f File, b []byte) (int, error)
	sync    error
	calls   *int
	blocked chan struct{} // not nil: Sync waits for it
}

func (f *faulty) Write(b []byte) (int, error) {
	*f.calls++
	if *f.calls > f.good && f.write != nil {
		return f.write(f.File, b)
	}
	return f.File.Write(b)
}

func (f *faulty) Sync() error {
	if f.blocked != nil {
		<-f.blocked
	}
	if *f.calls > f.good && f.sync != nil {
		return f.sync
	}
	return f.File.Sync()
}

func TestWriteFailures(t *testing.T) {
	half := func(f File, b []byte) (int, error) { return f.Write(b[:len(b)/2]) }
	tests := []struct {
		name  string
		write func(File, []byte) (int, error)
		sync  error
		cause error
		there int // records of the failed write that turn out to be there
		cut   bool
	}{
		{name: "nothing written", write: func(File, []byte) (int, error) { return 0, syscall.EIO }, cause: syscall.EIO},
		{name: "short write without an error", write: half, cut: true},
		{name: "disk full", write: func(f File, b []byte) (int, error) {
			n, _ := half(f, b)
			return n, syscall.ENOSPC
		}, cause: syscall.ENOSPC, cut: true},
		{name: "all written, then an error", write: func(f File, b []byte) (int, error) {
			n, _ := f.Write(b)
			return n, syscall.EIO
		}, cause: syscall.EIO, there: 1},
		{name: "sync", sync: syscall.EIO, cause: syscall.EIO, there: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, calls := build(t, Options{}), 0
			l := open(t, dir, Options{Wrap: func(f File) File {
				return &faulty{File: f, good: 3, write: tt.write, sync: tt.sync, calls: &calls}
			}})
			for i := range 3 {
				if _, err := l.Append(t.Context(), testRecord(i)); err != nil {
					t.Fatal(err)
				}
			}
			for i := 3; i < 6; i++ {
				index, err := l.Append(t.Context(), testRecord(i))
				if index != -1 || !errors.Is(err, ErrStopped) || tt.cause != nil && !errors.Is(err, tt.cause) {
					t.Errorf("Append %d = %d, %v", i, index, err)
				}
			}
			if calls != 4 {
				t.Errorf("%d writes; a stopped log must not write", calls)
			}
			if d := cmp.Diff(records(3), replay(t, l)); d != "" {
				t.Errorf("replay of the stopped log: %s", d)
			}
			l.Close()

			l = open(t, dir, Options{})
			got, want := replay(t, l), records(3+tt.there)
			if d := cmp.Diff(want, got[:len(want)]); d != "" {
				t.Error(d)
			}
			if cut := len(got) > len(want); cut != tt.cut || cut && !strings.Contains(got[len(got)-1], `"type":"cut"`) {
				t.Errorf("records after the cut: %q", got[len(want):])
			}
			if _, err := l.Append(t.Context(), testRecord(9)); err != nil {
				t.Errorf("Append after reopening: %v", err)
			}
		})
	}
}

// Rotation that fails stops the log as a write does.
func TestRotationFailure(t *testing.T) {
	dir := build(t, Options{}, 1)
	l := open(t, dir, Options{SegmentBytes: 1})
	write(t, segmentPath(dir, 1), nil) // the name is taken
	if _, err := l.Append(t.Context(), testRecord(1)); !errors.Is(err, ErrStopped) || !errors.Is(err, os.ErrExist) {
		t.Errorf("Append = %v", err)
	}
	if d := cmp.Diff(records(1), replay(t, l)); d != "" {
		t.Error(d)
	}
}

// A batch whose sync failed can be readable without being on the disk, so Open
// writes the last batch again before anything relies on it.
func TestOpenConfirmsLastBatch(t *testing.T) {
	dir := build(t, Options{SegmentBytes: 1}, 2, 3)
	paths := files(t, dir)
	write(t, segmentPath(dir, 5), nil)
	old := time.Unix(1_000_000_000, 0)
	before := map[string]string{}
	for _, p := range paths {
		before[p] = string(read(t, p))
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir, Options{}).Close()
	for i, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if wrote, want := !info.ModTime().Equal(old), i == 1; wrote != want {
			t.Errorf("segment %d written to: %v, want %v", i, wrote, want)
		}
		if string(read(t, p)) != before[p] {
			t.Errorf("segment %d changed", i)
		}
	}
}

func TestManyCallers(t *testing.T) {
	const callers, each = 64, 25
	dir := build(t, Options{})
	l := open(t, dir, Options{SegmentBytes: 30_000, QueueLen: 8})
	var mu sync.Mutex
	got := map[int64]string{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				rec := testRecord(c*each + i)
				index, err := l.Append(t.Context(), rec)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if was, ok := got[index]; ok {
					t.Errorf("index %d given twice: %s and %s", index, was, rec)
				}
				got[index] = string(rec)
				mu.Unlock()
				// What was acknowledged is there at once.
				if i == each/2 && c%16 == 0 {
					if n := len(replay(t, l)); int64(n) <= index {
						t.Errorf("replay has %d records, %d was acknowledged", n, index)
					}
				}
			}
		})
	}
	wg.Wait()
	all := replay(t, l)
	if len(all) != callers*each || len(got) != callers*each {
		t.Fatalf("%d records, %d indices, want %d", len(all), len(got), callers*each)
	}
	for i, rec := range all {
		if got[int64(i)] != rec {
			t.Errorf("record %d is %s, acknowledged was %s", i, rec, got[int64(i)])
		}
	}
	if rep, err := Verify(dir, ""); err != nil || rep.Records != callers*each {
		t.Errorf("Verify while open = %+v, %v", rep, err)
	}
}
