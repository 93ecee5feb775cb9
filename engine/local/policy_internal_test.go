package local

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

const denies = "package callgate\n\ndecision := false\n"

func liveOf(t *testing.T) (*live, string, *strings.Builder) {
	t.Helper()
	dir, log := t.TempDir(), &strings.Builder{}
	name := filepath.Join(dir, "p.rego")
	overwrite(t, name, denies)
	l, err := openLive(t.Context(), Config{Data: t.TempDir(), Bundle: dir, Logger: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	log.Reset()
	return l, name, log
}

func overwrite(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What may pass is tried again at the next poll, and told once.
func TestTriedAgain(t *testing.T) {
	for _, passing := range []error{
		&fs.PathError{Op: "open", Path: "zones", Err: syscall.EMFILE},
		&call.Error{Code: call.CodePolicyTimeout},
	} {
		l, name, log := liveOf(t)
		first := l.Snapshot()
		load, tries := l.load, 0
		l.load = func(context.Context, fs.FS, rego.Options) (*rego.Policy, error) { tries++; return nil, passing }
		overwrite(t, name, denies+"# second\n")
		for range 4 {
			l.poll(t.Context(), l.layers...)
		}
		if tries != 3 || l.Snapshot() != first || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%d tries: %s", tries, log)
		}
		l.load = load
		l.poll(t.Context(), l.layers...)
		if l.Snapshot() == first {
			t.Error("not taken when it had passed")
		}
	}
}

// A relative path means one place, wherever the process goes.
func TestRelativeBundle(t *testing.T) {
	l, name, _ := liveOf(t)
	first := l.Snapshot()
	t.Chdir(filepath.Dir(name))
	relative, err := openLive(t.Context(), Config{Data: t.TempDir(), Bundle: "."})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	overwrite(t, name, denies+"# second\n")
	for _, l := range []*live{l, relative} {
		l.poll(t.Context(), l.layers...)
		l.poll(t.Context(), l.layers...)
	}
	if l.Snapshot() == first || relative.layers[0].Status().Revision != l.layers[0].Status().Revision {
		t.Errorf("%+v", relative.layers[0].Status())
	}
}

func TestPanicWhileLoading(t *testing.T) {
	l, name, log := liveOf(t)
	first := l.Snapshot()
	l.load = func(context.Context, fs.FS, rego.Options) (*rego.Policy, error) { panic("hunter2") }
	overwrite(t, name, denies+"# second\n")
	l.poll(t.Context(), l.layers...)
	l.poll(t.Context(), l.layers...)
	if l.Snapshot() != first || !strings.Contains(log.String(), l.layers[0].Bundle) || strings.Contains(log.String(), "hunter2") {
		t.Errorf("log: %s", log)
	}
}

// Whoever closes meanwhile is told nothing, and nothing is swapped.
func TestClosedWhileLoading(t *testing.T) {
	l, name, log := liveOf(t)
	first := l.Snapshot()
	ctx, cancel := context.WithCancel(t.Context())
	load := l.load
	l.load = func(ctx context.Context, fsys fs.FS, o rego.Options) (*rego.Policy, error) {
		cancel()
		return load(ctx, fsys, o)
	}
	overwrite(t, name, denies+"# second\n")
	l.poll(ctx, l.layers...)
	l.poll(ctx, l.layers...)
	if ctx.Err() == nil || l.Snapshot() != first || log.Len() > 0 {
		t.Errorf("log: %s", log)
	}
}

// A snapshot stays what it is.
func TestSnapshot(t *testing.T) {
	l, name, _ := liveOf(t)
	before, ok := l.Snapshot().(*rego.Set)
	if !ok {
		t.Fatalf("%T", l.Snapshot())
	}
	overwrite(t, name, denies+"# second\n")
	l.poll(t.Context(), l.layers...)
	l.poll(t.Context(), l.layers...)
	after, ok := l.Snapshot().(*rego.Set)
	if !ok {
		t.Fatalf("%T", l.Snapshot())
	}
	first, second := before.Layers()[0].Revision(), after.Layers()[0].Revision()
	if first == second || first.Name != "policy" {
		t.Errorf("%v, then %v", first, second)
	}
}

// The policy's contents are the owner's to follow; where it is counts.
func TestDigestOfTheBundle(t *testing.T) {
	dir := t.TempDir()
	overwrite(t, filepath.Join(dir, "p.rego"), denies)
	link := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	digest := func(c Config) string {
		t.Helper()
		d, err := c.digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	followed, fixed := digest(Config{Bundle: dir}), digest(Config{Bundle: dir, Watch: -1})
	linked := digest(Config{Bundle: link})
	overwrite(t, filepath.Join(dir, "p.rego"), denies+"# second\n")
	if digest(Config{Bundle: dir}) != followed {
		t.Error("the contents count, though the owner follows them")
	}
	if digest(Config{Bundle: dir, Watch: -1}) == fixed {
		t.Error("the contents do not count, though nobody follows them")
	}
	if digest(Config{Bundle: link}) != linked || os.Remove(link) != nil || digest(Config{Bundle: link}) != linked {
		t.Error("where a link leads counts, though the owner follows it")
	}
}
