package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// private makes dir if it is missing, and checks that it is ours alone.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if perm := info.Mode().Perm(); perm != 0o700 {
		return fmt.Errorf("%s has mode %#o, want 0700", dir, perm)
	}
	if !ours(info) {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}
