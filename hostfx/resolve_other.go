//go:build unix && !linux

package hostfx

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const pathOnly = unix.O_RDONLY | unix.O_CLOEXEC

// There is no openat2 here, so no place is without a root.
func kernelResolves() bool { return false }

func kernelPlace(string) (*place, error) { return nil, unix.ENOSYS }

func (p *place) beneath(string, int, fs.FileMode) (*os.File, error) { return nil, unix.ENOSYS }

func (p *place) look(string, bool) (*info, error) { return nil, unix.ENOSYS }

func (p *place) touch(string, Times, bool, func(*info) error) error { return unix.ENOSYS }

func (p *place) granted(rel string) (*place, error) { return p.steps(rel) }

// at puts a time in the place of now.
func (t Times) at(now time.Time) Times {
	if t.AccessNow {
		t.Access = now
	}
	if t.ModifyNow {
		t.Modify = now
	}
	return Times{Access: t.Access, Modify: t.Modify}
}

// touchFD sets the times of an open file.
func touchFD(fd int, t Times, now time.Time) error {
	was, err := statFD(fd)
	if err != nil {
		return err
	}
	t = t.at(now)
	if t.Access.IsZero() {
		t.Access = was.stat.Access
	}
	if t.Modify.IsZero() {
		t.Modify = was.modify
	}
	return unix.Futimes(fd, []unix.Timeval{
		unix.NsecToTimeval(t.Access.UnixNano()), unix.NsecToTimeval(t.Modify.UnixNano()),
	})
}

// touchLink sets the times of a link itself, which is not portable.
func touchLink(int, string, Times) error { return unix.ENOTSUP }

// timesOf gives what is known everywhere: the fields of syscall.Stat_t have other names
// on each system.
func timesOf(_ *syscall.Stat_t, modify time.Time) (access, change time.Time) { return modify, modify }

func dataSync(f *os.File) error { return f.Sync() }
