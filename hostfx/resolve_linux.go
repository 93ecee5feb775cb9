package hostfx

import (
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pathOnly opens a directory to look things up in it, which needs no right to list it.
const pathOnly = unix.O_PATH | unix.O_CLOEXEC

// How names are resolved: beneath the directory, not by the links of /proc that lead
// anywhere, and not across a mount. See openat2(2).
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// maxAgain is how often openat2 is asked again: it fails with EAGAIN when something
// was renamed anywhere while it followed "..", and a hostile neighbour can go on so.
const maxAgain = 256

// kernelResolves reports whether there is openat2: Linux 5.6 has it, but a filter of
// system calls may not let it through.
var kernelResolves = sync.OnceValue(func() bool {
	fd, err := openat2(unix.AT_FDCWD, ".", pathOnly|unix.O_DIRECTORY, 0, resolve)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
})

func openat2(dir int, rel string, flag int, perm fs.FileMode, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flag), Resolve: resolve}
	if flag&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	for again := 0; ; {
		fd, err := unix.Openat2(dir, rel, &how)
		if err == unix.EAGAIN {
			again++
		}
		if err != unix.EINTR && err != unix.EAGAIN || again == maxAgain {
			return fd, err
		}
	}
}

func kernelPlace(name string) (*place, error) {
	fd, err := retried(func() (int, error) { return unix.Open(name, pathOnly|unix.O_DIRECTORY, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &place{dir: os.NewFile(uintptr(fd), "")}, nil
}

// beneath opens what rel leads to, in one step.
func (p *place) beneath(rel string, flag int, perm fs.FileMode) (f *os.File, err error) {
	err = p.use(func(dir int) error {
		fd, err := openat2(dir, rel, flag, perm, resolve)
		if err == nil {
			f = os.NewFile(uintptr(fd), "")
		}
		return outside(err)
	})
	return f, err
}

// outside tells the error for leading out from others.
func outside(err error) error {
	if err == unix.EXDEV {
		return errOutside
	}
	return err
}

// look is stat by openat2.
func (p *place) look(rel string, follow bool) (i *info, err error) {
	err = p.node(rel, follow, func(fd int) (err error) { i, err = statFD(fd); return err })
	return i, err
}

// touch is setTimes by openat2.
func (p *place) touch(rel string, t Times, follow bool, check func(*info) error) error {
	return p.node(rel, follow, func(fd int) error { return touchChecked(fd, t, time.Time{}, check) })
}

// touchFD sets the times of an open file.
func touchFD(fd int, t Times, _ time.Time) error {
	return unix.UtimesNanoAt(fd, "", t.specs(), unix.AT_EMPTY_PATH)
}

// touchLink sets the times of a link itself.
func touchLink(dir int, base string, t Times) error {
	return unix.UtimesNanoAt(dir, base, t.specs(), unix.AT_SYMLINK_NOFOLLOW)
}

// specs are t in the form of utimensat(2).
func (t Times) specs() []unix.Timespec {
	one := func(at time.Time, now bool) unix.Timespec {
		if now {
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		}
		s, err := unix.TimeToTimespec(at)
		if at.IsZero() || err != nil {
			return unix.Timespec{Nsec: unix.UTIME_OMIT}
		}
		return s
	}
	return []unix.Timespec{one(t.Access, t.AccessNow), one(t.Modify, t.ModifyNow)}
}

func dataSync(f *os.File) error { return control(f, unix.Fdatasync) }

func timesOf(s *syscall.Stat_t, _ time.Time) (access, change time.Time) {
	return time.Unix(s.Atim.Unix()), time.Unix(s.Ctim.Unix())
}

// node finds what rel leads to without opening it.
func (p *place) node(rel string, follow bool, do func(fd int) error) error {
	flag := pathOnly
	if !follow {
		flag |= unix.O_NOFOLLOW
	}
	return p.use(func(dir int) error {
		fd, err := openat2(dir, rel, flag, 0, resolve)
		if err != nil {
			return outside(err)
		}
		defer unix.Close(fd)
		return do(fd)
	})
}

// granted opens the directory of a granted path, in which no component may be a link
// (errLink). It may be on a mount of its own.
func (p *place) granted(rel string) (*place, error) {
	if p.root != nil {
		return p.steps(rel)
	}
	var f *os.File
	err := p.use(func(dir int) error {
		fd, err := openat2(dir, rel, pathOnly|unix.O_DIRECTORY, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
		if err == unix.ELOOP {
			return errLink
		}
		if err == nil {
			f = os.NewFile(uintptr(fd), "")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &place{dir: f}, nil
}
