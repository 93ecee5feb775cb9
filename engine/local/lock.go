package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lock makes this process the one owner of the data directory. What is locked is
// the directory itself: a file in it could be removed, and locked a second time.
// The kernel gives the lock up when the process ends, however it ends.
func (e *Engine) lock(data string) error {
	if data == "" {
		return errors.New("local: Config.Data is empty")
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	f, err := os.Open(data)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = ownDir(data, info)
	}
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("%s: %w", data, ErrOwned)
	case err == nil:
		e.close = append(e.close, f.Close)
		return nil
	}
	f.Close()
	return err
}

// ownDir checks that nobody else can exchange the log's key, its segments or the
// socket: only its owner, who is us or root, can write the directory.
func ownDir(data string, info fs.FileInfo) error {
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: is not a directory that only its owner can write, chmod 700", data)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() && s.Uid != 0 {
		return fmt.Errorf("%s: belongs to user %d", data, s.Uid)
	}
	return nil
}
