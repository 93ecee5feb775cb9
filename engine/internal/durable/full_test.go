package durable_test

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/internal/durable"
)

// A file that the disk has no room for leaves the old one, whole, and nothing beside it.
func TestDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	old := []byte("old")
	if err := durable.Write(name, old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	small := was
	small.Cur = 4096
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := durable.Write(name, bytes.Repeat([]byte("new"), 1<<14))
	if e := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); e != nil {
		t.Fatal(e)
	}
	if err == nil {
		t.Error("written to a full disk")
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, old) {
		t.Errorf("%d bytes are left, %v", len(b), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("beside it: %v, %v", entries, err)
	}
	if err := durable.Write(name, []byte("new")); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}
