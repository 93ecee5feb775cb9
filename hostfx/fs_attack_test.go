package hostfx_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/hostfx"
)

// beyond is the state of everything in the tree that docs/reports does not hold: what
// is there, with its content, times, number of names and so on.
func beyond(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := os.Lstat(p)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		s := fmt.Sprint(i.Mode(), i.Size(), st.Nlink, st.Uid, i.ModTime(), st.Ctim)
		if i.IsDir() {
			s = fmt.Sprint(i.Mode(), i.ModTime(), st.Ctim)
		}
		if i.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			s += string(b)
		}
		if p == filepath.Join(dir, "docs/reports") {
			return fs.SkipDir
		}
		out[p] = s
		return nil
	}))
	return out
}

// operations are all that take a path. Each returns what it learnt of outside, "" for
// nothing.
var operations = map[string]func(f *hostfx.Folder, p string) (string, error){
	"read": func(f *hostfx.Folder, p string) (string, error) { return opened(f, p, hostfx.OpenOptions{}) },
	"nofollow": func(f *hostfx.Folder, p string) (string, error) {
		return opened(f, p, hostfx.OpenOptions{NoFollow: true})
	},
	"list": func(f *hostfx.Folder, p string) (string, error) {
		return opened(f, p, hostfx.OpenOptions{Directory: true})
	},
	"both": func(f *hostfx.Folder, p string) (string, error) {
		return opened(f, p, hostfx.OpenOptions{Read: true, Write: true})
	},
	"append": func(f *hostfx.Folder, p string) (string, error) {
		return opened(f, p, hostfx.OpenOptions{Append: true})
	},
	"create": func(f *hostfx.Folder, p string) (string, error) {
		return opened(f, p, hostfx.OpenOptions{Write: true, Create: true})
	},
	"exclusive": func(f *hostfx.Folder, p string) (string, error) {
		return opened(f, p, hostfx.OpenOptions{Write: true, Create: true, Exclusive: true})
	},
	"truncate": func(f *hostfx.Folder, p string) (string, error) {
		return opened(f, p, hostfx.OpenOptions{Write: true, Create: true, Truncate: true})
	},
	"stat": func(f *hostfx.Folder, p string) (string, error) { return described(f.StatAt(p)) },
	"lstat": func(f *hostfx.Folder, p string) (string, error) {
		return described(f.LstatAt(p))
	},
	"readlink": func(f *hostfx.Folder, p string) (string, error) {
		s, err := f.Readlink(p)
		if strings.HasPrefix(s, "..") || strings.HasPrefix(s, "/") {
			return s, err
		}
		return "", err
	},
	"mkdir":       func(f *hostfx.Folder, p string) (string, error) { return "", f.Mkdir(p) },
	"remove":      func(f *hostfx.Folder, p string) (string, error) { return "", f.Remove(p) },
	"rmdir":       func(f *hostfx.Folder, p string) (string, error) { return "", f.RemoveDir(p) },
	"rename":      func(f *hostfx.Folder, p string) (string, error) { return "", f.Rename("sub/b.txt", f, p) },
	"rename from": func(f *hostfx.Folder, p string) (string, error) { return taken(f, f.Rename(p, f, "got")) },
	"link":        func(f *hostfx.Folder, p string) (string, error) { return "", f.Link("sub/b.txt", f, p) },
	"link from":   func(f *hostfx.Folder, p string) (string, error) { return taken(f, f.Link(p, f, "got")) },
	"symlink":     func(f *hostfx.Folder, p string) (string, error) { return "", f.Symlink("a.txt", p) },
	"symlink to":  func(f *hostfx.Folder, p string) (string, error) { return taken(f, f.Symlink(p, "got")) },
	"times": func(f *hostfx.Folder, p string) (string, error) {
		return "", f.SetTimes(p, hostfx.Times{ModifyNow: true}, true)
	},
	"times itself": func(f *hostfx.Folder, p string) (string, error) {
		return "", f.SetTimes(p, hostfx.Times{ModifyNow: true}, false)
	},
}

// opened uses what it can open in every way.
func opened(f *hostfx.Folder, p string, o hostfx.OpenOptions) (string, error) {
	h, err := f.Open(p, o)
	if err != nil {
		return "", err
	}
	defer h.Close()
	switch h := h.(type) {
	case *hostfx.File:
		b, _ := io.ReadAll(io.LimitReader(h, 100))
		_, _ = h.Write([]byte("mine"))
		_, _ = h.WriteAt([]byte("mine"), 2)
		_ = h.Truncate(3)
		_ = h.SetTimes(hostfx.Times{ModifyNow: true})
		if string(b) == canary || strings.HasPrefix(string(b), "root:") {
			return string(b), nil
		}
	case *hostfx.Folder:
		entries, _ := h.EntriesAt(0, 100)
		for _, e := range entries {
			if e.Name() == "alias" || e.Name() == "c.txt" || e.Name() == "passwd" {
				return e.Name(), nil
			}
		}
		if i, err := h.LstatAt("alias"); err == nil {
			return i.Name(), nil
		}
	}
	return "", nil
}

// described tells a file outside by its size.
func described(i fs.FileInfo, err error) (string, error) {
	if err == nil && i.Mode().IsRegular() && i.Size() == int64(len(canary)) {
		return i.Name(), nil
	}
	return "", err
}

// taken reads what an operation brought in by the name got.
func taken(f *hostfx.Folder, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s, _ := opened(f, "got", hostfx.OpenOptions{})
	return s, nil
}

// Nothing that a path can say leads out of the granted directory, for any operation.
func TestAttackPaths(t *testing.T) { both(t, testAttackPaths) }

func testAttackPaths(t *testing.T) {
	dir := tree(t)
	up := strings.Repeat("../", 40)
	paths := []string{
		"..", "../", "../secret.txt", "../new", "sub/../../secret.txt", "sub/../../new", "./../secret.txt", "sub//..//..//secret.txt",
		"../reports/../secret.txt", "../reports/a.txt", up + "etc/passwd", up + strings.TrimPrefix(dir, "/") + "/outside/c.txt",
		"/", "//", "/etc/passwd", "//etc/passwd", dir + "/docs/reports/a.txt", dir + "/outside/c.txt",
		"out", "out/", "absolute", "absolute/", "updir", "updir/", "updir/secret.txt", "updir/new", "updir/../outside/c.txt", "updir/alias/a.txt", "updir/.",
		"outdir/c.txt", "outdir/new", "outdir", "outdir/", "absdir/c.txt", "absdir/new", "absdir/", "outnew", "chain", "chain/secret.txt", "chain/new",
		"sub/deep/secret.txt", "sub/deep/new", "procroot/etc/passwd", "procroot" + dir + "/outside/c.txt", "procroot", "proccwd/secret.txt", "procfd",
		"updir/\x00", "..\x00", "", strings.Repeat("../", 1400) + "secret.txt", "sub/" + strings.Repeat("../", 254) + "secret.txt",
	}
	build := func() {
		must(t, os.RemoveAll(filepath.Join(dir, "docs/reports")))
		plant(t, dir)
		for name, to := range map[string]string{
			"outdir": "../../outside", "absdir": filepath.Join(dir, "outside"), "outnew": "../made",
			"chain": "sub/deep", "sub/deep": "../updir", "procroot": "/proc/self/root", "proccwd": "/proc/self/cwd", "procfd": "/proc/self/fd/0",
		} {
			must(t, os.Symlink(to, filepath.Join(dir, "docs/reports", name)))
		}
	}
	// What these do to a link they do to the link itself, which is inside.
	itself := []string{"remove", "rename", "rename from", "link from", "lstat", "readlink", "times itself"}
	var before map[string]string // nil after something went well
	for name, do := range operations {
		for _, p := range paths {
			if before == nil {
				build()
				before = beyond(t, dir)
			}
			fx, f := granted(t, dir, all...)
			learnt, err := do(f, p)
			if learnt != "" {
				t.Errorf("%s of %q learnt %q", name, p, learnt)
			}
			fine := slices.Contains(itself, name) && !strings.Contains(p, "/") || name == "symlink to" && !strings.Contains(p, "..") && !strings.HasPrefix(p, "/")
			if err == nil && !fine {
				t.Errorf("%s of %q went well", name, p)
			}
			fx.Close()
			if d := cmp.Diff(before, beyond(t, dir)); d != "" {
				t.Fatalf("%s of %q changed what is outside (-before +after):\n%s", name, p, d)
			}
			if err == nil {
				before = nil
			}
		}
	}
}

// The same operations go well with paths that stay inside, so the test above would
// notice if everything were refused.
func TestAttackControl(t *testing.T) { both(t, testAttackControl) }

func testAttackControl(t *testing.T) {
	for name, do := range operations {
		dir := tree(t)
		must(t, os.Mkdir(filepath.Join(dir, "docs/reports/sub/empty"), 0o755))
		must(t, os.Symlink("b.txt", filepath.Join(dir, "docs/reports/sub/ln")))
		p := map[string]string{
			"list": "subalias/empty", "rmdir": "subalias/empty", "readlink": "subalias/ln", "exclusive": "subalias/new", "mkdir": "subalias/new",
			"rename": "subalias/new", "link": "subalias/new", "symlink": "subalias/new", "symlink to": "sub/b.txt",
		}[name]
		if p == "" {
			p = "sub/../subalias/./b.txt"
		}
		before := beyond(t, dir)
		_, f := granted(t, dir, all...)
		if _, err := do(f, p); err != nil {
			t.Errorf("%s of %q: %v", name, p, err)
		}
		if d := cmp.Diff(before, beyond(t, dir)); d != "" {
			t.Errorf("%s of %q changed what is outside (-before +after):\n%s", name, p, d)
		}
	}
}

// Names that look like dots and slashes are names, for the file system's own sense of
// them.
func TestOddNames(t *testing.T) { both(t, testOddNames) }

func testOddNames(t *testing.T) {
	dir := tree(t)
	_, f := granted(t, dir, all...)
	before := beyond(t, dir)
	for _, p := range []string{
		"．．/secret.txt", "..\u2215secret.txt", "\u2025/secret.txt", `..\secret.txt`, "%2e%2e/secret.txt", "..%2fsecret.txt", "\xc0\xae\xc0\xae/secret.txt",
		"..\xc0\xafsecret.txt", ".. /secret.txt", "..;/secret.txt", ".\u200b./secret.txt", "\u202e../secret.txt", "a.txt ", " a.txt", "a.txt\n", "ａ.txt", "~/secret.txt", "$HOME", "...", "\xff\xfe",
	} {
		if _, err := f.Open(p, hostfx.OpenOptions{}); refusal(err) != "missing" {
			t.Errorf("%q: %v, want that it is missing", p, err)
		}
		if h, err := f.Open("A.TXT", hostfx.OpenOptions{}); err == nil { // some file systems fold
			h.Close()
		}
		name := strings.ReplaceAll(p, "/", "_")
		h, err := f.Open(name, hostfx.OpenOptions{Write: true, Create: true, Exclusive: true})
		if err != nil {
			t.Errorf("creating %q: %v", name, err)
			continue
		}
		h.Close()
		if _, err := os.Lstat(filepath.Join(dir, "docs/reports") + "/" + name); err != nil {
			t.Errorf("%q was created under another name: %v", name, err)
		}
		must(t, f.Remove(name))
	}
	// Composed and decomposed are two names or one, and never another file.
	for _, name := range []string{"\u00e9", "e\u0301"} {
		h, err := f.Open(name, hostfx.OpenOptions{Write: true, Create: true})
		must(t, err)
		_, err = h.(*hostfx.File).Write([]byte(name))
		must(t, err)
		h.Close()
	}
	if d := cmp.Diff(before, beyond(t, dir)); d != "" {
		t.Errorf("what is outside changed (-before +after):\n%s", d)
	}
}

// Long names and deep directories work as far as the system's own limits.
func TestLongPaths(t *testing.T) { both(t, testLongPaths) }

func testLongPaths(t *testing.T) {
	dir := tree(t)
	_, f := granted(t, dir, all...)
	name := strings.Repeat("n", 255)
	must(t, f.Mkdir(name))
	deep := name
	for range 14 { // 3,839 bytes
		deep += "/" + name
		must(t, f.Mkdir(deep))
	}
	h, err := f.Open(deep+"/f", hostfx.OpenOptions{Write: true, Create: true})
	must(t, err)
	h.Close()
	if i, err := f.StatAt(deep + "/f"); err != nil || !i.Mode().IsRegular() {
		t.Errorf("StatAt() = %v, %v", i, err)
	}
	for _, p := range []string{deep + "/" + name + "x", strings.Repeat("n/", 2048) + "n"} {
		for what, do := range operations {
			if learnt, err := do(f, p); err == nil && what != "symlink to" && what != "rename" {
				t.Errorf("%s of %d bytes: %q, %v", what, len(p), learnt, err)
			}
		}
	}
	// A folder goes deeper than any path.
	folder := f
	for range 30 {
		must(t, folder.Mkdir("d"+name[1:]))
		h, err := folder.Open("d"+name[1:], hostfx.OpenOptions{Directory: true})
		must(t, err)
		folder = h.(*hostfx.Folder)
	}
	must(t, folder.Symlink("x", "l"))
	if i, err := folder.LstatAt("l"); err != nil || i.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("LstatAt() = %v, %v", i, err)
	}
}
