package audit

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// checkpoints are a log's own, with the proof from each size to each.
type checkpoints struct {
	l   *Log
	cps map[int64]checkpoint
}

func newCheckpoints(t testing.TB, sizes ...int) (string, *checkpoints) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	l := open(t, dir, Options{})
	c := &checkpoints{l: l, cps: map[int64]checkpoint{}}
	for _, n := range sizes {
		add(t, l, n)
		msg, err := note.Sign(&note.Note{Text: checkpointText(l.Origin(), l.tree.n, l.tree.root())}, l.signer)
		if err != nil {
			t.Fatal(err)
		}
		c.cps[l.tree.n] = checkpoint{size: l.tree.n, root: l.tree.root(), note: msg}
	}
	return dir, c
}

func (c *checkpoints) proof(t testing.TB, old, size int64) (out [][32]byte) {
	t.Helper()
	p, _, err := consistency(size, c.cps[size].root, old, c.l.hashes)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range p {
		out = append(out, h)
	}
	return out
}

// The rules of https://c2sp.org/tlog-witness, one after the other on one witness.
func TestFileWitness(t *testing.T) {
	dir, c := newCheckpoints(t, 3, 1, 4, 5)
	w := newWitness(t, dir, "one", nil)
	_, _, strange := testLog(t, 3)
	forged, err := note.Sign(&note.Note{Text: checkpointText(c.l.Origin(), 9, tlog.Hash{1})}, sameNameKey(dir))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(text string) []byte {
		msg, err := note.Sign(&note.Note{Text: text}, c.l.signer)
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	for _, tt := range []struct {
		name   string
		old    int64
		cp     []byte
		proof  [][32]byte
		status int // 0: cosigned
		size   int64
	}{
		{name: "another log", cp: strange, status: http.StatusNotFound, size: -1},
		{name: "not a note", cp: []byte(c.l.Origin() + "\n"), status: http.StatusForbidden, size: -1},
		{name: "another key of that name", cp: forged, status: http.StatusForbidden, size: -1},
		{name: "no record", cp: sign(checkpointText(c.l.Origin(), 0, tlog.Hash{})), status: http.StatusBadRequest, size: -1},
		{name: "a size beyond all", cp: sign(checkpointText(c.l.Origin(), maxTree+1, tlog.Hash{})), status: http.StatusBadRequest, size: -1},
		{name: "an extension", cp: sign(checkpointText(c.l.Origin(), 3, c.cps[3].root) + "more\n"), status: http.StatusBadRequest, size: -1},
		{name: "old is not nothing", old: 3, cp: c.cps[4].note, proof: c.proof(t, 3, 4), status: http.StatusConflict, size: 0},
		{name: "a proof from nothing", cp: c.cps[4].note, proof: c.proof(t, 3, 4), status: http.StatusUnprocessableEntity, size: -1},
		{name: "the first", cp: c.cps[4].note},
		{name: "the same again", old: 4, cp: c.cps[4].note},
		{name: "the same size, from nothing", cp: c.cps[4].note, status: http.StatusConflict, size: 4},
		{name: "backwards", old: 4, cp: c.cps[3].note, status: http.StatusBadRequest, size: -1},
		{name: "backwards from nothing", cp: c.cps[3].note, status: http.StatusConflict, size: 4},
		{name: "backwards from there", old: 3, cp: c.cps[3].note, status: http.StatusConflict, size: 4},
		{name: "the same size, another root", old: 4, cp: sign(checkpointText(c.l.Origin(), 4, tlog.Hash{1})), status: http.StatusConflict, size: 4},
		{name: "no proof", old: 4, cp: c.cps[8].note, status: http.StatusUnprocessableEntity, size: -1},
		{name: "another proof", old: 4, cp: c.cps[8].note, proof: c.proof(t, 4, 13), status: http.StatusUnprocessableEntity, size: -1},
		{name: "a longer proof", old: 4, cp: c.cps[8].note, proof: append(c.proof(t, 4, 8), [32]byte{}), status: http.StatusUnprocessableEntity, size: -1},
		{name: "too long a proof", old: 4, cp: c.cps[8].note, proof: make([][32]byte, 64), status: http.StatusBadRequest, size: -1},
		{name: "forwards", old: 4, cp: c.cps[8].note, proof: c.proof(t, 4, 8)},
		{name: "from before that", old: 4, cp: c.cps[13].note, proof: c.proof(t, 4, 13), status: http.StatusConflict, size: 8},
		{name: "the last", old: 8, cp: c.cps[13].note, proof: c.proof(t, 8, 13)},
	} {
		before := w.seen(t)
		lines, err := w.Update(t.Context(), tt.old, tt.cp, tt.proof)
		refused, ok := errors.AsType[*RefusedError](err)
		if tt.status != 0 {
			if !ok || refused.Status != tt.status || refused.Size != tt.size || lines != nil || w.seen(t) != before {
				t.Errorf("%s: %v, want %d with %d; it remembers %d, then %d", tt.name, err, tt.status, tt.size, before, w.seen(t))
			}
			continue
		}
		key, keyErr := parseCosigner(w.Key())
		if err != nil || keyErr != nil {
			t.Fatalf("%s: %v, %v", tt.name, err, keyErr)
		}
		got, err := openCosigned(append(append([]byte(nil), tt.cp...), lines...), c.l.verifier, key)
		if err != nil || got.size != w.seen(t) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if _, kept, err := ReadFileWitness(w.dir); err != nil || string(kept) != string(got.note) {
			t.Errorf("%s: it keeps %q, %v", tt.name, kept, err)
		}
	}
}

// What the directory can be besides a witness. None of it is taken for an empty one.
func TestFileWitnessDirectory(t *testing.T) {
	dir, c := newCheckpoints(t, 3)
	for name, spoil := range map[string]func(dir string) error{
		"not there":              os.RemoveAll,
		"empty, as if unmounted": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		"a key that others read": func(dir string) error { return os.Chmod(filepath.Join(dir, witnessKeyFile), 0o644) },
		"a key that is none":     func(dir string) error { return os.WriteFile(filepath.Join(dir, witnessKeyFile), []byte("x"), 0o600) },
		"no log":                 func(dir string) error { return os.Remove(filepath.Join(dir, witnessLogFile)) },
		"an empty log.pub":       func(dir string) error { return os.WriteFile(filepath.Join(dir, witnessLogFile), nil, 0o600) },
		"a changed checkpoint": func(dir string) error {
			path := filepath.Join(dir, witnessSeenFile)
			b, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(b), "\n3\n", "\n2\n", 1)), 0o600))
		},
		"an empty checkpoint": func(dir string) error { return os.Truncate(filepath.Join(dir, witnessSeenFile), 0) },
		"a link for the checkpoint": func(dir string) error {
			path := filepath.Join(dir, witnessSeenFile)
			return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path))
		},
		"a directory for the checkpoint": func(dir string) error {
			path := filepath.Join(dir, witnessSeenFile)
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
		"a huge checkpoint": func(dir string) error { return os.Truncate(filepath.Join(dir, witnessSeenFile), 1<<40) },
		"another witness's key": func(dir string) error {
			k, err := makeCosigningKey("witness.local/other")
			return errors.Join(err, os.WriteFile(filepath.Join(dir, witnessKeyFile), k.encode(), 0o600))
		},
	} {
		w := newWitness(t, dir, "one", nil)
		if _, err := w.Update(t.Context(), 0, c.cps[3].note, nil); err != nil {
			t.Fatal(err)
		}
		if err := spoil(w.dir); err != nil {
			t.Fatal(err)
		}
		lines, err := w.Update(t.Context(), 3, c.cps[3].note, nil)
		if _, ok := errors.AsType[*RefusedError](err); err == nil || ok || lines != nil {
			t.Errorf("%s: %q, %v", name, lines, err)
		}
	}
}

// Whoever comes first wins, and nobody is cosigned backwards.
func TestFileWitnessRaces(t *testing.T) {
	dir, c := newCheckpoints(t, 1, 1, 1, 1, 1, 1, 1, 1)
	w := newWitness(t, dir, "one", nil)
	other, err := FileWitness("two", w.dir, w.Key(), nil) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	signed := map[int64]int{} // from -> how often
	for size := range int64(8) {
		for old := range size + 1 {
			wg.Go(func() {
				var proof [][32]byte
				if old > 0 {
					proof = c.proof(t, old, size+1)
				}
				witness := Witness(w)
				if old%2 == 0 {
					witness = other
				}
				if _, err := witness.Update(t.Context(), old, c.cps[size+1].note, proof); err == nil {
					mu.Lock()
					signed[old]++
					mu.Unlock()
				} else if _, ok := errors.AsType[*RefusedError](err); !ok {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for old, n := range signed {
		if n != 1 {
			t.Errorf("%d checkpoints cosigned after %d", n, old)
		}
	}
	if len(signed) == 0 || signed[0] != 1 {
		t.Errorf("cosigned: %v", signed)
	}
}

// A witness is made of an empty directory, once, and its key is its own.
func TestMakeFileWitness(t *testing.T) {
	dir := build(t, Options{}, 1)
	public := string(read(t, pubPath(dir)))
	of := t.TempDir()
	key, err := MakeFileWitness(of, public)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(of, witnessKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if again, note, err := ReadFileWitness(of); again != key || note != nil || err != nil {
		t.Errorf("%q, %q, %v", again, note, err)
	}
	if _, err := MakeFileWitness(of, public); err == nil {
		t.Error("made again")
	}
	if _, err := MakeFileWitness(filepath.Join(of, "missing"), public); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made where nothing is: %v", err)
	}
	if _, err := MakeFileWitness(t.TempDir(), "x"); err == nil {
		t.Error("made for no log")
	}
	w, err := FileWitness("one", of, key, func() time.Time { return time.Unix(1_700_000_000, 0) })
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, Options{})
	lines, err := w.Update(t.Context(), 0, l.newestCheckpoint().note, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := parseCosigner(key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := openCosigned(append(l.newestCheckpoint().note, lines...), l.verifier, k); err != nil || c.at.Unix() != 1_700_000_000 {
		t.Errorf("%+v, %v", c, err)
	}
}
