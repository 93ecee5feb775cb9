package hostfx_test

import (
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/hostfx"
)

// A directory is swapped, in one step and without end, for a link that leads out, while
// each operation goes through it. Whatever happens happens inside.
func TestSwapRaceOfAll(t *testing.T) { both(t, testSwapRaceOfAll) }

func testSwapRaceOfAll(t *testing.T) {
	dir := tree(t)
	at := filepath.Join(dir, "docs/reports")
	inside, link := filepath.Join(at, "d"), filepath.Join(at, "l")
	refill := func() {
		must(t, os.RemoveAll(inside))
		must(t, os.MkdirAll(filepath.Join(inside, "empty"), 0o755))
		// Names that are outside as well, so that an escape would find them.
		for _, name := range []string{"secret.txt", "new"} {
			must(t, os.WriteFile(filepath.Join(inside, name), []byte("mine"), 0o600))
		}
	}
	must(t, os.MkdirAll(filepath.Join(dir, "docs/empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(at, "sub/b.txt"), []byte("beta"), 0o600))
	must(t, os.Symlink("..", link))
	refill()
	// A file is swapped as well, for the last component.
	must(t, os.WriteFile(filepath.Join(at, "f"), []byte("mine"), 0o600))
	must(t, os.Symlink("../secret.txt", filepath.Join(at, "fl")))
	before := beyond(t, dir)

	paths := []string{"d/secret.txt", "l/secret.txt", "d/new", "d/empty", "l/empty", "d/../secret.txt", "d/", "f", "fl"}
	for name, do := range operations {
		stop := make(chan struct{})
		var swaps atomic.Int64
		a, b := counted(&swaps, inside, link, stop), counted(&swaps, filepath.Join(at, "f"), filepath.Join(at, "fl"), stop)
		for swaps.Load() == 0 { // it has begun
			runtime.Gosched()
		}
		_, f := granted(t, dir, all...)
		for i := range 40 {
			for _, p := range paths {
				learnt, _ := do(f, p)
				if learnt != "" {
					t.Errorf("%s of %q learnt %q", name, p, learnt)
				}
			}
			if i == 20 { // what the operation needs was used up
				_ = f.Remove("got")
				_ = os.WriteFile(filepath.Join(at, "sub/b.txt"), []byte("beta"), 0o600)
			}
		}
		close(stop)
		<-a
		<-b
		if d := cmp.Diff(before, beyond(t, dir)); d != "" {
			t.Fatalf("%s changed what is outside (-before +after):\n%s", name, d)
		}
		// As it was, and it goes on: nothing is refused without reason.
		for _, name := range []string{"d", "l", "f", "fl", "got", "sub/b.txt"} {
			must(t, os.RemoveAll(filepath.Join(at, name)))
		}
		must(t, os.WriteFile(filepath.Join(at, "sub/b.txt"), []byte("beta"), 0o600))
		must(t, os.WriteFile(filepath.Join(at, "f"), []byte("mine"), 0o600))
		must(t, os.Symlink("../secret.txt", filepath.Join(at, "fl")))
		must(t, os.Symlink("..", link))
		refill()
		if h, err := f.Open("d/secret.txt", hostfx.OpenOptions{Write: true}); err != nil {
			t.Errorf("after %s: %v", name, err)
		} else {
			h.Close()
		}
	}
}

// counted is swap for two paths.
func counted(n *atomic.Int64, a, b string, stop chan struct{}) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
				n.Add(1)
			}
		}
	}()
	return done
}

// A file is swapped for a FIFO, and for a second name of one outside, between a look at
// it and its opening: no FIFO is ever given or waited for, and nothing is written outside.
func TestSwapRaceOfKinds(t *testing.T) { both(t, testSwapRaceOfKinds) }

func testSwapRaceOfKinds(t *testing.T) {
	dir := tree(t)
	at := filepath.Join(dir, "docs/reports")
	must(t, os.Link(filepath.Join(dir, "docs/secret.txt"), filepath.Join(at, "hard")))
	must(t, os.WriteFile(filepath.Join(at, "f"), []byte("mine"), 0o600))
	outside := filepath.Join(dir, "docs/secret.txt")
	was, err := os.Stat(outside)
	must(t, err)
	for _, with := range []string{"fifo", "hard"} {
		stop := make(chan struct{})
		var swaps atomic.Int64
		done := counted(&swaps, filepath.Join(at, "f"), filepath.Join(at, with), stop)
		_, f := granted(t, dir, all...)
		for i := range 800 {
			h, err := f.Open("f", []hostfx.OpenOptions{
				{}, {Write: true}, {Append: true}, {Read: true, Write: true, Truncate: true}, {Write: true, Create: true},
			}[i%5])
			if err == nil {
				file := h.(*hostfx.File)
				_, _ = file.Write([]byte("mine"))
				if i, err := file.Stat(); err != nil || !i.Mode().IsRegular() {
					t.Errorf("opened %v, %v", i.Mode(), err)
				}
				file.Close()
			}
			_ = f.SetTimes("f", hostfx.Times{ModifyNow: true}, i%2 == 0)
		}
		close(stop)
		<-done
		// Its other times and names the swapping itself changes.
		is, err := os.Stat(outside)
		must(t, err)
		if b, err := os.ReadFile(outside); err != nil || string(b) != canary || !is.ModTime().Equal(was.ModTime()) {
			t.Fatalf("with %s: the file outside is %q of %v, was of %v, %v", with, b, is.ModTime(), was.ModTime(), err)
		}
	}
}

// An open folder is the directory that was opened, wherever it goes and whatever takes
// its name, and nothing above it is ever reached through it.
func TestFolderIsNotItsName(t *testing.T) { both(t, testFolderIsNotItsName) }

func testFolderIsNotItsName(t *testing.T) {
	dir := tree(t)
	at := filepath.Join(dir, "docs/reports")
	_, f := granted(t, dir, all...)
	h, err := f.Open("sub", hostfx.OpenOptions{Directory: true})
	must(t, err)
	sub := h.(*hostfx.Folder)
	must(t, os.Rename(filepath.Join(at, "sub"), filepath.Join(at, "moved")))
	must(t, os.Symlink("../../outside", filepath.Join(at, "sub")))
	if h, err := sub.Open("b.txt", hostfx.OpenOptions{}); err != nil {
		t.Errorf("the directory that was opened: %v", err)
	} else {
		h.Close()
	}
	if _, err := sub.Open("c.txt", hostfx.OpenOptions{}); refusal(err) != "missing" {
		t.Errorf("the one that took its name: %v", err)
	}
	if entries, err := sub.EntriesAt(0, 10); err != nil || len(entries) != 1 || entries[0].Name() != "b.txt" {
		t.Errorf("EntriesAt() = %v, %v", entries, err)
	}
	must(t, sub.Mkdir("new"))
	if _, err := os.Stat(filepath.Join(at, "moved/new")); err != nil {
		t.Error(err)
	}
	for _, p := range []string{"..", "../a.txt", "../sub/c.txt", "new/../../a.txt"} {
		if _, err := sub.Open(p, hostfx.OpenOptions{}); refusal(err) != "not granted" {
			t.Errorf("%s: %v", p, err)
		}
	}
	// The host takes it away.
	must(t, os.Rename(filepath.Join(at, "moved"), filepath.Join(dir, "outside/moved")))
	if _, err := sub.Open("../c.txt", hostfx.OpenOptions{}); refusal(err) != "not granted" {
		t.Errorf("beside where it went: %v", err)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "outside/moved")))
	if _, err := sub.Open("b.txt", hostfx.OpenOptions{}); refusal(err) != "missing" {
		t.Errorf("in a directory that is gone: %v", err)
	}
	if err := sub.Mkdir("x"); refusal(err) != "missing" {
		t.Errorf("making a directory in one that is gone: %v", err)
	}
}
