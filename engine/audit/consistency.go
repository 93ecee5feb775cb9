package audit

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// consistency is the proof that a tree of size records with that root goes on from its
// own first old records, and the root of those. The sources of stored hashes are tried
// in turn and need not be believed: what they lead to is checked against the root.
func consistency(size int64, root tlog.Hash, old int64, sources ...tlog.HashReader) (proof tlog.TreeProof, oldRoot tlog.Hash, err error) {
	if old < 1 || old > size || size > maxTree {
		return nil, oldRoot, fmt.Errorf("audit: no proof from %d to %d records", old, size)
	}
	for _, s := range sources {
		if oldRoot, err = tlog.TreeHash(old, s); err != nil {
			continue
		}
		if proof, err = tlog.ProveTree(size, old, s); err != nil {
			continue
		}
		if err = tlog.CheckTree(proof, size, root, old, oldRoot); err == nil {
			return proof, oldRoot, nil
		}
	}
	return nil, oldRoot, fmt.Errorf("audit: the log's hashes do not lead to its root: %w", err)
}

// ReadHashes makes the file a [tlog.HashReader].
func (h *hashFile) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if _, err := h.f.ReadAt(out[i][:], at*tlog.HashSize); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fromRecords makes stored hashes of the records, which walk reads, and keeps only
// those that are asked for.
type fromRecords func(stored func(at int64, hs []tlog.Hash) error) error

// ReadHashes walks the whole log.
func (walk fromRecords) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	want := make(map[int64][]int, len(indexes)) // stored index -> places in out
	for i, at := range indexes {
		want[at] = append(want[at], i)
	}
	out := make([]tlog.Hash, len(indexes))
	found := 0
	err := walk(func(at int64, hs []tlog.Hash) error {
		for i, h := range hs {
			for _, place := range want[at+int64(i)] {
				out[place] = h
				found++
			}
		}
		return nil
	})
	if err == nil && found != len(indexes) {
		err = errors.New("audit: records are missing")
	}
	return out, err
}
