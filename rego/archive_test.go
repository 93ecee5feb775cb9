package rego

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/bundles"
)

// item is one entry of an archive.
type item struct {
	name, body string
	kind       byte   // zero: a file
	link       string // of links
}

func tarOf(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Name: i.name, Size: int64(len(i.body)), Mode: 0o600, Typeflag: i.kind, Linkname: i.link}
		if i.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, i.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// huge is a small archive of more than a bundle may be.
func huge(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	chunk := make([]byte, maxBundleBytes/4)
	for i := range 5 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Size: int64(len(chunk)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// namesIn are the files of a file system.
func namesIn(t testing.TB, fsys fs.FS) (names []string) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestArchive(t *testing.T) {
	for _, tt := range []struct {
		name string
		give []item
		want []string
	}{
		{"nothing", nil, nil},
		{"as opa writes it", []item{{name: "/data.json", body: "{}"}, {name: "/p.rego"}, {name: "/.manifest", body: "{}"}}, []string{".manifest", "data.json", "p.rego"}},
		{"as tar writes it", []item{{name: "./", kind: tar.TypeDir}, {name: "./a/", kind: tar.TypeDir}, {name: "./a/p.rego"}, {name: "./README.md"}}, []string{"README.md", "a/p.rego"}},
		{"below a directory", []item{{name: "/data.json"}, {name: "/w/b/callgate/lib.rego"}, {name: "/w/b/rules/x.rego"}, {name: "/w/b/y.rego"}}, []string{"callgate/lib.rego", "data.json", "rules/x.rego", "y.rego"}},
		{"below one called callgate", []item{{name: "/callgate/w/callgate/lib.rego"}, {name: "/callgate/w/y.rego"}}, []string{"callgate/lib.rego", "y.rego"}},
		{"the library alone", []item{{name: "/w/callgate/lib.rego"}}, []string{"callgate/lib.rego"}},
		{"the library at the top", []item{{name: "/callgate/lib.rego"}, {name: "/w/y.rego"}}, []string{"callgate/lib.rego", "w/y.rego"}},
		{"without the library", []item{{name: "/w/b/x.rego"}, {name: "/w/b/data.json"}}, []string{"w/b/data.json", "w/b/x.rego"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys, err := Archive(bytes.NewReader(gzipOf(t, tarOf(t, tt.give...))))
			if err != nil {
				t.Fatal(err)
			}
			if got := namesIn(t, fsys); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestArchiveRefuses(t *testing.T) {
	file := item{name: "p.rego", body: denies}
	of := func(items ...item) []byte { return gzipOf(t, tarOf(t, items...)) }
	many := func(n int) (out []item) {
		for i := range n {
			out = append(out, item{name: fmt.Sprintf("d%d/f", i)})
		}
		return out
	}
	for _, tt := range []struct {
		name string
		give []byte
		want string
	}{
		{"nothing", nil, "EOF"},
		{"no gzip", tarOf(t, file), "gzip"},
		{"no tar", gzipOf(t, []byte(strings.Repeat("x", 2048))), "tar"},
		{"half", of(file)[:40], "EOF"},
		{"half a tar", gzipOf(t, tarOf(t, item{name: "p.rego", body: strings.Repeat("x", 4096)})[:2048]), "EOF"},
		{"broken checksum", func() []byte { b := of(file); b[len(b)-5] ^= 1; return b }(), "checksum"},
		{"trailing garbage", append(of(file), "x"...), "follows the end"},
		{"a second member", append(of(file), of(item{name: "q.rego"})...), "follows the end"},
		{"a second archive", gzipOf(t, append(tarOf(t, file), tarOf(t, item{name: "q.rego"})...)), "follows the end"},
		{"a link", of(file, item{name: "q.rego", kind: tar.TypeSymlink, link: "p.rego"}), `"q.rego": neither`},
		{"a hard link", of(file, item{name: "q.rego", kind: tar.TypeLink, link: "p.rego"}), "neither"},
		{"a device", of(item{name: "null", kind: tar.TypeChar}), "neither"},
		{"a pipe", of(item{name: "p", kind: tar.TypeFifo}), "neither"},
		{"dots", of(item{name: "../p.rego"}), "not clean"},
		{"dots within", of(item{name: "a/../p.rego"}), "not clean"},
		{"dots after the slash", of(item{name: "/../p.rego"}), "not clean"},
		{"two slashes", of(item{name: "//p.rego"}), "not clean"},
		{"a directory as a file", of(item{name: "."}), "not clean"},
		{"backslash", of(item{name: `a\p.rego`}), "characters"},
		{"control", of(item{name: "p\n.rego"}), "characters"},
		{"not UTF-8", of(item{name: "p\xff.rego"}), "characters"},
		{"long", of(item{name: strings.Repeat("a/", 600) + "p.rego"}), "longer"},
		{"twice", of(file, file), "occurs twice"},
		{"twice, by other names", of(file, item{name: "/p.rego"}), "occurs twice"},
		{"case", of(file, item{name: "P.rego"}), "only in case"},
		{"case of other scripts", of(item{name: "straße/a"}, item{name: "STRASSE/b"}), "only in case"},
		{"a file in a file", of(file, item{name: "p.rego/x"}), "occurs twice"},
		{"a file over a directory", of(item{name: "p.rego/x"}, file), "occurs twice"},
		{"twice after its directory is dropped", of(item{name: "w/callgate/lib.rego"}, item{name: "w/x.rego"}, item{name: "x.rego/data.json"}), "occurs twice"},
		{"data beside rules below a directory", of(item{name: "w/callgate/lib.rego"}, item{name: "w/x.rego"}, item{name: "w/data.json"}), "pack what is in that directory"},
		{"too many files", of(many(maxBundleFiles/2 + 1)...), "more than 10000"},
		{"too large", make([]byte, maxArchiveBytes+1), "archive is larger"},
		{"too large unpacked", huge(t), "bundle is larger"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys, err := Archive(bytes.NewReader(tt.give))
			if err == nil {
				t.Fatalf("reads as %q", namesIn(t, fsys))
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Archive(bytes.NewReader(of(many(maxBundleFiles / 2)...))); err != nil {
		t.Errorf("as many files as there may be: %v", err)
	}
}

// What opa builds of a directory, however it is told where that is, has the
// directory's revision: opa writes modules as `opa fmt` does, and ours are.
func TestArchiveByOPA(t *testing.T) {
	path, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "opa").Output()
	if err != nil {
		t.Fatal(err)
	}
	opa := strings.TrimSpace(string(path))
	for name, policy := range map[string]fs.FS{"project": bundles.Project(), "starter": bundles.Starter()} {
		t.Run(name, func(t *testing.T) {
			work := filepath.Join(t.TempDir(), "callgate", "work")
			if err := os.CopyFS(filepath.Join(work, "bundle"), policy); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(filepath.Join(work, "bundle", "callgate"), bundles.Base()); err != nil {
				t.Fatal(err)
			}
			dir, err := Load(filepath.Join(work, "bundle"))
			if err != nil {
				t.Fatal(err)
			}
			want := mustOpen(t, dir).Revision()
			archive := filepath.Join(work, "b.tar.gz")
			for _, build := range []struct{ in, as string }{{work, "bundle"}, {filepath.Join(work, "bundle"), "."}, {"/", filepath.Join(work, "bundle")}} {
				cmd := exec.CommandContext(t.Context(), opa, "build", "-b", build.as, "-o", archive)
				cmd.Dir = build.in
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				fsys, err := Load(archive)
				if err != nil {
					t.Fatal(err)
				}
				if got := mustOpen(t, fsys).Revision(); got != want {
					t.Errorf("-b %s is %v, the directory is %v", build.as, got, want)
				}
				library, err := fs.Sub(fsys, "callgate")
				if err != nil {
					t.Fatal(err)
				}
				ours, err1 := bundles.Digest(bundles.Base())
				theirs, err2 := bundles.Digest(library)
				if ours != theirs || err1 != nil || err2 != nil {
					t.Errorf("-b %s: the library is %s, and was %s; %v, %v", build.as, theirs, ours, err1, err2)
				}
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{"b.tgz": "", "b.tar.gz": "x", "link/p.rego": denies, "deep/p.rego": denies} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("p.rego", filepath.Join(dir, "link", "q.rego")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "deep", strings.Repeat(strings.Repeat("a", 200)+"/", 6)), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"none": "no such file", "b.tgz": "NAME.tar.gz", "b.tar.gz": "b.tar.gz: ", "link": "q.rego: not a regular file", "deep": "longer than",
	} {
		if _, err := Load(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Whatever is taken is readable in full, under names that mean one thing.
func FuzzArchive(f *testing.F) {
	for _, items := range [][]item{
		nil, {{name: "/p.rego", body: denies}, {name: "/data.json", body: "{}"}},
		{{name: "w/callgate/lib.rego"}, {name: "w/x.rego"}}, {{name: "a/", kind: tar.TypeDir}, {name: "A/b"}},
		{{name: "l", kind: tar.TypeSymlink, link: "/etc/passwd"}}, {{name: "../x"}},
	} {
		b := tarOf(f, items...)
		f.Add(b, false)
		f.Add(gzipOf(f, b), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		if !whole {
			b = gzipOf(t, b) // so that the tar within is what varies
		}
		fsys, err := Archive(bytes.NewReader(b))
		if err != nil {
			return
		}
		names, size := namesIn(t, fsys), 0
		for _, name := range names {
			got, err := fs.ReadFile(fsys, name)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			if size += len(got); !fs.ValidPath(name) || strings.Contains(name, `\`) {
				t.Fatalf("%q is a name", name)
			}
		}
		if len(names) > maxBundleFiles || size > maxBundleBytes {
			t.Fatalf("%d files of %d bytes", len(names), size)
		}
		_ = checkFiles(fsys) // walks it, and does not panic
	})
}
