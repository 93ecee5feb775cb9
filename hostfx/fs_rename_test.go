package hostfx_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

func TestRename(t *testing.T) { both(t, testRename) }

func testRename(t *testing.T) {
	mv := func(rel, to string) func(*hostfx.Folder) error {
		return func(f *hostfx.Folder) error { return f.Rename(rel, f, to) }
	}
	const modes = "write remove"
	changes(t, []change{
		{name: "file", modes: modes, do: mv("a.txt", "new"), want: "fs.remove a.txt ok, fs.write new ok", gone: "a.txt", there: "new"},
		{name: "into a directory", modes: modes, do: mv("a.txt", "subalias/new"), want: "fs.remove a.txt ok, fs.write subalias/new ok", gone: "a.txt", there: "sub/new"},
		{name: "over a file", modes: modes, do: mv("a.txt", "sub/b.txt"), want: "fs.remove a.txt ok, fs.write sub/b.txt ok", gone: "a.txt"},
		{name: "over a link", modes: modes, do: mv("a.txt", "out"), want: "fs.remove a.txt ok, fs.write out ok", gone: "a.txt"},
		{name: "directory", modes: modes, do: mv("sub", "new"), want: "fs.remove sub ok, fs.write new ok", gone: "sub sub/b.txt", there: "new new/b.txt"},
		{name: "directory with slashes", modes: modes, do: mv("sub/", "new/"), want: "fs.remove sub ok, fs.write new ok", gone: "sub sub/b.txt", there: "new new/b.txt"},
		{name: "over an empty directory", modes: modes, do: mv("sub", "empty"), want: "fs.remove sub ok, fs.write empty ok", gone: "sub sub/b.txt", there: "empty/b.txt"},
		{name: "link inside", modes: modes, do: mv("subalias", "new"), want: "fs.remove subalias ok, fs.write new ok", gone: "subalias", there: "new"},
		{name: "to itself", modes: modes, do: mv("a.txt", "a.txt"), want: "fs.remove a.txt ok, fs.write a.txt ok"},

		{name: "without remove", modes: "read append list write", do: mv("a.txt", "new"), err: "not granted", want: "fs.remove a.txt refused"},
		{name: "without write", modes: "read append list remove", do: mv("a.txt", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "missing", modes: modes, do: mv("none", "new"), err: "missing", want: "fs.remove none not_found"},
		{name: "into nothing", modes: modes, do: mv("a.txt", "none/new"), err: "missing", want: "fs.write none/new not_found"},
		{name: "over a full directory", modes: modes, do: mv("empty", "sub"), err: "ENOTEMPTY", want: "fs.write sub error"},
		{name: "directory over a file", modes: modes, do: mv("sub", "a.txt"), err: "ENOTDIR", want: "fs.write a.txt error"},
		{name: "file over a directory", modes: modes, do: mv("a.txt", "empty"), err: "EISDIR", want: "fs.write empty error"},
		{name: "file with a slash", modes: modes, do: mv("a.txt/", "new"), err: "ENOTDIR", want: "fs.write new error"},
		{name: "file to a slash", modes: modes, do: mv("a.txt", "new/"), err: "ENOTDIR", want: "fs.write new error"},
		{name: "into itself", modes: modes, do: mv("sub", "sub/new"), err: "EINVAL", want: "fs.write sub/new error"},
		{name: "the directory itself", modes: modes, do: mv(".", "new"), err: "EBUSY", want: "fs.write new error"},
		{name: "over the directory itself", modes: modes, do: mv("sub", "."), err: "EBUSY", want: "fs.write /docs/reports error"},
		{name: "link with dots", modes: modes, do: mv("out", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "absolute link", modes: modes, do: mv("absolute", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "out", modes: modes, do: mv("a.txt", "../new"), err: "not granted", want: "fs.write /docs/new refused"},
		{name: "out by a link", modes: modes, do: mv("a.txt", "updir/new"), err: "not granted", want: "fs.write updir/new refused"},
		{name: "in from outside", modes: modes, do: mv("../secret.txt", "new"), err: "not granted", want: "fs.remove /docs/secret.txt refused"},
		{name: "in by a link", modes: modes, do: mv("updir/secret.txt", "new"), err: "not granted", want: "fs.remove updir/secret.txt refused"},
		{name: "missing, out by a link", modes: modes, do: mv("none", "updir/new"), err: "not granted", want: "fs.write updir/new refused"},
		{name: "below a file", modes: modes, do: mv("a.txt/x", "new"), err: "ENOTDIR", want: "fs.remove a.txt/x error"},
		{name: "both by a link", modes: modes, do: mv("updir/secret.txt", "updir/new"), err: "not granted", want: "fs.remove updir/secret.txt refused"},
		{name: "absolute", modes: modes, do: mv("/a.txt", "new"), err: "not granted", want: "fs.remove /a.txt refused"},
		{name: "to absolute", modes: modes, do: mv("a.txt", "/new"), err: "not granted", want: "fs.write /new refused"},
		{name: "to nothing", modes: modes, do: mv("a.txt", ""), err: "missing"},
		{name: "NUL", modes: modes, do: mv("a.txt", "\x00"), err: "invalid"},
		{name: "long", modes: modes, do: mv("a.txt", strings.Repeat("a", 4097)), err: "ENAMETOOLONG"},
	})
}

func TestLink(t *testing.T) { both(t, testLink) }

func testLink(t *testing.T) {
	ln := func(rel, to string) func(*hostfx.Folder) error {
		return func(f *hostfx.Folder) error { return f.Link(rel, f, to) }
	}
	changes(t, []change{
		{name: "file", modes: "write", do: ln("a.txt", "new"), want: "fs.write new ok", there: "new"},
		{name: "elsewhere", modes: "write", do: ln("subalias/b.txt", "new"), want: "fs.write new ok", there: "new"},
		{name: "link itself", modes: "write", do: ln("dangling", "new"), want: "fs.write new ok", there: "new"},
		{name: "without the mode", modes: "read append list remove", do: ln("a.txt", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "name from outside", modes: "write", do: ln("hard", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "link with dots", modes: "write", do: ln("out", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "there", modes: "write", do: ln("a.txt", "in"), err: "exists", want: "fs.write in error"},
		{name: "missing", modes: "write", do: ln("none", "new"), err: "missing", want: "fs.write none not_found"},
		{name: "directory", modes: "write", do: ln("sub", "new"), err: "EPERM", want: "fs.write new error"},
		{name: "the directory itself", modes: "write", do: ln(".", "new"), err: "EPERM", want: "fs.write new error"},
		{name: "with a slash", modes: "write", do: ln("subalias/", "new"), err: "ENOTDIR", want: "fs.write new error"},
		{name: "to a slash", modes: "write", do: ln("a.txt", "new/"), err: "missing", want: "fs.write new not_found"},
		{name: "out", modes: "write", do: ln("a.txt", "../new"), err: "not granted", want: "fs.write /docs/new refused"},
		{name: "in from outside", modes: "write", do: ln("../secret.txt", "new"), err: "not granted", want: "fs.write /docs/secret.txt refused"},
		{name: "in by a link", modes: "write", do: ln("updir/secret.txt", "new"), err: "not granted", want: "fs.write updir/secret.txt refused"},
		{name: "absolute", modes: "write", do: ln("/etc/passwd", "new"), err: "not granted", want: "fs.write /etc/passwd refused"},
	})
}

// two grants one directory with some modes and another one with others.
func two(t *testing.T, dir, from, to string) (fx *hostfx.Effects, a, b *hostfx.Folder) {
	t.Helper()
	_ = os.Mkdir(filepath.Join(dir, "docs/drafts"), 0o755)
	fx, err := host(t, dir).Open(t.Context(), mint(t, call.Caps{FS: []call.FS{
		{Root: "docs", Path: "reports", Modes: strings.Fields(from)},
		{Root: "docs", Path: "drafts", Modes: strings.Fields(to)},
	}}))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx, fx.Dirs()[0].Folder(), fx.Dirs()[1].Folder()
}

// Between two directories, each side needs its modes, and nothing becomes readable
// that was not.
func TestAcrossGrants(t *testing.T) { both(t, testAcrossGrants) }

func testAcrossGrants(t *testing.T) {
	for _, tt := range []struct {
		from, to     string
		rename, link bool
	}{
		{"remove", "write", true, false},
		{"write", "write", false, true},
		{"read write remove", "read write list", false, true},
		{"read write list remove", "read write list", true, true},
		{"remove write", "read write", false, false},
		{"remove write", "list write", false, true}, // the name of a file is what was given
		{"remove list", "write list", true, false},
		{"read list remove", "write", true, false},
		{"read", "write", false, false},
		{"read write append list", "read remove append list", false, false},
		{"remove", "append", false, false},
		{"write remove", "read", false, false},
		{"write remove", "", false, false},
		{"", "write", false, false},
	} {
		for name, try := range map[string]struct {
			do   func(a, b *hostfx.Folder) error
			want bool
		}{
			"rename": {func(a, b *hostfx.Folder) error { return a.Rename("sub/b.txt", b, "new") }, tt.rename},
			"link":   {func(a, b *hostfx.Folder) error { return a.Link("sub/b.txt", b, "new") }, tt.link},
		} {
			dir := tree(t)
			fx, a, b := two(t, dir, tt.from, tt.to)
			err := try.do(a, b)
			if (err == nil) != try.want || err != nil && !errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("%s from %q to %q: %v, want it %v", name, tt.from, tt.to, err, try.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "docs/drafts/new")); (err == nil) != try.want {
				t.Errorf("%s from %q to %q: %v, want it %v", name, tt.from, tt.to, err, try.want)
			}
			effects := fx.Close()
			if last := effects[len(effects)-1]; (last.Code == "ok") != try.want || !try.want && last.Code != "refused" {
				t.Errorf("%s from %q to %q: %v", name, tt.from, tt.to, effects)
			}
		}
	}
	// A directory granted below another one is in both.
	for _, tt := range []struct {
		above, below string
		rename, link bool
	}{
		{"write remove", "read", false, false},
		{"write remove", "list", false, true},
		{"write remove", "write append remove", true, true},
		{"read write list remove", "read list", true, true},
	} {
		fx, err := host(t, tree(t)).Open(t.Context(), mint(t, call.Caps{FS: []call.FS{
			{Root: "docs", Path: ".", Modes: strings.Fields(tt.above)}, {Root: "docs", Path: "reports/sub", Modes: strings.Fields(tt.below)},
		}}))
		must(t, err)
		f := fx.Dirs()[0].Folder()
		if err := f.Link("secret.txt", f, "reports/subalias/l"); (err == nil) != tt.link {
			t.Errorf("link below %q to %q: %v, want it %v", tt.above, tt.below, err, tt.link)
		}
		if err := f.Rename("secret.txt", f, "reports/subalias/r"); (err == nil) != tt.rename {
			t.Errorf("rename below %q to %q: %v, want it %v", tt.above, tt.below, err, tt.rename)
		}
		fx.Close()
	}
	// The handles of two calls do not go together.
	dir := tree(t)
	fx, a, _ := two(t, dir, "write remove", "write")
	other, _, b := two(t, dir, "write", "write")
	if err := a.Rename("a.txt", b, "new"); refusal(err) != "not granted" {
		t.Errorf("a file went from one call to another: %v", err)
	}
	if err := a.Link("a.txt", b, "new"); refusal(err) != "not granted" {
		t.Errorf("a file was linked from one call to another: %v", err)
	}
	if got, others := fx.Close(), other.Close(); len(others) > 0 || len(got) != 2 || got[0].Code != "refused" || got[1].Kind != "fs.write" {
		t.Errorf("effects %+v, and of the other call %+v", got, others)
	}
}

// A file with names besides those that the call made may be one from outside: it is
// read, and nothing writes to it.
func TestHardLinks(t *testing.T) { both(t, testHardLinks) }

func testHardLinks(t *testing.T) {
	dir := tree(t)
	at := func(name string) string { return filepath.Join(dir, "docs/reports", name) }
	must(t, os.Link(filepath.Join(dir, "docs/secret.txt"), at("hard")))
	fx, f := granted(t, dir, all...)
	try := func(name string, o hostfx.OpenOptions) string {
		h, err := f.Open(name, o)
		if err == nil {
			h.Close()
		}
		return refusal(err)
	}
	write, add := hostfx.OpenOptions{Write: true}, hostfx.OpenOptions{Append: true}
	cut, read := hostfx.OpenOptions{Truncate: true}, hostfx.OpenOptions{}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	want("reading", try("hard", read), "")
	want("writing", try("hard", write), "not granted")
	want("appending", try("hard", add), "not granted")
	want("emptying", try("hard", cut), "not granted")
	h, err := f.Open("hard", read)
	must(t, err)
	want("times of the open file", refusal(h.(*hostfx.File).SetTimes(hostfx.Times{ModifyNow: true})), "not granted")
	want("times", refusal(f.SetTimes("hard", hostfx.Times{ModifyNow: true}, true)), "not granted")
	want("a name more", refusal(f.Link("hard", f, "more")), "not granted")

	// Those of the call's own making.
	must(t, f.Link("a.txt", f, "second"))
	must(t, f.Link("second", f, "third"))
	want("writing to a file with names of the call", try("second", write), "")
	must(t, os.Link(at("a.txt"), filepath.Join(dir, "outside/fourth")))
	want("and one from the host", try("second", write), "not granted")
	must(t, os.Remove(filepath.Join(dir, "outside/fourth")))
	want("and without", try("second", write), "")

	// Names that are gone again do not count for those of others.
	must(t, f.Remove("third"))
	must(t, f.Rename("in", f, "second"))
	must(t, os.Link(at("a.txt"), filepath.Join(dir, "outside/fourth")))
	want("after the names of the call are gone", try("a.txt", write), "not granted")
	fx.Close()

	// Another call made the name.
	must(t, os.Remove(filepath.Join(dir, "outside/fourth")))
	_, g := granted(t, dir, all...)
	fx, f = granted(t, dir, all...)
	must(t, g.Link("a.txt", g, "other"))
	want("a name of another call", try("a.txt", write), "not granted")
	fx.Close()
	b, err := os.ReadFile(filepath.Join(dir, "docs/secret.txt"))
	if err != nil || string(b) != canary {
		t.Errorf("the file outside is %q, %v", b, err)
	}
}

// What is opened is looked at again, since it may have been put there after the first
// look. Nothing waits for the other end of a FIFO.
func TestOpenLooksAgain(t *testing.T) { both(t, testOpenLooksAgain) }

func testOpenLooksAgain(t *testing.T) {
	dir := tree(t)
	must(t, os.Link(filepath.Join(dir, "docs/secret.txt"), filepath.Join(dir, "docs/reports/hard")))
	_, f := granted(t, dir, all...)
	for _, tt := range []struct {
		name string
		give hostfx.OpenOptions
		want bool
	}{
		{"a.txt", hostfx.OpenOptions{}, true},
		{"hard", hostfx.OpenOptions{}, true},
		{"fifo", hostfx.OpenOptions{}, false},
		{"fifo", hostfx.OpenOptions{Write: true}, false},
		{"fifo", hostfx.OpenOptions{Read: true, Write: true}, false},
		{"sub", hostfx.OpenOptions{}, false},
		{"hard", hostfx.OpenOptions{Append: true}, false},
		{"hard", hostfx.OpenOptions{Truncate: true}, false},
		{"out", hostfx.OpenOptions{}, false},
		{"in", hostfx.OpenOptions{NoFollow: true}, false},
	} {
		if err := hostfx.OpenUnseen(f, tt.name, tt.give); (err == nil) != tt.want {
			t.Errorf("%s with %+v: %v, want it %v", tt.name, tt.give, err, tt.want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "docs/secret.txt")); err != nil || string(b) != canary {
		t.Errorf("the file outside is %q, %v", b, err)
	}
}
