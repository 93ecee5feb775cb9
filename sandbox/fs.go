package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/callgate/callgate/hostfx"
)

// firstPreopen is the descriptor of the first granted directory.
const firstPreopen = 3

// dirFS gives one granted directory to wazero. It decides nothing: what is
// allowed is hostfx's business, and wazero's own mounts are never used (its
// read-only one lets a guest truncate files). wazero compares file systems, so
// it is used as a pointer.
type dirFS struct {
	esys.UnimplementedFS
	run    *run
	dir    *hostfx.Dir
	opened bool // wazero has opened the directory itself, which it does first
}

// within strips what wazero's joining of names leaves in front.
func within(p string) string { return strings.TrimLeft(p, "/") }

const writing = esys.O_RDWR | esys.O_WRONLY | esys.O_CREAT | esys.O_TRUNC | esys.O_APPEND

func (d *dirFS) OpenFile(p string, flag esys.Oflag, _ fs.FileMode) (esys.File, esys.Errno) {
	// Any of these writes, whatever the others say: Linux truncates a file that
	// is opened with O_RDONLY|O_TRUNC.
	if flag&writing != 0 {
		return nil, d.refuse("fs.write", p)
	}
	if p == "." && !d.opened {
		d.opened = true
		return &folder{f: d.dir.Folder()}, 0
	}
	h, err := d.dir.Open(within(p), hostfx.OpenOptions{
		Directory: flag&esys.O_DIRECTORY != 0,
		NoFollow:  flag&esys.O_NOFOLLOW != 0,
	})
	d.run.full = errors.Is(err, hostfx.ErrTooManyOpen)
	if err != nil {
		return nil, errno(err)
	}
	if f, ok := h.(*hostfx.Folder); ok {
		return &folder{f: f}, 0
	}
	return &file{f: h.(*hostfx.File)}, 0
}

func (d *dirFS) Stat(p string) (sys.Stat_t, esys.Errno)  { return stat(d.dir.Stat(within(p))) }
func (d *dirFS) Lstat(p string) (sys.Stat_t, esys.Errno) { return stat(d.dir.Lstat(within(p))) }

func stat(info fs.FileInfo, err error) (sys.Stat_t, esys.Errno) {
	if err != nil {
		return sys.Stat_t{}, errno(err)
	}
	return sys.NewStat_t(info), 0
}

// refuse records an attempt that this version of hostfx has no handle for.
func (d *dirFS) refuse(kind, p string) esys.Errno {
	err := d.dir.Refuse(kind, within(p))
	if errors.Is(err, hostfx.ErrNotGranted) {
		return esys.EROFS
	}
	return errno(err)
}

func (d *dirFS) Mkdir(p string, _ fs.FileMode) esys.Errno { return d.refuse("fs.write", p) }
func (d *dirFS) Chmod(p string, _ fs.FileMode) esys.Errno { return d.refuse("fs.write", p) }
func (d *dirFS) Utimens(p string, _, _ int64) esys.Errno  { return d.refuse("fs.write", p) }
func (d *dirFS) Rename(_, to string) esys.Errno           { return d.refuse("fs.write", to) }
func (d *dirFS) Link(_, to string) esys.Errno             { return d.refuse("fs.write", to) }
func (d *dirFS) Symlink(_, to string) esys.Errno          { return d.refuse("fs.write", to) }
func (d *dirFS) Rmdir(p string) esys.Errno                { return d.refuse("fs.remove", p) }
func (d *dirFS) Unlink(p string) esys.Errno               { return d.refuse("fs.remove", p) }

// Readlink is not given: the text of a link can name what lies outside.
func (d *dirFS) Readlink(string) (string, esys.Errno) { return "", esys.EACCES }

// errno is what a guest gets to know of an error.
func errno(err error) esys.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, hostfx.ErrNotGranted):
		return esys.EACCES
	case errors.Is(err, hostfx.ErrClosed):
		return esys.EBADF
	case errors.Is(err, hostfx.ErrTooManyOpen):
		return esys.EIO
	case errors.Is(err, fs.ErrInvalid):
		return esys.EINVAL
	}
	if e := esys.UnwrapOSError(err); e != 0 {
		return e
	}
	return esys.EIO
}

// offset is an int64. vet holds a method Seek(int64, int) to io.Seeker's
// results, which wazero's are not.
type offset = int64

// file is an open regular file. What it does not implement fails: there is no
// way to write through it.
type file struct {
	esys.UnimplementedFile
	f *hostfx.File
}

func (f *file) Dev() (uint64, esys.Errno) { st, e := f.Stat(); return st.Dev, e }

func (f *file) Ino() (sys.Inode, esys.Errno) { st, e := f.Stat(); return st.Ino, e }

func (f *file) IsDir() (bool, esys.Errno) { return false, 0 }

func (f *file) Stat() (sys.Stat_t, esys.Errno) { return stat(f.f.Stat()) }

func (f *file) Read(b []byte) (int, esys.Errno) { return moved(f.f.Read(b)) }

func (f *file) Pread(b []byte, off int64) (int, esys.Errno) {
	if off < 0 {
		return 0, esys.EINVAL
	}
	return moved(f.f.ReadAt(b[:min(len(b), 1<<20)], off))
}

func (f *file) Seek(off offset, whence int) (int64, esys.Errno) {
	if whence < io.SeekStart || whence > io.SeekEnd {
		return 0, esys.EINVAL
	}
	at, err := f.f.Seek(off, whence)
	return at, errno(err)
}

func (f *file) Write([]byte) (int, esys.Errno)         { return 0, esys.EBADF }
func (f *file) Pwrite([]byte, int64) (int, esys.Errno) { return 0, esys.EBADF }
func (f *file) Truncate(int64) esys.Errno              { return esys.EINVAL }
func (f *file) Close() esys.Errno                      { return errno(f.f.Close()) }

// moved turns the end of a file into a short read, as WASI has it.
func moved(n int, err error) (int, esys.Errno) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, errno(err)
}

// folder is an open directory.
type folder struct {
	esys.UnimplementedFile
	f *hostfx.Folder
}

func (f *folder) Dev() (uint64, esys.Errno) { st, e := f.Stat(); return st.Dev, e }

// Ino is that of the entry "." in listings; none is a valid answer, and needs
// no right to look.
func (f *folder) Ino() (sys.Inode, esys.Errno) { return 0, 0 }

func (f *folder) IsDir() (bool, esys.Errno) { return true, 0 }

func (f *folder) Stat() (sys.Stat_t, esys.Errno) { return stat(f.f.Stat()) }

func (f *folder) Seek(off offset, whence int) (int64, esys.Errno) {
	if off != 0 || whence != io.SeekStart {
		return 0, esys.EISDIR
	}
	return 0, errno(f.f.Rewind())
}

func (f *folder) Readdir(n int) ([]esys.Dirent, esys.Errno) {
	if n <= 0 {
		return nil, esys.EINVAL
	}
	entries, err := f.f.Next(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errno(err)
	}
	out := make([]esys.Dirent, 0, len(entries))
	for _, e := range entries {
		out = append(out, esys.Dirent{Name: e.Name(), Type: e.Type()})
	}
	return out, 0
}

func (f *folder) Read([]byte) (int, esys.Errno)          { return 0, esys.EISDIR }
func (f *folder) Pread([]byte, int64) (int, esys.Errno)  { return 0, esys.EISDIR }
func (f *folder) Write([]byte) (int, esys.Errno)         { return 0, esys.EISDIR }
func (f *folder) Pwrite([]byte, int64) (int, esys.Errno) { return 0, esys.EISDIR }
func (f *folder) Truncate(int64) esys.Errno              { return esys.EISDIR }
func (f *folder) SetAppend(bool) esys.Errno              { return esys.EISDIR }
func (f *folder) Close() esys.Errno                      { return errno(f.f.Close()) }
