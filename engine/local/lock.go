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
	f, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
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
