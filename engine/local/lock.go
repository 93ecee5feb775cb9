package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock makes this process the one owner of the data directory. The kernel gives
// the lock up when the process ends, however it ends.
func (e *Engine) lock(data string) error {
	if data == "" {
		return errors.New("local: Config.Data is empty")
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	// Who can write here can exchange the log's key or its segments.
	if info, err := os.Stat(data); err != nil {
		return err
	} else if !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: is not a directory that only its owner can write, chmod 700", data)
	}
	f, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("%s: %w", data, ErrOwned)
		}
		return fmt.Errorf("%s: %w", data, err)
	}
	e.close = append(e.close, f.Close)
	return nil
}
