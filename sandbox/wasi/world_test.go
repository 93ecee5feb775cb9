package wasi_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/wasi"
)

// Error numbers that these tests expect.
const (
	success     = 0
	acces       = 2
	badf        = 8
	dquot       = 19
	fault       = 21
	fbig        = 22
	inval       = 28
	isdir       = 31
	loop        = 32
	mfile       = 33
	nametoolong = 37
	noent       = 44
	nosys       = 52
	notdir      = 54
	notsock     = 57
	perm        = 63
	spipe       = 70
	notcapable  = 76
)

// Rights, by their bits.
const (
	rightRead    = 1 << 1
	rightSeek    = 1 << 2
	rightTell    = 1 << 5
	rightWrite   = 1 << 6
	rightOpen    = 1 << 13
	rightReaddir = 1 << 14
	allRights    = 1<<30 - 1
)

// memory is one page of a guest's memory.
func memory(t testing.TB) api.Memory {
	t.Helper()
	rt := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { _ = rt.Close(t.Context()) })
	m, err := rt.Instantiate(t.Context(), []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01\x07\x0a\x01\x06memory\x02\x00"))
	must(t, err)
	return m.Memory()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// life is the run of a state. It ends by panics, as a real one.
type life struct {
	now     time.Time
	slept   time.Duration
	checks  int
	touched int
	limit   int // checks before it is over, 0 for no limit
}

type ending struct {
	what string
	code uint32
}

func (l *life) Check() {
	if l.checks++; l.limit > 0 && l.checks > l.limit {
		panic(ending{what: "over"})
	}
}
func (l *life) Sleep(d time.Duration) { l.slept += d; l.now = l.now.Add(d); l.Check() }
func (l *life) Exit(code uint32)      { panic(ending{"exit", code}) }
func (l *life) OutputExceeded()       { panic(ending{what: "output"}) }
func (l *life) Touch()                { l.touched++ }

// world is a guest without code: a memory, and a state with one granted directory.
type world struct {
	t     testing.TB
	state *wasi.State
	mem   api.Memory
	life  *life
	fx    *hostfx.Effects
	dir   string // the granted one
	ends  ending // of the last call
}

// begin is when the worlds of these tests begin. It is no whole millisecond.
var begin = time.Unix(1_700_000_000, 123_456_789)

var every = []string{"read", "append", "write", "list", "remove"}

// newWorld grants modes on a directory; no modes are no directory. change may be nil.
func newWorld(t testing.TB, modes []string, b call.Bounds, change func(*wasi.Options)) *world {
	t.Helper()
	top := t.TempDir()
	w := &world{t: t, mem: memory(t), life: &life{now: begin}, dir: filepath.Join(top, "in")}
	must(t, os.Mkdir(w.dir, 0o755))
	must(t, os.WriteFile(filepath.Join(w.dir, "a.txt"), []byte("alpha"), 0o644))
	must(t, os.Mkdir(filepath.Join(w.dir, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(w.dir, "sub/b.txt"), []byte("beta"), 0o644))
	must(t, os.WriteFile(filepath.Join(top, "secret.txt"), []byte("canary"), 0o644))
	must(t, os.Symlink("../secret.txt", filepath.Join(w.dir, "out")))
	host, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "w", Path: top}}})
	must(t, err)
	t.Cleanup(func() { host.Close() })
	caps := call.Caps{Bounds: b}
	if modes != nil {
		caps.FS = []call.FS{{Root: "w", Path: "in", Modes: modes}}
	}
	a, err := call.Canonical([]byte(`{}`))
	must(t, err)
	w.fx, err = host.Open(t.Context(), granttest.Mint(t, "sha256:0", a, caps))
	must(t, err)
	t.Cleanup(func() { w.fx.Close() })
	o := wasi.Options{
		Run: w.life, Stdin: []byte("the arguments"), Dirs: w.fx.Dirs(), OutputBytes: 100, LogBytes: 10,
		Now: func() time.Time { return w.life.now }, Start: begin.Add(-time.Minute),
	}
	if change != nil {
		change(&o)
	}
	w.state = wasi.New(o)
	return w
}

var byName = func() map[string]*wasi.Function {
	m := map[string]*wasi.Function{}
	for i := range wasi.Functions {
		m[wasi.Functions[i].Name] = &wasi.Functions[i]
	}
	return m
}()

// call calls a function and returns its error number; w.ends says if it ended the run.
func (w *world) call(name string, args ...uint64) (errno uint64) {
	w.t.Helper()
	f := byName[name]
	if f == nil || len(args) != len(f.Params) {
		w.t.Fatalf("%s does not have %d parameters", name, len(args))
	}
	w.ends = ending{}
	defer func() {
		if x := recover(); x != nil {
			var ok bool
			if w.ends, ok = x.(ending); !ok {
				panic(x)
			}
		}
	}()
	stack := append(make([]uint64, 0, 10), args...)
	if len(stack) == 0 {
		stack = stack[:1]
	}
	f.Call(w.state, w.mem, stack)
	return stack[0]
}

// want calls a function and expects an error number.
func (w *world) want(errno uint64, name string, args ...uint64) {
	w.t.Helper()
	if got := w.call(name, args...); got != errno || w.ends != (ending{}) {
		w.t.Errorf("%s(%d) = %d %v, want %d", name, args, got, w.ends, errno)
	}
}

func (w *world) put(at uint32, b string) {
	w.t.Helper()
	if !w.mem.WriteString(at, b) {
		w.t.Fatal("outside of the memory")
	}
}

func (w *world) text(at, n uint32) string {
	w.t.Helper()
	b, ok := w.mem.Read(at, n)
	if !ok {
		w.t.Fatal("outside of the memory")
	}
	return string(b)
}

func (w *world) u32(at uint32) uint32 { return binary.LittleEndian.Uint32([]byte(w.text(at, 4))) }
func (w *world) u64(at uint32) uint64 { return binary.LittleEndian.Uint64([]byte(w.text(at, 8))) }

// Places in the memory of these tests.
const (
	pathAt   = 0x1000
	vectorAt = 0x2000
	bufAt    = 0x3000
	resultAt = 0x8000
)

// open opens a path of the granted directory, and returns the error number and the
// descriptor.
func (w *world) open(fd uint32, path string, oflags uint64, base, inheriting, fdflags uint64) (errno uint64, opened uint32) {
	w.t.Helper()
	w.put(pathAt, path)
	errno = w.call("path_open", uint64(fd), 0, pathAt, uint64(len(path)), oflags, base, inheriting, fdflags, resultAt)
	return errno, w.u32(resultAt)
}

// must is open, and a success.
func (w *world) must(fd uint32, path string, oflags uint64, base, inheriting, fdflags uint64) uint64 {
	w.t.Helper()
	errno, opened := w.open(fd, path, oflags, base, inheriting, fdflags)
	if errno != success {
		w.t.Fatalf("opening %q: %d", path, errno)
	}
	return uint64(opened)
}

// vector makes a list of one buffer.
func (w *world) vector(n uint32) {
	w.put(vectorAt, string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, bufAt), n)))
}

func (w *world) read(fd uint64, n uint32) (errno uint64, text string) {
	w.t.Helper()
	w.vector(n)
	errno = w.call("fd_read", fd, vectorAt, 1, resultAt)
	if errno == success {
		text = w.text(bufAt, w.u32(resultAt))
	}
	return errno, text
}

func (w *world) write(fd uint64, text string) uint64 {
	w.t.Helper()
	w.put(bufAt, text)
	w.vector(uint32(len(text)))
	return w.call("fd_write", fd, vectorAt, 1, resultAt)
}
