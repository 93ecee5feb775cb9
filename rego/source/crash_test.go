package source_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego/source"
)

// childDir names, in the environment, the directory in which the child works.
const childDir = "SOURCE_TEST_DIR"

// turns gives two bundles in turn.
type turns struct {
	bundles [2][]byte
	n       int
}

func (s *turns) String() string { return "turns" }

func (s *turns) Fetch(context.Context, string) (*source.Snapshot, error) {
	s.n++
	b := s.bundles[s.n%2]
	return &source.Snapshot{Bytes: b, Digest: call.Digest(b)}, nil
}

// TestChild takes up bundles until it is killed, and says each time that it did.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return // TestKilled runs it, in a process of its own
	}
	src := &turns{bundles: [2][]byte{archive(t, 1, denies), archive(t, 2, denies)}}
	f := follow(t, source.Options{Source: src, Store: source.NewStore(dir), Activate: anything})
	for n := 0; ; n++ {
		if err := f.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Printf("\nup %d\n", n); err != nil {
			t.Fatal(err)
		}
	}
}

// deadSource is one that cannot be reached.
type deadSource struct{ source.Source }

func (deadSource) Fetch(context.Context, string) (*source.Snapshot, error) {
	return nil, errors.New("no network")
}

// Wherever a process is killed while it keeps bundles, the next one starts from one of
// them without network, and what is half-written goes with the next clearing up.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundles")
	for round := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		mustDo(t, err, cmd.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != fmt.Sprint("up ", round) {
		}
		mustDo(t, cmd.Process.Kill())
		_ = cmd.Wait() // says that it was killed
		store := source.NewStore(dir)
		f := follow(t, source.Options{Source: deadSource{&turns{}}, Store: store, Activate: anything})
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all, err := store.List(); err != nil || len(all) == 0 || len(all) > 2 {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	if _, err := source.NewStore(dir).Prune(nil); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// What a crash or a full disk leaves is started from, or said to be damaged and mended
// by the source; never is it decided by something else.
func TestWhatIsLeftOfACrash(t *testing.T) {
	only := func(t *testing.T, dir, pattern string) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		return names[0]
	}
	cut := func(pattern string, to int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) { mustDo(t, os.Truncate(only(t, dir, pattern), to)) }
	}
	for name, tt := range map[string]struct {
		leave  func(t *testing.T, dir string)
		starts bool
	}{
		"half a file": {func(t *testing.T, dir string) { put(t, filepath.Join(dir, ".tmp-1"), []byte("half")) }, true},
		"a note without its archive": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "sha256-"+strings.Repeat("0", 64)+".json"), []byte("{}"))
		}, true},
		"an archive without its note": {func(t *testing.T, dir string) { mustDo(t, os.Remove(only(t, dir, "sha256-*.json"))) }, true},
		"no archive":                  {func(t *testing.T, dir string) { mustDo(t, os.Remove(only(t, dir, "sha256-*.tar.gz"))) }, false},
		"an empty archive":            {cut("sha256-*.tar.gz", 0), false},
		"half an archive":             {cut("sha256-*.tar.gz", 100), false},
		"an empty note of the layer":  {cut("last-*.json", 0), false},
		"half a note of the layer":    {cut("last-*.json", 40), false},
		"no note of the layer":        {func(t *testing.T, dir string) { mustDo(t, os.Remove(only(t, dir, "last-*.json"))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, w, dir := newSigner(t), newClock(), &site{}, t.TempDir()
			kept := filepath.Join(dir, "bundles")
			w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
			activate, _ := light(s, c)
			o := source.Options{Source: published(t, w), Activate: activate, Now: c.now, Store: source.NewStore(kept)}
			mustDo(t, follow(t, o).Start(t.Context()))
			tt.leave(t, kept)
			activate, decides := light(s, c)
			o.Activate = activate
			w.fail(http.StatusBadGateway)
			f := follow(t, o)
			want := map[bool]string{true: "r1", false: "none"}[tt.starts]
			if err := f.Start(t.Context()); (err == nil) != tt.starts || (f.Check() == nil) != tt.starts || decides() != want {
				t.Errorf("%v, %v, %s decides", err, f.Check(), decides())
			}
			w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
			mustDo(t, follow(t, o).Start(t.Context()))
			w.fail(http.StatusBadGateway)
			mustDo(t, follow(t, o).Start(t.Context()))
		})
	}
}

// What cannot be kept does not decide: after a restart there would be no way back to it.
func TestNoRoomToKeep(t *testing.T) {
	s, c, w, dir := newSigner(t), newClock(), &site{}, t.TempDir()
	kept := filepath.Join(dir, "bundles")
	w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
	g := newGate(s, c, dir)
	o := source.Options{Source: published(t, w), Activate: g.activate, Now: c.now, Store: source.NewStore(kept)}
	put(t, kept, nil) // a file where the directory should be, which stops root too
	f := follow(t, o)
	if err := f.Start(t.Context()); stage(err) != source.StageKeep || g.decides(t) != "none" || f.Check() == nil {
		t.Errorf("starts: %v, %s decides", err, g.decides(t))
	}
	mustDo(t, os.Remove(kept))
	mustDo(t, f.Poll(t.Context()))
	w.publish(`"v2"`, s.sign(t, archive(t, 2, denies)))
	mustDo(t, os.Rename(kept, kept+".away"))
	put(t, kept, nil)
	if err := f.Poll(t.Context()); stage(err) != source.StageKeep || g.decides(t) != "r1" || f.Check() != nil {
		t.Errorf("%v, %s decides, %v", err, g.decides(t), f.Check())
	}
	mustDo(t, os.Remove(kept), os.Rename(kept+".away", kept))
	if err := f.Poll(t.Context()); err != nil || g.decides(t) != "r2" {
		t.Errorf("%v, %s decides", err, g.decides(t))
	}
}

// Two that keep in one directory, which an engine does not let happen, damage nothing.
func TestTwoInOneDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundles")
	src := [2][]byte{archive(t, 1, denies), archive(t, 2, denies)}
	var wg sync.WaitGroup
	for n := range 2 {
		f := follow(t, source.Options{Source: &turns{src, n}, Store: source.NewStore(dir), Activate: anything})
		wg.Go(func() {
			for range 20 {
				if err := f.Poll(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	store := source.NewStore(dir)
	if all, err := store.List(); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	mustDo(t, follow(t, source.Options{Source: deadSource{&turns{}}, Store: store, Activate: anything}).Start(t.Context()))
}
