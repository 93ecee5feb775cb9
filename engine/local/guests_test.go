package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/sandbox/guests"
)

// What was compiled lies in the data directory, under a key that does not lie with
// it, and a second start compiles nothing.
func TestCompiledModulesAreKept(t *testing.T) {
	dir := write(t)
	c := config(dir)
	c.Guests = local.Guests{}
	for range 2 {
		e, err := local.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := e.Do(t.Context(), read("alice")); err != nil || !strings.Contains(string(res.Output), "Welcome") {
			t.Fatalf("Do = %v, %v", res, err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		c.Guests.Compiler = []string{filepath.Join(dir, "missing")}
	}
	for name, mode := range map[string]os.FileMode{"cache": 0o700, "keys/cache.key": 0o600} {
		if info, err := os.Stat(filepath.Join(c.Data, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", name, info, err, mode)
		}
	}
	if err := os.WriteFile(filepath.Join(c.Data, "keys/cache.key"), bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := local.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("Open = %v with another key and without a compiler", err)
		e.Close()
	}
	if err := os.Chmod(filepath.Join(c.Data, "keys/cache.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e, err := local.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("Open = %v with a key that others can read", err)
		e.Close()
	}
}

// An owner that follows its tools takes a changed module up, and a client that finds
// the same files still finds its owner.
func TestDevFollowsModules(t *testing.T) {
	dir := write(t)
	c := config(dir)
	c.Dev = true
	e, err := local.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	other, err := guests.Module("echo")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want string) {
		t.Helper()
		client, err := local.Join(t.Context(), config(dir)) // as callgate call has it
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		res, err := client.Do(t.Context(), read("alice"))
		if err != nil || !strings.Contains(string(res.Output), want) {
			t.Errorf("Do = %+v, %v, want %q", res, err, want)
		}
	}
	ask("Welcome")
	if err := os.WriteFile(filepath.Join(dir, "tools/read-file/read-file.wasm"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	ask(`{"path":"/docs/welcome.txt"}`)
}

// Without that, a client with other files is told that the owner differs, and the
// owner refuses.
func TestChangedModuleOfAnOwner(t *testing.T) {
	dir := write(t)
	e, err := local.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := os.WriteFile(filepath.Join(dir, "tools/read-file/read-file.wasm"), []byte("else"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = e.Do(t.Context(), read("alice"))
	if d, ok := errors.AsType[*engine.Denial](err); !ok || d.Code != call.CodeToolChanged {
		t.Errorf("Do = %v, want %s", err, call.CodeToolChanged)
	}
	c := config(dir)
	c.Production, c.Dev = true, true
	if e, err := local.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "production") {
		t.Errorf("Open = %v in production", err)
		e.Close()
	}
}
