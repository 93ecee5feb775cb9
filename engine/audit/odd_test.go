package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is not as Open made it is refused, and nothing is written.
func TestOddFiles(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	link := func(name string) func(string) {
		return func(dir string) {
			p := filepath.Join(dir, name)
			must(os.Rename(p, p+".real"))
			must(os.Symlink(p+".real", p))
		}
	}
	pipe := func(name string) func(string) {
		return func(dir string) {
			p := filepath.Join(dir, name)
			must(os.RemoveAll(p))
			must(syscall.Mkfifo(p, 0o600))
		}
	}
	tests := []struct {
		name   string
		edit   func(dir string)
		err    string
		verify bool // Verify refuses too
	}{
		{"log is a link", link("log"), "not a directory", true},
		{"keys is a link", link("keys"), "not a directory", false},
		{"segment is a link", link("log/00000000000000000000.jsonl"), "symbolic link", true},
		{"segment is a pipe", pipe("log/00000000000000000000.jsonl"), "not a regular file", true},
		{"segment is a directory", func(dir string) {
			p := segmentPath(dir, 0)
			must(os.Remove(p))
			must(os.Mkdir(p, 0o700))
		}, "", true},
		{"hashes is a link", link("log/hashes"), "symbolic link", true},
		{"hashes is a pipe", pipe("log/hashes"), "not a regular file", true},
		{"name nearly a segment's", func(dir string) { write(t, filepath.Join(dir, "log/0.jsonl"), nil) }, "not the name of a segment", true},
		{"name beyond int64", func(dir string) { write(t, filepath.Join(dir, "log", strings.Repeat("9", 20)+".jsonl"), nil) }, "not the name of a segment", true},
		{"key is a link", link("keys/log.key"), "symbolic link", false},
		{"key is empty", func(dir string) { write(t, keyPath(dir), nil) }, "not a signing key", false},
		{"key is another log's", func(dir string) { write(t, keyPath(dir), read(t, keyPath(build(t, Options{})))) }, "not the public half", false},
		{"key is huge", func(dir string) { write(t, keyPath(dir), make([]byte, 1<<20)) }, "larger than", false},
		{"key others can read", func(dir string) { must(os.Chmod(keyPath(dir), 0o640)) }, "want 0600", false},
		{"public key is missing", func(dir string) { must(os.Remove(pubPath(dir))) }, "no such file", true},
		{"public key is nonsense", func(dir string) { write(t, pubPath(dir), []byte("x")) }, "not a verifier key", true},
		{"public key is a link", link("keys/log.pub"), "symbolic link", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := build(t, Options{}, 2)
			tt.edit(dir)
			if l, err := Open(dir, Options{}); err == nil {
				l.Close()
				t.Errorf("Open = nil, want %q", tt.err)
			} else if !strings.Contains(err.Error(), tt.err) || errors.Is(err, ErrTampered) {
				t.Errorf("Open = %v, want %q", err, tt.err)
			}
			if _, err := Verify(dir, ""); (err != nil) != tt.verify || errors.Is(err, ErrTampered) {
				t.Errorf("Verify = %v, refuses: want %v", err, tt.verify)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Run("missing over records", func(t *testing.T) {
		dir := build(t, Options{}, 1)
		if err := os.Remove(keyPath(dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrNoKey) {
			t.Errorf("Open = %v, want ErrNoKey", err)
		}
		if _, err := os.Stat(keyPath(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a new key was made: %v", err)
		}
	})
	t.Run("both missing over a torn first write", func(t *testing.T) {
		dir := build(t, Options{}, 1)
		os.RemoveAll(filepath.Join(dir, keysDir))
		write(t, segmentPath(dir, 0), []byte("{"))
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrNoKey) {
			t.Errorf("Open = %v, want ErrNoKey", err)
		}
	})
	t.Run("crash before the keys were made", func(t *testing.T) {
		dir := build(t, Options{})
		if err := os.Remove(keyPath(dir)); err != nil {
			t.Fatal(err)
		}
		write(t, keyPath(dir)+".new", []byte("half a k"))
		l := open(t, dir, Options{})
		add(t, l, 1)
		if _, err := Verify(dir, ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("segment missing under a key", func(t *testing.T) {
		dir := build(t, Options{})
		if err := os.Remove(segmentPath(dir, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrTampered) {
			t.Errorf("Open = %v", err)
		}
	})
	t.Run("another origin", func(t *testing.T) {
		dir := build(t, Options{Origin: "example.com/a"})
		if _, err := Open(dir, Options{Origin: "example.com/b"}); err == nil || !strings.Contains(err.Error(), "is example.com/a, not example.com/b") {
			t.Errorf("Open = %v", err)
		}
	})
	t.Run("origin no key name", func(t *testing.T) {
		for _, origin := range []string{"a b", "a+b", "a\nb"} {
			if _, err := Open(t.TempDir(), Options{Origin: origin}); err == nil || !strings.Contains(err.Error(), "not a key name") {
				t.Errorf("Open(%q) = %v", origin, err)
			}
		}
	})
	t.Run("two new logs differ", func(t *testing.T) {
		a, b := ownKey(build(t, Options{})), ownKey(build(t, Options{}))
		if a.Name() == b.Name() || !strings.HasPrefix(a.Name(), "callgate.local/") {
			t.Errorf("origins %s and %s", a.Name(), b.Name())
		}
	})
}

func TestVerifyNothing(t *testing.T) {
	if _, err := Verify(t.TempDir(), ""); err == nil || errors.Is(err, ErrTampered) {
		t.Errorf("Verify of an empty directory = %v", err)
	}
	if rep, err := Verify(build(t, Options{}), ""); err != nil || rep.Records != 0 {
		t.Errorf("Verify of an empty log = %+v, %v", rep, err)
	}
}
