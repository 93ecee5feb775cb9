package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// walker checks a log from its first record on: every root and every size, and
// the signatures it is told to.
type walker struct {
	verifier note.Verifier
	every    bool      // check every signature; else the caller checks the last
	hashes   *hashFile // nil: batches can be named, records within them not
	stop     int64     // records after which to stop; negative: at the end

	roots map[int64]tlog.Hash // by size: gets the root of the tree at that size

	// stored gets the stored hashes of each batch whose root is right.
	stored func(at int64, hs []tlog.Hash) error

	// Results.
	tree        tree
	starts      []tree // before the first record of each segment
	last        checkpoint
	lastSegment segment // the segment of the last batch, and where it lies there
	lastStart   int64
	lastEnd     int64
	checkpoints int64
	torn        int64 // bytes after the last checkpoint
}

// segment is one file of the log.
type segment struct {
	first int64 // index of its first record, which is its name
	path  string
}

func (s segment) name() string { return filepath.Base(s.path) }

// walk yields the batches of segs in order, each only under its own checkpoint.
func (w *walker) walk(ctx context.Context, segs []segment, yield func(first int64, recs [][]byte) error) error {
	for i, seg := range segs {
		if w.tree.n == w.stop {
			return nil
		}
		if seg.first != w.tree.n {
			at := min(seg.first, w.tree.n)
			return &TamperError{Record: at, Last: at, Segment: seg.name(),
				Reason: fmt.Sprintf("segment starts at record %d, not %d", seg.first, w.tree.n)}
		}
		w.starts = append(w.starts, w.tree)
		next := int64(-1)
		if i+1 < len(segs) {
			next = segs[i+1].first
		}
		if err := w.file(ctx, seg, next, yield); err != nil {
			return err
		}
	}
	if w.stop >= 0 && w.tree.n != w.stop {
		return &TamperError{Record: w.tree.n, Last: w.tree.n, Segment: segs[len(segs)-1].name(), Reason: "records are missing at the end"}
	}
	return nil
}

func (w *walker) file(ctx context.Context, seg segment, next int64, yield func(int64, [][]byte) error) error {
	f, err := openRegular(seg.path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.segment(ctx, seg, f, next, yield)
}

// segment reads one segment. Only the last one, for which next is negative, may
// end within a batch.
func (w *walker) segment(ctx context.Context, seg segment, in io.Reader, next int64, yield func(int64, [][]byte) error) error {
	r := newSegmentReader(seg.name(), in)
	for w.tree.n != w.stop {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := w.tree.n
		b, err := r.next(first)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTorn) && next >= 0:
			return &TamperError{Record: first, Last: max(first, next-1), Segment: seg.name(), Reason: "segment ends within a batch"}
		case errors.Is(err, errTorn):
			w.torn = r.off - r.start
			return nil
		case err != nil:
			return err
		}
		if err := w.batch(seg, b); err != nil {
			return err
		}
		if err := yield(first, b.recs); err != nil {
			return err
		}
	}
	return nil
}

// batch adds b to the tree, or says what is wrong with it.
func (w *walker) batch(seg segment, b batch) error {
	first, n := w.tree.n, int64(len(b.recs))
	bad := func(e TamperError) error {
		e.Segment = seg.name()
		return &e
	}
	cp, err := parseCheckpoint(b.line, w.verifier.Name())
	if err != nil {
		return bad(TamperError{Record: first, Last: max(first, first+n-1), Reason: err.Error()})
	}
	grown, leaves, known := w.tree, make([]tlog.Hash, 0, n), make([]tlog.Hash, 0, 2*n)
	for _, rec := range b.recs {
		leaf := tlog.RecordHash(rec)
		leaves = append(leaves, leaf)
		known = append(known, grown.add(leaf)...)
		if _, ok := w.roots[grown.n]; ok {
			w.roots[grown.n] = grown.root()
		}
	}
	if n == 0 || cp.size != grown.n || cp.root != grown.root() {
		return bad(w.locate(leaves, cp))
	}
	if w.every {
		if err := cp.checkSignature(w.verifier); err != nil {
			return bad(TamperError{Record: first, Last: grown.n - 1, Reason: err.Error()})
		}
	}
	if w.stored != nil {
		if err := w.stored(tlog.StoredHashCount(first), known); err != nil {
			return err
		}
	}
	w.tree, w.last = grown, cp
	w.lastSegment, w.lastStart, w.lastEnd = seg, b.start, b.end
	w.checkpoints++
	return nil
}

// maxLocate bounds what locate reads of the hashes: a checkpoint can claim any size.
const maxLocate = 128 * maxBatch

// locate finds the first record that is not what cp was signed over, given the
// leaves that are there instead. What the hash file says counts only if it leads
// to cp's root and cp is signed.
func (w *walker) locate(leaves []tlog.Hash, cp checkpoint) TamperError {
	first, there := w.tree.n, int64(len(leaves))
	e := TamperError{Record: first, Last: max(first, first+there-1), Reason: "records do not match their checkpoint"}
	if cp.size <= first || cp.size-first > maxLocate {
		e.Reason = fmt.Sprintf("checkpoint of %d records after %d", cp.size, first+there)
		return e
	}
	e.Last = max(e.Last, cp.size-1)
	if err := cp.checkSignature(w.verifier); err != nil {
		e.Reason = err.Error()
		return e
	}
	logged := w.hashes.leaves(first, cp.size)
	t := w.tree
	for _, h := range logged {
		t.add(h)
	}
	if logged == nil || t.root() != cp.root {
		return e
	}
	i := 0
	for i < len(leaves) && i < len(logged) && leaves[i] == logged[i] {
		i++
	}
	e.Record = first + int64(i)
	e.Last = e.Record
	e.Reason = "not the record that was logged"
	switch {
	case i == len(logged):
		e.Reason = "line was never logged"
	case i == len(leaves), there < int64(len(logged)) && slices.Contains(logged[i+1:], leaves[i]):
		e.Reason = "record is missing"
	case slices.Contains(logged[i+1:], leaves[i]):
		e.Reason = "record is out of order"
	}
	return e
}
