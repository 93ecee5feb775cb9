package hostfx_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

const within = "/docs/reports"

func effect(kind, target, code string, bytes int64) call.Effect {
	e := call.Effect{Kind: kind, Within: within, Target: target, Code: code, BytesIn: bytes}
	if kind == "fs.write" || kind == "fs.append" {
		e.BytesIn, e.BytesOut = 0, bytes
	}
	return e
}

func TestReadFile(t *testing.T) { both(t, testReadFile) }

func testReadFile(t *testing.T) {
	dir := tree(t)
	outside := call.Effect{Kind: "fs.read", Code: "refused"}
	tests := []struct {
		name, path string
		text       string
		err        error
		want       []call.Effect
	}{
		{name: "file", path: "/docs/reports/a.txt", text: "alpha", want: []call.Effect{effect("fs.read", "/docs/reports/a.txt", "ok", 5)}},
		{name: "deeper", path: "/docs/reports/sub/b.txt", text: "beta", want: []call.Effect{effect("fs.read", "/docs/reports/sub/b.txt", "ok", 4)}},
		{name: "link inside", path: "/docs/reports/in", text: "beta", want: []call.Effect{effect("fs.read", "/docs/reports/in", "ok", 4)}},
		{name: "directory link inside", path: "/docs/reports/subalias/b.txt", text: "beta", want: []call.Effect{effect("fs.read", "/docs/reports/subalias/b.txt", "ok", 4)}},
		{name: "missing", path: "/docs/reports/none", err: fs.ErrNotExist, want: []call.Effect{effect("fs.read", "/docs/reports/none", "not_found", 0)}},
		{name: "dangling link", path: "/docs/reports/dangling", err: fs.ErrNotExist, want: []call.Effect{effect("fs.read", "/docs/reports/dangling", "not_found", 0)}},
		{name: "link out", path: "/docs/reports/out", err: hostfx.ErrNotGranted, want: []call.Effect{effect("fs.read", "/docs/reports/out", "refused", 0)}},
		{name: "absolute link", path: "/docs/reports/absolute", err: hostfx.ErrNotGranted, want: []call.Effect{effect("fs.read", "/docs/reports/absolute", "refused", 0)}},
		{name: "directory link out", path: "/docs/reports/updir/secret.txt", err: hostfx.ErrNotGranted, want: []call.Effect{effect("fs.read", "/docs/reports/updir/secret.txt", "refused", 0)}},
		{name: "FIFO", path: "/docs/reports/fifo", err: hostfx.ErrNotGranted, want: []call.Effect{effect("fs.read", "/docs/reports/fifo", "refused", 0)}},
		{name: "link loop", path: "/docs/reports/loop", err: errAny, want: []call.Effect{effect("fs.read", "/docs/reports/loop", "error", 0)}},
		{name: "directory", path: "/docs/reports/sub", err: errAny},
		{name: "beside the grant", path: "/docs/secret.txt", err: hostfx.ErrNotGranted, want: []call.Effect{with(outside, "/docs/secret.txt")}},
		{name: "dots out", path: "/docs/reports/../secret.txt", err: hostfx.ErrNotGranted, want: []call.Effect{with(outside, "/docs/secret.txt")}},
		{name: "a longer name", path: "/docs/reports2/a.txt", err: hostfx.ErrNotGranted, want: []call.Effect{with(outside, "/docs/reports2/a.txt")}},
		{name: "elsewhere", path: "/etc/passwd", err: hostfx.ErrNotGranted, want: []call.Effect{with(outside, "/etc/passwd")}},
		{name: "relative", path: "docs/reports/a.txt", err: fs.ErrInvalid},
		{name: "NUL", path: "/docs/reports/a.txt\x00", err: fs.ErrInvalid},
		{name: "empty", path: "", err: fs.ErrInvalid},
		{name: "100 KB", path: "/docs/reports/" + strings.Repeat("a", 100_000), err: fs.ErrInvalid},
		{name: "300 byte name", path: "/docs/reports/" + strings.Repeat("a", 300), err: errAny, want: []call.Effect{effect("fs.read", "/docs/reports/"+strings.Repeat("a", 300), "error", 0)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := open(t, dir, "read")
			got, err := fx.ReadFile(tt.path)
			if !is(err, tt.err) || string(got) != tt.text {
				t.Errorf("ReadFile() = %q, %v, want %q, %v", got, err, tt.text, tt.err)
			}
			if d := cmp.Diff(tt.want, happened(t, fx.Close()), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
		})
	}
}

var errAny = errors.New("any error")

func is(err, want error) bool {
	if want == errAny {
		return err != nil && !errors.Is(err, hostfx.ErrNotGranted) && !errors.Is(err, fs.ErrNotExist)
	}
	return errors.Is(err, want)
}

func with(e call.Effect, target string) call.Effect { e.Target = target; return e }

func TestModes(t *testing.T) { both(t, testModes) }

func testModes(t *testing.T) {
	dir := tree(t)
	tests := []struct {
		modes            []string
		read, list, stat bool
	}{
		{modes: []string{"read"}, read: true, stat: true},
		{modes: []string{"list"}, list: true, stat: true},
		{modes: []string{"read", "list"}, read: true, list: true, stat: true},
		{modes: []string{"write"}},
		{modes: []string{"append", "remove"}},
		{modes: []string{"READ"}},
		{modes: nil},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.modes, "+"), func(t *testing.T) {
			fx := open(t, dir, tt.modes...)
			_, readErr := fx.ReadFile("/docs/reports/a.txt")
			_, listErr := fx.List("/docs/reports")
			_, statErr := fx.Stat("/docs/reports/a.txt")
			if _, err := fx.Stat("/docs/reports"); err != nil {
				t.Errorf("the directory itself: %v", err)
			}
			for _, c := range []struct {
				what string
				err  error
				ok   bool
			}{{"read", readErr, tt.read}, {"list", listErr, tt.list}, {"stat", statErr, tt.stat}} {
				if c.ok != (c.err == nil) || !c.ok && !errors.Is(c.err, hostfx.ErrNotGranted) {
					t.Errorf("%s = %v, want allowed %v", c.what, c.err, c.ok)
				}
			}
			for _, e := range fx.Close() {
				allowed := map[string]bool{"fs.read": tt.read, "fs.list": tt.list, "fs.stat": tt.stat}[e.Kind]
				if (e.Code == "ok") != allowed || e.Code != "ok" && e.Code != "refused" {
					t.Errorf("effect %v, want allowed %v", e, allowed)
				}
			}
		})
	}
}

// Two entries for one directory are one directory with both their modes; of
// nested directories the one that has the mode answers.
func TestEntriesMerge(t *testing.T) { both(t, testEntriesMerge) }

func testEntriesMerge(t *testing.T) {
	fx, err := host(t, tree(t)).Open(t.Context(), mint(t, call.Caps{FS: []call.FS{
		{Root: "docs", Path: "reports", Modes: []string{"read"}},
		{Root: "docs", Path: "reports", Modes: []string{"list"}},
		{Root: "docs", Path: "reports/sub", Modes: []string{"list"}},
	}}))
	must(t, err)
	if _, err := fx.List("/docs/reports"); err != nil {
		t.Error(err)
	}
	if _, err := fx.ReadFile("/docs/reports/sub/b.txt"); err != nil {
		t.Errorf("reading below the entry that has read: %v", err)
	}
	var names []string
	for _, d := range fx.Dirs() {
		names = append(names, d.Name())
	}
	if d := cmp.Diff([]string{"/docs/reports", "/docs/reports/sub"}, names); d != "" {
		t.Errorf("dirs (-want +got):\n%s", d)
	}
	fx.Close()
}

func TestList(t *testing.T) { both(t, testList) }

func testList(t *testing.T) {
	fx := open(t, tree(t), "list")
	entries, err := fx.List("/docs/reports")
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if d := cmp.Diff([]string{"a.txt", "absolute", "dangling", "fifo", "in", "loop", "out", "sub", "subalias", "updir"}, names); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	for _, p := range []string{"/docs/reports/updir", "/docs/reports/fifo", "/docs/reports/a.txt", "/docs"} {
		if got, err := fx.List(p); err == nil {
			t.Errorf("List(%q) = %v", p, got)
		}
	}
	want := []call.Effect{
		effect("fs.list", "/docs/reports", "ok", 0),
		effect("fs.list", "/docs/reports/updir", "refused", 0),
		effect("fs.list", "/docs/reports/fifo", "error", 0),
		effect("fs.list", "/docs/reports/a.txt", "error", 0),
		{Kind: "fs.list", Target: "/docs", Code: "refused"},
	}
	if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestStat(t *testing.T) { both(t, testStat) }

func testStat(t *testing.T) {
	fx := open(t, tree(t), "read")
	if i, err := fx.Stat("/docs/reports/in"); err != nil || i.Size() != 4 {
		t.Errorf("Stat(in) = %v, %v, want what the link leads to", i, err)
	}
	if i, err := fx.Dirs()[0].Folder().LstatAt("out"); err != nil || i.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Lstat(out) = %v, %v, want the link itself", i, err)
	}
	if _, err := fx.Stat("/docs/reports/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat(none) = %v", err)
	}
	if _, err := fx.Stat("/docs/reports/out"); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("Stat(out) = %v", err)
	}
	want := []call.Effect{effect("fs.stat", "/docs/reports/out", "refused", 0)}
	if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
		t.Errorf("only the escape is an effect (-want +got):\n%s", d)
	}
}

func TestFolder(t *testing.T) { both(t, testFolder) }

func testFolder(t *testing.T) {
	d := open(t, tree(t), "read", "list").Dirs()[0]
	h, err := d.Folder().Open("sub", hostfx.OpenOptions{Directory: true})
	must(t, err)
	f := h.(*hostfx.Folder)
	for range 2 {
		got, err := f.Next(10)
		if err != nil || len(got) != 1 || got[0].Name() != "b.txt" {
			t.Errorf("Next() = %v, %v", got, err)
		}
		if _, err := f.Next(1); !errors.Is(err, io.EOF) {
			t.Errorf("Next() at the end = %v", err)
		}
		must(t, f.Rewind())
	}
	if i, err := f.Stat(); err != nil || !i.IsDir() {
		t.Errorf("Stat() = %v, %v", i, err)
	}
	must(t, f.Close())
	if _, err := f.Next(1); err == nil {
		t.Error("a closed folder was listed")
	}
	if _, err := d.Folder().Open("in", hostfx.OpenOptions{NoFollow: true}); err == nil {
		t.Error("NoFollow followed a link")
	}
}

func TestOpenFilesBound(t *testing.T) { both(t, testOpenFilesBound) }

func testOpenFilesBound(t *testing.T) {
	fx, err := host(t, tree(t)).Open(t.Context(), mint(t, call.Caps{
		FS:     []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "list"}}},
		Bounds: call.Bounds{OpenFiles: 2},
	}))
	must(t, err)
	defer fx.Close()
	a, err := fx.OpenRead("/docs/reports/a.txt")
	must(t, err)
	dir, err := fx.Dirs()[0].Folder().Open("sub", hostfx.OpenOptions{})
	must(t, err)
	if _, err := fx.OpenRead("/docs/reports/a.txt"); !errors.Is(err, hostfx.ErrTooManyOpen) {
		t.Errorf("third open = %v, want %v", err, hostfx.ErrTooManyOpen)
	}
	if _, err := fx.Dirs()[0].Folder().Next(1); err != nil {
		t.Errorf("the granted directory itself counts: %v", err)
	}
	must(t, a.Close())
	if err := a.Close(); err == nil {
		t.Error("a second Close is no error")
	}
	must(t, dir.Close())
	for range 2 {
		if _, err := fx.OpenRead("/docs/reports/a.txt"); err != nil {
			t.Error(err)
		}
	}
	if _, err := fx.OpenRead("/docs/reports/a.txt"); !errors.Is(err, hostfx.ErrTooManyOpen) {
		t.Errorf("closing twice freed two: %v", err)
	}
}

func TestFile(t *testing.T) { both(t, testFile) }

func testFile(t *testing.T) {
	fx := open(t, tree(t), "read")
	f, err := fx.OpenRead("/docs/reports/a.txt")
	must(t, err)
	b := make([]byte, 3)
	if n, err := f.ReadAt(b, 2); n != 3 || err != nil || string(b) != "pha" {
		t.Errorf("ReadAt() = %d, %v, %q", n, err, b)
	}
	if at, err := f.Seek(4, io.SeekStart); at != 4 || err != nil {
		t.Errorf("Seek() = %d, %v", at, err)
	}
	if n, err := f.Read(b); n != 1 || err != nil {
		t.Errorf("Read() = %d, %v", n, err)
	}
	if i, err := f.Stat(); err != nil || i.Size() != 5 {
		t.Errorf("Stat() = %v, %v", i, err)
	}
	want := []call.Effect{effect("fs.read", "/docs/reports/a.txt", "ok", 4)}
	if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestNothingAfterTheCall(t *testing.T) { both(t, testNothingAfterTheCall) }

func testNothingAfterTheCall(t *testing.T) {
	dir := tree(t)
	ends := map[string]func(*hostfx.Effects){
		"closed": func(fx *hostfx.Effects) { fx.Close() },
		"dead":   func(fx *hostfx.Effects) { granttest.Kill(fx.Grant()) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			fx := open(t, dir, "read", "list")
			d := fx.Dirs()[0]
			f, err := fx.OpenRead("/docs/reports/a.txt")
			must(t, err)
			folder, err := d.Folder().Open("sub", hostfx.OpenOptions{})
			must(t, err)
			end(fx)
			tries := map[string]func() error{
				"OpenRead": func() error { _, err := fx.OpenRead("/docs/reports/a.txt"); return err },
				"ReadFile": func() error { _, err := fx.ReadFile("/nowhere"); return err },
				"List":     func() error { _, err := fx.List("/docs/reports"); return err },
				"Stat":     func() error { _, err := fx.Stat("/docs/reports/a.txt"); return err },
				"Read":     func() error { _, err := f.Read(make([]byte, 1)); return err },
				"ReadAt":   func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
				"Seek":     func() error { _, err := f.Seek(0, 0); return err },
				"File":     func() error { _, err := f.Stat(); return err },
				"Next":     func() error { _, err := folder.(*hostfx.Folder).Next(1); return err },
				"Folder":   func() error { _, err := d.Folder().Next(1); return err },
				"Refuse":   func() error { return d.Folder().Refuse("fs.write", "a.txt") },
			}
			for what, try := range tries {
				if err := try(); !errors.Is(err, hostfx.ErrClosed) {
					t.Errorf("%s = %v, want %v", what, err, hostfx.ErrClosed)
				}
			}
			want := []call.Effect{effect("fs.read", "/docs/reports/a.txt", "ok", 0)}
			for range 2 {
				if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
					t.Errorf("effects (-want +got):\n%s", d)
				}
			}
		})
	}
}

// A tool's goroutines go on after its call: they get errors, and the effects
// that Close returned are all there were.
func TestCloseWhileInUse(t *testing.T) { both(t, testCloseWhileInUse) }

func testCloseWhileInUse(t *testing.T) {
	fx := open(t, tree(t), "read", "list")
	var started, wg sync.WaitGroup
	for i := range 8 {
		started.Add(1)
		wg.Go(func() {
			f, err := fx.OpenRead("/docs/reports/a.txt")
			started.Done()
			for err == nil {
				var g *hostfx.File
				if g, err = fx.OpenRead("/docs/reports/a.txt"); err == nil {
					_, _ = io.ReadAll(g)
					_ = g.Close()
				}
				_, _ = f.ReadAt(make([]byte, 2), int64(i%3))
				_, _ = fx.List("/docs/reports")
			}
			if !errors.Is(err, hostfx.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		})
	}
	started.Wait()
	first := fx.Close()
	wg.Wait()
	if d := cmp.Diff(first, fx.Close()); d != "" {
		t.Errorf("effects happened after Close (-first +later):\n%s", d)
	}
}

func TestEffectsAreBounded(t *testing.T) {
	fx := open(t, tree(t), "read")
	for i := range 1500 {
		if _, err := fx.ReadFile("/docs/reports/a.txt"); err != nil {
			t.Fatal(err)
		}
		_, _ = fx.ReadFile(fmt.Sprintf("/docs/reports/none%d", i))
	}
	_, _ = fx.ReadFile("/docs/reports/out")
	got := fx.Close()
	count := map[string]int{}
	for _, e := range got {
		count[e.Code]++
	}
	if d := cmp.Diff(map[string]int{"ok": 500, "not_found": 100, "refused": 1, "more": 1}, count); d != "" {
		t.Errorf("codes (-want +got):\n%s", d)
	}
	want := []call.Effect{{Code: "more", BytesIn: 1000 * 5, Count: 2400}}
	if d := cmp.Diff(want, happened(t, got[len(got)-1:])); d != "" {
		t.Errorf("last effect (-want +got):\n%s", d)
	}
}

func TestReadFileBound(t *testing.T) {
	dir := tree(t)
	big := filepath.Join(dir, "docs/reports/big")
	must(t, os.WriteFile(big, nil, 0o600))
	must(t, os.Truncate(big, 64<<20+1))
	fx := open(t, dir, "read")
	if b, err := fx.ReadFile("/docs/reports/big"); err == nil {
		t.Errorf("read %d bytes", len(b))
	}
}
