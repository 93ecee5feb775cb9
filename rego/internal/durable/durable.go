// Package durable replaces files so that a crash leaves the old one or the new one.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// temporary is how the names of files begin that are not yet complete.
const temporary = ".tmp-"

// IsTemporary reports whether a file of this name was left by a crash.
func IsTemporary(name string) bool { return strings.HasPrefix(name, temporary) }

// Write puts b at path, mode 0600, and returns once it is on disk. It makes the
// directory if that is not there.
func Write(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename last. The directory itself may be new, so its own entry
// is synced too.
func syncDir(dir string) error {
	for _, d := range []string{dir, filepath.Dir(dir)} {
		f, err := os.Open(d)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
