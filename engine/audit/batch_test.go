package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// held returns a log whose syncs wait until release is called.
func held(t *testing.T, o Options) (l *Log, release func()) {
	dir, calls, blocked := build(t, Options{}), 0, make(chan struct{})
	o.Wrap = func(f File) File { return &faulty{File: f, good: 1 << 30, calls: &calls, blocked: blocked} }
	release = sync.OnceFunc(func() { close(blocked) })
	l = open(t, dir, o)
	t.Cleanup(release) // before the log is closed
	return l, release
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// inSync waits until the first batch is written and waits for its sync.
func inSync(t *testing.T, l *Log) {
	t.Helper()
	eventually(t, "first batch written", func() bool { return len(read(t, segmentPath(l.dir, 0))) > 0 })
}

// While one batch is in sync everybody who comes shares the next, within bounds.
func TestGroupCommit(t *testing.T) {
	mib := `{"a":"` + strings.Repeat("x", 1<<20) + `","type":"x"}`
	tests := []struct {
		name string
		o    Options
		n    int
		rec  func(i int) []byte
		want string // sizes of the batches, in the order of the log
	}{
		{name: "waiting", n: 10, rec: testRecord, want: "[1 10]"},
		{name: "records of a batch", n: 600, rec: testRecord, want: "[1 512 88]"},
		{name: "bytes of a batch", n: 20, rec: func(int) []byte { return []byte(mib) }, want: "[1 8 8 4]"},
		{name: "one by one", o: Options{maxBatch: 1}, n: 3, rec: testRecord, want: "[1 1 1 1]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, release := held(t, tt.o)
			var wg sync.WaitGroup
			send := func(i int) {
				wg.Go(func() {
					if _, err := l.Append(t.Context(), tt.rec(i)); err != nil {
						t.Error(err)
					}
				})
			}
			send(0)
			inSync(t, l)
			for i := range tt.n {
				send(i + 1)
			}
			eventually(t, "all waiting", func() bool { return len(l.in) == tt.n })
			release()
			wg.Wait()
			w := &walker{verifier: l.verifier, every: true, stop: -1}
			var got []int
			segs, err := segments(l.dir)
			if err != nil {
				t.Fatal(err)
			}
			err = w.walk(t.Context(), segs, func(_ int64, recs [][]byte) error { got = append(got, len(recs)); return nil })
			if s := fmt.Sprint(got); err != nil || s != tt.want {
				t.Errorf("batches of %s, want %s; %v", s, tt.want, err)
			}
		})
	}
}

// watched tells when somebody begins to wait for its end.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

func TestAppendContext(t *testing.T) {
	l, release := held(t, Options{QueueLen: 1})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a select between a place and the end would be a matter of luck
		if _, err := l.Append(done, testRecord(0)); !errors.Is(err, context.Canceled) {
			t.Fatalf("Append with a context that is done = %v", err)
		}
	}

	type answer struct {
		index int64
		err   error
	}
	send := func(ctx context.Context, i int) chan answer {
		c := make(chan answer, 1)
		go func() {
			index, err := l.Append(ctx, testRecord(i))
			c <- answer{index, err}
		}()
		return c
	}
	ctx, cancel := context.WithCancel(t.Context())
	syncing := send(ctx, 0)
	inSync(t, l)
	queued := send(ctx, 1)
	eventually(t, "queued", func() bool { return len(l.in) == 1 })
	waiting := &watched{Context: ctx, asked: make(chan struct{})}
	outside := send(waiting, 2) // there is no place for it
	<-waiting.asked
	cancel()
	if a := <-outside; !errors.Is(a.err, context.Canceled) {
		t.Errorf("Append without a place = %+v", a)
	}
	select {
	case a := <-syncing:
		t.Errorf("answered %+v before it was durable", a)
	case a := <-queued:
		t.Errorf("answered %+v before it was durable", a)
	default:
	}
	release()
	if a := <-syncing; a != (answer{0, nil}) {
		t.Errorf("in sync: %+v", a)
	}
	if a := <-queued; a != (answer{1, nil}) {
		t.Errorf("queued: %+v", a)
	}
	if d := cmp.Diff(records(2), replay(t, l)); d != "" {
		t.Errorf("what was given up is in the log: %s", d)
	}
}

// Close answers everybody who has a place.
func TestCloseDrains(t *testing.T) {
	l, release := held(t, Options{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := l.Append(t.Context(), testRecord(i)); err != nil {
				t.Error(err)
			}
		})
		if i == 0 {
			inSync(t, l)
		}
	}
	eventually(t, "queued", func() bool { return len(l.in) == 19 })
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	release()
	wg.Wait()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if rep, err := Verify(l.dir, ""); err != nil || rep.Records != 20 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}

func TestReplay(t *testing.T) {
	dir := build(t, Options{SegmentBytes: 1}, 2, 3, 1)
	l := open(t, dir, Options{})

	stop := errors.New("stop")
	n := 0
	if err := l.Replay(t.Context(), func(int64, []byte) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("Replay = %v after %d records", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := l.Replay(ctx, func(int64, []byte) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Replay with a context that ends = %v", err)
	}

	// The files are checked again, against what Open saw.
	tests := []struct {
		name   string
		edit   func(dir string)
		record int64
	}{
		{"changed", func(dir string) { p := segmentPath(dir, 2); write(t, p, edit(read(t, p))) }, 2},
		{"cut", func(dir string) { write(t, segmentPath(dir, 5), nil) }, 5},
		{"removed", func(dir string) { remove(2)(t, dir) }, 5},
		{"all gone", func(dir string) { all(remove(0), remove(0), remove(0))(t, dir) }, 0},
		{"rewritten", func(dir string) { change(0)(t, dir); rewrite(t, dir) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyDir(t, dir)
			l := open(t, dir, Options{})
			tt.edit(dir)
			err := l.Replay(t.Context(), func(int64, []byte) error { return nil })
			if te, ok := errors.AsType[*TamperError](err); !ok || te.Record != tt.record {
				t.Errorf("Replay = %v, want record %d", err, tt.record)
			}
		})
	}
}

// rewrite makes the whole log again, by its own key, from the records that the
// segments hold now.
func rewrite(t *testing.T, dir string) {
	s := ownKey(dir)
	var tr tree
	for _, p := range files(t, dir) {
		var out []byte
		for _, line := range lines(read(t, p)) {
			line = []byte(strings.TrimSuffix(string(line), "\n"))
			if strings.HasPrefix(string(line), string(checkpointStart)) {
				var err error
				if line, err = signCheckpoint(s, tr.n, tr.root()); err != nil {
					t.Fatal(err)
				}
			} else {
				tr.add(leafOf(line))
			}
			out = append(append(out, line...), '\n')
		}
		write(t, p, out)
	}
}
