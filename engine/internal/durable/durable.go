// Package durable replaces files so that a crash leaves the old one or the new one, and
// keeps processes that share a directory out of each other's way.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// temporary is how the names of files begin that are not whole yet.
const temporary = ".new-"

// IsTemporary reports whether a file of that name was left by a crash.
func IsTemporary(name string) bool { return strings.HasPrefix(name, temporary) }

// Write writes a file whole or not at all, mode 0600, and its directory entry with it.
func Write(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), temporary+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(filepath.Dir(name))
}

// SyncDir makes what became of the names in a directory last.
func SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock waits until no other process has f locked. Closing f unlocks it.
func Lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Locked does f while no other process does the same in that directory.
func Locked(dir string, f func() error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // unlocks
	if err := Lock(d); err != nil {
		return fmt.Errorf("locking %s: %w", dir, err)
	}
	return f()
}
