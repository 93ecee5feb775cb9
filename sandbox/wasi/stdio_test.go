package wasi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/wasi"
)

func TestStdin(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	for _, want := range []string{"the argume", "nts", "", ""} {
		if errno, got := w.read(0, 10); errno != success || got != want {
			t.Errorf("read %q, %d, want %q", got, errno, want)
		}
	}
}

func TestStdoutIsCapped(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	for range 2 {
		if errno := w.write(1, strings.Repeat("x", 50)); errno != success || w.u32(resultAt) != 50 {
			t.Errorf("write = %d, %d bytes", errno, w.u32(resultAt))
		}
	}
	w.write(1, "")
	if w.ends.what != "" {
		t.Errorf("nothing more ended the run")
	}
	if w.write(1, "x"); w.ends.what != "output" {
		t.Errorf("one byte too many did not end the run")
	}
	if got := string(w.state.Stdout()); got != strings.Repeat("x", 100) {
		t.Errorf("stdout is %q", got)
	}
}

func TestStderrIsCut(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	for range 3 {
		if errno := w.write(2, "abcdef"); errno != success || w.u32(resultAt) != 6 {
			t.Errorf("write = %d, %d bytes", errno, w.u32(resultAt))
		}
	}
	if got := string(w.state.Stderr()); got != "abcdefabcd" {
		t.Errorf("stderr is %q", got)
	}
}

// Standard input and output are no terminal and no file.
func TestStdioIsDescribed(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	for fd := range uint64(3) {
		w.want(success, "fd_fdstat_get", fd, bufAt)
		if w.text(bufAt, 1) != "\x00" || w.u64(bufAt+16) != 0 {
			t.Errorf("%d is of type %q", fd, w.text(bufAt, 1))
		}
		w.put(bufAt, strings.Repeat("x", 64))
		w.want(success, "fd_filestat_get", fd, bufAt)
		if w.text(bufAt, 64) != strings.Repeat("\x00", 64) {
			t.Errorf("%d is %q", fd, w.text(bufAt, 64))
		}
		w.want(success, "fd_fdstat_set_flags", fd, 4)
		w.want(inval, "fd_fdstat_set_flags", fd, 32)
		w.want(success, "fd_fdstat_get", fd, bufAt)
		if w.text(bufAt+2, 2) != "\x04\x00" {
			t.Errorf("%d has flags %q", fd, w.text(bufAt+2, 2))
		}
	}
	w.want(success, "fd_sync", 1)
	w.want(success, "fd_datasync", 2)
}

// Every guest is called "tool" and has no environment.
func TestArgumentsAndEnvironment(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	w.want(success, "args_sizes_get", resultAt, resultAt+4)
	if n, size := w.u32(resultAt), w.u32(resultAt+4); n != 1 || size != 5 {
		t.Errorf("%d arguments in %d bytes", n, size)
	}
	w.want(success, "args_get", resultAt, bufAt)
	if got := w.text(bufAt, 5); got != "tool\x00" || w.u32(resultAt) != bufAt {
		t.Errorf("arguments are %q at %#x", got, w.u32(resultAt))
	}
	w.want(success, "environ_sizes_get", resultAt, resultAt+4)
	if n, size := w.u32(resultAt), w.u32(resultAt+4); n != 0 || size != 0 {
		t.Errorf("%d variables in %d bytes", n, size)
	}
	w.want(success, "environ_get", resultAt, bufAt)
}

func TestExit(t *testing.T) {
	w := newWorld(t, nil, call.Bounds{}, nil)
	w.call("proc_exit", 0xfffffff1)
	if w.ends != (ending{"exit", 0xfffffff1}) {
		t.Errorf("ended %v", w.ends)
	}
}

func TestPreopens(t *testing.T) {
	w := newWorld(t, []string{"read"}, call.Bounds{}, nil)
	w.want(success, "fd_prestat_get", 3, resultAt)
	if tag, n := w.u32(resultAt), w.u32(resultAt+4); tag != 0 || n != 5 {
		t.Errorf("prestat is %d, %d", tag, n)
	}
	w.want(nametoolong, "fd_prestat_dir_name", 3, bufAt, 4)
	w.put(bufAt, "xxxxxxxx")
	w.want(success, "fd_prestat_dir_name", 3, bufAt, 8)
	if got := w.text(bufAt, 8); got != "/w/in"+"xxx" {
		t.Errorf("the name is %q", got)
	}
	w.want(badf, "fd_prestat_get", 4, resultAt)
	w.want(success, "fd_close", 3)
	w.want(badf, "fd_prestat_get", 3, resultAt)
	if _, err := w.fx.OpenRead("/w/in/a.txt"); err != nil {
		t.Errorf("what the call holds besides was closed: %v", err)
	}
}

// A state tells whether its guest has had anything to do with the call that it is of.
func TestTouched(t *testing.T) {
	world := func() *world { return newWorld(t, every, call.Bounds{}, nil) }
	w := world()
	for _, c := range []struct {
		name string
		args []uint64
	}{
		{"args_get", []uint64{resultAt, bufAt}},
		{"args_sizes_get", []uint64{resultAt, bufAt}},
		{"environ_get", []uint64{resultAt, bufAt}},
		{"environ_sizes_get", []uint64{resultAt, bufAt}},
		{"clock_time_get", []uint64{0, 0, bufAt}},
		{"clock_res_get", []uint64{0, bufAt}},
		{"random_get", []uint64{bufAt, 100}},
		{"fd_prestat_get", []uint64{3, bufAt}},
		{"fd_prestat_dir_name", []uint64{3, bufAt, 100}},
		{"fd_fdstat_get", []uint64{3, bufAt}},
		{"fd_filestat_get", []uint64{1, bufAt}},
		{"sched_yield", nil},
	} {
		w.want(success, c.name, c.args...)
	}
	if w.state.Touched() || w.life.touched > 0 {
		t.Error("names, clocks and randomness belong to no call")
	}
	for _, n := range needs {
		w := world()
		w.put(pathAt, "x")
		fd := uint64(3)
		switch {
		case n.name == "fd_advise":
			continue // does nothing
		case !n.dir && slices.Contains([]string{"fd_write", "fd_sync", "fd_datasync"}, n.name):
			if fd = 1; n.name != "fd_write" {
				continue
			}
		case !n.dir && n.name == "fd_read":
			fd = 0
		case !n.dir:
			continue // of a file, and to open it is a touch
		}
		w.call(n.name, append([]uint64{fd}, n.args...)...)
		if !w.state.Touched() || w.life.touched != 1 {
			t.Errorf("%s is no touch", n.name)
		}
	}
	for _, c := range []struct {
		name string
		args []uint64
	}{
		{"fd_close", []uint64{0}},
		{"fd_renumber", []uint64{0, 1}},
		{"fd_fdstat_set_flags", []uint64{3, 4}},
		{"fd_fdstat_set_rights", []uint64{1, 0, 0}},
	} {
		w := world()
		w.want(success, c.name, c.args...)
		if !w.state.Touched() {
			t.Errorf("%s is no touch", c.name)
		}
	}
}

// The programs of the standard's tests get arguments, an environment and names.
func TestWorld(t *testing.T) {
	w := newWorld(t, every, call.Bounds{}, func(o *wasi.Options) {
		o.World = &wasi.World{Args: []string{"a", "bc"}, Env: []string{"d=e"}, Name: func(*hostfx.Dir) string { return "/" }}
	})
	w.want(success, "args_get", resultAt, bufAt)
	if got := w.text(bufAt, 5); got != "a\x00bc\x00" || w.u32(resultAt+4) != bufAt+2 {
		t.Errorf("arguments are %q, the second at %#x", got, w.u32(resultAt+4))
	}
	w.want(success, "environ_get", resultAt, bufAt)
	if got := w.text(bufAt, 4); got != "d=e\x00" {
		t.Errorf("the environment is %q", got)
	}
	w.want(success, "fd_prestat_dir_name", 3, bufAt, 1)
	if got := w.text(bufAt, 1); got != "/" {
		t.Errorf("the directory is called %q", got)
	}
}

// However a guest writes, the host holds at most twice what it may write.
func TestOutputIsHeldOnce(t *testing.T) {
	const most = 1 << 20
	w := newWorld(t, nil, call.Bounds{}, func(o *wasi.Options) { o.OutputBytes = most })
	w.put(bufAt, strings.Repeat("x", 1000))
	w.vector(1000)
	for range most / 1000 {
		w.want(success, "fd_write", 1, vectorAt, 1, resultAt)
	}
	if out := w.state.Stdout(); len(out) != most/1000*1000 || cap(out) > most {
		t.Errorf("%d bytes in %d", len(out), cap(out))
	}
}
