package wasi_test

import (
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

const end = 65536 // of the memory

// outputs are where functions write to: name, its parameters with good pointers, and
// the place of each pointer with how much must lie in the memory there.
var outputs = []struct {
	name  string
	args  []uint64
	sizes map[int]uint64
}{
	{"args_get", []uint64{bufAt, bufAt}, map[int]uint64{0: 4, 1: 5}},
	{"args_sizes_get", []uint64{bufAt, bufAt}, map[int]uint64{0: 4, 1: 4}},
	{"environ_sizes_get", []uint64{bufAt, bufAt}, map[int]uint64{0: 4, 1: 4}},
	{"clock_res_get", []uint64{0, bufAt}, map[int]uint64{1: 8}},
	{"clock_time_get", []uint64{0, 0, bufAt}, map[int]uint64{2: 8}},
	{"random_get", []uint64{bufAt, 7}, map[int]uint64{0: 7}},
	{"fd_fdstat_get", []uint64{0, bufAt}, map[int]uint64{1: 24}},
	{"fd_filestat_get", []uint64{4, bufAt}, map[int]uint64{1: 64}},
	{"fd_prestat_get", []uint64{3, bufAt}, map[int]uint64{1: 8}},
	{"fd_prestat_dir_name", []uint64{3, bufAt, 5}, map[int]uint64{1: 5}},
	{"fd_read", []uint64{4, vectorAt, 1, resultAt}, map[int]uint64{1: 8, 3: 4}},
	{"fd_pread", []uint64{4, vectorAt, 1, 0, resultAt}, map[int]uint64{1: 8, 4: 4}},
	{"fd_write", []uint64{4, vectorAt, 1, resultAt}, map[int]uint64{1: 8, 3: 4}},
	{"fd_pwrite", []uint64{4, vectorAt, 1, 0, resultAt}, map[int]uint64{1: 8, 4: 4}},
	{"fd_seek", []uint64{4, 1, 1, resultAt}, map[int]uint64{3: 8}},
	{"fd_tell", []uint64{4, resultAt}, map[int]uint64{1: 8}},
	{"fd_readdir", []uint64{3, bufAt, 10, 0, resultAt}, map[int]uint64{1: 10, 4: 4}},
	{"path_create_directory", []uint64{3, pathAt, 3}, map[int]uint64{1: 3}},
	{"path_filestat_get", []uint64{3, 0, pathAt, 3, bufAt}, map[int]uint64{2: 3, 4: 64}},
	{"path_filestat_set_times", []uint64{3, 0, pathAt, 3, 0, 0, 0}, map[int]uint64{2: 3}},
	{"path_link", []uint64{3, 0, pathAt, 3, 3, pathAt, 3}, map[int]uint64{2: 3, 5: 3}},
	{"path_open", []uint64{3, 0, pathAt, 3, 1, 0, 0, 0, resultAt}, map[int]uint64{2: 3, 8: 4}},
	{"path_readlink", []uint64{3, pathAt, 3, bufAt, 9, resultAt}, map[int]uint64{1: 3, 3: 9, 5: 4}},
	{"path_remove_directory", []uint64{3, pathAt, 3}, map[int]uint64{1: 3}},
	{"path_rename", []uint64{3, pathAt, 3, 3, pathAt, 3}, map[int]uint64{1: 3, 4: 3}},
	{"path_symlink", []uint64{pathAt, 3, 3, pathAt, 3}, map[int]uint64{0: 3, 3: 3}},
	{"path_unlink_file", []uint64{3, pathAt, 3}, map[int]uint64{1: 3}},
}

// A pointer that leads out of the memory is found before anything is done: nothing is
// written to memory or to files, and nothing is recorded.
func TestPointersAreChecked(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	if fd := w.must(3, "a.txt", 0, allRights, 0, 0); fd != 4 {
		t.Fatalf("opened %d", fd)
	}
	w.put(pathAt, "new")
	w.vector(1)
	before := w.text(0, end)
	for _, o := range outputs {
		for place, size := range o.sizes {
			for _, at := range []uint64{end - size + 1, end, 0x7fffffff, 0xffffffff, 0xffffffff - size + 1} {
				args := append([]uint64{}, o.args...)
				args[place] = at
				w.want(fault, o.name, args...)
			}
		}
	}
	if w.text(0, end) != before {
		t.Error("the memory was written to")
	}
	for _, e := range w.fx.Close() {
		if e.Kind != "fs.read" && e.Kind != "fs.write" || e.Target != "/w/in/a.txt" || e.BytesIn+e.BytesOut != 0 {
			t.Errorf("effect %v", e)
		}
	}
}

func TestListsOfBuffersAreBounded(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	fd := w.must(3, "a.txt", 0, allRights, 0, 0)
	for _, name := range []string{"fd_read", "fd_write"} {
		w.want(inval, name, fd, vectorAt, 1025, resultAt)
		w.want(inval, name, fd, vectorAt, 1<<29, resultAt)
		w.want(inval, name, fd, vectorAt, 0xffffffff, resultAt)
		w.want(success, name, fd, end, 0, resultAt)

		// Two that each fit, and together are larger than the memory.
		w.put(vectorAt, "\x00\x00\x00\x00\x00\x00\x01\x00"+"\x00\x00\x00\x00\x01\x00\x00\x00")
		w.want(inval, name, fd, vectorAt, 2, resultAt)
		// One that does not fit, after one that does.
		w.put(vectorAt, "\x00\x30\x00\x00\x01\x00\x00\x00"+"\xff\xff\x00\x00\x02\x00\x00\x00")
		w.want(fault, name, fd, vectorAt, 2, resultAt)
	}
	w.want(inval, "fd_pread", fd, vectorAt, 0, 1<<63, resultAt)
	w.want(inval, "fd_pwrite", fd, vectorAt, 0, 1<<63-1, resultAt)
	w.want(fbig, "fd_filestat_set_size", fd, 1<<63)
	w.want(fbig, "fd_allocate", fd, 1, 1<<63-1)
	w.want(fbig, "fd_allocate", fd, 1<<63, 1)
	w.want(inval, "fd_allocate", fd, 1, 0)
	w.want(inval, "fd_advise", fd, 0, 0, 6)
	w.want(inval, "fd_advise", fd, 1<<63, 0, 0)
	w.want(inval, "fd_seek", fd, 0, 3, resultAt)
	w.want(inval, "fd_seek", fd, 1<<63, 0, resultAt)
	w.want(inval, "fd_fdstat_set_flags", fd, 32)
}

// A list that the bytes read go over is the one that was there before.
func TestBuffersOverTheirList(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	list := "\x00\x20\x00\x00\x08\x00\x00\x00" + "\x00\x30\x00\x00\x05\x00\x00\x00" // vectorAt, then bufAt
	w.put(vectorAt, list)
	w.want(success, "fd_read", 0, vectorAt, 2, resultAt)
	if w.u32(resultAt) != 13 || w.text(vectorAt, 8) != "the argu" || w.text(bufAt, 5) != "ments" {
		t.Errorf("%d bytes: %q and %q", w.u32(resultAt), w.text(vectorAt, 8), w.text(bufAt, 5))
	}
}

func TestPathsAreChecked(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	for _, tt := range []struct {
		path string
		want uint64
	}{
		{"a.txt", success},
		{"./sub/../a.txt", success},
		{"sub/", success},
		{"", noent},
		{"none", noent},
		{"a.txt/", 54},
		{"a\x00b", inval},
		{"/a.txt", perm},
		{"/etc/passwd", perm},
		{"..", perm},
		{"../secret.txt", perm},
		{"sub/../../secret.txt", perm},
		{"sub/../../in/a.txt", perm},
		{strings.Repeat("x", 4097), nametoolong},
		{strings.Repeat("./", 2046) + "sub", success},
	} {
		w.put(pathAt, tt.path)
		n := uint64(len(tt.path))
		w.want(tt.want, "path_filestat_get", 3, 1, pathAt, n, resultAt)
		if tt.want == perm || tt.want == nametoolong {
			w.want(tt.want, "path_unlink_file", 3, pathAt, n)
			w.want(tt.want, "path_create_directory", 3, pathAt, n)
			w.want(tt.want, "path_open", 3, 0, pathAt, n, 1, rightWrite, 0, 0, resultAt)
			w.want(tt.want, "path_readlink", 3, pathAt, n, bufAt, 10, resultAt)
			w.want(tt.want, "path_remove_directory", 3, pathAt, n)
			w.want(tt.want, "path_rename", 3, pathAt, n, 3, pathAt, n)
			w.want(tt.want, "path_symlink", pathAt, 1, 3, pathAt, n)
			w.want(tt.want, "path_link", 3, 0, pathAt, n, 3, pathAt, n)
			w.want(tt.want, "path_filestat_set_times", 3, 0, pathAt, n, 0, 0, 0)
		}
	}
	w.want(nametoolong, "path_symlink", pathAt, 4097, 3, pathAt, 1)
	w.want(noent, "path_symlink", pathAt, 0, 3, pathAt, 1)
	for _, e := range w.fx.Close() {
		if e.Code == "ok" {
			t.Errorf("effect %v", e)
		}
	}
}

// What is out of the directory by its text is recorded where it leads to.
func TestRefusalsAreRecorded(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	sub := w.must(3, "sub", 2, allRights&^rightWrite, allRights, 0)
	w.open(uint32(sub), "../../secret.txt", 0, rightRead, 0, 0)
	w.open(3, "/etc/passwd", 0, rightWrite, 0, 0)
	w.open(3, "../x", 0, rightWrite, 0, 1)
	w.open(3, "../x", 2, 0, 0, 0)
	w.put(pathAt, "../x")
	w.call("path_unlink_file", 3, pathAt, 4)
	want := []call.Effect{
		{Kind: "fs.read", Target: "/w/secret.txt"},
		{Kind: "fs.write", Target: "/etc/passwd"},
		{Kind: "fs.append", Target: "/w/x"},
		{Kind: "fs.list", Target: "/w/x"},
		{Kind: "fs.remove", Target: "/w/x"},
	}
	have := w.fx.Close()
	if len(have) != len(want) {
		t.Fatalf("effects %v", have)
	}
	for i, e := range have {
		if e.Kind != want[i].Kind || e.Target != want[i].Target || e.Code != "refused" || e.Within != "/w/in" {
			t.Errorf("effect %v, want %v", e, want[i])
		}
	}
}

// Where much is moved the clock is looked at in between.
func TestTimeIsLookedAt(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, nil)
	fd := w.must(3, "a.txt", 0, allRights, 0, 0)
	w.want(success, "fd_filestat_set_size", fd, 1<<20)
	for _, c := range []struct {
		name string
		args []uint64
	}{
		{"random_get", []uint64{0, end}},
		{"fd_read", []uint64{fd, vectorAt, 1, resultAt}},
		{"fd_write", []uint64{fd, vectorAt, 1, resultAt}},
		{"fd_readdir", []uint64{3, bufAt, 1000, 0, resultAt}},
	} {
		was := w.life.checks
		w.vector(end / 2)
		w.want(success, c.name, c.args...)
		if w.life.checks == was {
			t.Errorf("%s does not look at the clock", c.name)
		}
	}
	w.life.limit, w.life.checks = 1, 1
	if w.call("fd_readdir", 3, bufAt, 1000, 0, resultAt); w.ends.what != "over" {
		t.Errorf("ended %v", w.ends)
	}
}
