package hostfx_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// Whatever name a tool asks for, and whatever links lie there, what opens or is
// described is a file of a granted directory, by its number in the file system. Link
// text and name are any bytes.
func FuzzPathReach(f *testing.F) {
	for _, s := range []struct{ name, link, text string }{
		{"a.txt", "l", "a.txt"}, {"l", "l", "../secret.txt"}, {"l/secret.txt", "l", ".."}, {"sub/l", "sub/l", "../../secret.txt"}, {"l/c.txt", "l", "../../outside"},
		{"l", "l", "/etc/passwd"}, {"l/etc/passwd", "l", "/proc/self/root"}, {"l", "l", "l"}, {"../other/o.txt", "l", "x"}, {"l/o.txt", "l", "../other"},
		{"sub/../../secret.txt", "l", "x"}, {"l/../../secret.txt", "l", "sub"}, {"l/../b.txt", "l", "sub/deep"}, {"l", "l", "sub/../in"}, {"l", "l", "../reports/a.txt"},
		{"a.txt\x00", "l", "x"}, {"\xff\xfe", "\xff\xfe", "a.txt"}, {"..\xc0\xaf", "..\xc0\xaf", "../secret.txt"}, {".", "l", "."}, {"", "l", "x"}, {"/", "l", "/"},
		{"//a.txt", "l", "x"}, {"l/", "l", "../secret.txt"}, {"l/.", "l", ".."}, {"fifo", "l", "fifo"}, {"l", "l", "../alias/../secret.txt"}, {"l", "l", "subalias/../../secret.txt"},
	} {
		f.Add(s.name, s.link, s.text)
	}
	dir := tree(f)
	reports, other := filepath.Join(dir, "docs/reports"), filepath.Join(dir, "docs/other")
	must(f, os.Mkdir(other, 0o755))
	must(f, os.WriteFile(filepath.Join(other, "o.txt"), []byte(canary), 0o600)) // granted, not to read
	hosts := []*hostfx.Host{host(f, dir)}
	portable = true
	hosts, portable = append(hosts, host(f, dir)), false
	f.Fuzz(func(t *testing.T, name, link, text string) {
		// Where the fuzzer wants the link, but inside.
		if at := filepath.Join(reports, link); strings.HasPrefix(at, reports+"/") && os.Symlink(text, at) == nil {
			defer os.Remove(at)
		}
		inside := numbers(t, reports)
		for _, h := range hosts {
			fx, err := h.Open(t.Context(), mint(t, call.Caps{FS: []call.FS{
				{Root: "docs", Path: "reports", Modes: []string{"read", "list"}}, {Root: "docs", Path: "other", Modes: []string{"remove"}},
			}}))
			must(t, err)
			folder := fx.Dirs()[0].Folder()
			found := func(what string, i fs.FileInfo, err error) {
				if err == nil && !inside[number(i)] {
					t.Errorf("%s of %q, with a link %q to %q: what is outside", what, name, link, text)
				}
			}
			for _, p := range []string{name, "/docs/reports/" + name, "/docs/reports" + name} {
				if h, err := fx.OpenRead(p); err == nil {
					i, err := h.Stat()
					found("OpenRead", i, err)
				}
				i, err := fx.Stat(p)
				if err != nil || filepath.Clean(p) != "/docs/other" { // that it is there is no secret
					found("Stat", i, err)
				}
				entries, _ := fx.List(p)
				for _, e := range entries {
					i, err := e.Info()
					found("List", i, err)
				}
			}
			for _, o := range []hostfx.OpenOptions{{}, {NoFollow: true}, {Directory: true}} {
				if h, err := folder.Open(name, o); err == nil {
					i, err := h.Stat()
					found("Open", i, err)
				}
			}
			i, err := folder.StatAt(name)
			found("StatAt", i, err)
			i, err = folder.LstatAt(name)
			found("LstatAt", i, err)
			fx.Close()
		}
	})
}

// numbers are the files below a directory, and itself, by device and number.
func numbers(t testing.TB, dir string) map[[2]uint64]bool {
	t.Helper()
	out := map[[2]uint64]bool{}
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := os.Lstat(p)
		if err != nil {
			return err
		}
		s := i.Sys().(*syscall.Stat_t)
		out[[2]uint64{uint64(s.Dev), uint64(s.Ino)}] = true
		return nil
	}))
	return out
}

func number(i fs.FileInfo) [2]uint64 {
	s := i.Sys().(*hostfx.Stat)
	return [2]uint64{s.Dev, s.Ino}
}
