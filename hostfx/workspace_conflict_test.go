package hostfx_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// busy changes something of each kind.
func busy(fx *hostfx.Effects) error {
	return errors.Join(
		put(fx, "/work/a.txt", "other"), put(fx, "/work/new.txt", "new"), fx.Remove("/work/sub/b.txt"), fx.Remove("/work/empty"),
		fx.Mkdir("/work/made"), put(fx, "/work/made/x", "x"), folder(fx).Symlink("x", "made/link"), fx.Remove("/more/d.txt"))
}

// What somebody else changed since, or put in the way, is not lost: nothing is undone.
func TestUndoRefusesWhatChangedSince(t *testing.T) { both(t, testUndoRefusesWhatChangedSince) }

func testUndoRefusesWhatChangedSince(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(dir string) error
	}{
		{"content", func(dir string) error { return os.WriteFile(dir+"/work/a.txt", []byte("OTHER"), 0) }},
		{"mode", func(dir string) error { return os.Chmod(dir+"/work/new.txt", 0o600) }},
		{"mode of a directory", func(dir string) error { return os.Chmod(dir+"/work/made", 0o700) }},
		{"removed", func(dir string) error { return os.Remove(dir + "/work/new.txt") }},
		{"there again", func(dir string) error { return os.WriteFile(dir+"/work/sub/b.txt", []byte("beta\n"), 0o640) }},
		{"a directory there again", func(dir string) error { return os.Mkdir(dir+"/work/empty", 0o755) }},
		{"something else in a directory", func(dir string) error { return os.WriteFile(dir+"/work/made/y", nil, 0o644) }},
		{"something deep in a directory", func(dir string) error { return os.MkdirAll(dir+"/work/made/y/z", 0o755) }},
		{"another link", func(dir string) error {
			return errors.Join(os.Remove(dir+"/work/made/link"), os.Symlink("y", dir+"/work/made/link"))
		}},
		{"a link in the place of a file", func(dir string) error {
			return errors.Join(os.Rename(dir+"/work/a.txt", dir+"/a.txt"), os.Symlink(dir+"/a.txt", dir+"/work/a.txt"))
		}},
		{"a pipe in the place of a file", func(dir string) error {
			return errors.Join(os.Remove(dir+"/work/a.txt"), unix.Mkfifo(dir+"/work/a.txt", 0o644))
		}},
		{"a link in the place of its directory", func(dir string) error {
			return errors.Join(os.Rename(dir+"/work/made", dir+"/work/other"), os.Symlink("other", dir+"/work/made"))
		}},
		{"its directory is gone", func(dir string) error { return os.RemoveAll(dir + "/work/sub") }},
		{"a link in the place of the directory where it was", func(dir string) error {
			return errors.Join(os.Rename(dir+"/work/sub", dir+"/work/other"), os.Symlink("other", dir+"/work/sub"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			id := d.do(busy)
			must(t, tt.do(d.dir))
			before := d.seen()
			fx, _ := d.open()
			err := fx.Undo(id)
			if !errors.Is(err, hostfx.ErrConflict) {
				t.Fatalf("Undo = %v", err)
			}
			want := call.Effect{Kind: "workspace.undo", Target: id, Code: "changed"}
			if diff := cmp.Diff([]call.Effect{want}, happened(t, fx.Close())); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, d.seen()); diff != "" {
				t.Errorf("something was undone (-before +now):\n%s", diff)
			}
		})
	}
}

// A time that a call set and another program set again is not put back.
func TestUndoRefusesAnotherTime(t *testing.T) {
	d := newDesk(t)
	id := d.do(func(fx *hostfx.Effects) error {
		return folder(fx).SetTimes("a.txt", hostfx.Times{Modify: time.Unix(7, 0)}, true)
	})
	must(t, os.Chtimes(d.dir+"/work/a.txt", time.Unix(8, 0), time.Unix(8, 0)))
	if _, err := d.undo(id); !errors.Is(err, hostfx.ErrConflict) {
		t.Errorf("Undo = %v", err)
	}
	must(t, os.Chtimes(d.dir+"/work/a.txt", time.Unix(7, 0), time.Unix(7, 0)))
	if _, err := d.undo(id); err != nil {
		t.Errorf("as it was left: %v", err)
	}
}

// seen are names and sizes, of pipes too.
func (d *desk) seen() (out []string) {
	must(d.t, filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path == d.o.Journal {
			return fs.SkipDir
		}
		i, infoErr := e.Info()
		if i != nil && !i.IsDir() {
			out = append(out, fmt.Sprint(path, i.Mode(), i.Size(), i.ModTime()))
		}
		return errors.Join(err, infoErr)
	}))
	return out
}

// When two calls change the same thing at once, nobody can tell whose it is.
func TestUndoRefusesWhatTwoChangedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second func(fx *hostfx.Effects) error
	}{
		{"a file", func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "one") }, func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "two") }},
		{"a file in a tree", record("/work"), func(fx *hostfx.Effects) error { return put(fx, "/work/new.txt", "two") }},
		{"a tree with a file", func(fx *hostfx.Effects) error { return put(fx, "/work/new.txt", "one") }, func(fx *hostfx.Effects) error {
			return errors.Join(record("/work")(fx), put(fx, "/work/new.txt", "two"))
		}},
		{"two trees", record("/work"), record("/work/sub")},
		{"two trees, the inner one first", record("/work/sub"), record("/work")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			one, id1 := d.open()
			two, id2 := d.open()
			must(t, tt.first(one))
			must(t, tt.second(two))
			sub, err := os.Stat(d.dir + "/work/sub")
			must(t, err)
			d.write("work/sub/command", "by nobody knows whom")
			must(t, os.Chtimes(d.dir+"/work/sub", sub.ModTime(), sub.ModTime())) // it does not give it away
			two.Close()
			one.Close()
			for _, id := range []string{id1, id2} {
				if _, err := d.undo(id); !errors.Is(err, hostfx.ErrConflict) && !errors.Is(err, hostfx.ErrNotGranted) {
					t.Errorf("undoing %s: %v", id, err)
				}
			}
			if _, err := os.Stat(filepath.Join(d.dir, "work/sub/command")); err != nil {
				t.Error(err)
			}
		})
	}
}

func record(name string) func(fx *hostfx.Effects) error {
	return func(fx *hostfx.Effects) error {
		w, err := fx.Workspace()
		if err != nil {
			return err
		}
		return w.RecordEdit(name)
	}
}

// One after the other is no conflict: the second is undone, and then the first.
func TestUndoInOrder(t *testing.T) {
	d := newDesk(t)
	start := d.state()
	first := d.do(func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "one") })
	second := d.do(func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "two") })
	if _, err := d.undo(first); !errors.Is(err, hostfx.ErrConflict) {
		t.Errorf("the first one first: %v", err)
	}
	for _, id := range []string{second, first} {
		_, err := d.undo(id)
		must(t, err)
	}
	if diff := cmp.Diff(start, d.state()); diff != "" {
		t.Errorf("undone (-start +now):\n%s", diff)
	}
}

// A process that ends in the middle of a call leaves a call that nobody can undo, whether
// the change was made or not; what it was before is there.
func TestUndoAfterCrash(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(d *desk, fx *hostfx.Effects)
	}{
		{"changed and not closed", func(d *desk, fx *hostfx.Effects) { must(d.t, put(fx, "/work/a.txt", "other")) }},
		{"in the journal and not changed", func(d *desk, fx *hostfx.Effects) { must(d.t, record("/work/a.txt")(fx)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			fx, id := d.open()
			tt.do(d, fx)
			d.start()
			before := d.state()
			for range 2 {
				if _, err := d.undo(id); !errors.Is(err, hostfx.ErrUnfinished) {
					t.Errorf("Undo = %v", err)
				}
				f, err := os.OpenFile(filepath.Join(d.o.Journal, "calls", id+".jsonl"), os.O_WRONLY|os.O_APPEND, 0)
				must(t, err)
				_, err = f.WriteString(`{"end":"whole"}`) // half a line was never acknowledged
				must(t, errors.Join(err, f.Close()))
			}
			next, _ := d.open()
			if _, err := next.Diff(id); !errors.Is(err, hostfx.ErrUnfinished) {
				t.Errorf("Diff = %v", err)
			}
			next.Close()
			if diff := cmp.Diff(before, d.state()); diff != "" {
				t.Errorf("something was undone (-before +now):\n%s", diff)
			}
			fx.Close()
		})
	}
}

// While a call is under way nobody knows what it leaves.
func TestUndoOfCallUnderWay(t *testing.T) {
	d := newDesk(t)
	fx, id := d.open()
	must(t, put(fx, "/work/a.txt", "other"))
	if _, err := d.undo(id); !errors.Is(err, hostfx.ErrUnfinished) {
		t.Errorf("by another: %v", err)
	}
	if err := fx.Undo(id); !errors.Is(err, hostfx.ErrUnfinished) {
		t.Errorf("by itself: %v", err)
	}
}

// Undoing and showing are for the session that the call was in, and say nothing about
// other calls, not even that they are there.
func TestUndoIsForItsSession(t *testing.T) {
	d := newDesk(t)
	id := d.do(busy)
	empty := d.do(func(*hostfx.Effects) error { return nil })
	before := d.state()
	as := func(change func(s *hostfx.Session)) func(*call.Caps, *hostfx.Session) {
		return func(_ *call.Caps, s *hostfx.Session) { change(s) }
	}
	modes := func(modes ...string) func(*call.Caps, *hostfx.Session) {
		return func(c *call.Caps, _ *hostfx.Session) {
			for i := range c.FS {
				c.FS[i].Modes = modes
			}
		}
	}
	same := as(func(*hostfx.Session) {})
	texts := map[string]bool{}
	for _, tt := range []struct {
		name, id       string
		who            func(*call.Caps, *hostfx.Session)
		noUndo, noDiff bool
	}{
		{"another owner", id, as(func(s *hostfx.Session) { s.Owner = "sha256:you" }), true, true},
		{"another session", id, as(func(s *hostfx.Session) { s.ID = "s-other" }), true, true},
		{"no such call", "call-99", same, true, true},
		{"nothing changed", empty, same, true, true},
		{"no id", "", same, true, true},
		{"a path", "../calls/" + id, same, true, true},
		{"a long id", strings.Repeat("x", 300), same, true, true},
		{"without remove", id, modes("read", "write", "append", "list"), true, false},
		{"without write", id, modes("read", "append", "list", "remove"), true, false},
		{"without read", id, modes("append", "list"), true, true},
		{"another directory", id, func(c *call.Caps, _ *hostfx.Session) { c.FS[0].Path = "sub" }, true, true},
		{"one root", id, func(c *call.Caps, _ *hostfx.Session) { c.FS = c.FS[:1] }, true, true},
		{"no workspace", id, func(c *call.Caps, _ *hostfx.Session) { c.Workspace = false }, true, true},
		{"no grant", id, func(c *call.Caps, _ *hostfx.Session) { *c = call.Caps{} }, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx, _ := d.open(tt.who)
			err := fx.Undo(tt.id)
			if tt.noUndo != errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("Undo = %v", err)
			}
			texts[err.Error()] = true
			if _, err := fx.Diff(tt.id); tt.noDiff != errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("Diff = %v", err)
			}
			effects := fx.Close()
			if len(effects) != 2 || effects[0].Code != "refused" || effects[0].Kind != "workspace.undo" || effects[1].Kind != "workspace.diff" || tt.noDiff && effects[1].Code != "refused" {
				t.Errorf("effects %+v", effects)
			}
			if diff := cmp.Diff(before, d.state()); diff != "" {
				t.Errorf("something was undone (-before +now):\n%s", diff)
			}
		})
	}
	if len(texts) != 1 {
		t.Errorf("the reasons can be told apart: %v", texts)
	}
	if _, err := d.undo(id); err != nil {
		t.Errorf("by the right one: %v", err)
	}
}

// What would be too much for the call that undoes, or cannot be read any more, leaves all
// as it is, and nothing behind.
func TestUndoAllOrNothing(t *testing.T) { both(t, testUndoAllOrNothing) }

func testUndoAllOrNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(d *desk, c *call.Caps)
		want error
	}{
		{"bytes", func(_ *desk, c *call.Caps) { c.Bounds.WriteBytes = 12 }, hostfx.ErrQuota},
		{"an object is gone", func(d *desk, _ *call.Caps) { must(d.t, os.RemoveAll(d.o.Journal+"/objects")) }, nil},
		{"an object is another", func(d *desk, _ *call.Caps) {
			for _, name := range d.objects() {
				must(d.t, os.WriteFile(name, []byte("alphx\n"), 0o600))
			}
		}, nil},
		{"an object is longer", func(d *desk, _ *call.Caps) {
			for _, name := range d.objects() {
				must(d.t, os.WriteFile(name, []byte("alpha\nand so on"), 0o600))
			}
		}, nil},
		{"an object is a pipe", func(d *desk, _ *call.Caps) {
			for _, name := range d.objects() {
				must(d.t, errors.Join(os.Remove(name), unix.Mkfifo(name, 0o600)))
			}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			id := d.do(busy)
			before := d.seen()
			_, err := d.undo(id, func(c *call.Caps, _ *hostfx.Session) { tt.do(d, c) })
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Undo = %v", err)
			}
			if diff := cmp.Diff(before, d.seen()); diff != "" {
				t.Errorf("something was undone (-before +now):\n%s", diff)
			}
		})
	}
}

func (d *desk) objects() []string {
	names, err := filepath.Glob(filepath.Join(d.o.Journal, "objects/*/*"))
	must(d.t, err)
	if len(names) == 0 {
		d.t.Fatal("there are no objects")
	}
	return names
}
