package hostfx_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// Whatever is done in whatever order, with whatever paths, touches only what lies
// beneath the granted directory, learns nothing of what does not, and comes to the same
// with each way of looking names up.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{
		"a../secret.txt\nbout\ncupdir/secret.txt\ndabsolute", "sa.txt\nuup\nrgot\nqgot/x", "hsub/../../secret.txt\nisub//../sub/./new\njin/",
		"m..\nnsub\no.\npsub/..\nd/etc/passwd", "tup\nsgot\nk../got\nrsub/b.txt\nlgot", "vloop\nwdangling\nxfifo\nesubalias/../a.txt",
		"kd\nud/l\nqd\nrsub", "a" + strings.Repeat("../", 100) + "x", "b\x00\nc\xff\xfe\nd" + strings.Repeat("n", 300), "farup\ngup/..\nup/../..\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script string) {
		steps := strings.Split(script, "\n")
		play(t, steps[:min(len(steps), 12)])
	})
}

// The same, with paths that are more likely to lead somewhere.
func TestFilesTogether(t *testing.T) {
	parts := []string{
		"..", ".", "", "a.txt", "sub", "b.txt", "in", "out", "absolute", "updir", "loop", "dangling", "subalias", "fifo", "new", "got", "secret.txt", "alias", "reports",
	}
	good := []string{"a.txt", "sub", "sub/b.txt", "new", "sub/new", "got", "got/x", "new/x", "subalias/b.txt", "subalias/new", "in", "sub/../new", "new/../got", "fifo"}
	ops := "abcdefghijklmnopqrstuvwxyz"
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) string {
			op := string(rapid.SampledFrom([]byte(ops)).Draw(r, "op"))
			if rapid.Bool().Draw(r, "inside") {
				return op + rapid.SampledFrom(good).Draw(r, "path")
			}
			return op + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 4).Draw(r, "path"), "/")
		}), 1, 12).Draw(r, "steps")
		play(t, steps)
		if t.Failed() {
			r.Fatalf("failed")
		}
	})
}

// play takes each step, an operation and a path, in a tree for each way.
func play(t *testing.T, steps []string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(operations))
	var results [2][]string
	var inner [2]map[string]string
	for i := range 2 {
		portable = i == 1
		dir := tree(t)
		before := beyond(t, dir)
		fx, folder := granted(t, dir, all...)
		for _, step := range steps {
			if step == "" {
				continue
			}
			op := names[int(step[0])%len(names)]
			learnt, err := operations[op](folder, step[1:])
			if learnt != "" {
				t.Errorf("%s of %q learnt %q", op, step[1:], learnt)
			}
			how := "well"
			if err != nil {
				how = "ill"
			}
			results[i] = append(results[i], op+" of "+step[1:]+" went "+how)
		}
		fx.Close()
		if d := cmp.Diff(before, beyond(t, dir)); d != "" {
			t.Errorf("what is outside changed (-before +after):\n%s", d)
		}
		inner[i] = contents(t, filepath.Join(dir, "docs/reports"))
		must(t, os.RemoveAll(dir))
	}
	portable = false
	if d := cmp.Diff(results[0], results[1]); d != "" {
		t.Errorf("-system +portable:\n%s", d)
	}
	if d := cmp.Diff(inner[0], inner[1]); d != "" {
		t.Errorf("what is inside (-system +portable):\n%s", d)
	}
}

// contents is what a directory holds, but not when.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		s := e.Type().String()
		switch {
		case e.Type()&os.ModeSymlink != 0:
			text, err := os.Readlink(p)
			if err != nil {
				return err
			}
			if !filepath.IsAbs(text) {
				s += text
			}
		case e.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			s += string(b)
		}
		rel, err := filepath.Rel(dir, p)
		out[rel] = s
		return err
	}))
	return out
}

func FuzzGuestPath(f *testing.F) {
	for _, p := range []string{"a.txt", "sub/../a.txt", "out", "updir/secret.txt", "../secret.txt", "/etc/passwd", "absolute", "sub/../../secret.txt", "updir/../updir/./secret.txt", "\x00", "fifo", "in/", "//..//secret.txt", "."} {
		f.Add(p)
	}
	dir := tree(f)
	h := host(f, dir)
	f.Fuzz(func(t *testing.T, p string) {
		fx, err := h.Open(t.Context(), mint(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "list"}}}}))
		must(t, err)
		defer fx.Close()
		for _, name := range []string{p, "/docs/reports/" + p, "/docs/reports" + p} {
			if b, err := fx.ReadFile(name); err == nil && string(b) == canary {
				t.Fatalf("ReadFile(%q) left the granted folder", name)
			}
			_, _ = fx.List(name)
			_, _ = fx.Stat(name)
		}
		d := fx.Dirs()[0]
		if _, err := d.Folder().StatAt(p); err != nil && errors.Is(err, hostfx.ErrClosed) {
			t.Fatal(err)
		}
		h, err := d.Folder().Open(p, hostfx.OpenOptions{})
		if err != nil {
			return
		}
		if file, ok := h.(*hostfx.File); ok {
			if b, _ := io.ReadAll(file); string(b) == canary {
				t.Fatalf("Open(%q) left the granted folder", p)
			}
		}
		if folder, ok := h.(*hostfx.Folder); ok {
			entries, _ := folder.Next(100)
			for _, e := range entries {
				if e.Name() == "secret.txt" {
					t.Fatalf("Open(%q) listed outside the granted folder", p)
				}
			}
		}
	})
}
