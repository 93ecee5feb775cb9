package hostfx_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// all are the modes that there are.
var all = []string{"read", "append", "write", "list", "remove"}

// granted is the folder docs/reports of the tree, granted with the modes.
func granted(t testing.TB, dir string, modes ...string) (*hostfx.Effects, *hostfx.Folder) {
	t.Helper()
	fx := open(t, dir, modes...)
	return fx, fx.Dirs()[0].Folder()
}

// refusal names an error in tables.
func refusal(err error) string {
	for name, is := range map[string]error{
		"not granted": hostfx.ErrNotGranted, "closed": hostfx.ErrClosed, "changed": hostfx.ErrChanged, "quota": hostfx.ErrQuota,
		"too many open": hostfx.ErrTooManyOpen, "missing": fs.ErrNotExist, "exists": fs.ErrExist, "invalid": fs.ErrInvalid,
	} {
		if errors.Is(err, is) && !errors.Is(err, syscall.ENOTEMPTY) {
			return name
		}
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return map[syscall.Errno]string{
			syscall.ELOOP: "ELOOP", syscall.ENOTDIR: "ENOTDIR", syscall.EISDIR: "EISDIR", syscall.ENOTEMPTY: "ENOTEMPTY",
			syscall.EINVAL: "EINVAL", syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.EBADF: "EBADF", syscall.EPERM: "EPERM",
			syscall.EBUSY: "EBUSY", syscall.EFBIG: "EFBIG",
		}[e]
	}
	if err != nil {
		return "? " + err.Error()
	}
	return ""
}

func TestFolderOpen(t *testing.T) { both(t, testFolderOpen) }

func testFolderOpen(t *testing.T) {
	type options = hostfx.OpenOptions
	tests := []struct {
		name, modes, path string
		give              options
		err               string
		want              string // kinds and codes of the effects
	}{
		{name: "nothing said is reading", modes: "read", path: "a.txt", want: "fs.read ok"},
		{name: "reading", modes: "read", path: "a.txt", give: options{Read: true}, want: "fs.read ok"},
		{name: "reading what may only be written", modes: "write", path: "a.txt", err: "not granted", want: "fs.read refused"},
		{name: "reading what may only be added to", modes: "append", path: "a.txt", err: "not granted", want: "fs.read refused"},
		{name: "reading what may only be listed", modes: "list", path: "a.txt", err: "not granted", want: "fs.read refused"},
		{name: "reading what may only be removed", modes: "remove", path: "a.txt", err: "not granted", want: "fs.read refused"},
		{name: "reading with no mode", path: "a.txt", err: "not granted", want: "fs.read refused"},
		{name: "no mode tells not what is there", path: "none", err: "not granted", want: "fs.read refused"},

		{name: "writing", modes: "write", path: "a.txt", give: options{Write: true}, want: "fs.write ok"},
		{name: "writing what may only be read", modes: "read list remove", path: "a.txt", give: options{Write: true}, err: "not granted", want: "fs.write refused"},
		{name: "writing what may only be added to", modes: "append", path: "a.txt", give: options{Write: true}, err: "not granted", want: "fs.write refused"},
		{name: "both", modes: "read write", path: "a.txt", give: options{Read: true, Write: true}, want: "fs.read ok, fs.write ok"},
		{name: "both without reading", modes: "write", path: "a.txt", give: options{Read: true, Write: true}, err: "not granted", want: "fs.write refused"},
		{name: "both without writing", modes: "read", path: "a.txt", give: options{Read: true, Write: true}, err: "not granted", want: "fs.write refused"},

		{name: "appending", modes: "append", path: "a.txt", give: options{Append: true}, want: "fs.append ok"},
		{name: "appending, said twice", modes: "append", path: "a.txt", give: options{Append: true, Write: true}, want: "fs.append ok"},
		{name: "appending with write", modes: "write", path: "a.txt", give: options{Append: true}, want: "fs.append ok"},
		{name: "appending what may only be read", modes: "read list remove", path: "a.txt", give: options{Append: true}, err: "not granted", want: "fs.append refused"},
		{name: "appending and reading", modes: "append", path: "a.txt", give: options{Append: true, Read: true}, err: "not granted", want: "fs.append refused"},
		{name: "appending and emptying", modes: "append", path: "a.txt", give: options{Append: true, Truncate: true}, err: "not granted", want: "fs.write refused"},

		{name: "creating", modes: "write", path: "new", give: options{Write: true, Create: true}, want: "fs.write ok"},
		{name: "creating what is there", modes: "write", path: "a.txt", give: options{Write: true, Create: true}, want: "fs.write ok"},
		{name: "creating to append", modes: "append", path: "new", give: options{Append: true, Create: true}, want: "fs.append ok"},
		{name: "creating to read", modes: "read", path: "new", give: options{Create: true}, err: "not granted", want: "fs.write refused"},
		{name: "creating to read what is there", modes: "read", path: "a.txt", give: options{Create: true}, err: "not granted", want: "fs.write refused"},
		{name: "creating with append alone", modes: "append", path: "new", give: options{Write: true, Create: true}, err: "not granted", want: "fs.write refused"},
		{name: "creating through a link to nothing", modes: "write", path: "dangling", give: options{Write: true, Create: true}, want: "fs.write ok"},
		{name: "creating in nothing", modes: "write", path: "none/new", give: options{Write: true, Create: true}, err: "missing", want: "fs.write not_found"},
		{name: "creating a directory", modes: "write", path: "new", give: options{Write: true, Create: true, Directory: true}, err: "EINVAL", want: "fs.write error"},
		{name: "only if it is not there", modes: "write", path: "new", give: options{Write: true, Create: true, Exclusive: true}, want: "fs.write ok"},
		{name: "only if it is not there, and it is", modes: "write", path: "a.txt", give: options{Write: true, Create: true, Exclusive: true}, err: "exists", want: "fs.write error"},
		{name: "only if it is not there, and a link is", modes: "write", path: "dangling", give: options{Write: true, Create: true, Exclusive: true}, err: "exists", want: "fs.write error"},
		{name: "only if it is not there, and a directory is", modes: "write", path: "sub", give: options{Write: true, Create: true, Exclusive: true}, err: "exists", want: "fs.write error"},
		{name: "exclusive without create", modes: "write", path: "a.txt", give: options{Write: true, Exclusive: true}, want: "fs.write ok"},

		{name: "emptying", modes: "write", path: "a.txt", give: options{Write: true, Truncate: true}, want: "fs.write ok"},
		{name: "emptying to read", modes: "read", path: "a.txt", give: options{Truncate: true}, err: "not granted", want: "fs.write refused"},
		{name: "emptying to read, with write", modes: "read write", path: "a.txt", give: options{Truncate: true}, want: "fs.read ok, fs.write ok"},

		{name: "directory", modes: "read", path: "sub"},
		{name: "directory, said so", modes: "write", path: "sub", give: options{Directory: true}},
		{name: "directory with a slash", modes: "list", path: "sub/"},
		{name: "directory with no mode", path: "sub", give: options{Directory: true}, err: "not granted", want: "fs.list refused"},
		{name: "file as a directory", modes: "read", path: "a.txt", give: options{Directory: true}, err: "ENOTDIR", want: "fs.list error"},
		{name: "file with a slash", modes: "read", path: "a.txt/", err: "ENOTDIR", want: "fs.read error"},
		{name: "below a file", modes: "read", path: "a.txt/x", err: "ENOTDIR", want: "fs.read error"},
		{name: "back from a file", modes: "read", path: "a.txt/../a.txt", err: "ENOTDIR", want: "fs.read error"},
		{name: "writing a directory", modes: "write", path: "sub", give: options{Write: true}, err: "EISDIR", want: "fs.write error"},
		{name: "appending to a directory", modes: "append", path: "sub", give: options{Append: true}, err: "EISDIR", want: "fs.append error"},
		{name: "creating a file with a slash", modes: "write", path: "new/", give: options{Write: true, Create: true}, err: "EISDIR", want: "fs.write error"},

		{name: "link inside", modes: "read", path: "in", want: "fs.read ok"},
		{name: "link inside, to write", modes: "write", path: "in", give: options{Write: true}, want: "fs.write ok"},
		{name: "link not followed", modes: "read", path: "in", give: options{NoFollow: true}, err: "ELOOP", want: "fs.read error"},
		{name: "file not followed", modes: "read", path: "a.txt", give: options{NoFollow: true}, want: "fs.read ok"},
		{name: "link to a directory not followed", modes: "read", path: "subalias", give: options{NoFollow: true, Directory: true}, err: "ELOOP", want: "fs.list error"},
		{name: "link before the end", modes: "read", path: "subalias/b.txt", give: options{NoFollow: true}, want: "fs.read ok"},
		{name: "link loop", modes: "read", path: "loop", err: "ELOOP", want: "fs.read error"},
		{name: "dots inside", modes: "read", path: "sub/.././sub//../a.txt", want: "fs.read ok"},
		{name: "FIFO", modes: "read", path: "fifo", err: "not granted", want: "fs.read refused"},
		{name: "FIFO to write", modes: "write", path: "fifo", give: options{Write: true}, err: "not granted", want: "fs.write refused"},
		{name: "FIFO to create", modes: "write", path: "fifo", give: options{Write: true, Create: true, Truncate: true}, err: "not granted", want: "fs.write refused"},
		{name: "socket", modes: "read", path: "socket", err: "not granted", want: "fs.read refused"},

		{name: "out", modes: "read", path: "../secret.txt", err: "not granted", want: "fs.read refused"},
		{name: "out to create", modes: "write", path: "../new", give: options{Write: true, Create: true}, err: "not granted", want: "fs.write refused"},
		{name: "out by a link to nothing", modes: "write", path: "outdangling", give: options{Write: true, Create: true}, err: "not granted", want: "fs.write refused"},
		{name: "absolute", modes: "read", path: "/a.txt", err: "not granted", want: "fs.read refused"},
		{name: "empty", modes: "read", path: "", err: "missing"},
		{name: "NUL", modes: "read", path: "a.txt\x00", err: "invalid"},
		{name: "long", modes: "read", path: strings.Repeat("a", 4097), err: "ENAMETOOLONG"},
		{name: "long name", modes: "read", path: strings.Repeat("a", 256), err: "ENAMETOOLONG", want: "fs.read error"},
		{name: "longest name", modes: "read", path: strings.Repeat("a", 255), err: "missing", want: "fs.read not_found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t)
			at := filepath.Join(dir, "docs/reports")
			must(t, os.Symlink("../nothing", filepath.Join(at, "outdangling")))
			// A socket's path may only be short.
			l, err := net.Listen("unix", relativeTo(t, filepath.Join(at, "socket")))
			must(t, err)
			defer l.Close()
			fx, f := granted(t, dir, strings.Fields(tt.modes)...)
			h, err := f.Open(tt.path, tt.give)
			if refusal(err) != tt.err || (h == nil) != (err != nil) {
				t.Errorf("Open() = %v, %v, want %q", h, err, tt.err)
			}
			var got []string
			for _, e := range fx.Close() {
				got = append(got, e.Kind+" "+e.Code)
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("effects %q, want %q", got, tt.want)
			}
			b, err := os.ReadFile(filepath.Join(at, "a.txt"))
			if emptied := tt.give.Truncate && tt.err == ""; err != nil || string(b) != map[bool]string{false: "alpha", true: ""}[emptied] {
				t.Errorf("a.txt is %q, %v", b, err)
			}
			_, err = os.Stat(filepath.Join(at, "new"))
			if made := tt.path == "new" && tt.err == ""; made != (err == nil) {
				t.Errorf("new: %v, want it %v", err, made)
			}
		})
	}
}

func relativeTo(t *testing.T, name string) string {
	t.Helper()
	t.Chdir(filepath.Dir(name))
	return filepath.Base(name)
}

// What a file was opened for is what it can do, and an append grant adds at the end
// and does nothing else.
func TestFileModes(t *testing.T) { both(t, testFileModes) }

func testFileModes(t *testing.T) {
	tests := []struct {
		name, modes string
		give        hostfx.OpenOptions
		want        string // what a.txt, "alpha", becomes
		cannot      string
	}{
		{"reading", "read write", hostfx.OpenOptions{}, "alpha", "write writeat truncate allocate"},
		{"writing", "read write", hostfx.OpenOptions{Write: true}, "WXpha\x00\x00\x00", "read readat"},
		{"both", "read write", hostfx.OpenOptions{Read: true, Write: true}, "aXpha\x00\x00W", ""},
		{"appending", "append", hostfx.OpenOptions{Append: true}, "alphaWX", "read readat truncate allocate times front"},
		{"appending with write", "write", hostfx.OpenOptions{Append: true}, "alphaWX\x00", "read readat"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t)
			fx, f := granted(t, dir, strings.Fields(tt.modes)...)
			h, err := f.Open("a.txt", tt.give)
			must(t, err)
			file := h.(*hostfx.File)
			if tt.give.Read && tt.give.Write {
				_, err := file.Seek(7, io.SeekStart)
				must(t, err)
			}
			b := make([]byte, 2)
			for _, op := range []struct {
				name string
				do   func() error
			}{
				{"write", func() error { _, err := file.Write([]byte("W")); return err }},
				{"writeat", func() error { _, err := file.WriteAt([]byte("X"), 1); return err }},
				{"readat", func() error { _, err := file.ReadAt(b, 0); return err }},
				{"read", func() error { _, err := file.Seek(0, io.SeekStart); must(t, err); _, err = file.Read(b); return err }},
				{"truncate", func() error { return file.Truncate(8) }},
				{"allocate", func() error { return file.Allocate(2, 6) }},
				{"times", func() error { return file.SetTimes(hostfx.Times{ModifyNow: true}) }},
				{"front", func() error { return file.SetAppend(false) }},
				{"end", func() error { return file.SetAppend(true) }},
				{"sync", file.Sync},
				{"datasync", file.DataSync},
			} {
				err := op.do()
				if want := strings.Contains(" "+tt.cannot+" ", " "+op.name+" "); want != (err != nil) {
					t.Errorf("%s: %v, want an error %v", op.name, err, want)
				} else if want && refusal(err) != "EBADF" && refusal(err) != "not granted" {
					t.Errorf("%s: %v", op.name, err)
				}
			}
			got, err := os.ReadFile(filepath.Join(dir, "docs/reports/a.txt"))
			must(t, err)
			if string(got) != tt.want {
				t.Errorf("a.txt is %q, want %q", got, tt.want)
			}
			fx.Close()
		})
	}
}

// The offset is the file's own, and writing at the end follows others' writes.
func TestFileOffsets(t *testing.T) { both(t, testFileOffsets) }

func testFileOffsets(t *testing.T) {
	dir := tree(t)
	fx, f := granted(t, dir, "read", "write")
	open := func(o hostfx.OpenOptions) *hostfx.File {
		h, err := f.Open("new", o)
		must(t, err)
		return h.(*hostfx.File)
	}
	a := open(hostfx.OpenOptions{Append: true, Create: true})
	b := open(hostfx.OpenOptions{Read: true, Write: true})
	seek := func(f *hostfx.File, off int64, whence int) int64 {
		t.Helper()
		at, err := f.Seek(off, whence)
		must(t, err)
		return at
	}
	write := func(f *hostfx.File, s string) {
		t.Helper()
		n, err := f.Write([]byte(s))
		if n != len(s) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", s, n, err)
		}
	}
	write(a, "ab")
	seek(a, 0, io.SeekStart)
	write(b, "xyz") // over it, from 0
	write(a, "cd")  // after it
	if at := seek(a, 0, io.SeekCurrent); at != 5 {
		t.Errorf("the offset is %d after appending", at)
	}
	if _, err := a.WriteAt([]byte("ef"), 0); err != nil {
		t.Error(err)
	}
	if at := seek(a, 0, io.SeekCurrent); at != 5 {
		t.Errorf("WriteAt moved the offset to %d", at)
	}
	must(t, a.SetAppend(false))
	_, err := a.WriteAt([]byte("!"), 0)
	must(t, err)
	must(t, a.SetAppend(true))
	write(a, "gh")
	if at := seek(b, -3, io.SeekEnd); at != 6 {
		t.Errorf("3 before the end is %d", at)
	}
	got, err := os.ReadFile(filepath.Join(dir, "docs/reports/new"))
	if err != nil || string(got) != "!yzcdefgh" {
		t.Errorf("the file is %q, %v", got, err)
	}
	for _, bad := range []struct {
		off    int64
		whence int
	}{{-1, io.SeekStart}, {0, 3}, {0, -1}, {0, 5}} {
		if _, err := b.Seek(bad.off, bad.whence); refusal(err) != "EINVAL" {
			t.Errorf("Seek(%d, %d) = %v", bad.off, bad.whence, err)
		}
	}
	if _, err := b.ReadAt(make([]byte, 1), -1); refusal(err) != "EINVAL" {
		t.Errorf("ReadAt(-1) = %v", err)
	}
	if _, err := b.WriteAt(nil, -1); refusal(err) != "EINVAL" {
		t.Errorf("WriteAt(-1) = %v", err)
	}
	want := []call.Effect{
		effect("fs.append", "/docs/reports/new", "ok", 6), effect("fs.read", "/docs/reports/new", "ok", 0),
		effect("fs.write", "/docs/reports/new", "ok", 3), effect("fs.write", "/docs/reports/new", "ok", 3),
	}
	if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

// Tools in Go name files from the top.
func TestEffectsOpen(t *testing.T) { both(t, testEffectsOpen) }

func testEffectsOpen(t *testing.T) {
	dir := tree(t)
	must(t, os.Mkdir(filepath.Join(dir, "docs/drafts"), 0o755))
	fx, err := host(t, dir).Open(t.Context(), mint(t, call.Caps{FS: []call.FS{
		{Root: "docs", Path: "reports", Modes: []string{"read", "append", "remove"}},
		{Root: "docs", Path: "drafts", Modes: []string{"read", "write"}},
	}}))
	must(t, err)
	put := func(f *hostfx.File, err error) error {
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(f, "more")
		return errors.Join(err, f.Close())
	}
	for _, tt := range []struct {
		do   string
		err  error
		want string
	}{
		{"append to a file", put(fx.OpenAppend("/docs/reports/a.txt")), ""},
		{"append to a new file", put(fx.OpenAppend("/docs/reports/log")), ""},
		{"write there", put(fx.OpenWrite("/docs/reports/a.txt")), "not granted"},
		{"write", put(fx.OpenWrite("/docs/drafts/a.txt")), ""},
		{"write again", put(fx.OpenWrite("/docs/drafts/a.txt")), ""},
		{"append where writing is granted", put(fx.OpenAppend("/docs/drafts/b.txt")), ""},
		{"append to a directory", put(fx.OpenAppend("/docs/reports/sub")), "EISDIR"},
		{"write elsewhere", put(fx.OpenWrite("/docs/secret.txt")), "not granted"},
		{"write with dots", put(fx.OpenWrite("/docs/drafts/../secret.txt")), "not granted"},
		{"make", fx.Mkdir("/docs/drafts/d"), ""},
		{"make again", fx.Mkdir("/docs/drafts/d"), "exists"},
		{"make the granted one", fx.Mkdir("/docs/drafts"), "exists"},
		{"make there", fx.Mkdir("/docs/reports/d"), "not granted"},
		{"move", fx.Rename("/docs/reports/log", "/docs/drafts/log"), ""},
		{"move back", fx.Rename("/docs/drafts/log", "/docs/reports/log"), "not granted"},
		{"move nothing", fx.Rename("/docs/reports/none", "/docs/drafts/none"), "missing"},
		{"move out", fx.Rename("/docs/reports/a.txt", "/docs/a.txt"), "not granted"},
		{"remove", fx.Remove("/docs/reports/in"), ""},
		{"remove again", fx.Remove("/docs/reports/in"), "missing"},
		{"remove a full directory", fx.Remove("/docs/reports/sub"), "ENOTEMPTY"},
		{"remove there", fx.Remove("/docs/drafts/a.txt"), "not granted"},
		{"remove elsewhere", fx.Remove("/docs/secret.txt"), "not granted"},
		{"relative", fx.Mkdir("drafts/e"), "invalid"},
	} {
		if got := refusal(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %q", tt.do, tt.err, tt.want)
		}
	}
	fx.Close()
	for name, want := range map[string]string{"reports/a.txt": "alphamore", "drafts/a.txt": "more", "drafts/b.txt": "more", "drafts/log": "more", "reports/sub/b.txt": "beta"} {
		if b, err := os.ReadFile(filepath.Join(dir, "docs", name)); string(b) != want || err != nil {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
}
