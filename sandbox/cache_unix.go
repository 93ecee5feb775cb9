//go:build unix

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == int64(os.Geteuid())
}

// openEntry neither follows a link nor waits for the other end of a pipe.
func openEntry(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// ready sees to it that the store is there and nobody else's. Systems remove what
// nobody used for days from where temporary files are, and then anybody could have
// the name.
func (s *store) ready() error { return errors.Join(private(s.dir), private(s.inside)) }
