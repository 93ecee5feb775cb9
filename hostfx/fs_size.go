package hostfx

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

// alter runs op on a file that was opened for writing and may be overwritten.
func (f *File) alter(op func() error) error {
	return f.use(func() error {
		switch {
		case !f.mode.writes() && !f.mode.Truncate:
			return unix.EBADF
		case !f.d.modes.Write:
			return f.d.note("fs.write", f.name, ErrNotGranted)
		}
		return op()
	})
}

// Truncate makes the file size bytes long. What it grows by counts as written:
// [ErrQuota] if that is more than the call may still write. It needs the mode write,
// also where the file was opened to append; then it is the effect fs.write as well.
func (f *File) Truncate(size int64) error {
	if size < 0 {
		return unix.EINVAL
	}
	return f.alter(func() error { return f.resize(size, false) })
}

// Allocate makes the file at least off+n bytes long, as Truncate does. It reserves
// nothing on the disk.
func (f *File) Allocate(off, n int64) error {
	if off < 0 || n <= 0 {
		return unix.EINVAL
	}
	if off > math.MaxInt64-n {
		return unix.EFBIG
	}
	return f.alter(func() error { return f.resize(off+n, true) })
}

func (f *File) resize(size int64, grow bool) error {
	q := &f.d.fx.quota
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := statFile(f.file)
	if err != nil || grow && i.Size() >= size {
		return err
	}
	more := max(0, size-i.Size())
	if !q.take(more) {
		return f.over()
	}
	if err := f.file.Truncate(size); err != nil {
		q.back(more)
		return err
	}
	f.overwrites()
	return nil
}

// overwrites says that a file that was opened to append to is more than that from now
// on. It must be called with mu held.
func (f *File) overwrites() {
	if f.kind == "fs.append" {
		f.kind, f.wrote = "fs.write", f.add("fs.write")
	}
}

// SetTimes sets the file's times. It needs the mode write, whatever the file was
// opened for, and is refused for one with names that this call did not make.
func (f *File) SetTimes(t Times) error {
	return f.use(func() error {
		i, err := statFile(f.file)
		switch {
		case err != nil:
			return err
		case !f.d.modes.Write || !f.d.fx.quota.ours(i):
			return f.d.note("fs.write", f.name, ErrNotGranted)
		}
		if err := f.d.fx.unchanged(); err != nil {
			return f.d.note("fs.write", f.name, err)
		}
		err = f.d.fx.journaledFile(f, i, func() error {
			return control(f.file, func(fd int) error { return touchFD(fd, t, f.d.fx.host.now()) })
		})
		if err == errGone || errors.Is(err, ErrQuota) {
			err = f.d.note("fs.write", f.name, err)
		}
		if err != nil {
			return err
		}
		if !f.mode.alters() {
			f.add("fs.write")
		}
		return nil
	})
}

// SetAppend says whether what is written goes to the end. Not any more needs the mode
// write, and is the effect fs.write if the file was opened to append.
func (f *File) SetAppend(on bool) error {
	return f.use(func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case on == f.appending:
			return nil
		case !f.mode.writes():
			f.appending = on // of no consequence
			return nil
		case !on && !f.d.modes.Write:
			return f.d.note("fs.write", f.name, ErrNotGranted)
		}
		err := control(f.file, func(fd int) error {
			flag, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if err != nil {
				return err
			}
			if flag &^= unix.O_APPEND; on {
				flag |= unix.O_APPEND
			}
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flag)
			return err
		})
		if err != nil {
			return err
		}
		if f.appending = on; !on {
			f.overwrites()
		}
		return nil
	})
}

// Sync waits until what was written is on the disk.
func (f *File) Sync() error { return f.use(f.file.Sync) }

// DataSync is Sync, but for what is not needed to read it back, where the system has
// that.
func (f *File) DataSync() error { return f.use(func() error { return dataSync(f.file) }) }
