package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
)

var _ engine.Snapshots = (*audit.Log)(nil)

// watched is a log on disk that says what a start reads of it and when a snapshot is
// kept.
type watched struct {
	*audit.Log
	mu   sync.Mutex
	read int // records that the start has read
	done bool
	kept chan int64
	fail error
	most int64 // size of the last snapshot that is taken; 0: any
}

func (w *watched) count(yield func(int64, []byte) error) func(int64, []byte) error {
	return func(index int64, rec []byte) error {
		w.mu.Lock()
		if !w.done { // what is read later is for the next start
			w.read++
		}
		w.mu.Unlock()
		return yield(index, rec)
	}
}

func (w *watched) Replay(ctx context.Context, yield func(int64, []byte) error) error {
	defer w.started()
	return w.Log.Replay(ctx, w.count(yield))
}

func (w *watched) ReplayRange(ctx context.Context, from, to int64, yield func(int64, []byte) error) error {
	if to < 0 { // the last thing that a start reads
		defer w.started()
	}
	return w.Log.ReplayRange(ctx, from, to, w.count(yield))
}

func (w *watched) started() { w.mu.Lock(); defer w.mu.Unlock(); w.done = true }

func (w *watched) KeepSnapshot(size int64, state []byte) error {
	err := w.fail
	if w.most > 0 && size > w.most {
		err = errors.New("not wanted")
	}
	if err == nil {
		err = w.Log.KeepSnapshot(size, state)
	}
	w.kept <- size
	return err
}

// crashing is a log without snapshots that loses what engines say when they end, as
// in a crash.
type crashing struct{ log *audit.Log }

func (f crashing) Append(ctx context.Context, line []byte) (int64, error) {
	if rec, err := call.DecodeRecord(line); err != nil || rec.Code == call.CodeUnfinished {
		return -1, err
	}
	return f.log.Append(ctx, line)
}

func (f crashing) Replay(ctx context.Context, yield func(int64, []byte) error) error {
	return f.log.Replay(ctx, yield)
}

// past is a data directory whose log has a bit of everything, in segments of a few
// records.
type past struct {
	dir    string
	clock  *clock
	said   *saying
	broken []string // calls without an outcome
	total  int      // records
}

// saying is what engines write to their own log.
type saying struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *saying) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}
func (s *saying) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.text.String() }

func (p *past) log(t *testing.T) *audit.Log {
	t.Helper()
	log, err := audit.Open(p.dir, audit.Options{SegmentBytes: 3000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

func (p *past) engine(t *testing.T, log engine.Log) *engine.Engine {
	t.Helper()
	d := allow
	d.Labels, d.Grants = []string{"seen"}, []call.RuleGrant{{Caps: call.Caps{Plan: true}}}
	d.Limits = []call.Limit{{Name: "few", Key: "alice", Burst: 1000, Per: "100h"}}
	return open(t, engine.Options{
		Policy: policy(func(in *call.Input) (call.Decision, error) {
			if strings.Contains(string(in.Args.Bytes()), `"ask`) {
				return asking(oneLead), nil
			}
			return d, nil
		}),
		Log: log, Salts: fixedSalts{}, Now: p.clock.Now, Logger: zerolog.New(p.said),
		Tools: []engine.Tool{engine.External(mailManifest), (&counted{}).tool(), planTool()},
	})
}

// happen makes some of everything happen.
func (p *past) happen(t *testing.T, e *engine.Engine) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	permit := func() *engine.Permit {
		t.Helper()
		m, err := e.Authorize(t.Context(), mail("bob"))
		must(err)
		return m
	}
	p.broken = append(p.broken, permit().CallID())
	session, err := e.OpenSession(t.Context(), alice)
	must(err)
	ended, err := e.OpenSession(t.Context(), alice)
	must(err)
	for _, c := range []call.Call{in(ended, plans("register", "a")), in(session, plans("register", "b")), in(session, plans("active", "b"))} {
		_, err := e.Do(t.Context(), c)
		must(err)
	}
	must(e.CloseSession(t.Context(), alice, ended))
	must(e.Revoke(t.Context(), call.Revocation{Tool: "rm"}))
	must(e.Revoke(t.Context(), call.Revocation{Epoch: 1}))
	used, open := asked(t, e, echo("ask")), asked(t, e, echo("ask more"))
	late := permit()
	for i := range 20 {
		p.clock.add(time.Second)
		_, err := e.Do(t.Context(), echo(fmt.Sprint(i)))
		must(err)
	}
	mustVote(t, e, used, lead, false)
	_, err = e.Do(t.Context(), echo("ask"))
	must(err)
	mustVote(t, e, open, lead2, true)
	_, err = late.Finish(t.Context(), engine.Reported{})
	must(err)
	p.broken = append(p.broken, permit().CallID())
}

func newPast(t *testing.T) *past {
	t.Helper()
	p := &past{dir: filepath.Join(t.TempDir(), "data"), clock: newClock(), said: &saying{}}
	log := p.log(t)
	e := p.engine(t, crashing{log})
	p.happen(t, e)
	if err := errors.Join(e.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	log = p.log(t)
	if err := log.Replay(t.Context(), func(int64, []byte) error { p.total++; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// copied is the same past in another directory.
func (p *past) copied(t *testing.T) *past {
	t.Helper()
	c := *p
	c.dir, c.said = filepath.Join(t.TempDir(), "data"), &saying{}
	copyDir(t, c.dir, p.dir)
	return &c
}

func copyDir(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// The copies have the mode that the umask leaves.
	if err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chmod(path, 0o600)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// known is what a start learns from the log.
type known struct {
	State      []call.Change
	Epoch      any
	Unfinished []string
}

// start starts an engine on the directory, and tells what it knows and what it read.
func (p *past) start(t *testing.T, snapshots bool) (known, int) {
	t.Helper()
	log := &watched{Log: p.log(t), kept: make(chan int64, 1000)}
	defer log.Close()
	var l engine.Log = log
	if !snapshots {
		l = forgetsNothing{log}
	}
	e := p.engine(t, l)
	k := known{State: engine.StateOf(e), Epoch: engine.EpochOf(e)}
	log.mu.Lock()
	read := log.read
	log.mu.Unlock()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	err := log.Log.Replay(t.Context(), func(i int64, line []byte) error {
		rec, err := call.DecodeRecord(line)
		if err == nil && i >= int64(p.total) && rec.Code == call.CodeUnfinished {
			k.Unfinished = append(k.Unfinished, rec.Call)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return k, read
}

// forgetsNothing is a log without snapshots.
type forgetsNothing struct{ engine.Log }

func (p *past) snapshots(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(p.dir, "snapshots", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// withSnapshot is the past with a snapshot of all but its last records.
func (p *past) withSnapshot(t *testing.T) *past {
	t.Helper()
	other, c := p.copied(t), p.copied(t)
	log := &watched{Log: other.log(t), kept: make(chan int64, 1000)}
	log.most, _ = log.Finished() // what the start itself adds is not in c
	if err := errors.Join(other.engine(t, log).Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	if len(other.snapshots(t)) != 1 {
		t.Fatalf("snapshots %q, want one", other.snapshots(t))
	}
	copyDir(t, filepath.Join(c.dir, "snapshots"), filepath.Join(other.dir, "snapshots"))
	return c
}

// A start from a snapshot knows what one from the whole log knows, and reads little.
func TestStartFromSnapshot(t *testing.T) {
	p := newPast(t)
	want, read := p.copied(t).start(t, false)
	if diff := cmp.Diff(p.broken, want.Unfinished); diff != "" || read != p.total || len(want.State) < 6 {
		t.Fatalf("the whole log: read %d of %d, %d changes %s", read, p.total, len(want.State), diff)
	}
	got, read := p.copied(t).start(t, true)
	if diff := cmp.Diff(want, got); diff != "" || read != p.total {
		t.Errorf("without a snapshot: read %d of %d\n%s", read, p.total, diff)
	}
	got, read = p.withSnapshot(t).start(t, true)
	if diff := cmp.Diff(want, got); diff != "" || read == 0 || read > p.total/2 {
		t.Errorf("from a snapshot: read %d of %d\n%s", read, p.total, diff)
	}
}

// Whatever is wrong with the snapshot, the whole log is read, and the operator told.
func TestStartInDoubt(t *testing.T) {
	p := newPast(t).withSnapshot(t)
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, p *past, path string) error
		quiet bool
	}{
		{"gone", func(_ *testing.T, _ *past, path string) error { return os.Remove(path) }, true},
		{"all gone", func(_ *testing.T, _ *past, path string) error { return os.RemoveAll(filepath.Dir(path)) }, true},
		{"half", func(_ *testing.T, _ *past, path string) error { return os.Truncate(path, 500) }, false},
		{"of another log", func(t *testing.T, _ *past, path string) error {
			b, err := os.ReadFile(newPast(t).withSnapshot(t).snapshots(t)[0])
			return errors.Join(err, os.WriteFile(path, b, 0o600))
		}, false},
		{"of another form", func(t *testing.T, p *past, _ string) error {
			return keepInstead(t, p, func(s string) string { return strings.Replace(s, `"form":1`, `"form":2`, 1) })
		}, false},
		{"with what is not known", func(t *testing.T, p *past, _ string) error {
			return keepInstead(t, p, func(s string) string { return strings.Replace(s, `"form":1`, `"form":1,"more":2`, 1) })
		}, false},
		{"no JSON", func(t *testing.T, p *past, _ string) error {
			return keepInstead(t, p, func(s string) string { return s[1:] })
		}, false},
		{"newer than now", func(_ *testing.T, p *past, _ string) error {
			c := newClock()
			c.add(-time.Hour)
			p.clock = c
			return nil
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spoilt := p.copied(t)
			if err := tt.spoil(t, spoilt, spoilt.snapshots(t)[0]); err != nil {
				t.Fatal(err)
			}
			want, _ := spoilt.copied(t).start(t, false)
			got, read := spoilt.start(t, true)
			if diff := cmp.Diff(want, got); diff != "" || read != p.total {
				t.Errorf("read %d of %d\n%s", read, p.total, diff)
			}
			if told := strings.Contains(spoilt.said.String(), "snapshot not used"); told == tt.quiet {
				t.Errorf("the operator is told %v:\n%s", told, spoilt.said)
			}
		})
	}
}

// keepInstead keeps another snapshot in place of the one that is there, with the key.
func keepInstead(t *testing.T, p *past, change func(string) string) error {
	log := p.log(t)
	defer log.Close()
	size, b, err := log.LastSnapshot()
	if err != nil || size == 0 {
		t.Fatal(size, err)
	}
	text := change(string(b))
	if text == string(b) {
		t.Fatalf("nothing to change in %s", b)
	}
	return log.KeepSnapshot(size, []byte(text))
}

// A snapshot that cannot be kept costs the next start time, and nothing else.
func TestSnapshotNotKept(t *testing.T) {
	p := newPast(t)
	log := &watched{Log: p.log(t), kept: make(chan int64, 1000), fail: errors.New("disk full")}
	e := p.engine(t, log)
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || len(p.snapshots(t)) > 0 || !strings.Contains(p.said.String(), "snapshot not kept") {
		t.Errorf("Close = %v, %q, %s", err, p.snapshots(t), p.said)
	}
}

// While an engine runs it keeps snapshots in the background, of what is durable and of
// nothing else: the start after it knows what the whole log says.
func TestSnapshotsWhileRunning(t *testing.T) {
	p := &past{dir: filepath.Join(t.TempDir(), "data"), clock: newClock(), said: &saying{}}
	log := &watched{Log: p.log(t), kept: make(chan int64, 1000)}
	e := p.engine(t, log)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 20 {
				if _, err := e.Do(t.Context(), echo(fmt.Sprint(i, j))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	p.happen(t, e)
	wg.Wait()
	if size := <-log.kept; size == 0 {
		t.Error("a snapshot of nothing")
	}
	if err := errors.Join(e.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	if len(p.snapshots(t)) != 1 {
		t.Errorf("snapshots: %q", p.snapshots(t))
	}
	log = &watched{Log: p.log(t), kept: make(chan int64, 1000)}
	if err := log.Log.Replay(t.Context(), func(int64, []byte) error { p.total++; return nil }); err != nil {
		t.Fatal(err)
	}
	log.Close()
	want, _ := p.copied(t).start(t, false)
	got, read := p.copied(t).start(t, true)
	if diff := cmp.Diff(want, got); diff != "" || read >= p.total {
		t.Errorf("read %d of %d\n%s", read, p.total, diff)
	}
}
