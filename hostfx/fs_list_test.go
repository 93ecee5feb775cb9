package hostfx_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// crowd makes n empty files with names of length, by links to one, which is cheap.
func crowd(t testing.TB, dir string, n, length int) {
	t.Helper()
	t.Chdir(dir) // short names are looked up faster
	var first string
	for i := range n {
		name := fmt.Sprintf("%06d", i)
		name += strings.Repeat("x", length-len(name))
		if i%10_000 == 0 { // a file system has a limit of names for one
			first = name
			must(t, os.WriteFile(name, nil, 0o600))
			continue
		}
		must(t, os.Link(first, name))
	}
}

// A directory of 100,000 entries is listed without keeping them, and not one entry
// more is given by name.
func TestCrowd(t *testing.T) {
	dir := tree(t)
	at := filepath.Join(dir, "docs/reports/sub")
	must(t, os.Remove(filepath.Join(at, "b.txt")))
	const n, length = 100_000, 100
	crowd(t, at, n, length)
	both(t, func(t *testing.T) {
		fx, f := granted(t, dir, "list")
		h, err := f.Open("sub", hostfx.OpenOptions{Directory: true})
		must(t, err)
		sub := h.(*hostfx.Folder)
		seen := make([]bool, n)
		var most, before uint64
		before = inUse()
		for at := uint64(0); ; {
			entries, err := sub.EntriesAt(at, 1000)
			must(t, err)
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				var i int
				if _, err := fmt.Sscanf(e.Name()[:6], "%d", &i); err != nil || len(e.Name()) != length || seen[i] {
					t.Fatalf("entry %q, %v", e.Name(), err)
				}
				seen[i] = true
			}
			if at += uint64(len(entries)); at%20_000 == 0 {
				most = max(most, inUse())
			}
		}
		if slices.Contains(seen, false) {
			t.Error("an entry is missing")
		}
		if most > before+4<<20 { // all names are 10 MB
			t.Errorf("listing holds %d bytes", most-before)
		}
		if entries, err := fx.List("/docs/reports/sub"); err != nil || len(entries) != n {
			t.Errorf("List() = %d entries, %v", len(entries), err)
		}
		must(t, os.WriteFile(filepath.Join(at, "more"), nil, 0o600))
		defer os.Remove(filepath.Join(at, "more"))
		if entries, err := fx.List("/docs/reports/sub"); err == nil {
			t.Errorf("List() = %d entries", len(entries))
		}
	})
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Whatever numbers are asked for in whatever order, each gives the entry that one
// reading from the start gives, and Next and Rewind go their own way.
func TestEntriesAt(t *testing.T) { both(t, testEntriesAt) }

func testEntriesAt(t *testing.T) {
	dir := tree(t)
	must(t, os.Mkdir(filepath.Join(dir, "docs/reports/many"), 0o755))
	crowd(t, filepath.Join(dir, "docs/reports/many"), 2500, 60)
	fx, f := granted(t, dir, "list")
	h, err := f.Open("many", hostfx.OpenOptions{})
	must(t, err)
	want, err := h.(*hostfx.Folder).EntriesAt(0, 3000)
	must(t, err)
	if len(want) != 2500 {
		t.Fatalf("%d entries", len(want))
	}
	text := func(entries []hostfx.Entry) (out []string) {
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	all := text(want)
	rapid.Check(t, func(r *rapid.T) {
		h, err := f.Open("many", hostfx.OpenOptions{})
		must(t, err)
		defer h.Close()
		sub, next := h.(*hostfx.Folder), 0
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			n := rapid.IntRange(1, 1500).Draw(r, "n")
			switch rapid.IntRange(0, 4).Draw(r, "what") {
			case 0:
				must(t, sub.Rewind())
				next = 0
			case 1:
				got, err := sub.Next(n)
				var names []string
				for _, e := range got {
					names = append(names, e.Name())
				}
				if some := all[next:min(next+n, len(all))]; !slices.Equal(names, some) || (len(some) == 0) != errors.Is(err, io.EOF) {
					r.Fatalf("Next(%d) after %d = %d entries, %v", n, next, len(names), err)
				}
				next += len(names)
			default:
				at := rapid.OneOf(rapid.IntRange(0, 2600), rapid.Just(1<<30)).Draw(r, "at")
				got, err := sub.EntriesAt(uint64(at), n)
				some := all[min(at, len(all)):min(at+n, len(all))]
				if err != nil || !slices.Equal(text(got), some) {
					r.Fatalf("EntriesAt(%d, %d) = %d entries, %v", at, n, len(got), err)
				}
			}
		}
	})
	if _, err := f.EntriesAt(0, 0); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("no entries at all: %v", err)
	}
	for _, e := range fx.Close() {
		if e.Kind != "fs.list" || e.Code != "ok" && e.Code != "more" {
			t.Errorf("effect %v", e)
		}
	}
}

// Each type is told, and looking at an entry is subject to the grant and the call.
func TestEntries(t *testing.T) { both(t, testEntries) }

func testEntries(t *testing.T) {
	dir := tree(t)
	fx, f := granted(t, dir, "list")
	entries, err := f.EntriesAt(0, 100)
	must(t, err)
	got := map[string]fs.FileMode{}
	for _, e := range entries {
		got[e.Name()] = e.Type()
		i, err := e.Info()
		if err != nil || i.Name() != e.Name() || i.Mode().Type() != e.Type() || i.Sys().(*hostfx.Stat).Ino != e.Ino() || e.IsDir() != i.IsDir() {
			t.Errorf("%s: %v, %v", e.Name(), i, err)
		}
	}
	want := map[string]fs.FileMode{"a.txt": 0, "sub": fs.ModeDir, "fifo": fs.ModeNamedPipe}
	for _, name := range []string{"in", "out", "absolute", "updir", "loop", "dangling", "subalias"} {
		want[name] = fs.ModeSymlink
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("types (-want +got):\n%s", d)
	}
	fx.Close()
	if _, err := entries[0].Info(); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("after the call: %v", err)
	}
	if _, err := f.EntriesAt(0, 1); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("after the call: %v", err)
	}
	fx, f = granted(t, dir, "read", "append", "write", "remove")
	if _, err := f.EntriesAt(0, 1); refusal(err) != "not granted" {
		t.Errorf("without the mode: %v", err)
	}
	if d := cmp.Diff([]call.Effect{effect("fs.list", "/docs/reports", "refused", 0)}, happened(t, fx.Close())); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}
