package hostfx

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxMove is the most that one operation moves, so that none holds Close up for long.
const maxMove = 1 << 20

// File is an open regular file. Its methods are safe for concurrent use, and fail with
// [ErrClosed] when the call is over. What it was not opened for is EBADF.
type File struct {
	d    *Dir
	name string
	file *os.File
	mode OpenOptions // as it was opened
	read *entry      // nil if it was not opened for reading

	began time.Time   // when it was opened
	ended atomic.Bool // it was closed

	mu        sync.Mutex // protects the offset in the file, and the fields below
	appending bool
	wrote     *entry // nil if it was not opened for writing
	kind      string // of wrote
}

// openFile opens what was seen to be a regular file, or with create was not there. It
// must be called with life held.
func (f *Folder) openFile(at *place, rel string, o OpenOptions, create bool) (Handle, error) {
	d, fx, kind, began := f.d, f.d.fx, o.kind(), f.d.fx.now()
	var err error
	switch {
	case !d.modes.allow(o):
		err = ErrNotGranted
	case create && o.Directory:
		err = unix.EINVAL
	case create && strings.HasSuffix(rel, "/"):
		err = unix.EISDIR
	case o.alters():
		err = fx.unchanged()
	}
	if err == nil && create && !fx.quota.enter() {
		err = ErrQuota
	}
	if err != nil {
		return nil, f.note(kind, rel, err)
	}
	h := &File{d: d, name: within(f.name, rel), mode: o, kind: kind, began: began, appending: o.Append}
	err = ErrTooManyOpen
	if fx.keep(h) {
		if h.file, err = f.openRegular(at, rel, o, create); err == nil {
			h.record()
			return h, nil
		}
		fx.drop(h)
	}
	if create {
		fx.quota.leave()
	}
	if err == errGone || err == unix.ENOENT && o.Create && !create {
		return nil, errGone
	}
	return nil, f.noteSince(began, kind, rel, err)
}

// errGone says that a file is no longer there which was a moment ago.
var errGone = errors.New("it is gone")

// openRegular opens what was seen, or with create what was not there.
func (f *Folder) openRegular(at *place, rel string, o OpenOptions, create bool) (file *os.File, err error) {
	flag := unix.O_RDONLY
	switch {
	case o.reads() && (o.writes() || o.Truncate):
		flag = unix.O_RDWR
	case o.writes():
		flag = unix.O_WRONLY
	}
	if o.Append {
		flag |= unix.O_APPEND
	}
	if create {
		flag |= unix.O_CREAT
	}
	if o.Exclusive && create {
		flag |= unix.O_EXCL
	}
	if o.NoFollow {
		flag |= unix.O_NOFOLLOW
	}
	if !create && !o.writes() && !o.Truncate || f.d.fx.edits == nil {
		return f.opened(at, rel, flag, o.Truncate)
	}
	err = f.d.fx.journaled(f.d, at, rel, !o.NoFollow && (!create || !o.Exclusive), func(at *place, rel string) error {
		flag |= unix.O_NOFOLLOW
		if create { // that it was not there is in the journal
			flag |= unix.O_EXCL
		}
		file, err = f.opened(at, rel, flag, o.Truncate)
		return err
	})
	if err == unix.EEXIST && create && !o.Exclusive {
		err = errGone // another file came first
	}
	return file, err
}

// opened looks again at what it opened, which may not be what was seen.
func (f *Folder) opened(at *place, rel string, flag int, empty bool) (*os.File, error) {
	file, err := at.open(rel, flag, 0o666)
	if err != nil {
		return nil, err
	}
	i, err := statFile(file)
	switch {
	case err != nil:
	case !i.Mode().IsRegular():
		err = ErrNotGranted
	case flag&(unix.O_WRONLY|unix.O_RDWR) == 0:
	case !f.d.fx.quota.ours(i):
		err = ErrNotGranted
	case empty && i.Size() > 0:
		err = file.Truncate(0)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// record adds the effects of having been opened.
func (f *File) record() {
	if f.mode.reads() {
		f.read = f.add("fs.read")
	}
	if f.mode.alters() {
		f.wrote = f.add(f.kind)
	}
}

func (f *File) add(kind string) *entry { return f.d.fx.log.add(kind, f.d.name, f.name, ok) }

// use runs op unless the call is over.
func (f *File) use(op func() error) error {
	f.d.fx.life.RLock()
	defer f.d.fx.life.RUnlock()
	if err := f.d.fx.gone(); err != nil {
		return err
	}
	return plain(op())
}

// plain is the error without what package os says of it, which names no file here.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Read reads at most 1 MiB at a time, as [io.Reader].
func (f *File) Read(b []byte) (n int, err error) {
	err = f.use(func() error {
		if f.read == nil {
			return unix.EBADF
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		n, err = f.file.Read(b[:min(len(b), maxMove)])
		f.read.in.Add(int64(n))
		return err
	})
	return n, err
}

// ReadAt reads from an offset, as [io.ReaderAt].
func (f *File) ReadAt(b []byte, off int64) (n int, err error) {
	for {
		part := b[n:min(len(b), n+maxMove)]
		err = f.use(func() error {
			switch {
			case f.read == nil:
				return unix.EBADF
			case off < 0 || off > math.MaxInt64-int64(len(b)):
				return unix.EINVAL
			}
			k, err := f.file.ReadAt(part, off+int64(n))
			f.read.in.Add(int64(k))
			n += k
			return err
		})
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// Write writes all of b where the offset is, or at the end if it was opened so, as
// [io.Writer]. What it would grow the file by counts too, a hole included: if that is
// more than the call may still write it is [ErrQuota], and nothing of up to 1 MiB is
// written.
func (f *File) Write(b []byte) (int, error) { return f.write(b, -1) }

// WriteAt is Write at an offset, which it leaves where Write goes on, as
// [io.WriterAt]. Of a file that was opened to append it is at the end whatever the
// offset, as Linux has it.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, unix.EINVAL
	}
	return f.write(b, off)
}

// write writes b in parts, at the offset of the file with -1.
func (f *File) write(b []byte, off int64) (n int, err error) {
	if !f.d.fx.quota.has(int64(len(b))) && f.mode.writes() {
		return 0, f.use(func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.over()
		})
	}
	for {
		part, at := b[n:min(len(b), n+maxMove)], off
		if at >= 0 {
			at += int64(n)
		}
		err = f.use(func() error {
			k, err := f.part(part, at)
			n += k
			return err
		})
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// over records that the call would write too much. It must be called with mu held.
func (f *File) over() error { return f.d.note(f.kind, f.name, ErrQuota) }

// part must be called with life held.
func (f *File) part(b []byte, off int64) (int, error) {
	if !f.mode.writes() {
		return 0, unix.EBADF
	}
	q := &f.d.fx.quota
	f.mu.Lock()
	defer f.mu.Unlock()
	at := off
	if off < 0 {
		var err error
		if at, err = f.file.Seek(0, io.SeekCurrent); err != nil {
			return 0, err
		}
	}
	hole := int64(0)
	if !f.appending {
		i, err := statFile(f.file)
		if err != nil {
			return 0, err
		}
		if at > math.MaxInt64-int64(len(b)) {
			return 0, unix.EFBIG
		}
		if len(b) > 0 { // nothing makes no hole
			hole = max(0, at-i.Size())
		}
	}
	cost := hole + int64(len(b))
	if cost < 0 || !q.take(cost) {
		return 0, f.over()
	}
	n, err := f.put(b, off)
	f.wrote.out.Add(int64(n))
	if n == 0 {
		q.back(cost)
	} else {
		q.back(int64(len(b) - n))
	}
	return n, err
}

// put writes where the file is, or at off.
func (f *File) put(b []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return f.file.Write(b)
	case f.appending:
		at, err := f.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return 0, err
		}
		n, err := f.file.Write(b)
		_, back := f.file.Seek(at, io.SeekStart)
		return n, errors.Join(err, back)
	}
	// Package os refuses this for ever once a file was opened to append.
	for n < len(b) && err == nil {
		var k int
		err = control(f.file, func(fd int) (err error) {
			k, err = retried(func() (int, error) { return unix.Pwrite(fd, b[n:], off+int64(n)) })
			return err
		})
		n += max(k, 0)
	}
	return n, err
}

// Seek moves the offset of Read and Write, as [io.Seeker].
func (f *File) Seek(off int64, whence int) (at int64, err error) {
	err = f.use(func() error {
		if whence < io.SeekStart || whence > io.SeekEnd {
			return unix.EINVAL // the system knows more, not on every file system
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		at, err = f.file.Seek(off, whence)
		return err
	})
	return at, err
}

// Stat describes the open file.
func (f *File) Stat() (i fs.FileInfo, err error) {
	err = f.use(func() error {
		found, err := statFile(f.file)
		if err == nil {
			found.name, i = path.Base(f.name), found
		}
		return err
	})
	return i, err
}

// Close closes the file. The effects keep the bytes moved until then, and how long it
// was open.
func (f *File) Close() error {
	f.d.fx.life.RLock()
	defer f.d.fx.life.RUnlock()
	if f.d.fx.closed {
		return ErrClosed
	}
	defer f.d.fx.drop(f)
	return plain(f.end())
}

func (f *File) end() error {
	err := f.file.Close()
	if f.ended.Swap(true) {
		return err
	}
	took := f.d.fx.since(f.began)
	if f.read != nil {
		f.read.lasted(took)
	}
	if f.wrote != nil {
		f.wrote.lasted(took)
	}
	return err
}
