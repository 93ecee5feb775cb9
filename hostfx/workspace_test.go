package hostfx_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// desk is a host with a journal and two roots, and what calls of one session do there.
type desk struct {
	t     testing.TB
	dir   string
	o     hostfx.Options
	h     *hostfx.Host
	calls int
}

var allModes = []string{"read", "append", "write", "list", "remove"}

func newDesk(t testing.TB, change ...func(*hostfx.Options)) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir()}
	d.o = hostfx.Options{
		Roots:   []hostfx.Root{{Name: "work", Path: filepath.Join(d.dir, "work")}, {Name: "more", Path: filepath.Join(d.dir, "more")}},
		Journal: filepath.Join(d.dir, "journal"),
	}
	for _, c := range change {
		c(&d.o)
	}
	for _, name := range []string{"work/sub/deep", "work/empty", "more"} {
		must(t, os.MkdirAll(filepath.Join(d.dir, name), 0o755))
	}
	for name, text := range map[string]string{
		"work/a.txt": "alpha\n", "work/sub/b.txt": "beta\n", "work/sub/deep/c.txt": "gamma\n", "more/d.txt": "delta\n", "work/bin": "\x00\x01",
	} {
		d.write(name, text)
	}
	must(t, os.Chmod(filepath.Join(d.dir, "work/sub/b.txt"), 0o640))
	must(t, os.Chmod(filepath.Join(d.dir, "work/empty"), 0o500))
	must(t, os.Symlink("b.txt", filepath.Join(d.dir, "work/sub/link")))
	must(t, os.Symlink("sub", filepath.Join(d.dir, "work/alias")))
	must(t, os.Symlink("../a.txt", filepath.Join(d.dir, "work/sub/up")))
	d.start()
	return d
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	must(d.t, os.WriteFile(path, []byte(text), 0o644))
	old := time.Unix(1_600_000_000, 123_000_000)
	must(d.t, os.Chtimes(path, old, old))
}

// start opens the host, once more if it is open.
func (d *desk) start() {
	d.t.Helper()
	if d.h != nil {
		must(d.t, d.h.Close())
	}
	h, err := newHost(d.o)
	must(d.t, err)
	d.h = h
	d.t.Cleanup(func() { h.Close() })
}

func workCaps() call.Caps {
	return call.Caps{Workspace: true, FS: []call.FS{{Root: "work", Path: ".", Modes: allModes}, {Root: "more", Path: ".", Modes: allModes}}}
}

// open starts the next call.
func (d *desk) open(change ...func(*call.Caps, *hostfx.Session)) (*hostfx.Effects, string) {
	d.t.Helper()
	d.calls++
	caps, s := workCaps(), hostfx.Session{Call: fmt.Sprintf("call-%d", d.calls), Owner: "sha256:me", ID: "s-mine"}
	for _, c := range change {
		c(&caps, &s)
	}
	fx, err := d.h.OpenFor(d.t.Context(), mint(d.t, caps), s)
	must(d.t, err)
	d.t.Cleanup(func() { fx.Close() })
	return fx, s.Call
}

// do makes one call and returns its id.
func (d *desk) do(what func(fx *hostfx.Effects) error) string {
	d.t.Helper()
	fx, id := d.open()
	must(d.t, what(fx))
	fx.Close()
	return id
}

func (d *desk) undo(id string, change ...func(*call.Caps, *hostfx.Session)) (string, error) {
	d.t.Helper()
	fx, own := d.open(change...)
	err := fx.Undo(id)
	fx.Close()
	return own, err
}

// state is all that is in the roots: kinds, modes, contents, and times but of
// directories.
func (d *desk) state() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	for _, root := range []string{"work", "more"} {
		err := filepath.WalkDir(filepath.Join(d.dir, root), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			i, err := e.Info()
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(d.dir, path)
			switch {
			case e.IsDir():
				out[name] = i.Mode().String()
			case i.Mode()&fs.ModeSymlink != 0:
				text, err := os.Readlink(path)
				out[name] = fmt.Sprint("-> ", text, i.ModTime().UnixNano())
				return err
			default:
				b, err := os.ReadFile(path)
				out[name] = fmt.Sprint(i.Mode(), i.ModTime().UnixNano(), " ", string(b))
				return err
			}
			return nil
		})
		must(d.t, err)
	}
	return out
}

func put(fx *hostfx.Effects, name, text string) error {
	f, err := fx.OpenWrite(name)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return errors.Join(err, f.Close())
}

// folder is /work.
func folder(fx *hostfx.Effects) *hostfx.Folder {
	dirs := fx.Dirs()
	return dirs[slices.IndexFunc(dirs, func(d *hostfx.Dir) bool { return d.Name() == "/work" })].Folder()
}

// withFile opens below /work.
func withFile(fx *hostfx.Effects, name string, o hostfx.OpenOptions, do func(*hostfx.File) error) error {
	h, err := folder(fx).Open(name, o)
	if err != nil {
		return err
	}
	return errors.Join(do(h.(*hostfx.File)), h.Close())
}

var undoable = []struct {
	name string
	do   func(fx *hostfx.Effects) error
}{
	{"create", func(fx *hostfx.Effects) error { return put(fx, "/work/new.txt", "new") }},
	{"create empty", func(fx *hostfx.Effects) error { return put(fx, "/work/new.txt", "") }},
	{"overwrite", func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "other") }},
	{"overwrite with the same size", func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "ALPHA\n") }},
	{"overwrite by a link", func(fx *hostfx.Effects) error { return put(fx, "/work/alias/link", "other") }},
	{"create by a link", func(fx *hostfx.Effects) error {
		if err := folder(fx).Symlink("deep/made", "sub/dangling"); err != nil {
			return err
		}
		return put(fx, "/work/sub/dangling", "made")
	}},
	{"append", func(fx *hostfx.Effects) error {
		f, err := fx.OpenAppend("/work/sub/b.txt")
		if err != nil {
			return err
		}
		_, err = f.Write([]byte("more"))
		return errors.Join(err, f.Close())
	}},
	{"write in the middle", func(fx *hostfx.Effects) error {
		return withFile(fx, "a.txt", hostfx.OpenOptions{Read: true, Write: true}, func(f *hostfx.File) error { _, err := f.WriteAt([]byte("XX"), 2); return err })
	}},
	{"truncate", func(fx *hostfx.Effects) error {
		return withFile(fx, "a.txt", hostfx.OpenOptions{Write: true}, func(f *hostfx.File) error { return f.Truncate(2) })
	}},
	{"allocate", func(fx *hostfx.Effects) error {
		return withFile(fx, "a.txt", hostfx.OpenOptions{Write: true}, func(f *hostfx.File) error { return f.Allocate(0, 100) })
	}},
	{"empty when opening", func(fx *hostfx.Effects) error {
		return withFile(fx, "a.txt", hostfx.OpenOptions{Read: true, Truncate: true}, func(*hostfx.File) error { return nil })
	}},
	{"remove a file", func(fx *hostfx.Effects) error { return fx.Remove("/work/sub/b.txt") }},
	{"remove a link", func(fx *hostfx.Effects) error { return fx.Remove("/work/sub/up") }},
	{"remove a directory", func(fx *hostfx.Effects) error { return fx.Remove("/work/empty") }},
	{"remove a tree", func(fx *hostfx.Effects) error {
		for _, name := range []string{"deep/c.txt", "deep", "b.txt", "link", "up", "."} {
			if err := fx.Remove(strings.TrimSuffix("/work/sub/"+name, "/.")); err != nil {
				return err
			}
		}
		return nil
	}},
	{"remove and make something else", func(fx *hostfx.Effects) error {
		return errors.Join(fx.Remove("/work/a.txt"), fx.Mkdir("/work/a.txt"), put(fx, "/work/a.txt/in", "in"))
	}},
	{"a file in the place of a directory", func(fx *hostfx.Effects) error {
		return errors.Join(fx.Remove("/work/empty"), put(fx, "/work/empty", "full"))
	}},
	{"another link", func(fx *hostfx.Effects) error {
		return errors.Join(fx.Remove("/work/sub/link"), folder(fx).Symlink("deep", "sub/link"))
	}},
	{"a file in the place of a link", func(fx *hostfx.Effects) error {
		return errors.Join(fx.Remove("/work/sub/link"), put(fx, "/work/sub/link", "file"))
	}},
	{"mkdir", func(fx *hostfx.Effects) error {
		return errors.Join(fx.Mkdir("/work/made"), fx.Mkdir("/work/made/in"), put(fx, "/work/made/in/x", "x"))
	}},
	{"rename", func(fx *hostfx.Effects) error { return fx.Rename("/work/a.txt", "/work/z.txt") }},
	{"rename over", func(fx *hostfx.Effects) error { return fx.Rename("/work/a.txt", "/work/sub/b.txt") }},
	{"rename to another root", func(fx *hostfx.Effects) error { return fx.Rename("/work/a.txt", "/more/d.txt") }},
	{"rename a directory", func(fx *hostfx.Effects) error {
		return errors.Join(fx.Rename("/work/sub", "/work/moved"), put(fx, "/work/moved/b.txt", "changed"), put(fx, "/work/moved/new", "new"), put(fx, "/work/sub", "file"))
	}},
	{"rename a directory over an empty one", func(fx *hostfx.Effects) error { return fx.Rename("/work/sub", "/work/empty") }},
	{"write to what was moved while open", func(fx *hostfx.Effects) error {
		return withFile(fx, "a.txt", hostfx.OpenOptions{Write: true}, func(f *hostfx.File) error {
			_, err := f.Write([]byte("one"))
			err = errors.Join(err, fx.Rename("/work/a.txt", "/work/sub/b.txt"))
			_, again := f.Write([]byte("two"))
			return errors.Join(err, again)
		})
	}},
	{"write in a directory that was moved while open", func(fx *hostfx.Effects) error {
		h, err := folder(fx).Open("sub", hostfx.OpenOptions{Directory: true})
		if err != nil {
			return err
		}
		return errors.Join(fx.Rename("/work/sub", "/more/sub"), h.(*hostfx.Folder).Mkdir("made"), h.(*hostfx.Folder).Remove("b.txt"), h.Close())
	}},
	{"symlink", func(fx *hostfx.Effects) error { return folder(fx).Symlink("a.txt", "new-link") }},
	{"second name", func(fx *hostfx.Effects) error {
		return errors.Join(folder(fx).Link("a.txt", folder(fx), "second"), put(fx, "/work/second", "both"))
	}},
	{"times of a file", func(fx *hostfx.Effects) error {
		return folder(fx).SetTimes("sub/link", hostfx.Times{Modify: time.Unix(7, 0)}, true)
	}},
	{"times of a link", func(fx *hostfx.Effects) error {
		return folder(fx).SetTimes("sub/link", hostfx.Times{Modify: time.Unix(7, 0)}, false)
	}},
	{"times of an open file", func(fx *hostfx.Effects) error {
		return withFile(fx, "alias/link", hostfx.OpenOptions{Read: true}, func(f *hostfx.File) error { return f.SetTimes(hostfx.Times{Modify: time.Unix(7, 0)}) })
	}},
	{"names that are no text", func(fx *hostfx.Effects) error {
		return errors.Join(put(fx, "/work/\xff\x01", "x"), fx.Rename("/work/a.txt", "/work/\xfe"))
	}},
}

// Whatever one call changes is put back as it was; and undoing that brings back what the
// call had made.
func TestUndo(t *testing.T) { both(t, testUndo) }

func testUndo(t *testing.T) {
	for _, tt := range undoable {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			before := d.state()
			id := d.do(tt.do)
			after := d.state()
			if cmp.Equal(before, after) {
				t.Fatal("nothing changed")
			}
			own, err := d.undo(id)
			must(t, err)
			if diff := cmp.Diff(before, d.state()); diff != "" {
				t.Fatalf("undone (-before +now):\n%s", diff)
			}
			if _, err := d.undo(id); !errors.Is(err, hostfx.ErrConflict) {
				t.Errorf("a second time: %v", err)
			}
			_, err = d.undo(own)
			must(t, err)
			if diff := cmp.Diff(after, d.state()); diff != "" {
				t.Errorf("the undoing undone (-after +now):\n%s", diff)
			}
		})
	}
}

// The time of a directory is put back where it was set.
func TestUndoTimesOfDirectory(t *testing.T) { both(t, testUndoTimesOfDirectory) }

func testUndoTimesOfDirectory(t *testing.T) {
	d := newDesk(t)
	for _, rel := range []string{"sub", ".", "alias/"} { // with a slash it is not the link
		path := filepath.Join(d.dir, "work", rel)
		must(t, os.Chtimes(path, time.Unix(9, 0), time.Unix(9, 0)))
		id := d.do(func(fx *hostfx.Effects) error {
			return folder(fx).SetTimes(rel, hostfx.Times{Modify: time.Unix(7, 0)}, false)
		})
		_, err := d.undo(id)
		must(t, err)
		if i, err := os.Stat(path); err != nil || !i.ModTime().Equal(time.Unix(9, 0)) {
			t.Errorf("%s: %v, %v", rel, i.ModTime(), err)
		}
	}
}

type callCaps = call.Caps

func fsOf(root string) call.FS { return call.FS{Root: root, Path: ".", Modes: allModes} }
