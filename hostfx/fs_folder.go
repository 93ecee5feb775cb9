package hostfx

import (
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Folder is an open directory: a granted one, or one opened below it. Paths given
// to it are relative to it and slash-separated. They are looked up beneath it,
// wherever it has been moved to: links are followed as long as they do not lead out
// of it, and an absolute path is refused. It has the modes of the granted directory
// that it was opened in, also when it is moved into another one. Its methods are safe for concurrent use.
//
// # Errors
//
// Each method fails with [ErrClosed] when the call is over, and with
// [ErrNotGranted] when the modes of the granted directory do not allow what is
// asked, or the path leads out. A path that is empty is [fs.ErrNotExist], one with a
// NUL [fs.ErrInvalid], and one of more than 4,096 bytes ENAMETOOLONG; these are
// no effects. Others are the system's own.
type Folder struct {
	d    *Dir
	name string // as d.name

	mu     sync.Mutex // protects the fields below
	at     *place
	closed bool
	list   listing
}

// OpenOptions say how [Folder.Open] opens. Without Read, Write and Append it is for
// reading.
type OpenOptions struct {
	Read      bool // needs the mode read
	Write     bool // needs the mode write, or append with Append
	Append    bool // what is written goes to the end; needs the mode append or write
	Create    bool // create the file if it is not there; needs write, or append with Append
	Exclusive bool // with Create: fail with [fs.ErrExist] if it is there, a link included
	Truncate  bool // empty it; needs write
	Directory bool // fail with ENOTDIR unless it is a directory
	NoFollow  bool // fail with ELOOP if the last component is a link
}

func (o OpenOptions) reads() bool  { return o.Read || !o.Write && !o.Append }
func (o OpenOptions) writes() bool { return o.Write || o.Append }

// alters reports whether opening can lead to another content.
func (o OpenOptions) alters() bool { return o.writes() || o.Create || o.Truncate }

func (o OpenOptions) kind() string {
	switch {
	case o.Append && !o.Truncate:
		return "fs.append"
	case o.alters():
		return "fs.write"
	case o.Directory:
		return "fs.list"
	}
	return "fs.read"
}

// allow reports whether the modes let a file be opened so.
func (m Modes) allow(o OpenOptions) bool {
	adds := o.Append && (m.Append || m.Write)
	return (!o.reads() || m.Read) &&
		(!o.Append || adds) &&
		(!o.Write || m.Write || adds) &&
		(!o.Create || m.Write || adds) &&
		(!o.Truncate || m.Write)
}

// Dir is the granted directory that it is or was opened below.
func (f *Folder) Dir() *Dir { return f.d }

// do runs op with the open directory, unless the call is over.
func (f *Folder) do(op func(at *place) error) error {
	fx := f.d.fx
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return err
	}
	f.mu.Lock()
	at, closed := f.at, f.closed
	f.mu.Unlock()
	if closed {
		return fs.ErrClosed
	}
	return op(at)
}

// path runs op for a path that can be looked up.
func (f *Folder) path(kind, rel string, op func(at *place) error) error {
	if err := checked(rel); err != nil {
		return bad(kind, within(f.name, rel), err)
	}
	return f.do(func(at *place) error {
		if path.IsAbs(rel) {
			return f.note(kind, rel, ErrNotGranted)
		}
		return op(at)
	})
}

func (f *Folder) note(kind, rel string, err error) error {
	return f.d.note(kind, within(f.name, rel), err)
}

func (f *Folder) noteSince(began time.Time, kind, rel string, err error) error {
	return f.d.noteSince(began, kind, within(f.name, rel), err)
}

// Open opens a regular file, which is the effect fs.read, fs.append or fs.write, or a
// directory, which is no effect until it is listed. Anything else is refused without
// being opened, since opening a FIFO or a device can act on it.
//
// # Errors
//
// Besides those of every method: [ErrTooManyOpen]; [ErrQuota] when it would create an
// entry too many; [ErrChanged]; [ErrNotGranted] also when a file would be written to
// that has names besides those that this call made, which may be outside.
func (f *Folder) Open(rel string, o OpenOptions) (h Handle, err error) {
	err = f.path(o.kind(), rel, func(at *place) error {
		for range 8 { // what was there may be gone when it is opened
			if h, err = f.open(at, rel, o); err != errGone {
				return err
			}
		}
		return f.note(o.kind(), rel, fs.ErrNotExist)
	})
	return h, err
}

func (f *Folder) open(at *place, rel string, o OpenOptions) (Handle, error) {
	if f.d.modes == (Modes{}) {
		return nil, f.note(o.kind(), rel, ErrNotGranted)
	}
	began := f.d.fx.now()
	seen, err := at.peek(rel, !o.NoFollow)
	switch {
	case err == unix.ENOENT && o.Create:
		return f.openFile(at, rel, o, true)
	case err != nil:
		return nil, f.noteSince(began, o.kind(), rel, err)
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, f.note(o.kind(), rel, unix.ELOOP)
	case seen.IsDir() && o.Create && o.Exclusive:
		return nil, f.note(o.kind(), rel, unix.EEXIST)
	case seen.IsDir() && o.alters():
		return nil, f.note(o.kind(), rel, unix.EISDIR)
	case seen.IsDir():
		return f.openFolder(at, rel)
	case o.Directory:
		return nil, f.note(o.kind(), rel, unix.ENOTDIR)
	case !seen.Mode().IsRegular():
		return nil, f.note(o.kind(), rel, ErrNotGranted)
	case o.Create && o.Exclusive:
		return nil, f.note(o.kind(), rel, unix.EEXIST)
	}
	return f.openFile(at, rel, o, false)
}

// openFolder must be called with life held.
func (f *Folder) openFolder(at *place, rel string) (Handle, error) {
	sub := &Folder{d: f.d, name: within(f.name, rel)}
	if !f.d.fx.keep(sub) {
		return nil, f.note("fs.list", rel, ErrTooManyOpen)
	}
	below, err := at.sub(rel)
	if err != nil {
		f.d.fx.drop(sub)
		return nil, f.note("fs.list", rel, err)
	}
	sub.at = below
	return sub, nil
}

// Stat describes the directory itself.
func (f *Folder) Stat() (i fs.FileInfo, err error) {
	err = f.do(func(at *place) error {
		if !f.d.modes.sees() && f != f.d.self { // that a granted directory is there is no secret
			return f.note("fs.stat", ".", ErrNotGranted)
		}
		found, err := statFile(at.dir)
		if err == nil {
			found.name, i = path.Base(f.name), found
		}
		return err
	})
	return i, err
}

// StatAt describes what rel leads to. It needs the mode read or list, but for "." of
// a granted directory, and is an effect only when it is refused.
func (f *Folder) StatAt(rel string) (fs.FileInfo, error) { return f.stat(rel, true) }

// LstatAt is StatAt, but does not follow a link in the last component.
func (f *Folder) LstatAt(rel string) (fs.FileInfo, error) { return f.stat(rel, false) }

func (f *Folder) stat(rel string, follow bool) (i fs.FileInfo, err error) {
	err = f.path("fs.stat", rel, func(at *place) error {
		if !f.d.modes.sees() && (rel != "." || f != f.d.self) {
			return f.note("fs.stat", rel, ErrNotGranted)
		}
		found, err := at.stat(rel, follow)
		if err == errOutside {
			return f.note("fs.stat", rel, err)
		}
		if err != nil {
			return bad("fs.stat", within(f.name, rel), err)
		}
		found.name, i = path.Base(within(f.name, rel)), found
		return nil
	})
	return i, err
}

// Readlink is the text of a link, which needs the mode read or list. One whose text
// leads out of the granted directory, or is absolute, is refused: it would name what
// lies outside.
func (f *Folder) Readlink(rel string) (text string, err error) {
	err = f.path("fs.stat", rel, func(at *place) error {
		if !f.d.modes.sees() {
			return f.note("fs.stat", rel, ErrNotGranted)
		}
		if strings.HasSuffix(rel, "/") { // it would be what the link leads to
			return bad("fs.stat", within(f.name, rel), unix.EINVAL)
		}
		found, err := at.readlink(rel)
		switch {
		case err == errOutside || err == nil && !f.names(at, rel, found):
			return f.note("fs.stat", rel, ErrNotGranted)
		case err != nil:
			return bad("fs.stat", within(f.name, rel), err)
		}
		text = found
		return nil
	})
	return text, err
}

// names reports whether the text of the link rel stays in the granted directory, from
// where the link really is.
func (f *Folder) names(at *place, rel, text string) bool {
	if path.IsAbs(text) {
		return false
	}
	dir, _ := path.Split(rel)
	in, err := at.sub(dir + ".")
	if err != nil {
		return false
	}
	defer in.close()
	is, err := in.under(f.d.self.at)
	to := path.Join(is, text)
	return err == nil && to != ".." && !below("..", to)
}

// Refuse records that kind was tried on target, which is relative to the directory or
// absolute, and that there is no handle for it. The error is [ErrNotGranted], or what
// is wrong with target.
func (f *Folder) Refuse(kind, target string) error {
	return f.path(kind, target, func(*place) error { return f.note(kind, target, ErrNotGranted) })
}

// Close closes the directory. A granted one stays open until the call ends.
func (f *Folder) Close() error {
	fx := f.d.fx
	fx.life.RLock()
	defer fx.life.RUnlock()
	if fx.closed {
		return ErrClosed
	}
	if f == f.d.self {
		return nil
	}
	defer fx.drop(f)
	return f.end()
}

func (f *Folder) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.list.end()
	return f.at.close()
}
