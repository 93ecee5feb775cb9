package wasi_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

func (w *world) content(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	must(w.t, err)
	return string(b)
}

// Flags of path_open and of descriptors.
const (
	create    = 1
	directory = 2
	exclusive = 4
	truncate  = 8

	appending = 1
)

// What each mode of a grant lets a guest do to a file, when it asks for all rights.
func TestModes(t *testing.T) {
	type asks struct{ read, write, add, create, truncate uint64 }
	for _, tt := range []struct {
		modes []string
		want  asks
	}{
		{[]string{"read"}, asks{success, acces, acces, acces, acces}},
		{[]string{"append"}, asks{acces, acces, success, acces, acces}},
		{[]string{"write"}, asks{acces, success, success, success, success}},
		{[]string{"list"}, asks{acces, acces, acces, acces, acces}},
		{[]string{"remove"}, asks{acces, acces, acces, acces, acces}},
	} {
		w := newWorld(t, tt.modes, call.Bounds{}, nil)
		var have asks
		have.read, _ = w.open(3, "a.txt", 0, rightRead, 0, 0)
		have.write, _ = w.open(3, "a.txt", 0, rightWrite, 0, 0)
		have.add, _ = w.open(3, "a.txt", 0, rightWrite, 0, appending)
		have.create, _ = w.open(3, "new", create, rightWrite, 0, 0)
		have.truncate, _ = w.open(3, "a.txt", truncate, rightWrite, 0, 0)
		if have != tt.want {
			t.Errorf("%v: %v, want %v", tt.modes, have, tt.want)
		}
	}
}

func TestAppend(t *testing.T) {
	w := newWorld(t, []string{"append", "read"}, call.Bounds{}, nil)
	fd := w.must(3, "a.txt", 0, rightRead|rightWrite|rightSeek|1<<3|1<<22|1<<8, 0, appending)
	w.want(success, "fd_seek", fd, 0, 0, resultAt)
	if errno := w.write(fd, "-1"); errno != success {
		t.Errorf("append = %d", errno)
	}
	w.vector(1)
	w.want(acces, "fd_pwrite", fd, vectorAt, 1, 0, resultAt)
	w.want(acces, "fd_fdstat_set_flags", fd, 0)
	w.want(acces, "fd_filestat_set_size", fd, 0)
	if errno := w.write(fd, "-2"); errno != success {
		t.Errorf("append = %d", errno)
	}
	if got := w.content("a.txt"); got != "alpha-1-2" {
		t.Errorf("the file is %q", got)
	}
}

func TestWrite(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	fd := w.must(3, "new", create|exclusive, allRights, 0, 1<<1|1<<4) // synchronous
	w.write(fd, "0123456789")
	w.want(success, "fd_tell", fd, resultAt)
	if got := w.u64(resultAt); got != 10 {
		t.Errorf("the offset is %d", got)
	}
	w.put(bufAt, "ab")
	w.vector(2)
	w.want(success, "fd_pwrite", fd, vectorAt, 1, 3, resultAt)
	w.want(success, "fd_fdstat_set_flags", fd, appending)
	w.put(bufAt, "cd")
	w.vector(2)
	w.want(success, "fd_pwrite", fd, vectorAt, 1, 6, resultAt) // there, and not at the end
	w.want(success, "fd_seek", fd, 0, 0, resultAt)
	w.write(fd, "X")
	w.want(success, "fd_pread", fd, vectorAt, 1, 4, resultAt)
	if got := w.text(bufAt, w.u32(resultAt)); got != "b" { // vector is of one byte now
		t.Errorf("read %q", got)
	}
	if got := w.content("new"); got != "012ab5cd89X" {
		t.Errorf("the file is %q", got)
	}
	w.want(success, "fd_allocate", fd, 0, 5)
	w.want(success, "fd_allocate", fd, 10, 10)
	w.want(success, "fd_sync", fd)
	w.want(success, "fd_datasync", fd)
	w.want(success, "fd_filestat_get", fd, bufAt)
	if got := w.u64(bufAt + 32); got != 20 {
		t.Errorf("the size is %d", got)
	}
	w.want(success, "fd_filestat_set_size", fd, 3)
	if got := w.content("new"); got != "012" {
		t.Errorf("the file is %q", got)
	}
}

func TestQuotas(t *testing.T) {
	w := newWorld(t, every, call.Bounds{WriteBytes: 10, OpenFiles: 2}, nil)
	fd := w.must(3, "new", create, allRights, 0, 0)
	if errno := w.write(fd, "12345678"); errno != success {
		t.Errorf("write = %d", errno)
	}
	if errno := w.write(fd, "901"); errno != dquot {
		t.Errorf("too much = %d", errno)
	}
	w.want(dquot, "fd_filestat_set_size", fd, 1<<40)
	w.want(dquot, "fd_allocate", fd, 0, 1<<40)
	w.want(success, "fd_filestat_set_size", fd, 10)
	w.must(3, "a.txt", 0, rightRead, 0, 0)
	if errno, _ := w.open(3, "a.txt", 0, rightRead, 0, 0); errno != mfile {
		t.Errorf("one file too many = %d", errno)
	}
}

// The lookup of a link in the last component.
func TestLinks(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	w.put(pathAt, "a.txt")
	w.put(pathAt+16, "ln")
	w.want(success, "path_symlink", pathAt, 5, 3, pathAt+16, 2)
	w.want(success, "path_filestat_get", 3, 0, pathAt+16, 2, bufAt)
	if got := w.text(bufAt+16, 1); got != "\x07" {
		t.Errorf("the type of a link is %q", got)
	}
	w.want(success, "path_filestat_get", 3, 1, pathAt+16, 2, bufAt)
	if got := w.text(bufAt+16, 1); got != "\x04" {
		t.Errorf("the type of what it leads to is %q", got)
	}
	w.want(loop, "path_open", 3, 0, pathAt+16, 2, 0, rightRead, 0, 0, resultAt)
	w.want(success, "path_open", 3, 1, pathAt+16, 2, 0, rightRead, 0, 0, resultAt)
	if _, got := w.read(uint64(w.u32(resultAt)), 10); got != "alpha" {
		t.Errorf("read %q", got)
	}
	w.put(bufAt, "xxxxxxxx")
	w.want(success, "path_readlink", 3, pathAt+16, 2, bufAt, 3, resultAt)
	if got := w.text(bufAt, 8); got != "a.txxxxx" || w.u32(resultAt) != 3 {
		t.Errorf("the text is %q of %d bytes", got, w.u32(resultAt))
	}
	w.want(inval, "path_readlink", 3, pathAt, 5, bufAt, 10, resultAt)

	// One of the host's that leads out is neither followed nor read.
	w.put(pathAt, "out")
	w.want(acces, "path_readlink", 3, pathAt, 3, bufAt, 10, resultAt)
	w.want(acces, "path_open", 3, 1, pathAt, 3, 0, rightRead, 0, 0, resultAt)
	w.want(acces, "path_filestat_get", 3, 1, pathAt, 3, bufAt)
	// None that leads out is made.
	w.put(pathAt+32, "l")
	for _, target := range []string{"../secret.txt", "/etc/passwd", "sub/../../x"} {
		w.put(bufAt, target)
		w.want(acces, "path_symlink", bufAt, uint64(len(target)), 3, pathAt+32, 1)
	}
}

// entries reads a directory with a buffer of so many bytes, by cookies.
func (w *world) entries(fd uint64, size uint32) map[string]byte {
	w.t.Helper()
	found := map[string]byte{}
	cookie := uint64(0)
	for range 10_000 {
		w.want(success, "fd_readdir", fd, bufAt, uint64(size), cookie, resultAt)
		n := w.u32(resultAt)
		b := []byte(w.text(bufAt, n))
		for len(b) >= 24 {
			k := binary.LittleEndian.Uint32(b[16:])
			if uint32(len(b)) < 24+k {
				break
			}
			name := string(b[24 : 24+k])
			if _, twice := found[name]; twice {
				w.t.Fatalf("%q comes twice", name)
			}
			found[name], cookie = b[20], binary.LittleEndian.Uint64(b)
			b = b[24+k:]
		}
		if n < size {
			return found
		}
	}
	w.t.Fatal("no end")
	return nil
}

func TestReaddir(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	want := map[string]byte{".": 3, "..": 3, "a.txt": 4, "sub": 3, "out": 7}
	for size := uint32(60); size < 300; size += 7 {
		if got := w.entries(3, size); !maps.Equal(got, want) {
			t.Errorf("with %d bytes: %v", size, got)
		}
	}
	// From the start again there is what was made since; from a cookie there is not
	// more than once what was there.
	must(t, os.WriteFile(filepath.Join(w.dir, "later"), nil, 0o600))
	want["later"] = 4
	if got := w.entries(3, 500); !maps.Equal(got, want) {
		t.Errorf("later: %v", got)
	}
	w.want(success, "fd_readdir", 3, bufAt, 100, 1<<40, resultAt)
	if n := w.u32(resultAt); n != 0 {
		t.Errorf("far beyond the end there are %d bytes", n)
	}
	w.want(success, "fd_readdir", 3, bufAt, 100, 1, resultAt)
	if got := w.text(bufAt+24, 2); got != ".." {
		t.Errorf("the second entry is %q", got)
	}
	w.want(inval, "fd_readdir", 3, 0, 1<<20+1, 0, resultAt)

	weak := newWorld(t, []string{"read", "write"}, call.Bounds{}, nil)
	weak.want(acces, "fd_readdir", 3, bufAt, 500, 0, resultAt)
}

func TestLargeDirectory(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	var names []string
	for i := range 3000 {
		name := fmt.Sprint(strings.Repeat("n", i%50), i)
		must(t, os.WriteFile(filepath.Join(w.dir, "sub", name), nil, 0o600))
		names = append(names, name)
	}
	fd := w.must(3, "sub", directory, rightReaddir, 0, 0)
	got := w.entries(fd, 4096)
	for _, name := range append(names, "b.txt") {
		if got[name] != 4 {
			t.Fatalf("%q is missing", name)
		}
	}
	if len(got) != len(names)+3 {
		t.Errorf("%d entries", len(got))
	}
	if e := w.fx.Close(); len(slices.DeleteFunc(e, func(e call.Effect) bool { return e.Kind != "fs.list" })) != 1 {
		t.Errorf("effects %v", e)
	}
}

// A directory stays the one that was opened, wherever it is moved to.
func TestOpenDirectoriesStay(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	fd := w.must(3, "sub", directory, allRights&^rightWrite, allRights, 0)
	must(t, os.Rename(filepath.Join(w.dir, "sub"), filepath.Join(w.dir, "moved")))
	must(t, os.Symlink("..", filepath.Join(w.dir, "sub")))
	file := w.must(uint32(fd), "b.txt", 0, rightRead, 0, 0)
	if _, got := w.read(file, 10); got != "beta" {
		t.Errorf("read %q", got)
	}
}
