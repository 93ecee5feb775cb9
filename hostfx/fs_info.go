package hostfx

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stat is what Sys gives of every [fs.FileInfo] of this package. Nothing in it names
// the host's own path.
type Stat struct {
	Dev, Ino uint64
	Links    uint64
	Access   time.Time
	Change   time.Time // of the file or of what is known of it
}

// Times are the times to set on a file. The zero value sets none.
type Times struct {
	Access, Modify       time.Time // zero: as it is
	AccessNow, ModifyNow bool      // the time at which it is set instead
}

// info describes a file.
type info struct {
	name   string
	size   int64
	mode   fs.FileMode
	modify time.Time
	stat   Stat
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.size }
func (i *info) Mode() fs.FileMode  { return i.mode }
func (i *info) ModTime() time.Time { return i.modify }
func (i *info) IsDir() bool        { return i.mode.IsDir() }
func (i *info) Sys() any           { s := i.stat; return &s }

// id tells files apart.
func (i *info) id() fileID { return fileID{i.stat.Dev, i.stat.Ino} }

type fileID struct{ dev, ino uint64 }

// ofOS is what os found.
func ofOS(i fs.FileInfo) *info {
	out := &info{size: i.Size(), mode: i.Mode(), modify: i.ModTime()}
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		out.stat = Stat{Dev: uint64(s.Dev), Ino: uint64(s.Ino), Links: uint64(s.Nlink)}
		out.stat.Access, out.stat.Change = timesOf(s, i.ModTime())
	}
	return out
}

// ofStat is what the system found.
func ofStat(s *unix.Stat_t) *info {
	return &info{
		size: s.Size, mode: modeOf(uint32(s.Mode)), modify: time.Unix(s.Mtim.Unix()),
		stat: Stat{
			Dev: uint64(s.Dev), Ino: uint64(s.Ino), Links: uint64(s.Nlink),
			Access: time.Unix(s.Atim.Unix()), Change: time.Unix(s.Ctim.Unix()),
		},
	}
}

func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFREG:
	default:
		mode |= fs.ModeIrregular
	}
	return mode
}

func statFD(fd int) (*info, error) {
	var s unix.Stat_t
	if _, err := retried(func() (int, error) { return 0, unix.Fstat(fd, &s) }); err != nil {
		return nil, err
	}
	return ofStat(&s), nil
}

// statAt does not follow a link.
func statAt(fd int, base string) (*info, error) {
	var s unix.Stat_t
	if _, err := retried(func() (int, error) { return 0, unix.Fstatat(fd, base, &s, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return nil, err
	}
	return ofStat(&s), nil
}

func statFile(f *os.File) (i *info, err error) {
	err = control(f, func(fd int) (err error) { i, err = statFD(fd); return err })
	return i, err
}
