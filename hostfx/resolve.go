package hostfx

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errOutside says that a name leads out of the directory that it is looked up in.
var errOutside = errors.New("leads out of the directory")

// place is an open directory. A name is looked up beneath it or not at all, whatever
// links, dots and races there are. Links are followed as long as they stay beneath.
//
// With root it is os.Root that sees to this, component by component, and without it
// openat2, in one step and not across mounts.
type place struct {
	dir  *os.File
	root *os.Root
}

// looking are the flags of every open, so that a FIFO or a device that was put in the
// place of a file can neither make us wait nor become our terminal.
const looking = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// openPlace opens a directory of the operator's by its absolute path.
func openPlace(name string, kernel bool) (*place, error) {
	if kernel {
		return kernelPlace(name)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return rooted(root)
}

// rooted takes root over.
func rooted(root *os.Root) (*place, error) {
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &place{dir: dir, root: root}, nil
}

func (p *place) close() error {
	if p.root == nil {
		return p.dir.Close()
	}
	return errors.Join(p.dir.Close(), p.root.Close())
}

// open opens what rel leads to. With O_NOFOLLOW a link in the last component is ELOOP.
func (p *place) open(rel string, flag int, perm fs.FileMode) (*os.File, error) {
	if p.root == nil {
		return p.beneath(rel, flag|looking, perm)
	}
	if flag&unix.O_NOFOLLOW != 0 && !strings.HasSuffix(rel, "/") && path.Base(rel) != "." && path.Base(rel) != ".." {
		// os.Root follows a link whatever the flags say.
		var f *os.File
		err := p.at(rel, unix.ELOOP, func(fd int, base string) error {
			n, err := retried(func() (int, error) { return unix.Openat(fd, base, flag|looking, uint32(perm)) })
			if err == nil {
				f = os.NewFile(uintptr(n), "")
			}
			return err
		})
		return f, err
	}
	f, err := p.root.OpenFile(rel, flag&^unix.O_NOFOLLOW|looking, perm)
	return f, p.reason(err)
}

// sub opens the directory that rel leads to.
func (p *place) sub(rel string) (*place, error) {
	if p.root == nil {
		f, err := p.beneath(rel, pathOnly|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		return &place{dir: f}, nil
	}
	// The dot makes an inner component of the last one, which is opened as a directory
	// or not at all: a FIFO in its place cannot make us wait.
	root, err := p.root.OpenRoot(rel + "/.")
	if err != nil {
		return nil, p.reason(err)
	}
	return rooted(root)
}

// stat describes what rel leads to, or with !follow a link in the last component.
func (p *place) stat(rel string, follow bool) (*info, error) {
	if p.root == nil {
		return p.look(rel, follow)
	}
	how := p.root.Lstat
	if follow {
		how = p.root.Stat
	}
	i, err := how(rel)
	if err != nil {
		return nil, p.reason(err)
	}
	return ofOS(i), nil
}

// peek is stat in fewer steps, for what is opened afterwards: a single component that
// is no link cannot lead out.
func (p *place) peek(rel string, follow bool) (i *info, err error) {
	if strings.Contains(rel, "/") || rel == "." || rel == ".." {
		return p.stat(rel, follow)
	}
	err = p.use(func(fd int) (err error) { i, err = statAt(fd, rel); return err })
	if err == nil && follow && i.Mode()&fs.ModeSymlink != 0 {
		return p.stat(rel, follow)
	}
	return i, err
}

// at gives do the directory that holds rel, and rel's last component, which do must
// not follow. It fails with dots when that is "." or "..".
func (p *place) at(rel string, dots unix.Errno, do func(fd int, base string) error) error {
	trimmed := strings.TrimRight(rel, "/")
	dir, base := path.Split(trimmed)
	switch base {
	case "":
		return errOutside
	case ".", "..":
		if _, err := p.stat(rel, true); err != nil {
			return err
		}
		return dots
	}
	base += rel[len(trimmed):]
	if dir == "" {
		return p.use(func(fd int) error { return do(fd, base) })
	}
	f, err := p.holder(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return control(f, func(fd int) error { return do(fd, base) })
}

// holder opens a directory in which one name is meant.
func (p *place) holder(rel string) (*os.File, error) {
	if p.root == nil {
		return p.beneath(rel, pathOnly|unix.O_DIRECTORY, 0)
	}
	return p.open(rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// use keeps the directory open while do runs.
func (p *place) use(do func(fd int) error) error { return control(p.dir, do) }

func control(f *os.File, do func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return fs.ErrClosed
	}
	return failed
}

// reason is the error without os.Root's own, whose path is cut at the root.
func (p *place) reason(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	// The error for leading out is not exported, but ".." always gives it.
	_, out := p.root.Lstat("..")
	if o, ok := errors.AsType[*fs.PathError](out); ok && errors.Is(e.Err, o.Err) {
		return errOutside
	}
	return e.Err
}

func (p *place) mkdir(rel string) error {
	return p.at(rel, unix.EEXIST, func(fd int, base string) error { return unix.Mkdirat(fd, base, 0o777) })
}

func (p *place) unlink(rel string) error {
	return p.at(rel, unix.EISDIR, func(fd int, base string) error { return unix.Unlinkat(fd, base, 0) })
}

func (p *place) rmdir(rel string) error {
	return p.at(rel, unix.EINVAL, func(fd int, base string) error { return unix.Unlinkat(fd, base, unix.AT_REMOVEDIR) })
}

func (p *place) rename(rel string, to *place, toRel string) error {
	return p.at(rel, unix.EBUSY, func(fd int, base string) error {
		return to.at(toRel, unix.EBUSY, func(toFD int, toBase string) error { return unix.Renameat(fd, base, toFD, toBase) })
	})
}

// link makes a second name of a file or link. With a slash at its end the first would
// be followed.
func (p *place) link(rel string, to *place, toRel string) error {
	if strings.HasSuffix(rel, "/") {
		return unix.ENOTDIR
	}
	return p.at(rel, unix.EPERM, func(fd int, base string) error {
		return to.at(toRel, unix.EEXIST, func(toFD int, toBase string) error { return unix.Linkat(fd, base, toFD, toBase, 0) })
	})
}

func (p *place) symlink(target, rel string) error {
	return p.at(rel, unix.EEXIST, func(fd int, base string) error { return unix.Symlinkat(target, fd, base) })
}

// readlink is the text of a link.
func (p *place) readlink(rel string) (text string, err error) {
	err = p.at(strings.TrimRight(rel, "/"), unix.EINVAL, func(fd int, base string) error {
		b := make([]byte, maxPath+1)
		n, err := unix.Readlinkat(fd, base, b)
		if err == nil && n == len(b) {
			err = unix.ENAMETOOLONG
		}
		text = string(b[:max(n, 0)])
		return err
	})
	return text, err
}

// setTimes sets the times of what rel leads to, or with !follow of a link itself, if
// check has nothing against it. Root.Chtimes is no way to do that: when a name becomes
// a link meanwhile, it follows it.
func (p *place) setTimes(rel string, t Times, follow bool, now time.Time, check func(*info) error) error {
	if p.root == nil {
		return p.touch(rel, t, follow, check)
	}
	i, err := p.stat(rel, follow)
	if err == nil {
		err = check(i)
	}
	if err != nil {
		return err
	}
	if i.Mode()&fs.ModeSymlink != 0 {
		// With a slash at its end it would be followed.
		return p.at(strings.TrimRight(rel, "/"), unix.EINVAL, func(fd int, base string) error { return touchLink(fd, base, t) })
	}
	flag := unix.O_RDONLY
	if !follow {
		flag |= unix.O_NOFOLLOW
	}
	f, err := p.open(rel, flag, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return control(f, func(fd int) error { return touchChecked(fd, t, now, check) })
}

// touchChecked looks at an open file before it sets its times.
func touchChecked(fd int, t Times, now time.Time, check func(*info) error) error {
	i, err := statFD(fd)
	if err == nil {
		err = check(i)
	}
	if err != nil {
		return err
	}
	return touchFD(fd, t, now)
}

// retried asks again when a signal came first.
func retried(do func() (int, error)) (int, error) {
	for {
		n, err := do()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
