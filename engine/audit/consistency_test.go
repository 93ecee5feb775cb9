package audit

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// The proof from any size to any later one is found in the hash file or made of the
// records, whatever either is worth, and never a wrong one.
func TestConsistencyFromEitherSource(t *testing.T) {
	dir := build(t, Options{SegmentBytes: 2000}, 3, 1, 7, 2, 5, 4, 1, 1, 30, 2)
	l := open(t, dir, Options{})
	n, root := l.tree.n, l.tree.root()
	good := read(t, hashesPath(dir))
	rapid.Check(t, func(t *rapid.T) {
		old := rapid.Int64Range(1, n).Draw(t, "old")
		bad := bytes.Clone(good)
		what := rapid.SampledFrom([]string{"good", "flipped", "short", "empty"}).Draw(t, "hashes")
		switch what {
		case "flipped":
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1
		case "short":
			bad = bad[:rapid.IntRange(0, len(bad)-1).Draw(t, "at")]
		case "empty":
			bad = nil
		}
		if err := os.WriteFile(hashesPath(dir), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		cp := checkpoint{size: n, root: root}
		proof, err := l.proof(t.Context(), cp, old)
		if err != nil {
			t.Fatalf("from %d with hashes %s: %v", old, what, err)
		}
		var tr tree
		for i := range old {
			tr.add(tlog.RecordHash(testRecord(int(i))))
		}
		if err := tlog.CheckTree(proof, n, root, old, tr.root()); err != nil {
			t.Fatalf("from %d with hashes %s: %v", old, what, err)
		}
	})
	for _, old := range []int64{0, -1, n + 1, maxTree} {
		if _, err := l.proof(t.Context(), checkpoint{size: n, root: root}, old); err == nil {
			t.Errorf("a proof from %d", old)
		}
	}
	if _, err := l.proof(t.Context(), checkpoint{size: n, root: tlog.Hash{1}}, 4); err == nil {
		t.Error("a proof for another root")
	}
}

// While the hashes are wrong under an open log, its witness still follows.
func TestWitnessWithoutHashes(t *testing.T) {
	dir := build(t, Options{}, 3)
	w := newWitness(t, dir, "one", nil)
	l := open(t, dir, witnessed(w))
	anchored(t, l, 2)
	if err := os.Truncate(hashesPath(dir), 32); err != nil {
		t.Fatal(err)
	}
	at := put(t, l, 3)
	anchored(t, l, at)
	if got := w.seen(t); got != at+1 {
		t.Errorf("seen %d", got)
	}
}
