package source_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
	"github.com/callgate/callgate/rego/source"
)

// signedText is a signed bundle of epoch 3 with a rule that need not compile.
func signedText(s signer, rule string) ([]byte, error) {
	m := fstest.MapFS{
		".manifest": {Data: []byte(`{"revision": "r3", "metadata": {"callgate": {"epoch": 3}}}`)},
		"p.rego":    {Data: []byte("package callgate\n\n" + rule + "\n")},
	}
	sig, err := pack.SignDir(m, pack.Signing{Key: s.private, KeyID: "k", Scope: "base", Issued: start})
	if err != nil {
		return nil, err
	}
	m[pack.SignaturesFile] = &fstest.MapFile{Data: sig}
	return pack.Dir(m)
}

// damage changes a byte of a file.
func damage(t testing.TB, dir, pattern string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(names[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What decided is kept as long as a record's digest is asked for, and what decides
// now in any case.
func TestStore(t *testing.T) {
	s, c, w, dir := newSigner(t), newClock(), &site{}, t.TempDir()
	store := source.NewStore(filepath.Join(dir, "bundles"))
	if all, err := store.List(); err != nil || len(all) != 0 {
		t.Fatalf("%v, %v", all, err)
	}
	if gone, err := store.Prune(nil); err != nil || len(gone) != 0 {
		t.Fatalf("%v, %v", gone, err)
	}
	g := newGate(s, c, dir)
	f := follow(t, source.Options{Source: published(t, w), Activate: g.activate, Store: store, Now: c.now})
	var bodies [][]byte
	var digests []string
	for n := range int64(4) {
		body := s.sign(t, archive(t, n+1, denies+strings.Repeat("\n\nx := 1", int(n))))
		bodies = append(bodies, body)
		w.publish("", body)
		c.pass(time.Minute)
		if err := f.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, g.now.Load().Revision().Digest)
	}
	all, err := store.List()
	if err != nil || len(all) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, k := range all {
		b, err := store.Read(k.Archive)
		if err != nil || !bytes.Equal(b, bodies[i]) || k.Digest != digests[i] || k.Revision != "r"+string(rune('1'+i)) || k.Size != int64(len(b)) {
			t.Errorf("%+v, %v", k, err)
		}
	}
	if !slices.Equal(all[3].Layers, []string{"base"}) || all[2].Layers != nil {
		t.Errorf("%+v", all)
	}
	for _, name := range []string{".tmp-1", "sha256-" + strings.Repeat("0", 64) + ".json"} {
		if err := os.WriteFile(filepath.Join(dir, "bundles", name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := store.Prune(map[string]bool{digests[1]: true})
	if err != nil || len(gone) != 2 || gone[0].Digest != digests[0] || gone[1].Digest != digests[2] {
		t.Errorf("%+v, %v", gone, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "bundles"))
	if err != nil || len(entries) != 5 { // two archives, two notes, one layer
		t.Errorf("%v, %v", entries, err)
	}
	for _, bad := range []string{"", "sha256:../x", "sha256:" + strings.Repeat("0", 64), gone[0].Archive} {
		if _, err := store.Read(bad); err == nil {
			t.Errorf("reads %q", bad)
		}
	}
}

// Where it cannot be told what something is, nothing is removed.
func TestStorePruneInDoubt(t *testing.T) {
	for _, what := range []string{"last-base.json", "sha256-*.json"} {
		s, c, w, dir := newSigner(t), newClock(), &site{}, t.TempDir()
		w.publish("", s.sign(t, archive(t, 1, denies)))
		store := source.NewStore(filepath.Join(dir, "bundles"))
		f := follow(t, source.Options{Source: published(t, w), Activate: newGate(s, c, dir).activate, Store: store, Now: c.now})
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(dir, "bundles", what))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		if err := os.WriteFile(names[0], []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if gone, err := store.Prune(nil); err == nil || len(gone) > 0 {
			t.Errorf("%s: %v, %v", what, gone, err)
		}
	}
}

// Files that are being written are left alone until they stand still; what is
// refused is looked at again when it changes.
func TestFiles(t *testing.T) {
	for _, kind := range []string{"directory", "archive"} {
		t.Run(kind, func(t *testing.T) {
			s, c, dir := newSigner(t), newClock(), t.TempDir()
			place := filepath.Join(dir, "bundle")
			if kind == "archive" {
				place += rego.ArchiveSuffix
			}
			put := func(b []byte) {
				t.Helper()
				if kind == "archive" {
					if err := os.WriteFile(place, b, 0o600); err != nil {
						t.Fatal(err)
					}
					return
				}
				fsys, err := rego.Archive(bytes.NewReader(b))
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.RemoveAll(place), os.CopyFS(place, fsys)); err != nil {
					t.Fatal(err)
				}
			}
			put(s.sign(t, archive(t, 1, denies)))
			g := newGate(s, c, dir)
			f := follow(t, source.Options{Source: source.Files(place), Activate: g.activate, Every: time.Second, MaxAge: time.Minute, Now: c.now, Store: source.NewStore(filepath.Join(dir, "kept"))})
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			put(s.sign(t, archive(t, 2, denies+"\n\nx := 2")))
			if err := f.Poll(t.Context()); err == nil || g.decides(t) != "r1" {
				t.Errorf("taken while it moves: %v, %s", err, g.decides(t))
			}
			if err := f.Poll(t.Context()); err != nil || g.decides(t) != "r2" {
				t.Errorf("%v, %s decides", err, g.decides(t))
			}
			put(s.sign(t, archive(t, 1, denies)))
			opened := g.opened
			for range 4 {
				if err := f.Poll(t.Context()); err == nil {
					t.Error("goes back")
				}
			}
			if g.decides(t) != "r2" || g.opened != opened || f.Status().Failed != source.StageActivate {
				t.Errorf("%s decides, %+v", g.decides(t), f.Status())
			}
			c.pass(2 * time.Minute)
			if f.Check() == nil {
				t.Error("refused files count as fresh")
			}
			put(s.sign(t, archive(t, 3, denies)))
			_ = f.Poll(t.Context())
			if err := f.Poll(t.Context()); err != nil || g.decides(t) != "r3" || f.Check() != nil {
				t.Errorf("mended: %v, %s decides, %v", err, g.decides(t), f.Check())
			}
			if err := os.RemoveAll(place); err != nil {
				t.Fatal(err)
			}
			if err := f.Poll(t.Context()); stage(err) != source.StageFetch || !errors.Is(err, fs.ErrNotExist) || g.decides(t) != "r3" {
				t.Errorf("removed: %v", err)
			}
			// Who starts is there to mend them.
			f = follow(t, source.Options{Source: source.Files(place), Activate: g.activate, Now: c.now, Store: source.NewStore(filepath.Join(dir, "kept"))})
			if err := f.Start(t.Context()); stage(err) != source.StageFetch || f.Check() == nil {
				t.Errorf("without the files: %v, %+v", err, f.Status())
			}
		})
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Files(filepath.Join(dir, "zero.tar.gz")).Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("a device: %v", err)
	}
}

// What may pass, such as a lack of descriptors or of time, is tried again at the next
// poll, and told once; what is wrong with the files is not.
func TestFilesTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		tries int
	}{
		{"no descriptors", &fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, 4},
		{"no time", &call.Error{Code: call.CodePolicyTimeout, Where: "probe"}, 4},
		{"no good", rego.Epochs{}.Check("base", &rego.Facts{}, nil), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			place := t.TempDir()
			put := func(text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(place, "p.rego"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("package callgate\n\n" + denies + "\n")
			tries, fails := 0, error(nil)
			var log strings.Builder
			f := follow(t, source.Options{Source: source.Files(place), Logger: zerolog.New(&log), Activate: func(context.Context, *source.Snapshot) (*source.Prepared, error) {
				if tries++; fails != nil {
					return nil, fails
				}
				return &source.Prepared{Commit: func() error { return nil }}, nil
			}})
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			put("package callgate\n\n" + denies + "\n# second\n")
			log.Reset()
			tries, fails = 0, tt.err
			for range 5 {
				if f.Poll(t.Context()) == nil {
					t.Error("comes in")
				}
			}
			if tries != tt.tries || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("%d tries, want %d: %s", tries, tt.tries, &log)
			}
			if fails = nil; tt.tries == 1 {
				return
			}
			if err := f.Poll(t.Context()); err != nil || f.Status().Failed != "" {
				t.Errorf("it passed, and yet: %v", err)
			}
		})
	}
}
