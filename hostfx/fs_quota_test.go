package hostfx_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// bounded grants docs/reports with all modes and bounds.
func bounded(t *testing.T, dir string, b call.Bounds) (*hostfx.Effects, *hostfx.Folder) {
	t.Helper()
	fx, err := host(t, dir).Open(t.Context(), mint(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: all}}, Bounds: b}))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx, fx.Dirs()[0].Folder()
}

func create(t *testing.T, f *hostfx.Folder, name string) *hostfx.File {
	t.Helper()
	h, err := f.Open(name, hostfx.OpenOptions{Read: true, Write: true, Create: true})
	must(t, err)
	return h.(*hostfx.File)
}

func size(t *testing.T, f *hostfx.File) int64 {
	t.Helper()
	i, err := f.Stat()
	must(t, err)
	return i.Size()
}

// Each way to write or to grow a file, with 10 bytes to write.
func TestWriteBytes(t *testing.T) { both(t, testWriteBytes) }

func testWriteBytes(t *testing.T) {
	write := func(n int) func(*hostfx.File) error {
		return func(f *hostfx.File) error { _, err := f.Write(make([]byte, n)); return err }
	}
	writeAt := func(n int, off int64) func(*hostfx.File) error {
		return func(f *hostfx.File) error { _, err := f.WriteAt(make([]byte, n), off); return err }
	}
	truncate := func(n int64) func(*hostfx.File) error {
		return func(f *hostfx.File) error { return f.Truncate(n) }
	}
	allocate := func(off, n int64) func(*hostfx.File) error {
		return func(f *hostfx.File) error { return f.Allocate(off, n) }
	}
	seek := func(off int64) func(*hostfx.File) error {
		return func(f *hostfx.File) error { _, err := f.Seek(off, io.SeekStart); return err }
	}
	type steps []func(*hostfx.File) error
	for _, tt := range []struct {
		name string
		do   steps
		err  string // of the last
		size int64
		left int64
	}{
		{"all", steps{write(10)}, "", 10, 0},
		{"one more", steps{write(11)}, "quota", 0, 10},
		{"in two", steps{write(6), write(5)}, "quota", 6, 4},
		{"a refusal takes nothing", steps{write(6), write(5), write(4)}, "", 10, 0},
		{"over and over", steps{writeAt(5, 0), writeAt(5, 0), writeAt(1, 0)}, "quota", 5, 0},
		{"a hole counts", steps{writeAt(1, 9)}, "", 10, 0},
		{"a hole that is too large", steps{writeAt(1, 10)}, "quota", 0, 10},
		{"a hole of a TiB", steps{writeAt(1, 1<<40)}, "quota", 0, 10},
		{"the end of all offsets", steps{writeAt(1, math.MaxInt64)}, "EFBIG", 0, 10},
		{"nothing far away", steps{writeAt(0, 1<<40)}, "", 0, 10},
		{"a hole by the offset", steps{seek(9), write(1)}, "", 10, 0},
		{"a hole by the offset that is too large", steps{seek(10), write(1)}, "quota", 0, 10},
		{"longer", steps{truncate(10)}, "", 10, 0},
		{"too long", steps{truncate(11)}, "quota", 0, 10},
		{"a TiB long", steps{truncate(1 << 40)}, "quota", 0, 10},
		{"longer, shorter, longer", steps{truncate(6), truncate(0), truncate(5)}, "quota", 0, 4},
		{"shorter is free", steps{write(10), truncate(3)}, "", 3, 0},
		{"of a negative length", steps{truncate(-1)}, "EINVAL", 0, 10},
		{"longer than any file", steps{truncate(math.MaxInt64)}, "quota", 0, 10},
		{"allocated", steps{allocate(4, 6)}, "", 10, 0},
		{"allocated where there is something", steps{truncate(8), allocate(2, 6)}, "", 8, 2},
		{"allocated too much", steps{allocate(5, 6)}, "quota", 0, 10},
		{"allocated beyond all offsets", steps{allocate(math.MaxInt64, 1)}, "EFBIG", 0, 10},
		{"nothing allocated", steps{allocate(0, 0)}, "EINVAL", 0, 10},
		{"allocated before the file", steps{allocate(-1, 1)}, "EINVAL", 0, 10},
		{"appended", steps{func(f *hostfx.File) error { return f.SetAppend(true) }, write(11)}, "quota", 0, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx, f := bounded(t, tree(t), call.Bounds{WriteBytes: 10})
			file := create(t, f, "new")
			var err error
			for _, step := range tt.do {
				err = step(file)
			}
			if refusal(err) != tt.err {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			if got := size(t, file); got != tt.size {
				t.Errorf("the file has %d bytes, want %d", got, tt.size)
			}
			rest := create(t, f, "rest")
			if _, err := rest.Write(make([]byte, tt.left+1)); refusal(err) != "quota" {
				t.Errorf("one byte more than is left: %v", err)
			}
			if n, err := rest.Write(make([]byte, tt.left)); int64(n) != tt.left || err != nil {
				t.Errorf("what is left: %d, %v", n, err)
			}
			over := 0
			for _, e := range fx.Close() {
				if e.Code == "over_cap" {
					over++
				}
			}
			if over == 0 {
				t.Error("no refusal is recorded")
			}
		})
	}
}

// Writers together never write more than the quota, whatever they do at once, and all
// of it can be written.
func TestWriteBytesTogether(t *testing.T) { both(t, testWriteBytesTogether) }

func testWriteBytesTogether(t *testing.T) {
	const quota = 4000
	dir := tree(t)
	fx, f := bounded(t, dir, call.Bounds{WriteBytes: quota})
	var wg sync.WaitGroup
	files := []*hostfx.File{create(t, f, "x"), create(t, f, "x"), create(t, f, "y"), create(t, f, "z")}
	for i := range 8 {
		wg.Go(func() {
			file := files[i%len(files)]
			for n := range 400 {
				switch (i + n) % 5 {
				case 0:
					_, _ = file.WriteAt(make([]byte, 3), int64(n*7))
				case 1:
					_ = file.Truncate(int64(n * 5 % 97))
				case 2:
					_, _ = file.Seek(int64(n*11%501), io.SeekStart)
				default:
					_, _ = file.Write(make([]byte, 1+n%5))
				}
			}
		})
	}
	wg.Wait()
	var total int64
	for _, name := range []string{"x", "y", "z"} {
		i, err := os.Stat(filepath.Join(dir, "docs/reports", name))
		must(t, err)
		total += i.Size()
	}
	var moved int64
	rest := create(t, f, "rest")
	for {
		n, err := rest.Write([]byte{1})
		if err != nil {
			if !errors.Is(err, hostfx.ErrQuota) {
				t.Fatal(err)
			}
			break
		}
		total += int64(n)
	}
	for _, e := range fx.Close() {
		moved += e.BytesOut
	}
	if total > quota || moved > quota {
		t.Errorf("%d bytes are there and %d were written of %d", total, moved, quota)
	}
}

// Writers that only append fill the quota to the last byte.
func TestWriteBytesToTheLast(t *testing.T) {
	dir := tree(t)
	fx, f := bounded(t, dir, call.Bounds{WriteBytes: 1000})
	var wg sync.WaitGroup
	for i := range 4 {
		h, err := f.Open("log", hostfx.OpenOptions{Append: true, Create: true})
		must(t, err)
		wg.Go(func() {
			for {
				if _, err := h.(*hostfx.File).Write([]byte{byte('a' + i)}); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	fx.Close()
	if i, err := os.Stat(filepath.Join(dir, "docs/reports/log")); err != nil || i.Size() != 1000 {
		t.Errorf("the file has %v bytes, %v", i.Size(), err)
	}
}

// What the system refuses to write or to grow takes nothing.
func TestWriteBytesThatFail(t *testing.T) {
	_, f := bounded(t, tree(t), call.Bounds{WriteBytes: 10})
	file, broken := create(t, f, "new"), create(t, f, "broken")
	hostfx.Break(broken)
	for range 5 {
		if _, err := broken.Write(make([]byte, 9)); refusal(err) != "EBADF" {
			t.Errorf("Write() = %v", err)
		}
		if _, err := broken.WriteAt(make([]byte, 1), 8); refusal(err) != "EBADF" {
			t.Errorf("WriteAt() = %v", err)
		}
		if err := broken.Truncate(9); refusal(err) != "EINVAL" {
			t.Errorf("Truncate() = %v", err)
		}
	}
	if n, err := file.Write(make([]byte, 10)); n != 10 || err != nil {
		t.Errorf("Write() = %d, %v", n, err)
	}
}

// Without a bound there is one.
func TestWriteBytesDefault(t *testing.T) {
	_, f := bounded(t, tree(t), call.Bounds{})
	file := create(t, f, "new")
	must(t, file.Truncate(64<<20))
	if err := file.Truncate(64<<20 + 1); refusal(err) != "quota" {
		t.Errorf("got %v", err)
	}
}

// What is larger than one step is written whole.
func TestLargeWrite(t *testing.T) {
	fx, f := bounded(t, tree(t), call.Bounds{})
	file := create(t, f, "new")
	b := make([]byte, 5<<20+3)
	for i := range b {
		b[i] = byte(i * 7 / 5)
	}
	if n, err := file.Write(b); n != len(b) || err != nil {
		t.Fatalf("Write() = %d, %v", n, err)
	}
	got := make([]byte, len(b)+1)
	if n, err := file.ReadAt(got, 0); n != len(b) || !errors.Is(err, io.EOF) || string(got[:n]) != string(b) {
		t.Errorf("ReadAt() = %d, %v", n, err)
	}
	if n, err := file.WriteAt(b[:3<<20], 1); n != 3<<20 || err != nil || size(t, file) != int64(len(b)) {
		t.Errorf("WriteAt() = %d, %v", n, err)
	}
	fx.Close()
}

// Every way to make an entry counts, what fails does not, and nothing of what another
// way left makes room.
func TestEntriesQuota(t *testing.T) { both(t, testEntriesQuota) }

func testEntriesQuota(t *testing.T) {
	fx, f := bounded(t, tree(t), call.Bounds{})
	makes := []func(name string) error{
		func(name string) error { return f.Mkdir(name) },
		func(name string) error { return f.Symlink("a.txt", name) },
		func(name string) error { return f.Link("a.txt", f, name) },
		func(name string) error {
			h, err := f.Open(name, hostfx.OpenOptions{Append: true, Create: true})
			if err == nil {
				h.Close()
			}
			return err
		},
	}
	for _, do := range makes {
		for _, name := range []string{"sub", "none/new"} {
			if err := do(name); err == nil {
				t.Errorf("made %s", name)
			}
		}
	}
	const most = 20
	if was := hostfx.SetEntries(fx, most); was != 10_000 {
		t.Errorf("%d entries are left of 10,000, although none was made", was)
	}
	for i := range most {
		name := fmt.Sprintf("n%d", i)
		if err := makes[i%len(makes)](name); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if i%len(makes) == 0 {
			must(t, f.RemoveDir(name))
		} else {
			must(t, f.Remove(name))
		}
	}
	for i, do := range makes {
		if err := do("more"); refusal(err) != "quota" {
			t.Errorf("way %d: %v", i, err)
		}
	}
	if h, err := f.Open("a.txt", hostfx.OpenOptions{Append: true, Create: true}); err != nil {
		t.Errorf("opening what is there: %v", err)
	} else {
		h.Close()
	}
	must(t, f.Rename("in", f, "moved"))
	over := 0
	for _, e := range fx.Close() {
		if e.Code == "over_cap" {
			over++
		}
	}
	if over != len(makes) {
		t.Errorf("%d refusals are recorded", over)
	}
}

// Handles for writing and directories count as open files too.
func TestOpenFilesOfAllSorts(t *testing.T) { both(t, testOpenFilesOfAllSorts) }

func testOpenFilesOfAllSorts(t *testing.T) {
	dir := tree(t)
	_, f := bounded(t, dir, call.Bounds{OpenFiles: 3})
	var open []hostfx.Handle
	for _, o := range []hostfx.OpenOptions{{}, {Write: true, Create: true}, {Append: true}} {
		h, err := f.Open("a.txt", o)
		must(t, err)
		open = append(open, h)
	}
	for name, o := range map[string]hostfx.OpenOptions{"new": {Write: true, Create: true}, "a.txt": {Write: true, Truncate: true}, "sub": {}} {
		if _, err := f.Open(name, o); refusal(err) != "too many open" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "docs/reports/new")); err == nil {
		t.Error("a file was created for which there was no handle")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "docs/reports/a.txt")); string(b) != "alpha" {
		t.Errorf("a.txt is %q, %v: it was emptied for no handle", b, err)
	}
	must(t, open[0].Close())
	if _, err := f.Open("sub", hostfx.OpenOptions{}); err != nil {
		t.Error(err)
	}
	// A failed open gives its place back.
	for range 5 {
		if _, err := f.Open("none", hostfx.OpenOptions{}); refusal(err) != "missing" {
			t.Fatal(err)
		}
	}
	must(t, open[1].Close())
	for range 5 {
		if _, err := f.Open("none/new", hostfx.OpenOptions{Write: true, Create: true}); refusal(err) != "missing" {
			t.Fatal(err)
		}
	}
	if _, err := f.Open("new", hostfx.OpenOptions{Write: true, Create: true}); err != nil {
		t.Error(err)
	}
}
