package rego

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// promised is the head of a file of that size in a tar file.
func promised(t *testing.T, name string, size int64) []byte {
	t.Helper()
	var head bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: name, Size: size, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	return head.Bytes()
}

// bomb is a small archive of one file that is n MiB of zeros.
func bomb(t *testing.T, name string, n int64) []byte {
	t.Helper()
	// Each part is compressed on its own, so that they can follow each other.
	part := func(b []byte) []byte {
		var out bytes.Buffer
		w, err := flate.NewWriter(&out, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	out := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff} // RFC 1952, section 2.3
	out = append(out, part(promised(t, name, n*mib))...)
	return append(out, bytes.Repeat(part(make([]byte, mib)), int(n))...)
}

// sparse is an archive of one file of a kind that package tar reads but does not
// write: of its size only the holes are told.
func sparse(t *testing.T, name string, size int64) []byte {
	t.Helper()
	var records strings.Builder
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=" + name, fmt.Sprint("GNU.sparse.realsize=", size)} {
		n := len(r) + 2
		n += len(fmt.Sprint(n + len(fmt.Sprint(n))))
		fmt.Fprintf(&records, "%d %s\n", n, r)
	}
	const noData = "0\n" // the map of what is not a hole
	b := tarOf(t, item{name: "x", body: records.String()}, item{name: name, body: noData + strings.Repeat("\x00", 512-len(noData))})
	// What names and sizes there are more (POSIX pax) is of a type of its own.
	b[156] = 'x'
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return gzipOf(t, b)
}

// allocated is how much f allocates in all, in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What is small and becomes large is refused before it does.
func TestBombs(t *testing.T) {
	data := func(b string) []byte { return gzipOf(t, tarOf(t, item{name: "data.json", body: b})) }
	laughs := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		laughs += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	rule := item{name: "p.rego", body: denies}
	for _, tt := range []struct {
		name    string
		give    []byte
		want    string
		mostMiB uint64 // allocated in all; growing a file to n takes 5 n
	}{
		{"a GiB in a MiB", bomb(t, "README.md", 1024), "bundle is larger", 1024},
		{"a terabyte of holes", sparse(t, "README.md", 1<<40), "bundle is larger", 1024},
		{"a size that is not there", gzipOf(t, promised(t, "README.md", 1<<40)), "EOF", 16},
		{"many empty lists", data("[" + strings.Repeat("[],", maxDataParts/2) + "[]]"), "4000000 keys", 256},
		{"many empty lists in several files", gzipOf(t, tarOf(t, item{name: "a/data.json", body: "[" + strings.Repeat("[],", maxDataParts/4) + "[]]"}, item{name: "b/data.json", body: "[" + strings.Repeat("[],", maxDataParts/4) + "[]]"})), "4000000 keys", 256},
		{"a manifest of many keys", gzipOf(t, tarOf(t, rule, item{name: ".manifest", body: "{" + strings.Repeat(`"":[],`, maxDataParts/3+1) + "}"})), "4000000 keys", 256},
		{"many levels", gzipOf(t, tarOf(t, rule, item{name: "data.json", body: `{"x":` + strings.Repeat("[", mib)})), "exceeded max depth", 64},
		{"large YAML", gzipOf(t, tarOf(t, rule, item{name: "data.yaml", body: strings.Repeat("- \n", maxYAMLBytes/3+1)})), "the most for YAML", 128},
		{"YAML that refers to itself ten times ten times", gzipOf(t, tarOf(t, rule, item{name: "data.yml", body: laughs})), "excessive aliasing", 512},
		{"large modules", gzipOf(t, tarOf(t, rule, item{name: "q.rego", body: "package q\n\n" + strings.Repeat("# x\n", maxModuleBytes/4)})), "modules are larger", 256},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			got := allocated(func() {
				fsys, refused := Archive(bytes.NewReader(tt.give))
				if err = refused; err == nil {
					_, err = Open(t.Context(), fsys, Options{})
				}
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if len(tt.give) > 2*mib || got > tt.mostMiB*mib {
				t.Errorf("an archive of %d bytes makes %d", len(tt.give), got)
			}
		})
	}
}

// A signature does not open what is behind it: somebody on the way can put a bomb
// beside a signature that is good.
func TestBombsAreRefusedUnverified(t *testing.T) {
	fsys := files("p.rego", denies, ".signatures.json", `{"signatures": ["x"]}`, "data.json", "["+strings.Repeat("[],", maxDataParts/2)+"[]]")
	if _, err := collect(fsys); err == nil || !strings.Contains(err.Error(), "4000000 keys") {
		t.Errorf("collect = %v", err)
	}
}

// What data becomes once it is open is bounded by what it may hold.
func TestDataInMemory(t *testing.T) {
	const parts = 100_000
	fsys := files("p.rego", denies, "x/data.json", `{"x": [`+strings.Repeat("[],", parts/2)+`[]]}`)
	var p *Policy
	if got := grown(func() { p = mustOpen(t, fsys) }); got > parts*512 {
		t.Errorf("data of %d parts takes %d bytes, so %d parts take more than 2 GiB", parts, got, maxDataParts)
	}
	runtime.KeepAlive(p)
}
