package hostfx_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

// Once the call is over, by Close or because its grant died, no handle of it does
// anything, and nothing more is recorded.
func TestNothingChangesAfterTheCall(t *testing.T) { both(t, testNothingChangesAfterTheCall) }

func testNothingChangesAfterTheCall(t *testing.T) {
	for name, end := range map[string]func(*hostfx.Effects){
		"closed": func(fx *hostfx.Effects) { fx.Close() },
		"dead":   func(fx *hostfx.Effects) { granttest.Kill(fx.Grant()) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			fx, f := granted(t, dir, all...)
			file := create(t, f, "new")
			h, err := f.Open("sub", hostfx.OpenOptions{})
			must(t, err)
			sub := h.(*hostfx.Folder)
			end(fx)
			before := contents(t, dir)
			tries := map[string]func() error{
				"OpenRead":   func() error { _, err := fx.OpenRead("/docs/reports/a.txt"); return err },
				"OpenAppend": func() error { _, err := fx.OpenAppend("/docs/reports/a.txt"); return err },
				"OpenWrite":  func() error { _, err := fx.OpenWrite("/docs/reports/a.txt"); return err },
				"Mkdir":      func() error { return fx.Mkdir("/docs/reports/d") },
				"Remove":     func() error { return fx.Remove("/docs/reports/a.txt") },
				"Rename":     func() error { return fx.Rename("/docs/reports/a.txt", "/docs/reports/b.txt") },
				"elsewhere":  func() error { return fx.Mkdir("/elsewhere") },

				"Write":     func() error { _, err := file.Write([]byte("x")); return err },
				"WriteAt":   func() error { _, err := file.WriteAt([]byte("x"), 0); return err },
				"too much":  func() error { _, err := file.Write(make([]byte, 65<<20)); return err },
				"Truncate":  func() error { return file.Truncate(1) },
				"Allocate":  func() error { return file.Allocate(0, 1) },
				"SetTimes":  func() error { return file.SetTimes(hostfx.Times{ModifyNow: true}) },
				"SetAppend": func() error { return file.SetAppend(true) },
				"Sync":      file.Sync,
				"DataSync":  file.DataSync,
				"Stat":      func() error { _, err := sub.Stat(); return err },
				"Entries":   func() error { _, err := sub.EntriesAt(0, 1); return err },
				"Rewind":    sub.Rewind,
				"Refuse":    func() error { return sub.Refuse("fs.write", "x") },
				"across":    func() error { return f.Rename("a.txt", sub, "a.txt") },
			}
			for name, do := range operations {
				tries["granted "+name] = func() error { _, err := do(f, "a.txt"); return err }
				tries["below "+name] = func() error { _, err := do(sub, "b.txt"); return err }
			}
			for what, try := range tries {
				if err := try(); !errors.Is(err, hostfx.ErrClosed) {
					t.Errorf("%s = %v, want %v", what, err, hostfx.ErrClosed)
				}
			}
			if d := cmp.Diff(before, contents(t, dir)); d != "" {
				t.Errorf("something changed (-before +after):\n%s", d)
			}
			if got := fx.Close(); len(got) != 2 {
				t.Errorf("effects %v, want the reading and the writing of new", got)
			}
		})
	}
}

// Close ends what is going on, and waits for it: nothing is written after it.
func TestCloseWhileWriting(t *testing.T) { both(t, testCloseWhileWriting) }

func testCloseWhileWriting(t *testing.T) {
	dir := tree(t)
	fx, f := granted(t, dir, all...)
	var begun, over sync.WaitGroup
	for range 4 {
		begun.Add(1)
		over.Go(func() {
			file, err := f.Open("log", hostfx.OpenOptions{Append: true, Create: true})
			for first := true; err == nil; first = false {
				_, err = file.(*hostfx.File).Write([]byte("line\n"))
				_ = f.Mkdir("d")
				_ = f.Rename("d", f, "e")
				_ = f.RemoveDir("e")
				if first {
					begun.Done()
				}
			}
			if !errors.Is(err, hostfx.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		})
	}
	begun.Wait()
	first := fx.Close()
	then := contents(t, dir)
	over.Wait()
	if d := cmp.Diff(then, contents(t, dir)); d != "" {
		t.Errorf("something changed after Close (-then +later):\n%s", d)
	}
	if d := cmp.Diff(first, fx.Close()); d != "" {
		t.Errorf("effects happened after Close (-first +later):\n%s", d)
	}
}

// A folder that was closed is closed for all that uses it, and gives its place back
// once.
func TestClosedFolder(t *testing.T) { both(t, testClosedFolder) }

func testClosedFolder(t *testing.T) {
	_, f := granted(t, tree(t), all...)
	h, err := f.Open("sub", hostfx.OpenOptions{})
	must(t, err)
	sub := h.(*hostfx.Folder)
	_, err = sub.EntriesAt(0, 1)
	must(t, err)
	must(t, sub.Close())
	for name, do := range operations {
		if _, err := do(sub, "b.txt"); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.Rename("a.txt", sub, "a.txt"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("into it: %v", err)
	}
	if err := sub.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
	// The granted one stays open.
	must(t, f.Close())
	if _, err := f.StatAt("a.txt"); err != nil {
		t.Error(err)
	}
}

// Errors tell names as the tool knows them, and nothing of the host.
func TestErrorsNameNoHostPath(t *testing.T) { both(t, testErrorsNameNoHostPath) }

func testErrorsNameNoHostPath(t *testing.T) {
	dir := tree(t)
	_, f := granted(t, dir, all...)
	file := create(t, f, "new")
	must(t, os.Chmod(filepath.Join(dir, "docs/reports"), 0o755))
	var errs []error
	for _, do := range operations {
		for _, p := range []string{"none/x", "out", "a.txt/x", "loop", "..", "fifo", "sub"} {
			_, err := do(f, p)
			errs = append(errs, err)
		}
	}
	_, seek := file.Seek(-1, io.SeekStart)
	_, at := file.ReadAt(make([]byte, 1), 1<<40)
	must(t, file.Close())
	_, err := file.Read(make([]byte, 1))
	for _, err := range append(errs, seek, at, err, file.Close()) {
		if err != nil && (strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "/proc/")) {
			t.Errorf("error %q", err)
		}
	}
}
