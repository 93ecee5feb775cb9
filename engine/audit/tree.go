package audit

import (
	"crypto/sha256"
	"io"
	"os"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is an RFC 6962 tree that can only grow. It keeps the roots of its
// complete subtrees and nothing else, so its size does not depend on the log's.
type tree struct {
	n     int64
	peaks [63]tlog.Hash // by level; valid where n has that bit
}

// add appends a leaf and returns what became known by it, in the order of
// [tlog.StoredHashes].
func (t *tree) add(leaf tlog.Hash) []tlog.Hash {
	h, known := leaf, []tlog.Hash{leaf}
	for level := 0; t.n>>level&1 == 1; level++ {
		h = tlog.NodeHash(t.peaks[level], h)
		known = append(known, h)
	}
	t.peaks[len(known)-1] = h
	t.n++
	return known
}

func (t *tree) root() tlog.Hash {
	h := tlog.Hash(sha256.Sum256(nil))
	for level, first := 0, true; t.n>>level != 0; level++ {
		if t.n>>level&1 == 0 {
			continue
		}
		if first {
			h, first = t.peaks[level], false
		} else {
			h = tlog.NodeHash(t.peaks[level], h)
		}
	}
	return h
}

// hashFile is log/hashes: every stored hash of the tree, 32 bytes each, in the
// order of [tlog.StoredHashes]. It is derived from the records, is written
// without a sync, and is believed only where a signed root confirms it. It says
// which record of a batch was changed.
type hashFile struct{ f *os.File }

// leaves returns the hashes of records first to end-1, or nil when the file does
// not hold them.
func (h *hashFile) leaves(first, end int64) []tlog.Hash {
	if h == nil {
		return nil
	}
	at := tlog.StoredHashIndex(0, first)
	buf := make([]byte, (tlog.StoredHashIndex(0, end-1)-at+1)*tlog.HashSize)
	if _, err := h.f.ReadAt(buf, at*tlog.HashSize); err != nil {
		return nil
	}
	out := make([]tlog.Hash, 0, end-first)
	for i := first; i < end; i++ {
		out = append(out, tlog.Hash(buf[(tlog.StoredHashIndex(0, i)-at)*tlog.HashSize:]))
	}
	return out
}

// same reports whether the file holds hs from index at on.
func (h *hashFile) same(at int64, hs []tlog.Hash) bool {
	buf := make([]byte, len(hs)*tlog.HashSize)
	if _, err := h.f.ReadAt(buf, at*tlog.HashSize); err != nil {
		return false
	}
	for i, want := range hs {
		if tlog.Hash(buf[i*tlog.HashSize:]) != want {
			return false
		}
	}
	return true
}

func (h *hashFile) put(at int64, hs []tlog.Hash) error {
	buf := make([]byte, 0, len(hs)*tlog.HashSize)
	for _, x := range hs {
		buf = append(buf, x[:]...)
	}
	_, err := h.f.WriteAt(buf, at*tlog.HashSize)
	return err
}

// exactly reports whether the file ends after n hashes.
func (h *hashFile) exactly(n int64) bool {
	size, err := h.f.Seek(0, io.SeekEnd)
	return err == nil && size == n*tlog.HashSize
}
