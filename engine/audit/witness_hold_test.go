package audit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Hold waits for nobody unless it is strict, then for as many as make a quorum, and
// no longer than it may.
func TestHold(t *testing.T) {
	dir := build(t, Options{}, 1)
	down := func(context.Context, int64, []byte, [][32]byte) ([]byte, error) { return nil, errors.New("down") }
	for _, tt := range []struct {
		name   string
		strict bool
		quorum int
		down   []string
		want   error
		after  time.Duration
	}{
		{name: "not strict", down: []string{"one", "two", "three"}},
		{name: "all", strict: true},
		{name: "all, and one is down", strict: true, down: []string{"two"}, want: ErrUnanchored, after: 10 * time.Second},
		{name: "two of three, and one is down", strict: true, quorum: 2, down: []string{"two"}},
		{name: "two of three, and two are down", strict: true, quorum: 2, down: []string{"two", "one"}, want: ErrUnanchored, after: 10 * time.Second},
		{name: "one of three", strict: true, quorum: 1, down: []string{"two", "one"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyDir(t, dir)
			synctest.Test(t, func(t *testing.T) {
				var ws []*scripted
				for _, name := range []string{"one", "two", "three"} {
					w := newWitness(t, dir, name, nil)
					for _, d := range tt.down {
						if d == name {
							w.script(down)
						}
					}
					ws = append(ws, w)
				}
				o := witnessed(ws...)
				o.Strict, o.Quorum, o.Every = tt.strict, tt.quorum, time.Hour
				l := open(t, dir, o)
				defer l.Close()
				at, start := put(t, l, 1), time.Now()
				err := l.Hold(t.Context(), at)
				if !errors.Is(err, tt.want) || time.Since(start) != tt.after {
					t.Errorf("Hold = %v after %v, want %v after %v", err, time.Since(start), tt.want, tt.after)
				}
				for i, w := range ws {
					if tt.strict && tt.quorum == 0 && len(tt.down) == 0 && w.seen(t) != at+1 {
						t.Errorf("held, and witness %d has seen %d records", i, w.seen(t))
					}
				}
			})
		})
	}
}

// Nobody waits for witnesses that remember another log, unless there are enough others.
func TestHoldOfAForkedLog(t *testing.T) {
	dir := build(t, Options{}, 1)
	synctest.Test(t, func(t *testing.T) {
		one, two := newWitness(t, dir, "one", nil), newWitness(t, dir, "two", nil)
		forked := func(context.Context, int64, []byte, [][32]byte) ([]byte, error) {
			return nil, &RefusedError{http.StatusConflict, 100}
		}
		one.script(forked)
		o := witnessed(one, two)
		o.Strict, o.Quorum = true, 1
		l := open(t, dir, o)
		defer l.Close()
		if err := l.Hold(t.Context(), put(t, l, 1)); err != nil {
			t.Errorf("with one left: %v", err)
		}
		two.script(forked)
		for range 2 {
			start := time.Now()
			err := l.Hold(t.Context(), put(t, l, 2))
			if !errors.Is(err, ErrForked) || !errors.Is(err, ErrUnanchored) || time.Since(start) > o.Every+time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		one.script(nil)
		two.script(nil)
		time.Sleep(2 * time.Minute)
		if err := l.Hold(t.Context(), put(t, l, 3)); err != nil {
			t.Errorf("with both again: %v", err)
		}
	})
}

// After Close nobody waits any longer.
func TestWaitEndsWithTheLog(t *testing.T) {
	dir := build(t, Options{}, 1)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		w.script(func(ctx context.Context, _ int64, _ []byte, _ [][32]byte) ([]byte, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("down: %w", ctx.Err())
		})
		l := open(t, dir, witnessed(w))
		got := make(chan error)
		go func() { got <- l.WaitAnchored(context.Background(), 0) }()
		synctest.Wait()
		start := time.Now()
		l.Close()
		if err := <-got; !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnanchored) || time.Since(start) > 2*closeTime {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Many at once, with a witness that comes and goes: who is told that a record is held
// can rely on it.
func TestHoldUnderLoad(t *testing.T) {
	dir := build(t, Options{}, 1)
	ws := []*scripted{newWitness(t, dir, "one", nil), newWitness(t, dir, "two", nil), newWitness(t, dir, "three", nil)}
	for i, w := range ws {
		var n atomic.Int64
		w.script(func(ctx context.Context, old int64, cp []byte, proof [][32]byte) ([]byte, error) {
			if n.Add(1)%int64(3+i) == 0 {
				return nil, errors.New("down")
			}
			lines, err := w.Witness.Update(ctx, old, cp, proof)
			if n.Load()%int64(4+i) == 0 {
				return nil, errors.New("lost")
			}
			return lines, err
		})
	}
	o := witnessed(ws...)
	o.Strict, o.Quorum, o.StrictTimeout, o.Every, o.Alive = true, 2, time.Minute, time.Millisecond, 2*time.Millisecond
	l := open(t, dir, o)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 10 {
				at, err := l.Append(t.Context(), testRecord(100*g+i))
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Hold(t.Context(), at); err != nil {
					t.Error(err)
					return
				}
				n := 0
				for _, w := range ws {
					if w.seen(t) > at {
						n++
					}
				}
				if n < 2 {
					t.Errorf("record %d is held, and %d witnesses have seen it", at, n)
				}
				_, _ = l.Witnesses(), l.newestCheckpoint()
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var anchors []Anchor
	for _, w := range ws {
		key, note, err := ReadFileWitness(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		anchors = append(anchors, Anchor{Witness: w.Name(), Key: key, Checkpoint: note})
	}
	if r, err := Verify(dir, "", anchors...); err != nil || len(r.Anchors) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}
