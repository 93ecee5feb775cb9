package hostfx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// change is a table of one operation.
type change struct {
	name, modes string
	do          func(f *hostfx.Folder) error
	err         string
	want        string // kinds, targets below the grant and codes of the effects
	there, gone string // names below the grant that are to be there, or not, if not as they were
}

func changes(t *testing.T, tests []change) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t)
			at := filepath.Join(dir, "docs/reports")
			must(t, os.Mkdir(filepath.Join(at, "empty"), 0o755))
			must(t, os.Link(filepath.Join(dir, "outside/c.txt"), filepath.Join(at, "hard")))
			before := names(t, at)
			fx, f := granted(t, dir, strings.Fields(tt.modes)...)
			if err := tt.do(f); refusal(err) != tt.err {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			var got []string
			for _, e := range fx.Close() {
				got = append(got, e.Kind+" "+strings.TrimPrefix(e.Target, "/docs/reports/")+" "+e.Code)
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("effects %q, want %q", got, tt.want)
			}
			for _, n := range strings.Fields(tt.there) {
				before[n] = true
			}
			for _, n := range strings.Fields(tt.gone) {
				delete(before, n)
			}
			if d := cmp.Diff(before, names(t, at)); d != "" {
				t.Errorf("names (-want +got):\n%s", d)
			}
		})
	}
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, p); rel != "." {
			out[rel] = true
		}
		return err
	}))
	return out
}

func TestMkdir(t *testing.T) { both(t, testMkdir) }

func testMkdir(t *testing.T) {
	mk := func(rel string) func(*hostfx.Folder) error {
		return func(f *hostfx.Folder) error { return f.Mkdir(rel) }
	}
	changes(t, []change{
		{name: "new", modes: "write", do: mk("new"), want: "fs.write new ok", there: "new"},
		{name: "with a slash", modes: "write", do: mk("new/"), want: "fs.write new ok", there: "new"},
		{name: "deeper", modes: "write", do: mk("subalias/new"), want: "fs.write subalias/new ok", there: "sub/new"},
		{name: "without the mode", modes: "read append list remove", do: mk("new"), err: "not granted", want: "fs.write new refused"},
		{name: "there", modes: "write", do: mk("sub"), err: "exists", want: "fs.write sub error"},
		{name: "over a link to nothing", modes: "write", do: mk("dangling"), err: "exists", want: "fs.write dangling error"},
		{name: "over a link to nothing, with a slash", modes: "write", do: mk("dangling/"), err: "exists", want: "fs.write dangling error"},
		{name: "in nothing", modes: "write", do: mk("none/new"), err: "missing", want: "fs.write none/new not_found"},
		{name: "in a file", modes: "write", do: mk("a.txt/new"), err: "ENOTDIR", want: "fs.write a.txt/new error"},
		{name: "itself", modes: "write", do: mk("."), err: "exists", want: "fs.write /docs/reports error"},
		{name: "back to itself", modes: "write", do: mk("sub/.."), err: "exists", want: "fs.write sub/.. error"},
		{name: "out", modes: "write", do: mk("../new"), err: "not granted", want: "fs.write /docs/new refused"},
		{name: "the one above", modes: "write", do: mk(".."), err: "not granted", want: "fs.write /docs refused"},
		{name: "through a link", modes: "write", do: mk("updir/new"), err: "not granted", want: "fs.write updir/new refused"},
		{name: "absolute", modes: "write", do: mk("/new"), err: "not granted", want: "fs.write /new refused"},
		{name: "slashes", modes: "write", do: mk("//"), err: "not granted", want: "fs.write / refused"},
		{name: "empty", modes: "write", do: mk(""), err: "missing"},
		{name: "NUL", modes: "write", do: mk("a\x00"), err: "invalid"},
		{name: "long", modes: "write", do: mk(strings.Repeat("a/", 2049)), err: "ENAMETOOLONG"},
	})
}

func TestRemove(t *testing.T) { both(t, testRemove) }

func testRemove(t *testing.T) {
	rm := func(rel string) func(*hostfx.Folder) error {
		return func(f *hostfx.Folder) error { return f.Remove(rel) }
	}
	rd := func(rel string) func(*hostfx.Folder) error {
		return func(f *hostfx.Folder) error { return f.RemoveDir(rel) }
	}
	changes(t, []change{
		{name: "file", modes: "remove", do: rm("a.txt"), want: "fs.remove a.txt ok", gone: "a.txt"},
		{name: "through a link inside", modes: "remove", do: rm("subalias/b.txt"), want: "fs.remove subalias/b.txt ok", gone: "sub/b.txt"},
		{name: "link, not what it leads to", modes: "remove", do: rm("in"), want: "fs.remove in ok", gone: "in"},
		{name: "link out", modes: "remove", do: rm("updir"), want: "fs.remove updir ok", gone: "updir"},
		{name: "FIFO", modes: "remove", do: rm("fifo"), want: "fs.remove fifo ok", gone: "fifo"},
		{name: "name from outside", modes: "remove", do: rm("hard"), want: "fs.remove hard ok", gone: "hard"},
		{name: "without the mode", modes: "read append list write", do: rm("a.txt"), err: "not granted", want: "fs.remove a.txt refused"},
		{name: "missing", modes: "remove", do: rm("none"), err: "missing", want: "fs.remove none not_found"},
		{name: "directory", modes: "remove", do: rm("empty"), err: "EISDIR", want: "fs.remove empty error"},
		{name: "file with a slash", modes: "remove", do: rm("a.txt/"), err: "ENOTDIR", want: "fs.remove a.txt error"},
		{name: "link with a slash", modes: "remove", do: rm("subalias/"), err: "ENOTDIR", want: "fs.remove subalias error"},
		{name: "itself", modes: "remove", do: rm("."), err: "EISDIR", want: "fs.remove /docs/reports error"},
		{name: "out", modes: "remove", do: rm("../secret.txt"), err: "not granted", want: "fs.remove /docs/secret.txt refused"},
		{name: "out by a link", modes: "remove", do: rm("updir/secret.txt"), err: "not granted", want: "fs.remove updir/secret.txt refused"},
		{name: "absolute", modes: "remove", do: rm("/a.txt"), err: "not granted", want: "fs.remove /a.txt refused"},

		{name: "empty directory", modes: "remove", do: rd("empty"), want: "fs.remove empty ok", gone: "empty"},
		{name: "empty directory with a slash", modes: "remove", do: rd("empty/"), want: "fs.remove empty ok", gone: "empty"},
		{name: "directory without the mode", modes: "read append list write", do: rd("empty"), err: "not granted", want: "fs.remove empty refused"},
		{name: "full directory", modes: "remove", do: rd("sub"), err: "ENOTEMPTY", want: "fs.remove sub error"},
		{name: "file as a directory", modes: "remove", do: rd("a.txt"), err: "ENOTDIR", want: "fs.remove a.txt error"},
		{name: "link as a directory", modes: "remove", do: rd("subalias"), err: "ENOTDIR", want: "fs.remove subalias error"},
		{name: "link as a directory, with a slash", modes: "remove", do: rd("subalias/"), err: "ENOTDIR", want: "fs.remove subalias error"},
		{name: "no directory", modes: "remove", do: rd("none"), err: "missing", want: "fs.remove none not_found"},
		{name: "the directory itself", modes: "remove", do: rd("."), err: "EINVAL", want: "fs.remove /docs/reports error"},
		{name: "the one above", modes: "remove", do: rd(".."), err: "not granted", want: "fs.remove /docs refused"},
		{name: "directory out", modes: "remove", do: rd("updir/drafts"), err: "not granted", want: "fs.remove updir/drafts refused"},
	})
}

func TestSymlink(t *testing.T) { both(t, testSymlink) }

func testSymlink(t *testing.T) {
	ln := func(target, rel string) func(*hostfx.Folder) error {
		return func(f *hostfx.Folder) error { return f.Symlink(target, rel) }
	}
	changes(t, []change{
		{name: "to a file", modes: "write", do: ln("a.txt", "new"), want: "fs.write new ok", there: "new"},
		{name: "deeper", modes: "write", do: ln("./sub//b.txt", "new"), want: "fs.write new ok", there: "new"},
		{name: "to nothing", modes: "write", do: ln("none", "sub/new"), want: "fs.write sub/new ok", there: "sub/new"},
		{name: "dots that are a name", modes: "write", do: ln("..a/...", "new"), want: "fs.write new ok", there: "new"},
		{name: "without the mode", modes: "read append list remove", do: ln("a.txt", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "up", modes: "write", do: ln("..", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "up and down", modes: "write", do: ln("sub/../../secret.txt", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "up to what is granted", modes: "write", do: ln("../a.txt", "sub/new"), err: "not granted", want: "fs.write sub/new refused"},
		{name: "absolute text", modes: "write", do: ln("/etc/passwd", "new"), err: "not granted", want: "fs.write new refused"},
		{name: "no text", modes: "write", do: ln("", "new"), err: "missing", want: "fs.write new not_found"},
		{name: "NUL in the text", modes: "write", do: ln("a\x00b", "new"), err: "invalid", want: "fs.write new error"},
		{name: "long text", modes: "write", do: ln(strings.Repeat("a", 4097), "new"), err: "ENAMETOOLONG", want: "fs.write new error"},
		{name: "there", modes: "write", do: ln("a.txt", "in"), err: "exists", want: "fs.write in error"},
		{name: "with a slash", modes: "write", do: ln("a.txt", "new/"), err: "missing", want: "fs.write new not_found"},
		{name: "out", modes: "write", do: ln("a.txt", "../new"), err: "not granted", want: "fs.write /docs/new refused"},
		{name: "out by a link", modes: "write", do: ln("a.txt", "updir/new"), err: "not granted", want: "fs.write updir/new refused"},
	})
}

// The text of a link is told only if it names nothing outside.
func TestReadlink(t *testing.T) { both(t, testReadlink) }

func testReadlink(t *testing.T) {
	dir := tree(t)
	for name, text := range map[string]string{"sub/up": "../a.txt", "sub/upout": "../../secret.txt", "upin": "sub/../a.txt", "updown": "../reports/a.txt", "sub/top": ".."} {
		must(t, os.Symlink(text, filepath.Join(dir, "docs/reports", name)))
	}
	for _, tt := range []struct{ modes, path, text, err, want string }{
		{modes: "read", path: "in", text: "sub/b.txt"},
		{modes: "list", path: "in", text: "sub/b.txt"},
		{modes: "read", path: "loop", text: "loop"},
		{modes: "read", path: "dangling", text: "nothing"},
		{modes: "read", path: "sub/up", text: "../a.txt"},
		{modes: "read", path: "subalias/up", text: "../a.txt"},
		{modes: "read", path: "upin", text: "sub/../a.txt"},
		{modes: "write append remove", path: "in", err: "not granted", want: "refused"},
		{modes: "read", path: "out", err: "not granted", want: "refused"},
		{modes: "read", path: "updir", err: "not granted", want: "refused"},
		{modes: "read", path: "updown", err: "not granted", want: "refused"},
		{modes: "read", path: "absolute", err: "not granted", want: "refused"},
		{modes: "read", path: "sub/upout", err: "not granted", want: "refused"},
		{modes: "read", path: "sub/top/in", text: "sub/b.txt"},
		{modes: "read", path: "sub/top/out", err: "not granted", want: "refused"}, // it is not in sub
		{modes: "read", path: "updir/alias", err: "not granted", want: "refused"},
		{modes: "read", path: "../alias", err: "not granted", want: "refused"},
		{modes: "read", path: "a.txt", err: "EINVAL"},
		{modes: "read", path: "sub", err: "EINVAL"},
		{modes: "read", path: ".", err: "EINVAL"},
		{modes: "read", path: "none", err: "missing"},
	} {
		fx, f := granted(t, dir, strings.Fields(tt.modes)...)
		text, err := f.Readlink(tt.path)
		if text != tt.text || refusal(err) != tt.err {
			t.Errorf("%s of %s = %q, %v, want %q, %q", tt.modes, tt.path, text, err, tt.text, tt.err)
		}
		if got := fx.Close(); len(got) > 1 || (len(got) == 1) != (tt.want != "") || len(got) == 1 && got[0].Code != tt.want {
			t.Errorf("%s of %s: effects %v, want %q", tt.modes, tt.path, got, tt.want)
		}
	}
}

func TestSetTimes(t *testing.T) { both(t, testSetTimes) }

func testSetTimes(t *testing.T) {
	then := time.Unix(1e9, 5000)
	set := func(rel string, follow bool) func(*hostfx.Folder) error {
		return func(f *hostfx.Folder) error { return f.SetTimes(rel, hostfx.Times{Modify: then}, follow) }
	}
	changes(t, []change{
		{name: "file", modes: "write", do: set("a.txt", true), want: "fs.write a.txt ok"},
		{name: "directory", modes: "write", do: set("sub", true), want: "fs.write sub ok"},
		{name: "through a link", modes: "write", do: set("in", true), want: "fs.write in ok"},
		{name: "link itself", modes: "write", do: set("out", false), want: "fs.write out ok"},
		{name: "without the mode", modes: "read append list remove", do: set("a.txt", true), err: "not granted", want: "fs.write a.txt refused"},
		{name: "missing", modes: "write", do: set("none", true), err: "missing", want: "fs.write none not_found"},
		{name: "a file with a name outside", modes: "write", do: set("hard", true), err: "not granted", want: "fs.write hard refused"},
		{name: "FIFO", modes: "write", do: set("fifo", true), err: "not granted", want: "fs.write fifo refused"},
		{name: "link out", modes: "write", do: set("out", true), err: "not granted", want: "fs.write out refused"},
		{name: "the one above", modes: "write", do: set("..", false), err: "not granted", want: "fs.write /docs refused"},
		{name: "the one above by a link", modes: "write", do: set("updir/", false), err: "not granted", want: "fs.write updir refused"},
	})

	dir := tree(t)
	_, f := granted(t, dir, "read", "write")
	at := func(rel string) *hostfx.Stat {
		i, err := f.LstatAt(rel)
		must(t, err)
		return i.Sys().(*hostfx.Stat)
	}
	modified := func(rel string) time.Time {
		i, err := f.LstatAt(rel)
		must(t, err)
		return i.ModTime()
	}
	was, link := modified("sub/b.txt"), at("in")
	must(t, f.SetTimes("in", hostfx.Times{Modify: then}, false))
	if !modified("in").Equal(then) || !modified("sub/b.txt").Equal(was) || !at("in").Access.Equal(link.Access) {
		t.Errorf("the link is of %v, what it leads to of %v", modified("in"), modified("sub/b.txt"))
	}
	must(t, f.SetTimes("in", hostfx.Times{Access: then}, true))
	if got := at("sub/b.txt"); !got.Access.Equal(then) || !modified("sub/b.txt").Equal(was) {
		t.Errorf("read at %v, modified at %v", got.Access, modified("sub/b.txt"))
	}
	must(t, f.SetTimes("sub/b.txt", hostfx.Times{Access: then, Modify: then}, true))
	must(t, f.SetTimes("sub/b.txt", hostfx.Times{ModifyNow: true}, true))
	if got := at("sub/b.txt"); !got.Access.Equal(then) || !modified("sub/b.txt").After(then.Add(time.Hour)) {
		t.Errorf("read at %v, modified at %v", got.Access, modified("sub/b.txt"))
	}
	must(t, f.SetTimes("sub/b.txt", hostfx.Times{}, true))
	if got := at("sub/b.txt"); !got.Access.Equal(then) {
		t.Errorf("no times set one: %v", got.Access)
	}
	h, err := f.Open("a.txt", hostfx.OpenOptions{})
	must(t, err)
	must(t, h.(*hostfx.File).SetTimes(hostfx.Times{Access: then, Modify: then}))
	if got := at("a.txt"); !got.Access.Equal(then) || !modified("a.txt").Equal(then) {
		t.Errorf("an open file is of %v and %v", got.Access, modified("a.txt"))
	}
}

// A changed file on which the call depends stops whatever changes something.
func TestChangesDepend(t *testing.T) { both(t, testChangesDepend) }

func testChangesDepend(t *testing.T) {
	for name, do := range map[string]func(f *hostfx.Folder) error{
		"open": func(f *hostfx.Folder) error { _, err := f.Open("a.txt", hostfx.OpenOptions{Write: true}); return err },
		"create": func(f *hostfx.Folder) error {
			_, err := f.Open("new", hostfx.OpenOptions{Append: true, Create: true})
			return err
		},
		"times": func(f *hostfx.Folder) error { return f.SetTimes("a.txt", hostfx.Times{ModifyNow: true}, true) },
		"times of a file": func(f *hostfx.Folder) error {
			h, err := f.Open("a.txt", hostfx.OpenOptions{})
			must(t, err)
			return h.(*hostfx.File).SetTimes(hostfx.Times{ModifyNow: true})
		},
		"mkdir":   func(f *hostfx.Folder) error { return f.Mkdir("new") },
		"remove":  func(f *hostfx.Folder) error { return f.Remove("a.txt") },
		"rmdir":   func(f *hostfx.Folder) error { return f.RemoveDir("empty") },
		"rename":  func(f *hostfx.Folder) error { return f.Rename("a.txt", f, "new") },
		"link":    func(f *hostfx.Folder) error { return f.Link("a.txt", f, "new") },
		"symlink": func(f *hostfx.Folder) error { return f.Symlink("a.txt", "new") },
	} {
		for _, changed := range []bool{false, true} {
			dir := tree(t)
			must(t, os.Mkdir(filepath.Join(dir, "docs/reports/empty"), 0o755))
			fx := depending(t, dir, call.Precondition{File: "/docs/reports/sub/b.txt", Digest: call.Digest([]byte("beta"))})
			if changed {
				must(t, os.WriteFile(filepath.Join(dir, "docs/reports/sub/b.txt"), []byte("other"), 0o600))
			}
			err := do(fx.Dirs()[0].Folder())
			want := map[bool]string{false: "", true: "changed"}[changed]
			if refusal(err) != want {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			effects := fx.Close()
			if last := effects[len(effects)-1]; changed && last.Code != "changed" {
				t.Errorf("%s: effects %v", name, effects)
			}
		}
	}
}
