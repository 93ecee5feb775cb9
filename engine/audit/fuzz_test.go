package audit

import (
	"bytes"
	"errors"
	"testing"
)

// Whatever a segment holds, reading it ends, and every record that is accepted is
// one that the key's owner logged, at its own place. Nobody else can sign, so
// that is a prefix of the real log up to a checkpoint.
func FuzzRead(f *testing.F) {
	dir := build(f, Options{}, 1, 3, 2)
	v, err := loadPub(dir)
	if err != nil {
		f.Fatal(err)
	}
	good := read(f, segmentPath(dir, 0))
	want := records(6)
	prefixes := map[int]bool{0: true, 1: true, 4: true, 6: true}
	other := read(f, segmentPath(build(f, Options{Origin: v.Name()}, 6), 0)) // the name, not the key
	f.Add(good, true)
	f.Add(good, false)
	f.Add(other, true)
	f.Add(append(bytes.Clone(good), other...), true)
	f.Add(good[:len(good)-1], true)
	f.Add(good[:len(good)/2], true)
	f.Add(bytes.Replace(good, []byte("deny"), []byte("allow"), 1), true)
	f.Add([]byte("{\"checkpoint\":\"\"}\n"), true)
	f.Add([]byte("{\"checkpoint\":\n\n\x00"), true)
	f.Fuzz(func(t *testing.T, in []byte, isLast bool) {
		next := int64(-1)
		if !isLast {
			next = 6
		}
		n := 0
		w := &walker{verifier: v, every: true, stop: -1}
		err := w.segment(t.Context(), segment{0, segmentPath("", 0)}, bytes.NewReader(in), next, func(first int64, recs [][]byte) error {
			if first != int64(n) {
				t.Fatalf("batch starts at %d after %d records", first, n)
			}
			for _, rec := range recs {
				if n >= len(want) || string(rec) != want[n] {
					t.Fatalf("record %d accepted: %q", n, rec)
				}
				n++
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrTampered) {
			t.Fatalf("%v", err)
		}
		if !prefixes[n] {
			t.Fatalf("accepted %d records", n)
		}
		if err == nil && int64(len(in)) != w.lastEnd+w.torn {
			t.Fatalf("%d bytes in, %d believed, %d torn", len(in), w.lastEnd, w.torn)
		}
		if err == nil && !bytes.HasPrefix(good, in[:w.lastEnd]) {
			t.Fatalf("believed %q", in[:w.lastEnd])
		}
	})
}
