package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// attackMatrix is what can be done to a log's files by whoever can write them, and in
// part has its key. Missed says that nothing in the files shows it: it takes a witness.
var attackMatrix = []struct {
	name   string
	attack func(*testing.T, string)
	missed bool
}{
	{name: "a byte changed", attack: change(8)},
	{name: "a record removed", attack: deleteLines(8, 9)},
	{name: "a batch removed", attack: deleteLines(7, 13)},
	{name: "a record inserted", attack: insert(8, string(testRecord(99))+"\n")},
	{name: "a record duplicated", attack: onLines(func(l [][]byte) [][]byte { l[8] = l[7]; return l })},
	{name: "two records swapped", attack: swap(7, 8)},
	{name: "the tail cut, its checkpoint left", attack: deleteLines(17, 18)},
	{name: "cut back to an older checkpoint", attack: deleteLines(13, 20), missed: true},
	{name: "cut back and gone on from there", attack: all(deleteLines(13, 20), grow(9)), missed: true},
	{name: "rewritten with the log's own key", attack: all(change(8), noHashes, resign(ownKey, 0, false)), missed: true},
	{name: "the key replaced, the records as they were", attack: rekeyed, missed: true},
	{name: "the key replaced, the records changed", attack: all(change(8), noHashes, rekeyed), missed: true},
	{name: "replaced by a log of the same name", attack: replaced(true), missed: true},
	{name: "replaced by another log", attack: replaced(false), missed: true},
	{name: "everything deleted", attack: func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }},
	{name: "everything deleted but the keys", attack: func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, logDir))) }},
	{name: "everything deleted and begun anew with the key", attack: begunAnew, missed: true},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// grow writes n other records with the log's own key.
func grow(n int) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		l := open(t, dir, Options{})
		var b []*pending
		for i := range n {
			b = append(b, &pending{rec: testRecord(1000 + i)})
		}
		must(t, errors.Join(l.commit(b), l.Close()))
	}
}

// rekeyed signs every checkpoint anew with another key of the log's name.
func rekeyed(t *testing.T, dir string) {
	private, public, err := note.GenerateKey(rand.Reader, ownKey(dir).Name())
	must(t, err)
	s, err := note.NewSigner(private)
	must(t, err)
	resign(func(string) note.Signer { return s }, 0, false)(t, dir)
	write(t, keyPath(dir), []byte(private+"\n"))
	write(t, pubPath(dir), []byte(public+"\n"))
}

// replaced puts a well-formed log of somebody else's in the place of this one.
func replaced(sameName bool) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		origin := ""
		if sameName {
			origin = ownKey(dir).Name()
		}
		must(t, os.RemoveAll(dir))
		must(t, os.Rename(build(t, Options{Origin: origin}, 30), dir))
	}
}

// begunAnew keeps the keys and nothing else.
func begunAnew(t *testing.T, dir string) {
	for _, d := range []string{logDir, witnessDir} {
		must(t, os.RemoveAll(filepath.Join(dir, d)))
	}
	must(t, os.Mkdir(filepath.Join(dir, logDir), 0o700))
	write(t, segmentPath(dir, 0), nil)
	grow(3)(t, dir)
}

// The attack matrix: each attack is found with a witness of each kind, and without one
// as far as the table says. A witness is asked, read, or read by way of a copy of what
// it said that was kept elsewhere.
func TestAttackMatrix(t *testing.T) {
	dir := build(t, Options{}, attackSizes...)
	kinds := map[string]func(*testing.T, *scripted) Witness{
		"file": func(_ *testing.T, kept *scripted) Witness { return kept.Witness },
		"http": func(t *testing.T, kept *scripted) Witness {
			s := httptest.NewServer(serveWitness(kept.Witness))
			t.Cleanup(s.Close)
			w, err := HTTPWitness("one", s.URL, kept.Key(), nil)
			must(t, err)
			return w
		},
		"command": func(t *testing.T, kept *scripted) Witness {
			w, err := CommandWitness("one", commandOf(kept.dir, kept.Key()), kept.Key())
			must(t, err)
			return w
		},
	}
	for kind, make := range kinds {
		t.Run(kind, func(t *testing.T) {
			dir := copyDir(t, dir)
			kept := newWitness(t, dir, "one", nil)
			w := make(t, kept)
			l := open(t, dir, Options{Witnesses: []Witness{w}, Alive: -1})
			anchored(t, l, 14)
			must(t, l.Close())
			copied := Anchor{Witness: "one", Key: w.Key(), Checkpoint: read(t, cosignedPath(dir, "one"))}
			verify := map[string]func(dir string) error{
				"a copy": func(dir string) error { _, err := Verify(dir, "", copied); return err },
				"asked":  func(dir string) error { _, err := AskWitness(t.Context(), dir, "", w, now()); return err },
			}
			if kind == "file" {
				verify["read"] = func(dir string) error {
					key, note, err := ReadFileWitness(kept.dir)
					must(t, err)
					_, err = Verify(dir, "", Anchor{Key: key, Checkpoint: note})
					return err
				}
			}
			for how, f := range verify {
				if err := f(dir); err != nil {
					t.Errorf("the log as it was, %s: %v", how, err)
				}
			}
			for _, tt := range attackMatrix {
				bad := copyDir(t, dir)
				tt.attack(t, bad)
				if _, err := Verify(bad, ""); (err == nil) != tt.missed {
					t.Errorf("%s: without a witness: %v", tt.name, err)
				}
				for how, f := range verify {
					err := f(bad)
					if err == nil || how != "asked" && !errors.Is(err, ErrTampered) {
						t.Errorf("%s, %s: %v", tt.name, how, err)
					}
					if e, ok := errors.AsType[*TamperError](err); ok && (e.Last < e.Record || e.Last > 100 || e.Segment == "" || e.Reason == "") {
						t.Errorf("%s, %s: %+v", tt.name, how, e)
					}
				}
				if kept.seen(t) != 15 {
					t.Fatalf("%s: the witness remembers %d records", tt.name, kept.seen(t))
				}
			}
		})
	}
}

// An anchor covers what it covers: the log may have grown, and the report says by how
// much. What is no anchor is refused.
func TestVerifyAnchors(t *testing.T) {
	dir := build(t, Options{}, 3, 1)
	one, two := newWitness(t, dir, "one", nil), newWitness(t, dir, "two", nil)
	l := open(t, dir, witnessed(one, two))
	anchored(t, l, 3)
	must(t, l.Close())
	anchorOf := func(w *scripted) Anchor {
		key, note, err := ReadFileWitness(w.dir)
		must(t, err)
		return Anchor{Witness: w.Name(), Key: key, Checkpoint: note}
	}
	early := anchorOf(two)
	l = open(t, dir, witnessed(one))
	anchored(t, l, put(t, l, 4))
	must(t, l.Close())
	grow(2)(t, dir)
	r, err := Verify(dir, "", anchorOf(one), early)
	if err != nil || len(r.Anchors) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []AnchorReport{{"one", 5, r.Anchors[0].At, 2}, {"two", 4, r.Anchors[1].At, 3}} {
		if r.Anchors[i] != want || want.At.IsZero() {
			t.Errorf("%+v, want %+v", r.Anchors[i], want)
		}
	}
	unnamed := anchorOf(one)
	unnamed.Witness = ""
	if r, err := Verify(dir, "", unnamed); err != nil || r.Anchors[0].Witness == "" {
		t.Errorf("%+v, %v", r, err)
	}
	// A removed checkpoint line loses nothing, and so the anchor still fits.
	without := copyDir(t, dir)
	deleteLines(5, 6)(t, without)
	if _, err := Verify(without, "", early, anchorOf(one)); err != nil {
		t.Errorf("without a checkpoint line: %v", err)
	}
	other := anchorOf(two)
	for name, a := range map[string]Anchor{
		"no key":             {Checkpoint: early.Checkpoint},
		"no checkpoint":      {Key: early.Key},
		"another's key":      {Key: anchorOf(one).Key, Checkpoint: early.Checkpoint},
		"another time":       {Key: early.Key, Checkpoint: bytes.Replace(other.Checkpoint, []byte("AAA"), []byte("AAB"), 1)},
		"another size":       {Key: early.Key, Checkpoint: bytes.Replace(early.Checkpoint, []byte("\n4\n"), []byte("\n3\n"), 1)},
		"not even text":      {Key: early.Key, Checkpoint: []byte{0, 1, 2}},
		"not cosigned":       {Key: early.Key, Checkpoint: []byte(r.Checkpoint)},
		"signature cut":      {Key: early.Key, Checkpoint: early.Checkpoint[:len(early.Checkpoint)-8]},
		"more after the end": {Key: early.Key, Checkpoint: append(bytes.Clone(early.Checkpoint), "x\n"...)},
	} {
		if _, err := Verify(dir, "", a); err == nil || errors.Is(err, ErrTampered) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A witness that is asked while the log's owner asks it too is not taken for one that
// saw another log.
func TestAskWitnessOfALogInUse(t *testing.T) {
	dir := build(t, Options{SegmentBytes: 500}, 3)
	w := newWitness(t, dir, "one", nil)
	o := witnessed(w)
	o.SegmentBytes = 500
	l := open(t, dir, o)
	for i := range 20 {
		asked := make(chan error, 1)
		go func() { _, err := AskWitness(t.Context(), dir, "", w, now()); asked <- err }()
		anchored(t, l, put(t, l, 3+i))
		if err := <-asked; err != nil {
			t.Fatal(err)
		}
	}
	empty := build(t, Options{})
	if _, err := AskWitness(t.Context(), empty, "", w, now()); err == nil || errors.Is(err, ErrTampered) {
		t.Errorf("an empty log: %v", err)
	}
	bad := &scripted{Witness: &fileWitness{identity: identity{"one", ""}}}
	if _, err := AskWitness(t.Context(), dir, "", bad, now()); err == nil {
		t.Error("a witness without a key")
	}
	flips := int64(0)
	w.script(func(_ context.Context, _ int64, _ []byte, _ [][32]byte) ([]byte, error) {
		flips++
		return nil, &RefusedError{409, 1 + flips%3}
	})
	if _, err := AskWitness(t.Context(), dir, "", w, now()); err == nil || errors.Is(err, ErrTampered) {
		t.Errorf("a witness in a loop: %v", err)
	}
}
