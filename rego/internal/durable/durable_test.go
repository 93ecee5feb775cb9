package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/callgate/callgate/rego/internal/durable"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "x.json")
	for _, body := range []string{"one", "two", ""} {
		if err := durable.Write(path, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != body {
			t.Errorf("%q, %v", b, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// What cannot be written leaves the old file, and nothing beside it.
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "taken", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(filepath.Join(dir, "taken"), []byte("x")); err == nil {
		t.Error("writes over a directory")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	for name, want := range map[string]bool{".tmp-123": true, "x.json": false, "tmp-1": false} {
		if durable.IsTemporary(name) != want {
			t.Errorf("%s", name)
		}
	}
}
