package hostfx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/hostfx"
)

// Whatever a call does, one after the other and however much of it fails, undoing it
// leaves each file, link and directory as it was.
func TestUndoOfWhatever(t *testing.T) { both(t, testUndoOfWhatever) }

func testUndoOfWhatever(t *testing.T) {
	d := newDesk(t)
	names := []string{"a.txt", "new", "sub", "sub/b.txt", "sub/link", "sub/up", "sub/deep", "sub/deep/c.txt", "sub/new", "alias/b.txt", "alias/new", "alias", "empty", "empty/in", "empty/in/it", "bin", "../work", "sub/../new"}
	rapid.Check(t, func(t *rapid.T) {
		before := d.state()
		fx, id := d.open()
		var files []*hostfx.File
		var folders []*hostfx.Folder
		did := 0
		name := rapid.SampledFrom(names)
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			in := folder(fx)
			if len(folders) > 0 && rapid.Bool().Draw(t, "in an open folder") {
				in = rapid.SampledFrom(folders).Draw(t, "folder")
			}
			n, o := name.Draw(t, "name"), name.Draw(t, "other")
			text := rapid.SampledFrom([]string{"", "x", "alpha\n", "longer than before"}).Draw(t, "text")
			var err error
			switch rapid.IntRange(0, 11).Draw(t, "operation") {
			case 0:
				err = put(fx, "/work/"+n, text)
			case 1:
				err = in.Remove(n)
			case 2:
				err = in.RemoveDir(n)
			case 3:
				err = in.Mkdir(n)
			case 4, 5:
				err = in.Rename(n, folder(fx), o)
			case 6:
				err = in.Link(n, folder(fx), o)
			case 7:
				err = in.Symlink(filepath.Base(o), n)
			case 8:
				err = in.SetTimes(n, hostfx.Times{Modify: time.Unix(5, 0)}, rapid.Bool().Draw(t, "follow"))
			case 9:
				h, openErr := in.Open(n, hostfx.OpenOptions{Read: true, Write: rapid.Bool().Draw(t, "write"), Create: rapid.Bool().Draw(t, "create")})
				if err = openErr; err != nil {
					break
				}
				switch h := h.(type) {
				case *hostfx.File:
					files = append(files, h)
				case *hostfx.Folder:
					folders = append(folders, h)
				}
			case 10:
				if len(files) > 0 {
					_, err = rapid.SampledFrom(files).Draw(t, "file").Write([]byte(text))
				}
			case 11:
				if len(files) > 0 {
					err = rapid.SampledFrom(files).Draw(t, "file").SetTimes(hostfx.Times{Modify: time.Unix(6, 0)})
				}
			}
			if err == nil {
				did++
			}
		}
		fx.Close()
		after := d.state()
		if _, err := d.undo(id); err != nil && !cmp.Equal(before, after) {
			t.Fatalf("Undo after %d operations: %v\nchanged (-before +after):\n%s", did, err, cmp.Diff(before, after))
		}
		if diff := cmp.Diff(before, d.state()); diff != "" {
			t.Fatalf("undone (-before +now):\n%s", diff)
		}
	})
	if n, err := filepath.Glob(filepath.Join(d.dir, "work/.callgate-*")); err != nil || len(n) > 0 {
		t.Error(fmt.Sprint(n), err)
	}
	if e, err := os.ReadDir(filepath.Join(d.o.Journal, "calls")); err != nil || len(e) < 10 {
		t.Errorf("only %d calls changed anything", len(e))
	}
}
