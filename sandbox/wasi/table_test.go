package wasi_test

import (
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// needs are what the functions of a descriptor need, by the bit of the right, for a
// descriptor of a file (or of a directory, where dir says so).
var needs = []struct {
	name string
	dir  bool
	bit  int
	args []uint64 // after the descriptor
}{
	{"fd_datasync", false, 0, nil},
	{"fd_read", false, 1, []uint64{vectorAt, 0, resultAt}},
	{"fd_pread", false, 1, []uint64{vectorAt, 0, 0, resultAt}},
	{"fd_pread", false, 2, []uint64{vectorAt, 0, 0, resultAt}},
	{"fd_seek", false, 2, []uint64{1, 0, resultAt}},
	{"fd_fdstat_set_flags", false, 3, []uint64{0}},
	{"fd_fdstat_set_flags", true, 3, []uint64{0}},
	{"fd_sync", false, 4, nil},
	{"fd_write", false, 6, []uint64{vectorAt, 0, resultAt}},
	{"fd_pwrite", false, 6, []uint64{vectorAt, 0, 0, resultAt}},
	{"fd_pwrite", false, 2, []uint64{vectorAt, 0, 0, resultAt}},
	{"fd_advise", false, 7, []uint64{0, 0, 0}},
	{"fd_allocate", false, 8, []uint64{0, 1}},
	{"path_create_directory", true, 9, []uint64{pathAt, 1}},
	{"path_link", true, 11, []uint64{0, pathAt, 1, 3, pathAt, 1}},
	{"path_open", true, 13, []uint64{0, pathAt, 1, 0, 0, 0, 0, resultAt}},
	{"path_open", true, 10, []uint64{0, pathAt, 1, 1, 0, 0, 0, resultAt}},
	{"path_open", true, 19, []uint64{0, pathAt, 1, 8, 0, 0, 0, resultAt}},
	{"fd_readdir", true, 14, []uint64{bufAt, 100, 0, resultAt}},
	{"path_readlink", true, 15, []uint64{pathAt, 1, bufAt, 100, resultAt}},
	{"path_rename", true, 16, []uint64{pathAt, 1, 3, pathAt, 1}},
	{"path_filestat_get", true, 18, []uint64{0, pathAt, 1, bufAt}},
	{"path_filestat_set_times", true, 20, []uint64{0, pathAt, 1, 0, 0, 0}},
	{"fd_filestat_get", false, 21, []uint64{bufAt}},
	{"fd_filestat_get", true, 21, []uint64{bufAt}},
	{"fd_filestat_set_size", false, 22, []uint64{5}},
	{"fd_filestat_set_times", false, 23, []uint64{0, 0, 0}},
	{"fd_filestat_set_times", true, 23, []uint64{0, 0, 0}},
	{"path_remove_directory", true, 25, []uint64{pathAt, 1}},
	{"path_unlink_file", true, 26, []uint64{pathAt, 1}},
}

// Every function needs its right, and gets by without all others that do not apply.
func TestRightsAreNeeded(t *testing.T) {
	for _, n := range needs {
		w := newWorld(t, every, call.Bounds{}, nil)
		w.put(pathAt, "x")
		open := func() uint64 {
			if n.dir {
				return w.must(3, "sub", 2, allRights&^rightWrite, allRights, 0)
			}
			return w.must(3, "a.txt", 0, allRights, 0, 0)
		}
		w.put(pathAt, "x")
		fd := open()
		w.put(pathAt, "x")
		args := append([]uint64{fd}, n.args...)
		if got := w.call(n.name, args...); got == notcapable || got == badf || got == isdir || got == notdir {
			t.Errorf("%s with every right = %d", n.name, got)
		}
		fd = open()
		w.want(success, "fd_fdstat_get", fd, bufAt)
		base, inheriting := w.u64(bufAt+8), w.u64(bufAt+16)
		if base&(1<<n.bit) == 0 {
			t.Errorf("%s: a new descriptor lacks right %d", n.name, n.bit)
		}
		w.want(success, "fd_fdstat_set_rights", fd, base&^(1<<n.bit), inheriting)
		w.put(pathAt, "x")
		args[0] = fd
		w.want(notcapable, n.name, args...)
	}
}

// The second directories of links and renames, and the new place of a symbolic link.
func TestRightsOfTargets(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	for bit, do := range map[int]func(fd uint64){
		12: func(fd uint64) { w.want(notcapable, "path_link", 3, 0, pathAt, 5, fd, pathAt, 1) },
		17: func(fd uint64) { w.want(notcapable, "path_rename", 3, pathAt, 5, fd, pathAt, 1) },
		24: func(fd uint64) { w.want(notcapable, "path_symlink", pathAt, 1, fd, pathAt, 1) },
	} {
		fd := w.must(3, "sub", 2, allRights&^rightWrite&^(1<<bit), allRights, 0)
		w.put(pathAt, "a.txt")
		do(fd)
	}
	if got := w.fx.Close(); len(got) > 0 {
		t.Errorf("effects %v", got)
	}
}

func TestRightsOnlyNarrow(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	dir := w.must(3, "sub", 2, rightOpen|rightReaddir, rightRead|rightSeek, 0)
	for _, tt := range []struct {
		base, inheriting, want uint64
	}{
		{rightRead, 0, success},
		{0, rightSeek, success},
		{rightWrite, 0, notcapable},
		{rightRead | rightTell, 0, notcapable},
		{0, rightWrite, notcapable},
		{1 << 40, 0, success}, // no right that there is
	} {
		if got, _ := w.open(uint32(dir), "b.txt", 0, tt.base, tt.inheriting, 0); got != tt.want {
			t.Errorf("open with %#x, %#x = %d, want %d", tt.base, tt.inheriting, got, tt.want)
		}
	}
	if got, _ := w.open(uint32(dir), "b.txt", 1, rightRead, 0, 0); got != notcapable {
		t.Errorf("create without the right = %d", got)
	}
	if got, _ := w.open(uint32(dir), "b.txt", 0, rightRead, 0, 1<<4); got != notcapable {
		t.Errorf("synchronous without the right to inherit = %d", got)
	}
	w.want(notcapable, "fd_fdstat_set_rights", dir, rightOpen|rightRead, 0)
	w.want(notcapable, "fd_fdstat_set_rights", dir, rightOpen, rightWrite)
	w.want(success, "fd_fdstat_set_rights", dir, rightOpen, 0)
	w.want(notcapable, "fd_fdstat_set_rights", dir, rightOpen|rightReaddir, 0)
	if got, _ := w.open(uint32(dir), "b.txt", 0, rightRead, 0, 0); got != notcapable {
		t.Errorf("open without anything to inherit = %d", got)
	}

	// What does not apply to what is opened is not there.
	file := w.must(3, "a.txt", 0, allRights&^rightWrite, allRights, 0)
	w.want(success, "fd_fdstat_get", file, bufAt)
	if base, inheriting := w.u64(bufAt+8), w.u64(bufAt+16); base&(rightWrite|rightOpen|1<<8|1<<22) != 0 || base&rightRead == 0 || inheriting != 0 {
		t.Errorf("a file for reading has %#x, %#x", base, inheriting)
	}
	dir = w.must(3, "sub", 0, allRights&^rightWrite, 0, 0)
	w.want(success, "fd_fdstat_get", dir, bufAt)
	if base := w.u64(bufAt + 8); base&(rightRead|rightSeek) != 0 || base&rightOpen == 0 {
		t.Errorf("a directory has %#x", base)
	}
}

// What never applies to a kind of descriptor has its own error.
func TestKinds(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	file := w.must(3, "a.txt", 0, allRights, 0, 0)
	w.put(pathAt, "x")
	for _, tt := range []struct {
		want uint64
		name string
		args []uint64
	}{
		{isdir, "fd_read", []uint64{3, vectorAt, 0, resultAt}},
		{isdir, "fd_write", []uint64{3, vectorAt, 0, resultAt}},
		{isdir, "fd_seek", []uint64{3, 0, 0, resultAt}},
		{isdir, "fd_tell", []uint64{3, resultAt}},
		{isdir, "fd_allocate", []uint64{3, 0, 1}},
		{isdir, "fd_filestat_set_size", []uint64{3, 0}},
		{notdir, "path_create_directory", []uint64{file, pathAt, 1}},
		{notdir, "path_open", []uint64{file, 0, pathAt, 1, 0, 0, 0, 0, resultAt}},
		{notdir, "fd_readdir", []uint64{file, bufAt, 10, 0, resultAt}},
		{notdir, "path_open", []uint64{0, 0, pathAt, 1, 0, 0, 0, 0, resultAt}},
		{badf, "fd_write", []uint64{0, vectorAt, 0, resultAt}},
		{badf, "fd_read", []uint64{1, vectorAt, 0, resultAt}},
		{spipe, "fd_seek", []uint64{0, 0, 1, resultAt}},
		{spipe, "fd_tell", []uint64{1, resultAt}},
		{spipe, "fd_pread", []uint64{0, vectorAt, 0, 0, resultAt}},
		{spipe, "fd_pwrite", []uint64{2, vectorAt, 0, 0, resultAt}},
		{spipe, "fd_allocate", []uint64{1, 0, 1}},
		{inval, "fd_filestat_set_size", []uint64{1, 0}},
		{inval, "fd_filestat_set_times", []uint64{0, 0, 0, 0}},
		{badf, "fd_prestat_get", []uint64{file, resultAt}},
		{badf, "fd_prestat_get", []uint64{0, resultAt}},
		{notsock, "sock_shutdown", []uint64{0, 0}},
		{notsock, "sock_recv", []uint64{file, 0, 0, 0, 0, 0}},
		{notsock, "sock_send", []uint64{3, 0, 0, 0, 0}},
		{badf, "sock_accept", []uint64{99, 0, 0}},
		{nosys, "proc_raise", []uint64{6}},
		{success, "sched_yield", nil},
	} {
		w.want(tt.want, tt.name, tt.args...)
	}
}

// A closed descriptor is closed for every function that takes one.
func TestClosedDescriptors(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	fd := w.must(3, "a.txt", 0, allRights, 0, 0)
	w.want(success, "fd_close", fd)
	for _, f := range byName {
		if f.Name[:3] != "fd_" && f.Name[:4] != "sock" && f.Name[:4] != "path" {
			continue
		}
		at := 0
		if f.Name == "path_symlink" {
			at = 2
		}
		for _, n := range []uint64{fd, 100, 1 << 20, 0xffffffff} {
			args := make([]uint64, len(f.Params))
			args[at] = n
			w.want(badf, f.Name, args...)
		}
	}
}

func TestDescriptorNumbers(t *testing.T) {
	w := newWorld(t, every, call.Bounds{OpenFiles: 10_000}, nil)
	a, b := w.must(3, "a.txt", 0, rightRead, 0, 0), w.must(3, "sub", 0, 0, 0, 0)
	if a != 4 || b != 5 {
		t.Errorf("opened %d and %d, want 4 and 5", a, b)
	}
	w.want(success, "fd_close", a)
	w.want(success, "fd_close", 0)
	if fd := w.must(3, "a.txt", 0, rightRead, 0, 0); fd != 0 {
		t.Errorf("opened %d, want 0, the lowest", fd)
	}
	if _, got := w.read(0, 10); got != "alpha" {
		t.Errorf("read %q from what was stdin", got)
	}
	if fd := w.must(3, "a.txt", 0, rightRead, 0, 0); fd != a {
		t.Errorf("opened %d, want %d again", fd, a)
	}

	w.want(badf, "fd_renumber", a, 6)
	w.want(badf, "fd_renumber", a, 0x7fffffff)
	w.want(badf, "fd_renumber", 6, a)
	w.want(success, "fd_renumber", a, a)
	w.want(success, "fd_renumber", a, b)
	w.want(badf, "fd_close", a)
	if _, got := w.read(b, 10); got != "alpha" {
		t.Errorf("read %q after renumbering", got)
	}
	// A preopened directory is no more than a descriptor.
	w.want(success, "fd_renumber", 3, b)
	w.want(success, "fd_prestat_get", b, resultAt)
	w.want(badf, "fd_prestat_get", 3, resultAt)
	if fd := w.must(uint32(b), "a.txt", 0, rightRead, 0, 0); fd != 3 {
		t.Errorf("opened %d, want 3", fd)
	}
}

func TestDescriptorsAreCapped(t *testing.T) {
	w := newWorld(t, []string{"read"}, call.Bounds{OpenFiles: 1 << 40}, nil)
	n, errno := 0, uint64(0)
	for ; errno == success; n++ {
		errno, _ = w.open(3, ".", 0, 0, 0, 0)
	}
	if n-1 != 4096 || errno != mfile {
		t.Errorf("%d descriptors, then %d, want 4096 and %d", n-1, errno, mfile)
	}
	w.want(success, "fd_close", 77)
	if errno, fd := w.open(3, ".", 0, 0, 0, 0); errno != success || fd != 77 {
		t.Errorf("a number that is free again: %d, %d", errno, fd)
	}
}
