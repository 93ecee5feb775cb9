package wasi_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/wasi"
)

// kinds are the parameters of each function, by what they mean: f a descriptor, p a
// path and its length, o where a result goes, b a buffer and its length, v a list of
// buffers and its length, s a list of subscriptions, n how many, r rights, g flags,
// t a time or an offset.
var kinds = map[string]string{
	"args_get": "oo", "args_sizes_get": "oo", "environ_get": "oo", "environ_sizes_get": "oo",
	"clock_res_get": "go", "clock_time_get": "gto", "random_get": "b", "poll_oneoff": "sono",
	"proc_exit": "g", "proc_raise": "g", "sched_yield": "",
	"fd_advise": "fttg", "fd_allocate": "ftt", "fd_close": "f", "fd_datasync": "f", "fd_fdstat_get": "fo",
	"fd_fdstat_set_flags": "fg", "fd_fdstat_set_rights": "frr", "fd_filestat_get": "fo", "fd_filestat_set_size": "ft",
	"fd_filestat_set_times": "fttg", "fd_pread": "fvto", "fd_prestat_dir_name": "fb", "fd_prestat_get": "fo",
	"fd_pwrite": "fvto", "fd_read": "fvo", "fd_readdir": "fbto", "fd_renumber": "ff", "fd_seek": "ftgo",
	"fd_sync": "f", "fd_tell": "fo", "fd_write": "fvo",
	"path_create_directory": "fp", "path_filestat_get": "fgpo", "path_filestat_set_times": "fgpttg", "path_link": "fgpfp",
	"path_open": "fgpgrrgo", "path_readlink": "fpbo", "path_remove_directory": "fp", "path_rename": "fpfp",
	"path_symlink": "pfp", "path_unlink_file": "fp",
	"sock_accept": "fgo", "sock_recv": "fvgoo", "sock_send": "fvgo", "sock_shutdown": "fg",
}

// paths are what programs name. They lie in memory one after the other.
var paths = []string{
	"a.txt", "sub", ".", "sub/b.txt", "new", "sub/new", "out", "..", "../secret.txt", "/etc/passwd", "sub/../../secret.txt",
	"a.txt/", "sub/", "", "x\x00y", "in", "../in/a.txt", "out/x", strings.Repeat("d/", 40), "\xff",
}

// Places in the memory of fuzzed programs.
const (
	fuzzPaths   = 0x100
	fuzzVectors = 0x2000
	fuzzSubs    = 0x2800
)

// program makes calls of the fuzzer's bytes.
type program struct{ in []byte }

func (p *program) byte() byte {
	if len(p.in) == 0 {
		return 0
	}
	b := p.in[0]
	p.in = p.in[1:]
	return b
}

func (p *program) u16() uint64 { return uint64(p.byte()) | uint64(p.byte())<<8 }

// wild is a parameter that is not what it should be.
func (p *program) wild() uint64 {
	v := p.u16()
	switch p.byte() % 5 {
	case 0:
		return v
	case 1:
		return end - v%80
	case 2:
		return 0xffffffff - v%80
	case 3:
		return 1 << (v % 64)
	}
	return v << 48
}

// args are the parameters for a function.
func (p *program) args(f *wasi.Function) (args []uint64) {
	for _, kind := range kinds[f.Name] {
		how := p.byte()
		switch kind {
		case 'f':
			args = append(args, uint64(how%9))
		case 'g', 'n':
			args = append(args, uint64(how%16))
		case 'o', 's':
			args = append(args, fuzzSubs+p.u16()%0x1000)
		case 'b':
			args = append(args, p.u16()%end, p.u16()%2000)
		case 'v':
			args = append(args, fuzzVectors+uint64(how%4)*8, uint64(how/4%4))
		case 'r':
			args = append(args, []uint64{allRights, allRights &^ rightWrite, rightRead, rightWrite, p.u16() << (how % 30)}[how%5])
		case 't':
			args = append(args, []uint64{0, 1, p.u16(), 1<<64 - 1 - p.u16()%100, 1 << (how % 64)}[how%5])
		case 'p':
			at, k := uint64(fuzzPaths), int(how)%len(paths)
			for _, s := range paths[:k] {
				at += uint64(len(s))
			}
			args = append(args, at, uint64(len(paths[k])))
		}
	}
	if p.byte()%8 == 0 && len(args) > 0 {
		args[int(p.byte())%len(args)] = p.wild()
	}
	for i, t := range f.Params { // as the engine passes them
		if t == api.ValueTypeI32 {
			args[i] = uint64(uint32(args[i]))
		}
	}
	return args
}

// span is a piece of memory.
type span struct{ at, n uint64 }

// writes are where a function may write.
func writes(name string, a []uint64, mem []byte) (out []span) {
	vectors := func(at, n uint64) {
		for i := range n {
			if b := at + 8*i; b+8 <= end {
				out = append(out, span{uint64(binary.LittleEndian.Uint32(mem[b:])), uint64(binary.LittleEndian.Uint32(mem[b+4:]))})
			}
		}
	}
	switch name {
	case "args_get":
		out = []span{{a[0], 4}, {a[1], 5}}
	case "args_sizes_get", "environ_sizes_get":
		out = []span{{a[0], 4}, {a[1], 4}}
	case "clock_res_get", "fd_prestat_get", "fd_tell":
		out = []span{{a[1], 8}}
	case "clock_time_get":
		out = []span{{a[2], 8}}
	case "fd_fdstat_get":
		out = []span{{a[1], 24}}
	case "fd_filestat_get":
		out = []span{{a[1], 64}}
	case "fd_read":
		vectors(a[1], min(a[2], 1024))
		out = append(out, span{a[3], 4})
	case "fd_pread":
		vectors(a[1], min(a[2], 1024))
		out = append(out, span{a[4], 4})
	case "fd_write":
		out = []span{{a[3], 4}}
	case "fd_pwrite":
		out = []span{{a[4], 4}}
	case "fd_prestat_dir_name":
		out = []span{{a[1], a[2]}}
	case "fd_readdir":
		out = []span{{a[1], a[2]}, {a[4], 4}}
	case "fd_seek":
		out = []span{{a[3], 8}}
	case "path_filestat_get":
		out = []span{{a[4], 64}}
	case "path_open":
		out = []span{{a[8], 4}}
	case "path_readlink":
		out = []span{{a[3], a[4]}, {a[5], 4}}
	case "poll_oneoff":
		out = []span{{a[1], 32 * a[2]}, {a[3], 4}}
	case "random_get":
		out = []span{{a[0], a[1]}}
	}
	return out
}

// tree is a granted directory, and what is beside it.
type tree struct{ top string }

func (r tree) reset(t testing.TB) {
	t.Helper()
	in := filepath.Join(r.top, "in")
	must(t, os.RemoveAll(in))
	must(t, os.MkdirAll(filepath.Join(in, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(in, "a.txt"), []byte("alpha"), 0o644))
	must(t, os.WriteFile(filepath.Join(in, "sub/b.txt"), []byte("beta"), 0o644))
	must(t, os.Symlink("../secret.txt", filepath.Join(in, "out")))
}

// beside is what a guest must not change.
func (r tree) beside(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(r.top)
	must(t, err)
	for _, e := range entries {
		b.WriteString(e.Name() + "\n")
	}
	i, err := os.Stat(filepath.Join(r.top, "secret.txt"))
	must(t, err)
	c, err := os.ReadFile(filepath.Join(r.top, "secret.txt"))
	must(t, err)
	b.WriteString(i.ModTime().String() + i.Mode().String() + string(c))
	return b.String()
}

// allocated is most that the host takes for one call: a full buffer of entries or of
// events, a read of a directory, and what hostfx records.
const allocated = 1 << 20

// Whatever a guest calls with whatever parameters: the host does not panic, writes
// nowhere but where it was told to, takes little memory, and touches no file but those
// granted.
func FuzzFunctions(f *testing.F) {
	files := tree{f.TempDir()}
	must(f, os.WriteFile(filepath.Join(files.top, "secret.txt"), []byte("canary"), 0o644))
	files.reset(f)
	host, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "w", Path: files.top}}})
	must(f, err)
	f.Cleanup(func() { host.Close() })
	mem := memory(f)
	a, err := call.Canonical([]byte(`{}`))
	must(f, err)
	names := make([]string, 0, len(byName))
	for _, fn := range wasi.Functions {
		names = append(names, fn.Name)
		f.Add([]byte{31, byte(len(names) - 1), 3, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	}
	at := func(name string) byte { return byte(slices.Index(names, name)) }
	f.Add([]byte{31, at("path_open"), 3, 0, 0, 0, 1, 0, 1, 0, 0, 1, at("fd_read"), 4, 4, 0, 0, 0, 1, at("fd_write"), 4, 4, 0, 0, 0, 1})
	f.Add([]byte{31, at("path_rename"), 3, 0, 3, 4, 1, at("fd_renumber"), 3, 0, 1, at("fd_readdir"), 0, 0, 0, 30, 200, 3, 0, 0, 0, 0, 1})

	f.Fuzz(func(t *testing.T, in []byte) {
		p := &program{in}
		var modes []string
		mask := p.byte()
		for i, m := range every {
			if mask>>i&1 == 1 {
				modes = append(modes, m)
			}
		}
		caps := call.Caps{Bounds: call.Bounds{WriteBytes: 1 << 20, OpenFiles: 6}}
		if len(modes) > 0 {
			caps.FS = []call.FS{{Root: "w", Path: "in", Modes: modes}}
		}
		files.reset(t)
		fx, err := host.Open(t.Context(), granttest.Mint(t, "sha256:0", a, caps))
		must(t, err)
		defer fx.Close()
		outside := files.beside(t)

		all, _ := mem.Read(0, end)
		clear(all)
		copy(all[fuzzPaths:], strings.Join(paths, ""))
		for i, v := range []uint32{0x4000, 100, 0x4050, 50, 0x2000, 40, 0xfff0, 16, 0xfff8, 9, 0, 0xffffffff, 0x5000, 0x9000} {
			binary.LittleEndian.PutUint32(all[fuzzVectors+4*i:], v)
		}
		for i := range 20 {
			s := sub{word: uint64(i), tag: byte(i % 4), id: uint32(i % 7), time: uint64(i) << (3 * i), flags: uint16(i / 7)}
			copy(all[fuzzSubs+48*i:], s.bytes())
		}
		l := &life{now: begin}
		s := wasi.New(wasi.Options{
			Run: l, Stdin: []byte("the arguments"), Dirs: fx.Dirs(), OutputBytes: 300, LogBytes: 100,
			Now: func() time.Time { return l.now }, Start: begin,
		})
		for range 40 {
			if len(p.in) == 0 {
				break
			}
			fn := byName[names[int(p.byte())%len(names)]]
			args := p.args(fn)
			before := bytes.Clone(all)
			var was, now runtime.MemStats
			runtime.ReadMemStats(&was)
			errno, ended := calling(fn, s, mem, args)
			if runtime.ReadMemStats(&now); now.TotalAlloc-was.TotalAlloc > allocated {
				t.Errorf("%s(%d) took %d bytes", fn.Name, args, now.TotalAlloc-was.TotalAlloc)
			}
			if errno > notcapable {
				t.Fatalf("%s(%d) = %d", fn.Name, args, errno)
			}
			if errno == success || fn.Name == "fd_readdir" {
				for _, w := range writes(fn.Name, args, before) {
					if w.at < end {
						copy(before[w.at:], all[w.at:min(end, w.at+w.n)])
					}
				}
			}
			if !bytes.Equal(before, all) {
				t.Fatalf("%s(%d) = %d wrote where it was not told to", fn.Name, args, errno)
			}
			if ended {
				break
			}
		}
		effects := fx.Close()
		if !s.Touched() && len(effects) > 0 {
			t.Errorf("untouched, with effects %v", effects)
		}
		for _, e := range effects {
			mode := strings.TrimPrefix(e.Kind, "fs.")
			if e.Code == "ok" && (e.Within != "/w/in" || e.Target != "/w/in" && !strings.HasPrefix(e.Target, "/w/in/") || !slices.Contains(modes, mode)) {
				if mode == "append" && slices.Contains(modes, "write") {
					continue
				}
				t.Errorf("with %v: effect %v", modes, e)
			}
		}
		if now := files.beside(t); now != outside {
			t.Errorf("outside there was %q, and is %q", outside, now)
		}
		if bytes.Contains(all, []byte("canary")) || bytes.Contains(s.Stdout(), []byte("canary")) {
			t.Error("the guest has what is outside")
		}
	})
}

// calling calls a function, and reports whether that ended the run.
func calling(f *wasi.Function, s *wasi.State, mem api.Memory, args []uint64) (errno uint64, ended bool) {
	defer func() {
		if x := recover(); x != nil {
			if _, ended = x.(ending); !ended {
				panic(x)
			}
		}
	}()
	stack := make([]uint64, max(1, len(args)))
	copy(stack, args)
	f.Call(s, mem, stack)
	if len(f.Results) == 0 {
		return success, false
	}
	return stack[0], false
}
