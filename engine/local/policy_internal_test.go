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

	"github.com/callgate/callgate/rego"
)

const denies = "package callgate\n\ndecision := false\n"

func liveOf(t *testing.T) (*live, string, *strings.Builder) {
	t.Helper()
	dir, log := t.TempDir(), &strings.Builder{}
	name := filepath.Join(dir, "p.rego")
	overwrite(t, name, denies)
	l, err := openLive(t.Context(), Config{Bundle: dir, Logger: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	return l, name, log
}

func overwrite(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What changes while it is read may have been read half before and half after.
func TestChangedWhileRead(t *testing.T) {
	l, name, log := liveOf(t)
	first := l.Snapshot()
	load := l.load
	l.load = func(ctx context.Context, bundle string) (*rego.Policy, error) {
		p, err := load(ctx, bundle)
		overwrite(t, name, denies+"# third\n")
		return p, err
	}
	overwrite(t, name, denies+"# second one\n")
	l.poll(t.Context())
	l.poll(t.Context())
	if l.Snapshot() != first || log.Len() > 0 {
		t.Errorf("taken: %s", log)
	}
	l.load = load
	l.poll(t.Context())
	if l.Snapshot() == first {
		t.Error("not taken when it stood still")
	}
}

func TestPanicWhileLoading(t *testing.T) {
	l, name, log := liveOf(t)
	first := l.Snapshot()
	l.load = func(context.Context, string) (*rego.Policy, error) { panic("hunter2") }
	overwrite(t, name, denies+"# second\n")
	l.poll(t.Context())
	l.poll(t.Context())
	if l.Snapshot() != first || !strings.Contains(log.String(), l.path) || strings.Contains(log.String(), "hunter2") {
		t.Errorf("log: %s", log)
	}
}

// A lack that may pass is told once, and the files are read again until it has
// passed. What is wrong in the files themselves is not read again.
func TestTriedAgain(t *testing.T) {
	l, name, log := liveOf(t)
	first := l.Snapshot()
	load, loads, lacking := l.load, 0, true
	l.load = func(ctx context.Context, bundle string) (*rego.Policy, error) {
		if loads++; lacking {
			return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
		}
		return load(ctx, bundle)
	}
	overwrite(t, name, denies+"# second\n")
	for range 4 { // the first sees that they move
		l.poll(t.Context())
	}
	if loads != 3 || strings.Count(log.String(), "\n") != 1 || l.Snapshot() != first {
		t.Errorf("%d loads, log: %s", loads, log)
	}
	lacking = false
	l.poll(t.Context())
	l.poll(t.Context())
	if loads != 4 || strings.Count(log.String(), "\n") != 2 || l.Snapshot() == first {
		t.Errorf("%d loads, log: %s", loads, log)
	}
	overwrite(t, name, "package callgate\n\ndecision := {\n")
	for range 4 {
		l.poll(t.Context())
	}
	if loads != 5 || strings.Count(log.String(), "\n") != 3 {
		t.Errorf("%d loads of a broken policy, log: %s", loads, log)
	}
}

// A relative path is one place, wherever the process goes.
func TestBundleStaysWhereItIs(t *testing.T) {
	elsewhere := func(text string) {
		t.Chdir(t.TempDir())
		if err := os.Mkdir("bundle", 0o700); err != nil {
			t.Fatal(err)
		}
		overwrite(t, "bundle/p.rego", text)
	}
	elsewhere(denies)
	log := &strings.Builder{}
	l, err := openLive(t.Context(), Config{Bundle: "bundle", Logger: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	first := l.Snapshot()
	there, err := filepath.Abs("bundle/p.rego")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere(denies + "# another\n")
	l.poll(t.Context())
	l.poll(t.Context())
	if l.Snapshot() != first || log.Len() > 0 {
		t.Errorf("another directory's policy was taken: %s", log)
	}
	overwrite(t, there, denies+"# second\n")
	l.poll(t.Context())
	l.poll(t.Context())
	if l.Snapshot() == first {
		t.Error("its own was not taken")
	}
}

// Whoever closes meanwhile is told nothing, and nothing is swapped.
func TestClosedWhileLoading(t *testing.T) {
	l, name, log := liveOf(t)
	first := l.Snapshot()
	ctx, cancel := context.WithCancel(t.Context())
	load := l.load
	l.load = func(ctx context.Context, bundle string) (*rego.Policy, error) {
		cancel()
		return load(ctx, bundle)
	}
	overwrite(t, name, denies+"# second\n")
	l.poll(ctx)
	l.poll(ctx)
	if ctx.Err() == nil || l.Snapshot() != first || log.Len() > 0 {
		t.Errorf("log: %s", log)
	}
}

// A snapshot stays what it is.
func TestSnapshot(t *testing.T) {
	l, name, _ := liveOf(t)
	before, ok := l.Snapshot().(*rego.Policy)
	if !ok {
		t.Fatalf("%T", l.Snapshot())
	}
	overwrite(t, name, denies+"# second\n")
	l.poll(t.Context())
	l.poll(t.Context())
	after, ok := l.Snapshot().(*rego.Policy)
	if !ok || before.Revision() == after.Revision() {
		t.Errorf("%v, then %v", before.Revision(), after.Revision())
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
