package audit

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// Without anybody waiting, a witness is shown what has become of the log once in a
// while, and once more at the end; what it cosigned is kept beside the log, for the
// next opening to go on from.
func TestWitnessFollows(t *testing.T) {
	dir := build(t, Options{}, 3, 2)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		l := open(t, dir, witnessed(w))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.seen(t); got != 5 {
			t.Errorf("after a second it has seen %d records", got)
		}
		put(t, l, 5)
		synctest.Wait()
		if got := w.asked.Load(); got != 1 {
			t.Errorf("asked %d times, though nobody waits", got)
		}
		size, changed := l.Anchored()
		if size != 5 {
			t.Errorf("anchored %d", size)
		}
		put(t, l, 6)
		<-changed
		if size, _ := l.Anchored(); size != 7 {
			t.Errorf("anchored %d, then", size)
		}
		put(t, l, 7)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := w.seen(t); got != 8 {
			t.Errorf("after Close it has seen %d", got)
		}

		l = open(t, dir, witnessed(w))
		if size, _ := l.Anchored(); size != 8 || w.asked.Load() != 3 {
			t.Errorf("opened again: anchored %d, asked %d times", size, w.asked.Load())
		}
		st := l.Witnesses()
		if len(st) != 1 || st[0].Name != "one" || st[0].Size != 8 || st[0].Err != nil || time.Since(st[0].At) > time.Minute {
			t.Errorf("%+v", st)
		}
		l.Close()
	})
}

// What a witness may do wrong. Nothing of it counts, nothing of it stops the log, and
// once the witness does right it is believed.
func TestWitnessFaults(t *testing.T) {
	dir := build(t, Options{}, 2, 1, 4)
	type update = func(w *scripted, ctx context.Context, old int64, cp []byte, proof [][32]byte) ([]byte, error)
	answer := func(lines string) update {
		return func(*scripted, context.Context, int64, []byte, [][32]byte) ([]byte, error) { return []byte(lines), nil }
	}
	refuse := func(status int, size int64) update {
		return func(*scripted, context.Context, int64, []byte, [][32]byte) ([]byte, error) {
			return nil, &RefusedError{status, size}
		}
	}
	signed := func(other func(cp string) string, shift time.Duration, change func(*cosigningKey)) update {
		return func(w *scripted, _ context.Context, _ int64, cp []byte, _ [][32]byte) ([]byte, error) {
			k, err := parseCosigningKey(read(t, w.dir+"/witness.key"))
			if err != nil {
				t.Error(err)
			}
			if change != nil {
				change(&k)
			}
			text, _, _ := strings.Cut(string(cp), "\n\n")
			return []byte(k.cosign(other(text+"\n"), time.Now().Add(shift))), nil
		}
	}
	same := func(s string) string { return s }
	flips := 0
	tests := []struct {
		name   string
		do     update
		forked bool
		want   string
	}{
		{name: "down", do: func(*scripted, context.Context, int64, []byte, [][32]byte) ([]byte, error) {
			return nil, os.ErrDeadlineExceeded
		}},
		{name: "slow", do: func(_ *scripted, ctx context.Context, _ int64, _ []byte, _ [][32]byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, want: "answer"},
		{name: "deaf", do: func(*scripted, context.Context, int64, []byte, [][32]byte) ([]byte, error) {
			time.Sleep(time.Minute) // whatever ctx says
			return nil, errors.New("late")
		}, want: "answer"},
		{name: "nothing", do: answer("")},
		{name: "garbage", do: answer("\x00\xff\n\n\u2014 x")},
		{name: "a note of its own", do: answer("\nother\n1\n\n\u2014 x y\n")},
		{name: "huge", do: answer(strings.Repeat("\u2014 a AAAAAAAA\n", 10_000)), want: "larger than"},
		{name: "another key", do: signed(same, 0, func(k *cosigningKey) {
			*k, _ = makeCosigningKey(k.name)
		})},
		{name: "another key under its name and hash", do: signed(same, 0, func(k *cosigningKey) {
			other, _ := makeCosigningKey(k.name)
			other.hash = k.hash
			*k = other
		})},
		{name: "another checkpoint", do: signed(func(s string) string { return strings.Replace(s, "\n7\n", "\n6\n", 1) }, 0, nil)},
		{name: "an old time", do: signed(same, -time.Hour, nil), want: "clock"},
		{name: "a time to come", do: signed(same, time.Hour, nil), want: "clock"},
		{name: "400", do: refuse(http.StatusBadRequest, -1)},
		{name: "403", do: refuse(http.StatusForbidden, -1), want: "does not trust"},
		{name: "404", do: refuse(http.StatusNotFound, -1), want: "does not know"},
		{name: "409 without a size", do: refuse(http.StatusConflict, -1)},
		{name: "409 in a loop", do: func(*scripted, context.Context, int64, []byte, [][32]byte) ([]byte, error) {
			flips++
			return nil, &RefusedError{http.StatusConflict, int64(1 + flips%3)}
		}, want: "changing its mind"},
		{name: "429", do: refuse(http.StatusTooManyRequests, -1)},
		{name: "503", do: refuse(http.StatusServiceUnavailable, -1)},
		{name: "it saw more", do: refuse(http.StatusConflict, 8), forked: true},
		{name: "it saw far more", do: refuse(http.StatusConflict, maxTree), forked: true},
		{name: "it saw the same size, and says no", do: func(_ *scripted, _ context.Context, old int64, _ []byte, _ [][32]byte) ([]byte, error) {
			return nil, &RefusedError{http.StatusConflict, max(old, 3)}
		}, forked: true},
		{name: "the proof does not hold", do: func(_ *scripted, _ context.Context, old int64, _ []byte, _ [][32]byte) ([]byte, error) {
			if old == 0 {
				return nil, &RefusedError{http.StatusConflict, 3}
			}
			return nil, &RefusedError{http.StatusUnprocessableEntity, -1}
		}, forked: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyDir(t, dir)
			synctest.Test(t, func(t *testing.T) {
				w := newWitness(t, dir, "one", nil)
				w.script(func(ctx context.Context, old int64, cp []byte, proof [][32]byte) ([]byte, error) {
					return tt.do(w, ctx, old, cp, proof)
				})
				var operator strings.Builder
				o := witnessed(w)
				o.Logger = zerolog.New(&operator)
				l := open(t, dir, o)
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if size, _ := l.Anchored(); size != 0 {
					t.Errorf("anchored %d", size)
				}
				err := l.Witnesses()[0].Err
				if err == nil || errors.Is(err, ErrForked) != tt.forked || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				if alarm := strings.Contains(operator.String(), "ALARM"); alarm != tt.forked || operator.Len() == 0 {
					t.Errorf("alarm %v, the operator is told %s", alarm, operator.String())
				}
				if n := w.asked.Load(); n > 40 {
					t.Errorf("asked %d times in half a minute", n)
				}
				if at := put(t, l, 7); at != 7 {
					t.Errorf("record at %d", at)
				}
				w.script(nil)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if size, _ := l.Anchored(); size != 8 || l.Witnesses()[0].Err != nil {
					t.Errorf("well again: anchored %d, %v", size, l.Witnesses()[0].Err)
				}
				l.Close()
			})
		})
	}
}

// A process that dies after the witness has cosigned and before it has written that
// down finds out from the witness.
func TestKilledBeforeStoring(t *testing.T) {
	dir := build(t, Options{}, 2, 1)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		l := open(t, dir, witnessed(w))
		anchored(t, l, 2)
		synctest.Wait()
		before := copyDir(t, dir) // as a crash could leave it
		anchored(t, l, put(t, l, 3))
		anchored(t, l, put(t, l, 4))
		l.Close()
		for _, what := range []func() error{
			func() error { return os.Rename(cosignedPath(before, "one"), cosignedPath(dir, "one")) },
			func() error { return os.Remove(cosignedPath(dir, "one")) },
			func() error { return os.WriteFile(cosignedPath(dir, "one"), []byte("garbage"), 0o600) },
		} {
			if err := what(); err != nil {
				t.Fatal(err)
			}
			l := open(t, dir, witnessed(w))
			size, _ := l.Anchored()
			at := put(t, l, int(l.tree.n))
			anchored(t, l, at)
			if size > 3 || w.seen(t) != at+1 {
				t.Errorf("anchored %d at first; the witness has seen %d of %d", size, w.seen(t), at+1)
			}
			l.Close()
		}
	})
}

// What a witness cosigned is beside the log a moment later, not with every record, and
// when that cannot be written nothing else suffers.
func TestCosignatureIsKept(t *testing.T) {
	dir := build(t, Options{}, 1)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		var operator strings.Builder
		o := witnessed(w)
		o.Logger = zerolog.New(&operator)
		l := open(t, dir, o)
		for i := range 10 {
			anchored(t, l, put(t, l, i))
		}
		synctest.Wait()
		if n := sizeOf(t, read(t, cosignedPath(dir, "one"))); n != 2 {
			t.Errorf("%d kept at once", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := sizeOf(t, read(t, cosignedPath(dir, "one"))); n != 11 {
			t.Errorf("%d kept after a while", n)
		}
		if err := os.RemoveAll(dir + "/witness"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		anchored(t, l, put(t, l, 10))
		if err := l.Close(); err != nil || !strings.Contains(operator.String(), "not kept") {
			t.Errorf("%v; the operator is told %s", err, operator.String())
		}
	})
}

// Of a witness that was set up anew the operator is told; it is shown the log again.
func TestWitnessForgets(t *testing.T) {
	dir := build(t, Options{}, 3)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		var operator strings.Builder
		o := witnessed(w)
		o.Logger = zerolog.New(&operator)
		l := open(t, dir, o)
		defer l.Close()
		anchored(t, l, 2)
		if err := os.Remove(w.dir + "/checkpoint"); err != nil {
			t.Fatal(err)
		}
		anchored(t, l, put(t, l, 3))
		if w.seen(t) != 4 || !strings.Contains(operator.String(), "forgotten") {
			t.Errorf("it has seen %d; the operator is told %s", w.seen(t), operator.String())
		}
	})
}

// A log that is shorter than what a witness cosigned, or another one, is not opened as
// long as the cosignature is beside it.
func TestOpenChecksCosignatures(t *testing.T) {
	dir := build(t, Options{}, 2, 1, 4)
	w := newWitness(t, dir, "one", nil)
	l := open(t, dir, witnessed(w))
	anchored(t, l, 6)
	l.Close() // keeps what the witness cosigned
	for name, attack := range map[string]func(*testing.T, string){
		"cut back":  deleteLines(5, 10),
		"rewritten": all(change(3), noHashes, resign(ownKey, 0, false)),
	} {
		bad := copyDir(t, dir)
		attack(t, bad)
		if l, err := Open(bad, Options{}); err != nil {
			t.Errorf("%s: without the witness: %v", name, err)
		} else {
			l.Close()
		}
		if l, err := Open(bad, witnessed(w)); !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), "witness one cosigned") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				l.Close()
			}
		}
	}
	// A witness with another key is another witness.
	other := newWitness(t, dir, "one", nil)
	l = open(t, dir, witnessed(other))
	if size, _ := l.Anchored(); size != 0 {
		t.Errorf("another witness cosigned %d records", size)
	}
}

// Options that make no sense are refused before anything is touched.
func TestWitnessOptions(t *testing.T) {
	dir := build(t, Options{}, 1)
	one, two := newWitness(t, dir, "one", nil), newWitness(t, dir, "one", nil)
	for name, o := range map[string]Options{
		"two of one name":   witnessed(one, two),
		"strict alone":      {Strict: true},
		"a quorum of two":   {Witnesses: []Witness{one}, Quorum: 2},
		"a negative quorum": {Witnesses: []Witness{one}, Quorum: -1},
		"negative every":    {Witnesses: []Witness{one}, Every: -1},
		"a path as name":    {Witnesses: []Witness{&fileWitness{identity: identity{"../x", one.Key()}}}},
		"no key":            {Witnesses: []Witness{&fileWitness{identity: identity{"x", ""}}}},
	} {
		if l, err := Open(dir, o); err == nil {
			l.Close()
			t.Errorf("%s: opened", name)
		}
	}
	l := open(t, dir, Options{})
	if err := l.WaitAnchored(t.Context(), 0); !errors.Is(err, ErrUnanchored) {
		t.Errorf("without witnesses: %v", err)
	}
	if size, changed := l.Anchored(); size != 0 || changed != nil || l.Witnesses() != nil || l.Hold(t.Context(), 0) != nil {
		t.Error("a log without witnesses has some")
	}
}
