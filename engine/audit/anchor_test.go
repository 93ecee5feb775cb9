package audit

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// A witness that never answers does not keep whoever verifies.
func TestAskWitnessEnds(t *testing.T) {
	dir := build(t, Options{}, 3)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		w.script(func(ctx context.Context, _ int64, _ []byte, _ [][32]byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if _, err := AskWitness(t.Context(), dir, "", w, now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// Nothing is shown that a crash could take back: what the log is still syncing is made
// durable first.
func TestAskWitnessSyncsFirst(t *testing.T) {
	dir := build(t, Options{SegmentBytes: 500}, 3, 4, 5, 2)
	w := newWitness(t, dir, "one", nil)
	v, segs, err := walkOf(dir, "")
	must(t, err)
	key, err := parseCosigner(w.Key())
	must(t, err)
	synced := ""
	q := &question{dir: dir, asked: asked{Witness: w, key: key, busy: make(chan struct{}, 1)}, log: v, sync: func(path string) error {
		synced = path
		return errors.New("disk failed")
	}}
	if _, err := q.ask(t.Context(), now()); err == nil || synced != segs[len(segs)-1].path || len(segs) < 2 || w.asked.Load() != 0 {
		t.Errorf("%v; synced %s, asked %d times", err, synced, w.asked.Load())
	}
	must(t, syncFile(synced))
	if syncFile(filepath.Join(dir, "none")) == nil {
		t.Error("synced what is not there")
	}
}

// slowDisk does not sync before it may.
type slowDisk struct {
	File
	may <-chan struct{}
}

func (f slowDisk) Sync() error { <-f.may; return f.File.Sync() }

// Whoever verifies can show a witness a checkpoint before the log's own sync has ended.
// That is no other log, and no alarm.
func TestVerifierIsFasterThanTheDisk(t *testing.T) {
	dir := build(t, Options{}, 3)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		var operator strings.Builder
		may := make(chan struct{}, 1)
		o := witnessed(w)
		o.Logger = zerolog.New(&operator)
		o.Wrap = func(f File) File { return slowDisk{f, may} }
		l := open(t, dir, o)
		defer l.Close()
		may <- struct{}{}
		put(t, l, 3)
		done := make(chan error, 1)
		go func() {
			_, err := l.Append(t.Context(), testRecord(4))
			done <- err
		}()
		synctest.Wait()
		if _, err := AskWitness(t.Context(), dir, "", w, now()); err != nil || w.seen(t) != 5 {
			t.Fatalf("%v; it has seen %d", err, w.seen(t))
		}
		time.Sleep(5 * time.Second)
		if refused, ok := errors.AsType[*RefusedError](l.Witnesses()[0].Err); !ok || refused.Size != 5 {
			t.Errorf("the log's own attempts come to %v", l.Witnesses()[0].Err)
		}
		may <- struct{}{}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		anchored(t, l, 4)
		l.Close() // nobody writes to operator any more
		if strings.Contains(operator.String(), "ALARM") {
			t.Error(operator.String())
		}
	})
}

// One who holds two names is one witness.
func TestQuorumOfOneKey(t *testing.T) {
	dir := build(t, Options{}, 1)
	one := newWitness(t, dir, "one", nil)
	k, err := parseCosigningKey(read(t, filepath.Join(one.dir, witnessKeyFile)))
	must(t, err)
	for name, key := range map[string]string{"the same key": one.Key(), "under another name": newCosigner("other.example", k.key).String()} {
		o := witnessed(one)
		o.Witnesses = append(o.Witnesses, &fileWitness{identity: identity{"two", key}, dir: one.dir, now: now})
		if l, err := Open(dir, o); err == nil || !strings.Contains(err.Error(), "one key") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				l.Close()
			}
		}
	}
}

// No answer to a question about nothing says that there is another log.
func TestConflictWithNothing(t *testing.T) {
	dir := build(t, Options{}, 3)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t, dir, "one", nil)
		w.script(func(context.Context, int64, []byte, [][32]byte) ([]byte, error) {
			return nil, &RefusedError{http.StatusConflict, 0}
		})
		if _, err := AskWitness(t.Context(), dir, "", w, now()); err == nil || errors.Is(err, ErrTampered) {
			t.Errorf("asked: %v", err)
		}
		l := open(t, dir, witnessed(w))
		defer l.Close()
		time.Sleep(5 * time.Second)
		if err := l.Witnesses()[0].Err; err == nil || errors.Is(err, ErrForked) {
			t.Errorf("the log: %v", err)
		}
	})
}

// A time that no report could be written with is no time.
func TestCosignedInTheFarFuture(t *testing.T) {
	_, log, msg := testLog(t, 7)
	k, err := makeCosigningKey("w.example")
	must(t, err)
	text, _, _ := strings.Cut(string(msg), "\n\n")
	for at, want := range map[int64]bool{maxTime: true, maxTime + 1: false, 1<<63 - 1: false} {
		_, err := openCosigned(append(msg[:len(msg):len(msg)], k.cosign(text+"\n", time.Unix(at, 0))...), log, k.cosigner)
		if (err == nil) != want {
			t.Errorf("at %d: %v", at, err)
		}
	}
}

// An anchor that is worth nothing hides nothing that the files show.
func TestBadAnchorHidesNothing(t *testing.T) {
	dir := build(t, Options{}, attackSizes...)
	w := newWitness(t, dir, "one", nil)
	change(8)(t, dir)
	_, err := Verify(dir, "", Anchor{Witness: "one", Key: w.Key(), Checkpoint: []byte("garbage")})
	if e, ok := errors.AsType[*TamperError](err); !ok || e.Record != e.Last {
		t.Error(err)
	}
}
