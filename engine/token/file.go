package token

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What the mode of a file must not let anybody but its owner do.
const (
	othersDo    fs.FileMode = 0o077
	othersWrite fs.FileMode = 0o022
)

// readPrivate reads a small file in a directory that only its owner writes, if nobody
// else can read it: whoever can write a directory can put an old file back.
func readPrivate(dir, name string) ([]byte, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&othersWrite != 0 {
		return nil, fmt.Errorf("%s: mode is %#o, so others can exchange the keys; want 0700", dir, info.Mode().Perm())
	}
	return readSmall(filepath.Join(dir, name), unix.O_NOFOLLOW, othersDo)
}

// readSmall reads a small file whose mode has none of these bits.
func readSmall(name string, flags int, others fs.FileMode) ([]byte, error) {
	// Without O_NONBLOCK opening a pipe would wait for a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what is read, whatever the name leads to by now
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSetBytes {
		return nil, fmt.Errorf("%s: is not a file of at most %d bytes", name, maxSetBytes)
	}
	switch mode := info.Mode().Perm(); {
	case mode&others == 0:
	case others == othersWrite:
		return nil, fmt.Errorf("%s: mode is %#o, so others may have written it; want 0644", name, mode)
	default:
		return nil, fmt.Errorf("%s: mode is %#o, so others may have read it; want 0600", name, mode)
	}
	return io.ReadAll(io.LimitReader(f, maxSetBytes))
}
