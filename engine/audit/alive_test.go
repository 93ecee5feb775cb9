package audit

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// A log that somebody watches writes something once a minute, whatever happens; any
// other does not.
func TestAlive(t *testing.T) {
	dir := build(t, Options{}, 1)
	synctest.Test(t, func(t *testing.T) {
		count := func(l *Log) (alive int, all int64) {
			for i, line := range replay(t, l) {
				r, err := call.DecodeRecord([]byte(line))
				if err != nil {
					t.Fatal(err)
				}
				if r.Type == call.TypeAlive {
					if alive++; r.Node != "n1" || r.Time.IsZero() || r.Time.After(time.Now()) {
						t.Errorf("record %d: %+v", i, r)
					}
				}
				all++
			}
			return alive, all
		}
		w := newWitness(t, dir, "one", nil)
		o := witnessed(w)
		o.Alive, o.Node = 0, "n1"
		l := open(t, dir, o)
		time.Sleep(59 * time.Second)
		put(t, l, 1)
		time.Sleep(59 * time.Second)
		if n, _ := count(l); n != 0 {
			t.Errorf("%d while others wrote", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := count(l); n != 1 {
			t.Errorf("%d after a minute", n)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		n, all := count(l)
		if n != 4 {
			t.Errorf("%d after four minutes", n)
		}
		time.Sleep(time.Second) // the witness has seen it
		synctest.Wait()
		if got := w.seen(t); got != all {
			t.Errorf("the witness has seen %d of %d", got, all)
		}
		l.Close()
		time.Sleep(10 * time.Minute)

		o.Alive = -1
		for _, o := range []Options{{Node: "n1"}, o} {
			l := open(t, dir, o)
			time.Sleep(10 * time.Minute)
			if n, _ := count(l); n != 4 {
				t.Errorf("%d: written without need", n)
			}
			l.Close()
		}
	})
}

// A log that cannot be written does not go on trying.
func TestAliveEndsWithTheLog(t *testing.T) {
	dir := build(t, Options{}, 1)
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		o := witnessed(newWitness(t, dir, "one", nil))
		o.Alive = time.Minute
		o.Wrap = func(f File) File { return countedFile{f, &tries} }
		l := open(t, dir, o)
		time.Sleep(time.Hour)
		if err := l.Close(); err != nil || tries != 1 {
			t.Errorf("tried %d times, %v", tries, err)
		}
		if b := read(t, segmentPath(dir, 0)); bytes.Contains(b, []byte("alive")) {
			t.Error("written all the same")
		}
	})
}

// countedFile is full.
type countedFile struct {
	File
	tries *int
}

func (f countedFile) Write([]byte) (int, error) { *f.tries++; return 0, errors.New("disk full") }
