package hostfx

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Dir is one granted directory. Paths given to it are relative to it,
// slash-separated; leading slashes are ignored, so nothing is absolute. Links
// are followed as long as they stay inside.
type Dir struct {
	fx         *Effects
	root       *os.Root
	name       string
	read, list bool
	self       *Folder
}

// OpenOptions say how [Dir.Open] opens. The zero value opens whatever is there.
type OpenOptions struct {
	Directory bool // fail with ENOTDIR unless it is a directory
	NoFollow  bool // fail with ELOOP if the last component is a link
}

// Handle is an open [*File] or [*Folder].
type Handle interface {
	Stat() (fs.FileInfo, error)
	Close() error
}

// Name is the path by which tools and guests know the directory:
// /<root>/<granted path>.
func (d *Dir) Name() string { return d.name }

// Folder is the directory itself, open with the call. It does not count as an
// open file.
func (d *Dir) Folder() *Folder { return d.self }

// Open opens a regular file for reading, which is the effect fs.read, or a
// directory, which is no effect until it is listed. Anything else is refused
// without being opened, since opening a FIFO or a device can act on it.
func (d *Dir) Open(rel string, o OpenOptions) (Handle, error) {
	kind := "fs.read"
	if o.Directory {
		kind = "fs.list"
	}
	return d.open(kind, rel, o)
}

func (d *Dir) open(kind, rel string, o OpenOptions) (Handle, error) {
	rel, err := checked(rel)
	if err != nil {
		return nil, err
	}
	d.fx.life.RLock()
	defer d.fx.life.RUnlock()
	if err := d.fx.gone(); err != nil {
		return nil, err
	}
	if o.NoFollow {
		if i, err := d.root.Lstat(rel); err == nil && i.Mode()&fs.ModeSymlink != 0 {
			return nil, d.note(kind, rel, syscall.ELOOP)
		}
	}
	info, err := d.root.Stat(rel)
	switch {
	case err != nil:
		return nil, d.note(kind, rel, err)
	case info.IsDir():
		return d.openFolder(rel)
	case o.Directory:
		return nil, d.note(kind, rel, syscall.ENOTDIR)
	case !d.read || !info.Mode().IsRegular():
		return nil, d.note(kind, rel, ErrNotGranted)
	}
	return d.openFile(rel)
}

// openFile must be called with life held.
func (d *Dir) openFile(rel string) (Handle, error) {
	f := &File{fx: d.fx}
	if !d.fx.keep(f) {
		return nil, d.note("fs.read", rel, ErrTooManyOpen)
	}
	// The file may have been replaced since it was looked at: O_NONBLOCK keeps
	// a FIFO from making us wait, and the type is checked again.
	file, err := d.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		var info fs.FileInfo
		if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
			err = ErrNotGranted
		}
		if err != nil {
			file.Close()
		}
	}
	if err != nil {
		d.fx.drop(f)
		return nil, d.note("fs.read", rel, err)
	}
	f.file, f.entry = file, d.fx.log.add("fs.read", d.name, path.Join(d.name, rel), ok)
	return f, nil
}

// openFolder must be called with life held.
func (d *Dir) openFolder(rel string) (Handle, error) {
	if !d.any() {
		return nil, d.note("fs.list", rel, ErrNotGranted)
	}
	f := &Folder{d: d, rel: rel}
	if !d.fx.keep(f) {
		return nil, d.note("fs.list", rel, ErrTooManyOpen)
	}
	return f, nil
}

// Stat describes what rel leads to. It is an effect only when it is refused.
func (d *Dir) Stat(rel string) (fs.FileInfo, error) { return d.stat(rel, (*os.Root).Stat) }

// Lstat is Stat, but does not follow a link in the last component.
func (d *Dir) Lstat(rel string) (fs.FileInfo, error) { return d.stat(rel, (*os.Root).Lstat) }

func (d *Dir) stat(rel string, how func(*os.Root, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	rel, err := checked(rel)
	if err != nil {
		return nil, err
	}
	d.fx.life.RLock()
	defer d.fx.life.RUnlock()
	if err := d.fx.gone(); err != nil {
		return nil, err
	}
	if !d.any() && rel != "." { // that the directory itself is there is no secret
		return nil, d.note("fs.stat", rel, ErrNotGranted)
	}
	info, err := how(d.root, rel)
	if d.escapes(err) {
		return nil, d.note("fs.stat", rel, err)
	}
	return info, err
}

// Refuse records that kind was tried on target, which is relative to the
// directory or absolute, and that there is no handle for it. The error is
// [ErrNotGranted], or what is wrong with target.
func (d *Dir) Refuse(kind, target string) error {
	if _, err := checked(target); err != nil {
		return err
	}
	d.fx.life.RLock()
	defer d.fx.life.RUnlock()
	if err := d.fx.gone(); err != nil {
		return err
	}
	return d.note(kind, target, ErrNotGranted)
}

// any reports whether the directory may be looked at in any way.
func (d *Dir) any() bool { return d.read || d.list }

// note records an effect that did not happen, and returns why. It must be
// called with life held.
func (d *Dir) note(kind, rel string, err error) error {
	code := failed
	switch {
	case d.escapes(err):
		code, err = refused, ErrNotGranted
	case errors.Is(err, ErrNotGranted):
		code = refused
	case errors.Is(err, fs.ErrNotExist):
		code = notFound
	}
	target := path.Join(d.name, rel)
	if path.IsAbs(rel) {
		target = path.Clean(rel)
	}
	d.fx.log.add(kind, d.name, target, code)
	// The cause without os.Root's own PathError, whose path is cut at the root.
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return &fs.PathError{Op: strings.TrimPrefix(kind, "fs."), Path: target, Err: err}
}

// escapes reports whether err is os.Root's word that a path leads out of it.
// That error is not exported, but ".." always gives it.
func (d *Dir) escapes(err error) bool {
	if err == nil {
		return false
	}
	_, outside := d.root.Lstat("..")
	p, ok := errors.AsType[*fs.PathError](outside)
	return ok && errors.Is(err, p.Err)
}

// checked returns rel in the form os.Root takes, or why no file can be called
// that. Nothing was asked of the file system then, so it is no effect.
func checked(rel string) (string, error) {
	if strings.ContainsRune(rel, 0) {
		return "", fs.ErrInvalid
	}
	if len(rel) > maxPath {
		return "", syscall.ENAMETOOLONG
	}
	return relative(rel), nil
}

func relative(p string) string {
	if p = strings.TrimLeft(p, "/"); p == "" {
		return "."
	}
	return p
}
