package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/internal/durable"
)

// Open returns the log in dir, which it makes, with keys, where there is none.
// It takes no lock: the caller MUST be the only one who opens dir.
//
// Open checks the whole log: every line, every root and size, and the signature
// of the last checkpoint, which covers all records. What an unfinished write
// left at the end was never acknowledged; it is cut off, and a record of type
// [call.TypeCut] is the first new one.
//
// # Errors
//
// [*TamperError], [ErrNoKey], or an error of the file system. A link or anything
// else that is no plain file is refused, and so is a key that others can read.
func Open(dir string, o Options) (*Log, error) {
	o.defaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	segs, err := prepare(dir, o.Origin)
	if err != nil {
		return nil, err
	}
	signer, verifier, err := loadKeys(dir, o.Origin)
	if err != nil {
		return nil, err
	}
	f, err := openRegular(hashesPath(dir), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, o: o, signer: signer, verifier: verifier, hashes: &hashFile{f}, in: make(chan *pending, o.QueueLen)}
	torn, err := l.load(segs)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := l.openWitnesses(); err != nil {
		return nil, errors.Join(err, l.f.Close(), f.Close())
	}
	l.wg.Go(l.loop)
	l.startWitnesses()
	if torn > 0 {
		if err := l.recordCut(torn); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// load believes the files or not, and repairs what a crash can leave. It returns
// how many bytes it cut off.
func (l *Log) load(segs []segment) (torn int64, err error) {
	w, err := l.check(segs)
	if err != nil {
		return 0, err
	}
	last := segs[len(segs)-1]
	if w.torn > 0 {
		if err := cut(last, w.torn); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(confirm(w), durable.SyncDir(filepath.Join(l.dir, logDir))); err != nil {
		return 0, err
	}
	f, err := openRegular(last.path, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	l.f, l.size, l.tree = l.o.Wrap(dataFile{f}), info.Size(), w.tree
	l.durable = mark{w.tree.n, w.tree.root()}
	l.starts, l.grown, l.newest, l.written = w.starts, make(chan struct{}), w.last, w.tree.n
	return w.torn, nil
}

func (l *Log) recordCut(n int64) error {
	rec, err := call.Record{Type: call.TypeCut, Time: l.o.Now().UTC(), Node: l.o.Node, CutBytes: n}.Encode()
	if err != nil {
		return err
	}
	_, err = l.Append(context.Background(), rec)
	return err
}

// prepare makes what a new log needs and returns the segments.
func prepare(dir, origin string) ([]segment, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	info, err := os.Stat(dir) // the data directory itself may be a link
	if err != nil || !info.IsDir() {
		if err := makeDir(dir); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{logDir, keysDir} {
		if err := makeDir(filepath.Join(dir, d)); err != nil {
			return nil, err
		}
	}
	segs, err := segments(dir)
	if err != nil {
		return nil, err
	}
	noKey, err := missing(keyPath(dir))
	if err != nil {
		return nil, err
	}
	switch {
	case len(segs) > 0 && !noKey:
		return segs, nil
	case len(segs) == 0 && !noKey:
		// The first segment is made before the key.
		return nil, noSegments()
	case len(segs) == 0:
		f, err := createSegment(dir, 0)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		segs = []segment{{0, segmentPath(dir, 0)}}
	}
	for _, s := range segs {
		if info, err := os.Lstat(s.path); err != nil || info.Size() > 0 || s.first > 0 {
			return nil, errors.Join(fmt.Errorf("audit: %s: %w", keyPath(dir), ErrNoKey), err)
		}
	}
	return segs, makeKeys(dir, origin)
}

// check walks the whole log and makes the hash file right.
func (l *Log) check(segs []segment) (*walker, error) {
	ctx, right := context.Background(), true
	w := &walker{verifier: l.verifier, hashes: l.hashes, stop: -1}
	w.stored = func(at int64, hs []tlog.Hash) error {
		right = right && l.hashes.same(at, hs)
		return nil
	}
	err := w.walk(ctx, segs, ignore)
	if err == nil && w.checkpoints > 0 {
		err = w.last.checkSignature(l.verifier)
	}
	if err != nil {
		// Look again, at every signature: the first wrong batch may be an earlier one.
		every := &walker{verifier: l.verifier, every: true, hashes: l.hashes, stop: -1}
		return nil, cmp.Or(every.walk(ctx, segs, ignore), err)
	}
	if right && l.hashes.exactly(tlog.StoredHashCount(w.tree.n)) {
		return w, nil
	}
	// Only now, when the records are known to be genuine: the old hashes would
	// have told which one is not.
	again := &walker{verifier: l.verifier, stop: w.tree.n, stored: l.hashes.put}
	if err := again.walk(ctx, segs, ignore); err != nil {
		return nil, err
	}
	return w, l.hashes.f.Truncate(tlog.StoredHashCount(w.tree.n) * tlog.HashSize)
}

func ignore(int64, [][]byte) error { return nil }

// cut takes an unfinished write off the end of the last segment.
func cut(s segment, n int64) error {
	f, err := openRegular(s.path, os.O_RDWR)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(info.Size() - n)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// confirm makes the last batch durable. When its sync failed in an earlier
// process, the batch can be readable without being on the disk, and the kernel
// may hold its pages for clean; writing the same bytes again is what makes the
// next sync mean something. Earlier batches are durable, since a failed sync
// stops the log.
func confirm(w *walker) error {
	if w.checkpoints == 0 {
		return nil
	}
	f, err := openRegular(w.lastSegment.path, os.O_RDWR)
	if err != nil {
		return err
	}
	b := make([]byte, w.lastEnd-w.lastStart)
	if _, err = f.ReadAt(b, w.lastStart); err == nil {
		_, err = f.WriteAt(b, w.lastStart)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// createSegment makes an empty segment, durably.
func createSegment(dir string, first int64) (*os.File, error) {
	f, err := openRegular(segmentPath(dir, first), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Sync(), durable.SyncDir(filepath.Join(dir, logDir))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
