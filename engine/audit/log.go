package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Log is an open log. Get one from [Open]; it is safe for concurrent use.
type Log struct {
	dir      string
	o        Options
	signer   note.Signer
	verifier note.Verifier
	hashes   *hashFile
	in       chan *pending // batches form here while the previous one is in sync
	wg       sync.WaitGroup

	witnesses *witnesses // nil: there are none
	alive     *alive     // nil: nobody would see it

	// Owned by the loop once it runs.
	f    File
	size int64 // bytes of f
	tree tree
	buf  []byte
	err  error // why the log is stopped

	mu      sync.Mutex // protects the fields below
	durable mark
	starts  []tree        // before the first record of each segment
	grown   chan struct{} // closed with the next segment
	newest  checkpoint    // of what is durable; size 0 for none
	written int64         // records under a checkpoint that is being written, or was

	closing sync.RWMutex // held for reading while a record is put into in
	closed  bool
}

// mark is a place in the log up to which everything is durable.
type mark struct {
	n    int64
	root tlog.Hash
}

// pending is a record on its way.
type pending struct {
	rec   []byte
	index int64
	done  chan error
}

// Origin names the log, as the first line of its checkpoints does.
func (l *Log) Origin() string { return l.signer.Name() }

// Append adds rec, one line of canonical JSON without its break, and returns its
// index once it is durable and under a signed checkpoint. rec MUST NOT change
// until then.
//
// Append waits for a place in the queue no longer than ctx allows. After that it
// does not look at ctx: the record may become durable whatever the caller wants,
// so an early answer would be a wrong one.
//
// # Errors
//
// [ErrStopped] after any write or sync that went wrong, this one or an earlier
// one: whether rec is in the log is for the next [Open] to say. [ErrNotRecord],
// [ErrClosed] and the error of ctx mean that it is not, and that the log goes on.
func (l *Log) Append(ctx context.Context, rec []byte) (index int64, err error) {
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	if err := checkRecord(rec); err != nil {
		return -1, err
	}
	p := &pending{rec: rec, done: make(chan error, 1)}
	if err := l.enqueue(ctx, p); err != nil {
		return -1, err
	}
	if err := <-p.done; err != nil {
		return -1, err
	}
	return p.index, nil
}

func (l *Log) enqueue(ctx context.Context, p *pending) error {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed {
		return fmt.Errorf("audit: %w", ErrClosed)
	}
	select {
	case l.in <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Replay yields every record that is durable when it is called, in order. It
// reads the files again and checks them against what Open and Append know. rec
// is valid only within yield.
//
// # Errors
//
// The error of yield or of ctx, or a [*TamperError] when the files have changed;
// then nothing that was yielded may be believed.
func (l *Log) Replay(ctx context.Context, yield func(index int64, rec []byte) error) error {
	l.mu.Lock()
	to := l.durable
	l.mu.Unlock()
	return l.replay(ctx, tree{}, to, yield)
}

// replay yields the records between two places, of which the first begins a segment.
func (l *Log) replay(ctx context.Context, from tree, to mark, yield func(index int64, rec []byte) error) error {
	segs, err := segments(l.dir)
	if err != nil {
		return err
	}
	segs = slices.DeleteFunc(segs, func(s segment) bool { return s.first < from.n })
	if len(segs) == 0 {
		return noSegments()
	}
	w := &walker{verifier: l.verifier, hashes: l.hashes, tree: from, stop: to.n}
	err = w.walk(ctx, segs, func(first int64, recs [][]byte) error {
		for i, rec := range recs {
			if err := yield(first+int64(i), rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && w.tree.root() != to.root {
		err = &TamperError{Record: from.n, Last: max(from.n, to.n-1), Segment: segs[0].name(), Reason: "log was rewritten while it was open"}
	}
	return err
}

// Close waits for the records that are on their way and closes the files. It is
// idempotent.
func (l *Log) Close() error {
	l.closing.Lock()
	was := l.closed
	l.closed = true
	l.closing.Unlock()
	if was {
		return nil
	}
	l.alive.stop()
	close(l.in)
	l.wg.Wait()
	if l.witnesses != nil {
		l.witnesses.close()
	}
	return errors.Join(l.f.Close(), l.hashes.f.Close())
}

// loop writes batches. There is no timer: whoever comes while a batch is in sync
// is in the next one, so a lone record never waits for company.
func (l *Log) loop() {
	for p := range l.in {
		b := l.fill(p)
		if l.err == nil {
			if err := l.commit(b); err != nil {
				// Never tried again: after a failed sync nobody knows what the
				// disk has, and a second sync may succeed without writing.
				l.err = fmt.Errorf("audit: %w: %w", ErrStopped, err)
			}
		}
		for _, p := range b {
			p.done <- l.err
		}
	}
}

// fill takes what is waiting, within the bounds of a batch.
func (l *Log) fill(p *pending) []*pending {
	b, size := []*pending{p}, len(p.rec)
	for len(b) < l.o.maxBatch && size < maxBatchBytes {
		select {
		case p, ok := <-l.in:
			if !ok {
				return b
			}
			b, size = append(b, p), size+len(p.rec)
		default:
			return b
		}
	}
	return b
}

// commit makes b durable under one checkpoint, in one write and one sync.
func (l *Log) commit(b []*pending) error {
	if l.size >= l.o.SegmentBytes {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	buf, t := bytes.NewBuffer(l.buf[:0]), l.tree
	at, known := tlog.StoredHashCount(t.n), make([]tlog.Hash, 0, 2*len(b))
	for _, p := range b {
		p.index = t.n
		known = append(known, t.add(tlog.RecordHash(p.rec))...)
		buf.Write(p.rec)
		buf.WriteByte('\n')
	}
	line, err := signCheckpoint(l.signer, t.n, t.root())
	if err != nil {
		return err
	}
	buf.Write(line)
	buf.WriteByte('\n')
	l.mu.Lock()
	l.written = t.n
	l.mu.Unlock()
	if err := l.write(buf.Bytes()); err != nil {
		return err
	}
	l.buf, l.tree, l.size = buf.Bytes(), t, l.size+int64(buf.Len())
	// Derived, and made right by Open: losing it costs precision, not truth.
	_ = l.hashes.put(at, known)
	l.mu.Lock()
	l.durable = mark{t.n, t.root()}
	if l.witnesses != nil {
		l.newest, err = parseCheckpoint(line, l.Origin())
	}
	l.mu.Unlock()
	l.alive.wrote()
	return err
}

func (l *Log) write(b []byte) error {
	n, err := l.f.Write(b)
	if err == nil && n != len(b) {
		err = fmt.Errorf("wrote %d of %d bytes", n, len(b))
	}
	if err != nil {
		return err
	}
	return l.f.Sync()
}

// rotate starts the next segment, named after the next record.
func (l *Log) rotate() error {
	f, err := createSegment(l.dir, l.tree.n)
	if err != nil {
		return err
	}
	old := l.f
	l.f, l.size = l.o.Wrap(dataFile{f}), 0
	l.mu.Lock()
	l.starts = append(l.starts, l.tree)
	close(l.grown)
	l.grown = make(chan struct{})
	l.mu.Unlock()
	return old.Close()
}
