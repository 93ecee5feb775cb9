package hostfx

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The head of a struct linux_dirent64: ino, off, reclen, type. See getdents64(2).
const direntHead = 8 + 8 + 2 + 1

var direntTypes = map[byte]fs.FileMode{
	unix.DT_REG:  0,
	unix.DT_DIR:  fs.ModeDir,
	unix.DT_LNK:  fs.ModeSymlink,
	unix.DT_FIFO: fs.ModeNamedPipe,
	unix.DT_SOCK: fs.ModeSocket,
	unix.DT_CHR:  fs.ModeDevice | fs.ModeCharDevice,
	unix.DT_BLK:  fs.ModeDevice,
}

// nextPart reads the next entries, some hundreds, or io.EOF. Package os would look at
// some of them by the directory's name.
func nextPart(dir *os.File) (part []Entry, err error) {
	err = control(dir, func(fd int) error {
		buf := make([]byte, 32<<10)
		for len(part) == 0 {
			n, err := retried(func() (int, error) { return unix.Getdents(fd, buf) })
			if err != nil {
				return err
			}
			if n == 0 {
				return io.EOF
			}
			part = entriesIn(fd, buf[:n])
		}
		return nil
	})
	return part, err
}

func entriesIn(fd int, buf []byte) (out []Entry) {
	for len(buf) > direntHead {
		size := int(binary.NativeEndian.Uint16(buf[16:]))
		if size <= direntHead || size > len(buf) {
			return out
		}
		name, _, _ := bytes.Cut(buf[direntHead:size], []byte{0})
		e := Entry{name: string(name), ino: binary.NativeEndian.Uint64(buf)}
		mode, known := direntTypes[buf[18]]
		buf = buf[size:]
		if e.name == "." || e.name == ".." || e.name == "" {
			continue
		}
		if !known { // not every file system says
			i, err := statAt(fd, e.name)
			if err != nil {
				continue // it is gone
			}
			mode = i.Mode().Type()
		}
		e.mode = mode
		out = append(out, e)
	}
	return out
}
