package sandbox_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

func TestCacheDirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "shared"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o700))
	good := sandbox.Options{CacheDir: filepath.Join(dir, "cache"), CacheKey: cacheKey}
	for name, change := range map[string]func(*sandbox.Options){
		"others may enter":   func(o *sandbox.Options) { o.CacheDir = filepath.Join(dir, "shared") },
		"a link":             func(o *sandbox.Options) { o.CacheDir = filepath.Join(dir, "link") },
		"a file":             func(o *sandbox.Options) { o.CacheDir = filepath.Join(dir, "file") },
		"nowhere":            func(o *sandbox.Options) { o.CacheDir = filepath.Join(dir, "missing/below") },
		"no key":             func(o *sandbox.Options) { o.CacheKey = nil },
		"a short key":        func(o *sandbox.Options) { o.CacheKey = cacheKey[1:] },
		"negative size":      func(o *sandbox.Options) { o.CacheBytes = -1 },
		"negative number":    func(o *sandbox.Options) { o.MaxConcurrent = -1 },
		"negative memory":    func(o *sandbox.Options) { o.MaxMemory = -1 },
		"negative time":      func(o *sandbox.Options) { o.CompileCPU = -1 },
		"a negative ceiling": func(o *sandbox.Options) { o.CacheDir, o.CacheBytes = "", -1 },
	} {
		o := good
		change(&o)
		if box, err := sandbox.New(t.Context(), o); err == nil {
			t.Errorf("%s: New() takes it", name)
			box.Close(t.Context())
		}
	}
	w := open(t, good)
	if out, o := w.run(t, "echo", `{"a":1}`, call.Bounds{}); out != `{"a":1}` {
		t.Errorf("run = %q, %v", out, o)
	}
	// From here on nothing can be compiled, and nothing has to be.
	good.Compiler = []string{filepath.Join(dir, "missing")}
	w = open(t, good)
	if out, o := w.run(t, "echo", `{"a":1}`, call.Bounds{}); out != `{"a":1}` {
		t.Errorf("run from the cache = %q, %v", out, o)
	}
}

// entries are the files of a cache.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	return found
}

// Whatever stands where an entry belongs: what is not ours and whole is never
// loaded, and another takes its place.
func TestHostileCacheEntries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	o := sandbox.Options{CacheDir: dir, CacheKey: cacheKey}
	install := func(o sandbox.Options, name string) error {
		box, err := sandbox.New(t.Context(), o)
		must(t, err)
		defer box.Close(t.Context())
		b := module(t, name)
		return box.Install(t.Context(), call.Digest(b), b)
	}
	must(t, install(o, "fib"))
	fib := entries(t, dir)[0]
	other, err := os.ReadFile(fib)
	must(t, err)
	must(t, os.Remove(fib))
	must(t, install(o, "echo"))
	entry := entries(t, dir)[0]
	good, err := os.ReadFile(entry)
	must(t, err)
	foreign := o
	foreign.CacheKey = bytes.Repeat([]byte("f"), 32)
	must(t, os.Remove(entry))
	must(t, install(foreign, "echo"))
	forged, err := os.ReadFile(entry)
	must(t, err)

	file := func(b []byte) func() error { return func() error { return os.WriteFile(entry, b, 0o600) } }
	flip := func(at int) func() error {
		b := slices.Clone(good)
		b[(at+len(b))%len(b)] ^= 1
		return file(b)
	}
	version := bytes.Replace(slices.Clone(good), []byte("module 1"), []byte("module 0"), 1)
	head := bytes.IndexByte(good, '\n') + 1
	unusable := o
	unusable.Compiler = []string{filepath.Join(dir, "missing")}
	for name, write := range map[string]func() error{
		"empty":                         file(nil),
		"cut":                           file(good[:len(good)-1]),
		"cut in its head":               file(good[:head+40]),
		"more":                          file(append(slices.Clone(good), 0)),
		"what wazero writes":            file(good[head+64:]),
		"another version":               file(version),
		"a byte of the head":            flip(0),
		"a byte of the key":             flip(head),
		"a byte of the sum":             flip(head + 32),
		"a byte of the version":         flip(head + 64 + 8),
		"a byte of the code":            flip(len(good) / 2),
		"the last byte":                 flip(-1),
		"another module":                file(other),
		"another module, under our key": file(slices.Concat(good[:head+32], other[head+32:])),
		"written with another key":      file(forged),
		"huge":                          func() error { return errors.Join(file(good)(), os.Truncate(entry, 1<<40)) },
		"a directory":                   func() error { return os.MkdirAll(filepath.Join(entry, "below"), 0o700) },
		"a pipe":                        func() error { return unix.Mkfifo(entry, 0o600) },
		"a link to what is good": func() error {
			to := filepath.Join(t.TempDir(), "good")
			return errors.Join(os.WriteFile(to, good, 0o600), os.Symlink(to, entry))
		},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.RemoveAll(entry))
			must(t, write())
			if err := install(unusable, "echo"); call.CodeOf(err, "") != call.CodeGuestUnavailable {
				t.Errorf("Install() = %v without a compiler: it was loaded", err)
			}
			must(t, install(o, "echo"))
			if b, err := os.ReadFile(entry); err != nil || !bytes.Equal(b, good) {
				t.Errorf("it was not replaced: %d bytes, %v", len(b), err)
			}
			if err := install(unusable, "echo"); err != nil {
				t.Errorf("Install() = %v from the cache", err)
			}
			if found := entries(t, dir); len(found) != 1 {
				t.Errorf("the cache holds %v", found)
			}
		})
	}
}

// Processes that share a directory neither disturb each other nor leave anything
// that is half done.
func TestSharedCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	must(t, os.Mkdir(dir, 0o700))
	self, err := os.Executable()
	must(t, err)
	ended := make(chan error)
	const processes = 3
	for range processes {
		cmd := exec.Command(self, "install", dir)
		cmd.Stderr = os.Stderr
		must(t, cmd.Start())
		go func() { ended <- cmd.Wait() }()
	}
	for range processes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if found := entries(t, dir); len(found) != 4 {
		t.Errorf("the cache holds %v", found)
	}
	w := open(t, sandbox.Options{CacheDir: dir, CacheKey: cacheKey, Compiler: []string{filepath.Join(dir, "missing")}})
	for _, name := range []string{"echo", "fib", "hog", "spin"} {
		w.install(t, name)
	}
}
