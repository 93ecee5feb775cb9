package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/guests"
)

// A program that would start itself once more instead of compiling is told so
// before that happens.
func TestMainIsMissed(t *testing.T) {
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	if s, err := New(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "sandbox.Main") {
		t.Errorf("New() = %v without Main", err)
		s.Close(t.Context())
	}
	s, err := New(t.Context(), Options{Compiler: []string{"callgate"}})
	if err != nil {
		t.Fatalf("New() = %v with another program", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := New(t.Context(), Options{Compiler: []string{"callgate"}, CompileCPU: -1}); err == nil {
		t.Error("New() takes a negative time")
	}
}

// A process that neither compiles nor uses its time is not waited for, and no
// more than a few run at a time.
func TestCompilerWaits(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newCompiler([]string{self, "hang", file}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.wall = func(time.Duration) time.Duration { return 100 * time.Millisecond }
	if _, err := c.run(t.Context(), t.TempDir(), []byte(probe)); err == nil || !strings.Contains(err.Error(), "longer than 100ms") {
		t.Errorf("run() = %v of one that hangs", err)
	}
	for range maxChildren {
		c.slots <- struct{}{}
	}
	c.command = []string{filepath.Join(t.TempDir(), "never started")}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.run(ctx, t.TempDir(), []byte(probe)); !errors.Is(err, context.Canceled) {
		t.Errorf("run() = %v while enough run", err)
	}
}

func TestCompileAllowance(t *testing.T) {
	for _, tt := range []struct {
		stated time.Duration
		size   int
		want   time.Duration
	}{
		{0, 100, 5 * slowdown * time.Second},
		{0, 10<<20 + 1, 15 * slowdown * time.Second},
		{time.Second, 10 << 20, time.Second},
		{1, 0, time.Second},
		{1500 * time.Millisecond, 0, 2 * time.Second},
	} {
		c := &compiler{cpu: tt.stated}
		if got := c.allowance(make([]byte, tt.size)); got != tt.want {
			t.Errorf("%v, %d bytes: %v, want %v", tt.stated, tt.size, got, tt.want)
		}
	}
}

// New looks whether wazero keeps modules as we know it. Otherwise it would
// compile in this process where it finds nothing.
func TestOtherStore(t *testing.T) {
	s, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	elsewhere := *s.store
	elsewhere.inside = t.TempDir()
	if err := elsewhere.check(t.Context(), s.runtime); !errors.Is(err, errOtherStore) {
		t.Errorf("check() = %v where wazero looks elsewhere", err)
	}
	other := *s.store
	other.version = "v0.0.0"
	again, cache, err := openStore("")
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	defer cache.Close(context.Background())
	artefact, err := compileHere(t.Context(), []byte(probe))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.verify(artefact, []byte(probe)); err != nil {
		t.Errorf("verify() = %v", err)
	}
	if err := other.verify(artefact, []byte(probe)); !errors.Is(err, errNotArtefact) {
		t.Errorf("verify() = %v of another version's", err)
	}
}

// After Close nothing of a sandbox lies about.
func TestStoreIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := guests.Module("echo")
	if err == nil {
		err = s.Install(t.Context(), call.Digest(b), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(s.store.inside, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("after a module was loaded there are %v, %v", left, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("after Close there are %v, %v", left, err)
	}
}
