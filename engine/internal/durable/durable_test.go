package durable_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/internal/durable"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, body := range []string{"one", "two", ""} {
		if err := durable.Write(path, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != body {
			t.Errorf("%q, %v", b, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// What cannot be written leaves what was there, and nothing beside it.
	if err := os.MkdirAll(filepath.Join(dir, "taken", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if durable.Write(filepath.Join(dir, "taken"), nil) == nil || durable.Write(filepath.Join(dir, "none", "x"), nil) == nil {
		t.Error("writes what it cannot")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	for name, want := range map[string]bool{".new-123": true, "x": false, "new-1": false} {
		if durable.IsTemporary(name) != want {
			t.Error(name)
		}
	}
}

// Each call opens the directory anew, as another process would.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "n"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const writers = 32
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			if err := durable.Locked(dir, func() error {
				b, err := os.ReadFile(filepath.Join(dir, "n"))
				if err != nil {
					return err
				}
				return durable.Write(filepath.Join(dir, "n"), append(b, 'x'))
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, err := os.ReadFile(filepath.Join(dir, "n")); err != nil || len(b) != writers {
		t.Errorf("%d of %d, %v", len(b), writers, err)
	}
}
