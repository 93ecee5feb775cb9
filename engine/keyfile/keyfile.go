// Package keyfile reads the small files on whose owner and mode something depends: those
// that hold what nobody else may know, and those by which others are believed.
package keyfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// What the mode of a file must let nobody but its owner do.
const (
	anything fs.FileMode = 0o077
	writing  fs.FileMode = 0o022
)

// Read reads a file that holds a secret, of at most so many bytes. Links on the way to
// it are the business of whoever named it; what they lead to is looked at once it is
// open.
//
// # Errors
//
// A file that is no regular one, is larger, belongs to somebody who is neither the user
// of this process nor root, or of which the group or others may do anything. No error
// quotes what it holds.
func Read(name string, most int64) ([]byte, error) {
	return read(name, most, anything, 0, os.Geteuid())
}

// ReadKey is [Read] for a file that a program made itself and that is no link.
func ReadKey(name string, most int64) ([]byte, error) {
	return read(name, most, anything, unix.O_NOFOLLOW, os.Geteuid())
}

// ReadTrusted is [Read] for what anybody may know and only the owner may write, such as
// the certificates of authorities: whoever can write it can have anybody believed.
func ReadTrusted(name string, most int64) ([]byte, error) {
	return read(name, most, writing, 0, os.Geteuid())
}

func read(name string, most int64, others fs.FileMode, flags, self int) ([]byte, error) {
	// Without O_NONBLOCK opening a pipe would wait for a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what is read, whatever the name leads to by now
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", name)
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%s: is larger than %d bytes", name, most)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != 0 && int64(s.Uid) != int64(self) {
		return nil, fmt.Errorf("%s: belongs to another user, and not to root", name)
	}
	switch mode := info.Mode().Perm(); {
	case mode&others == 0:
	case others == writing:
		return nil, fmt.Errorf("%s: mode is %#o, so others may have written it; want 0644", name, mode)
	default:
		return nil, fmt.Errorf("%s: mode is %#o, so others may have read it; want 0600", name, mode)
	}
	b := make([]byte, info.Size()+1) // no copies of what it holds, as buffers that grow leave
	n, err := io.ReadFull(f, b)
	if int64(n) != info.Size() || err != io.EOF && err != io.ErrUnexpectedEOF {
		clear(b)
		return nil, fmt.Errorf("%s: changed while it was read", name)
	}
	return b[:n], nil
}
