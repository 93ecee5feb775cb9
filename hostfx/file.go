package hostfx

import (
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
)

// maxRead is the most that one Read moves, so that no single operation holds
// Close up for long.
const maxRead = 1 << 20

// File is an open regular file. Its methods are safe for concurrent use.
type File struct {
	fx    *Effects
	file  *os.File
	entry *entry
}

// use runs op unless the call is over.
func (f *File) use(op func() error) error {
	f.fx.life.RLock()
	defer f.fx.life.RUnlock()
	if err := f.fx.gone(); err != nil {
		return err
	}
	return op()
}

// Read reads at most 1 MiB at a time, as [io.Reader].
func (f *File) Read(b []byte) (n int, err error) {
	err = f.use(func() error {
		n, err = f.file.Read(b[:min(len(b), maxRead)])
		f.entry.bytes.Add(int64(n))
		return err
	})
	return n, err
}

// ReadAt reads from an offset, as [io.ReaderAt].
func (f *File) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.use(func() error {
		n, err = f.file.ReadAt(b, off)
		f.entry.bytes.Add(int64(n))
		return err
	})
	return n, err
}

// Seek moves the offset of Read, as [io.Seeker].
func (f *File) Seek(off int64, whence int) (at int64, err error) {
	err = f.use(func() error {
		at, err = f.file.Seek(off, whence)
		return err
	})
	return at, err
}

// Stat describes the open file.
func (f *File) Stat() (info fs.FileInfo, err error) {
	err = f.use(func() error {
		info, err = f.file.Stat()
		return err
	})
	return info, err
}

// Close closes the file. The effect keeps the bytes read until then.
func (f *File) Close() error {
	f.fx.life.RLock()
	defer f.fx.life.RUnlock()
	if f.fx.closed {
		return ErrClosed
	}
	defer f.fx.drop(f)
	return f.end()
}

func (f *File) end() error { return f.file.Close() }

// Folder is an open directory.
type Folder struct {
	d   *Dir
	rel string

	mu     sync.Mutex // protects the fields below
	file   *os.File   // nil until the first listing
	listed bool
	closed bool
}

// Next returns up to n further entries, in no order, and io.EOF when there are
// none. The first call is the effect fs.list and needs the mode list.
func (f *Folder) Next(n int) ([]fs.DirEntry, error) {
	fx := f.d.fx
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fs.ErrClosed
	}
	if !f.d.list {
		return nil, f.d.note("fs.list", f.rel, ErrNotGranted)
	}
	if f.file == nil {
		if err := f.start(); err != nil {
			return nil, f.d.note("fs.list", f.rel, err)
		}
	}
	return f.file.ReadDir(n)
}

// start opens the directory. Listing it again after Rewind is the same effect.
func (f *Folder) start() error {
	file, err := f.d.root.OpenFile(f.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		file.Close()
		return err
	}
	if !f.listed {
		f.d.fx.log.add("fs.list", f.d.name, path.Join(f.d.name, f.rel), ok)
	}
	f.file, f.listed = file, true
	return nil
}

// Rewind makes Next start from the first entry again.
func (f *Folder) Rewind() error {
	f.d.fx.life.RLock()
	defer f.d.fx.life.RUnlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Stat describes the directory.
func (f *Folder) Stat() (fs.FileInfo, error) { return f.d.Stat(f.rel) }

// Close closes the directory.
func (f *Folder) Close() error {
	f.d.fx.life.RLock()
	defer f.d.fx.life.RUnlock()
	if f.d.fx.closed {
		return ErrClosed
	}
	defer f.d.fx.drop(f)
	return f.end()
}

func (f *Folder) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
