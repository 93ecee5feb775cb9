package hostfx_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/hostfx"
)

// What the journal does not take is not changed, and that is recorded.
func TestJournalBounds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setUp func(d *desk)
		begin func(fx *hostfx.Effects)
		do    func(fx *hostfx.Effects) error
	}{
		{"a large file", func(d *desk) { must(d.t, os.Truncate(d.dir+"/work/a.txt", 64<<20+1)) }, nil,
			func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "x") }},
		{"much in one call", nil, func(fx *hostfx.Effects) { hostfx.SetImaged(fx, 512<<20-5) },
			func(fx *hostfx.Effects) error { return fx.Remove("/work/a.txt") }},
		{"a full journal", func(d *desk) { d.o.JournalBytes = 300; d.start() }, nil,
			func(fx *hostfx.Effects) error { return fx.Rename("/work/a.txt", "/work/sub/b.txt") }},
		{"many names", func(d *desk) {
			must(d.t, os.Mkdir(d.dir+"/work/many", 0o755))
			for i := range 10_000 {
				must(d.t, os.Symlink("x", fmt.Sprintf("%s/work/many/%d", d.dir, i)))
			}
		}, nil, record("/work/many")},
		{"a deep tree", func(d *desk) { must(d.t, os.MkdirAll(d.dir+"/work"+strings.Repeat("/d", 102), 0o755)) }, nil,
			func(fx *hostfx.Effects) error { return fx.Rename("/work/d", "/work/e") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			if tt.setUp != nil {
				tt.setUp(d)
			}
			before := d.seen()
			fx, id := d.open()
			if tt.begin != nil {
				tt.begin(fx)
			}
			if err := tt.do(fx); !errors.Is(err, hostfx.ErrQuota) {
				t.Errorf("error %v", err)
			}
			effects := fx.Close()
			if len(effects) != 1 || effects[0].Code != "over_cap" {
				t.Errorf("effects %+v", effects)
			}
			if diff := cmp.Diff(before, d.seen()); diff != "" {
				t.Errorf("changed (-before +now):\n%s", diff)
			}
			if _, err := d.undo(id); !errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("Undo = %v", err)
			}
		})
	}
}

// The oldest calls make room, with the contents that no other call has; those under way
// stay.
func TestJournalMakesRoom(t *testing.T) {
	d := newDesk(t, func(o *hostfx.Options) { o.JournalBytes = 300_000 })
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("%09d\n", i), 2000) }
	open, openID := d.open()
	must(t, put(open, "/more/d.txt", "under way"))
	var ids []string
	for i := range 40 {
		ids = append(ids, d.do(func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", text(i)) }))
	}
	if size := d.size(); size > 300_000 {
		t.Errorf("the journal has %d bytes", size)
	}
	open.Close()
	for i := 39; i > 30; i-- {
		if _, err := d.undo(ids[i]); err != nil {
			t.Fatalf("undoing number %d: %v", i, err)
		}
	}
	if _, err := d.undo(ids[0]); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("undoing the first one: %v", err)
	}
	if _, err := d.undo(openID); err != nil {
		t.Errorf("undoing the one that was under way: %v", err)
	}
}

func (d *desk) size() (total int64) {
	must(d.t, filepath.Walk(d.o.Journal, func(_ string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			total += i.Size()
		}
		return err
	}))
	return total
}

// What is old is removed when another call starts, and what a crash left when the host is
// opened. A damaged call is nobody's, and in nobody's way.
func TestJournalForgets(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	d := newDesk(t, func(o *hostfx.Options) { o.Now, o.JournalAge = func() time.Time { return now }, time.Hour })
	old := d.do(func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "old") })
	now = now.Add(50 * time.Minute)
	young := d.do(func(fx *hostfx.Effects) error { return put(fx, "/work/sub/b.txt", "young") })
	damaged := d.do(func(fx *hostfx.Effects) error { return fx.Remove("/more/d.txt") })
	must(t, os.WriteFile(filepath.Join(d.o.Journal, "calls", damaged+".jsonl"), []byte("{\"damaged\":1}\n"), 0o600))
	if _, err := d.undo(damaged); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("undoing what is damaged: %v", err)
	}
	must(t, os.WriteFile(d.o.Journal+"/objects/new-LEFT", []byte("by a crash"), 0o600))
	now = now.Add(61 * time.Minute)
	now = now.Add(-50 * time.Minute)
	d.start()
	left, err := filepath.Glob(d.o.Journal + "/calls/*")
	must(t, err)
	if len(left) != 1 || filepath.Base(left[0]) != young+".jsonl" {
		t.Errorf("calls left: %v, want that of %s alone", left, young)
	}
	if objects := d.objects(); len(objects) != 2 { // before and after
		t.Errorf("%d objects left", len(objects))
	}
	if _, err := d.undo(old); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("undoing what is old: %v", err)
	}
	if _, err := d.undo(young); err != nil {
		t.Errorf("undoing what is not: %v", err)
	}
	if _, err := os.Stat(d.o.Journal + "/objects/new-LEFT"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a crash left: %v", err)
	}
}

// A directory that lies in two roots has one name in the journal, so that what is changed
// by both names is put back once.
func TestJournalKnowsRootsInRoots(t *testing.T) { both(t, testJournalKnowsRootsInRoots) }

func testJournalKnowsRootsInRoots(t *testing.T) {
	d := newDesk(t, func(o *hostfx.Options) {
		work := o.Roots[0].Path
		o.Roots = append([]hostfx.Root{{Name: "deep", Path: work + "/sub/deep"}, {Name: "sub", Path: work + "/sub"}, {Name: "again", Path: work + "/."}}, o.Roots...)
		must(t, os.MkdirAll(work+"/sub/deep", 0o755))
	})
	all := func(c *callCaps, _ *hostfx.Session) {
		for _, root := range []string{"deep", "sub", "again"} {
			c.FS = append(c.FS, fsOf(root))
		}
	}
	before := d.state()
	fx, id := d.open(all)
	must(t, errors.Join(
		put(fx, "/deep/c.txt", "one"), put(fx, "/sub/deep/c.txt", "two"), put(fx, "/work/sub/deep/c.txt", "three"), fx.Rename("/again/sub/deep/c.txt", "/deep/d.txt"),
		put(fx, "/again/a.txt", "four"), fx.Remove("/work/a.txt"),
	))
	fx.Close()
	for _, who := range []func(*callCaps, *hostfx.Session){
		func(c *callCaps, _ *hostfx.Session) { c.FS = c.FS[:0]; c.FS = append(c.FS, fsOf("sub")) },
		func(c *callCaps, _ *hostfx.Session) { c.FS = c.FS[:0]; c.FS = append(c.FS, fsOf("deep")) },
	} {
		if _, err := d.undo(id, who); !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("by who may change a part: %v", err)
		}
	}
	_, err := d.undo(id, func(c *callCaps, _ *hostfx.Session) { c.FS = c.FS[:0]; c.FS = append(c.FS, fsOf("again")) })
	must(t, err)
	if diff := cmp.Diff(before, d.state()); diff != "" {
		t.Errorf("undone (-before +now):\n%s", diff)
	}
}

// What cannot be written down is not changed.
func TestJournalGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(d *desk)
	}{
		{"removed", func(d *desk) { must(d.t, os.RemoveAll(d.o.Journal)) }},
		{"without objects", func(d *desk) { must(d.t, os.Remove(d.o.Journal+"/objects")) }},
		{"without calls", func(d *desk) { must(d.t, os.Remove(d.o.Journal+"/calls")) }},
		{"closed", func(d *desk) { must(d.t, d.h.Close()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			fx, _ := d.open()
			tt.do(d)
			before := d.seen()
			for _, name := range []string{"/work/a.txt", "/work/a.txt"} {
				if err := put(fx, name, "other"); err == nil {
					t.Error("it was written")
				}
				if err := fx.Remove(name); err == nil {
					t.Error("it was removed")
				}
			}
			fx.Close()
			if diff := cmp.Diff(before, d.seen()); diff != "" {
				t.Errorf("changed (-before +now):\n%s", diff)
			}
		})
	}
}

// Calls that go on at the same time share a journal.
func TestJournalOfManyCalls(t *testing.T) {
	d := newDesk(t, func(o *hostfx.Options) { o.JournalBytes = 200_000 })
	before := d.state()
	var wg sync.WaitGroup
	const calls = 8
	ids := make([]string, calls)
	effects := make([]*hostfx.Effects, calls)
	for i := range calls {
		effects[i], ids[i] = d.open()
	}
	for i := range calls {
		wg.Go(func() {
			defer effects[i].Close()
			for k := range 5 {
				name := fmt.Sprintf("/work/%d-%d", i, k)
				if err := errors.Join(put(effects[i], name, strings.Repeat("x", 1000*k)), effects[i].Mkdir(name+".d"), effects[i].Rename(name, name+".d/x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range calls {
		wg.Go(func() {
			if err := effects[i].Undo(ids[i]); !errors.Is(err, hostfx.ErrClosed) {
				t.Errorf("Undo after Close = %v", err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if _, err := d.undo(id); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, d.state()); diff != "" {
		t.Errorf("undone (-before +now):\n%s", diff)
	}
}
