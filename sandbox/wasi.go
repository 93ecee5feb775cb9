package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"path"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/meter"
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// Error numbers of wasi_snapshot_preview1.
const (
	wasiOK          = 0
	wasiBadf        = 8
	wasiFault       = 21
	wasiInval       = 28
	wasiMfile       = 33
	wasiNameTooLong = 37
	wasiNotsup      = 58
	wasiPerm        = 63
)

// Limits of one call of the host.
const (
	maxVectors = 1024    // as IOV_MAX
	maxDirents = 1 << 20 // bytes of buffer for directory entries
	maxPath    = 4096    // bytes
	maxPolled  = 1024    // subscriptions
	chunk      = 64 << 10
)

// hostMeter links what meter injects: the only place where a guest that calls
// nothing can be stopped.
func hostMeter(ctx context.Context, rt wazero.Runtime) error {
	yield := api.GoFunc(func(ctx context.Context, stack []uint64) {
		stack[0] = uint64(runOf(ctx).yield(int64(stack[0]), int64(stack[1])))
	})
	_, err := rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(yield, []api.ValueType{i64, i64}, []api.ValueType{i64}).
		Export(meter.YieldFunc).Instantiate(ctx)
	return err
}

// hostWASI links the functions that guests may import: wazero's, each behind a
// look at the clock and at its parameters, and our own where wazero's would let
// a guest wait, allocate or loop in the host without bound.
func hostWASI(ctx context.Context, rt wazero.Runtime) (map[string]signature, error) {
	theirs := rt.NewHostModuleBuilder("wazero")
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(theirs)
	compiled, err := theirs.Compile(ctx)
	if err != nil {
		return nil, err
	}
	defer compiled.Close(ctx)
	w := wasi{}
	signatures := map[string]signature{}
	for name, def := range compiled.ExportedFunctions() {
		f, ok := def.GoFunction().(api.GoModuleFunction)
		if !ok {
			return nil, errors.New("wazero's " + name + " is no Go function")
		}
		w[name], signatures[name] = f, signature{def.ParamTypes(), def.ResultTypes()}
	}
	ours := rt.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	for name, sig := range signatures {
		ours.NewFunctionBuilder().WithGoModuleFunction(guarded(w.handler(name)), sig.params, sig.results).Export(name)
	}
	_, err = ours.Instantiate(ctx)
	return signatures, err
}

// wasi are wazero's own functions, by name.
type wasi map[string]api.GoModuleFunction

// request is one call of a host function by a guest.
type request struct {
	*run
	ctx  context.Context
	mod  api.Module
	args []uint64 // the result goes to args[0]
}

func (q *request) u32(i int) uint32 { return uint32(q.args[i]) }

// forward calls wazero's function and returns its error number.
func (w wasi) forward(name string, q *request) uint32 {
	w[name].Call(q.ctx, q.mod, q.args)
	return uint32(q.args[0])
}

// guarded returns what the guest gets to call.
func guarded(do func(*request) uint32) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
		r := runOf(ctx)
		r.check()
		defer func() {
			if x := recover(); x != nil {
				if r.ended == nil {
					// Not the guest's fault, or at least not only.
					r.ended = &end{code: call.CodeInternal}
				}
				panic(r.ended)
			}
		}()
		if errno := do(&request{r, ctx, mod, stack}); len(stack) > 0 {
			stack[0] = uint64(errno)
		}
	})
}

func (w wasi) handler(name string) func(*request) uint32 {
	forward := func(q *request) uint32 { return w.forward(name, q) }
	if p, ok := withPaths[name]; ok {
		return func(q *request) uint32 { return w.paths(name, p, q) }
	}
	switch name {
	case "proc_exit":
		return func(q *request) uint32 { q.exit(q.u32(0)); return wasiOK }
	case "sched_yield":
		return func(*request) uint32 { runtime.Gosched(); return wasiOK }
	case "random_get":
		return random
	case "poll_oneoff":
		return w.poll
	case "fd_close", "fd_renumber":
		return func(q *request) uint32 { return w.descriptor(name, q) }
	case "fd_read", "fd_pread", "fd_write", "fd_pwrite":
		return func(q *request) uint32 {
			if errno := vectors(q); errno != wasiOK {
				return errno
			}
			return forward(q)
		}
	case "fd_readdir":
		return func(q *request) uint32 {
			// wazero keeps an entry of its own for each 24 bytes of buffer.
			if q.u32(2) > maxDirents {
				return wasiInval
			}
			return forward(q)
		}
	case "sock_accept", "sock_recv", "sock_send", "sock_shutdown":
		return func(*request) uint32 { return wasiNotsup }
	}
	return forward
}

// vectors refuses a list of buffers that is longer than any honest one, or that
// adds up to more than the memory: a megabyte of it can name a terabyte.
func vectors(q *request) uint32 {
	at, n := q.u32(1), q.u32(2)
	if n > maxVectors {
		return wasiInval
	}
	list, ok := q.mod.Memory().Read(at, n*8)
	if !ok {
		return wasiFault
	}
	var sum uint64
	for ; len(list) > 0; list = list[8:] {
		sum += uint64(binary.LittleEndian.Uint32(list[4:]))
	}
	if sum > uint64(q.mod.Memory().Size()) {
		return wasiInval
	}
	return wasiOK
}

// random fills a buffer piece by piece, with a look at the clock between them.
func random(q *request) uint32 {
	buf, ok := q.mod.Memory().Read(q.u32(0), q.u32(1))
	if !ok {
		return wasiFault
	}
	for len(buf) > 0 {
		n := min(len(buf), chunk)
		_, _ = rand.Read(buf[:n]) // never fails
		buf = buf[n:]
		q.check()
	}
	return wasiOK
}

// isOpen asks wazero whether a descriptor is open, through a function that does
// nothing else.
func (w wasi) isOpen(q *request, fd uint32) bool {
	ask := *q
	ask.args = []uint64{uint64(fd), 0, 0, 0}
	return w.forward("fd_advise", &ask) != wasiBadf
}

// descriptor keeps places in step with wazero's table of descriptors.
func (w wasi) descriptor(name string, q *request) uint32 {
	from := int32(q.u32(0))
	if name == "fd_close" {
		errno := w.forward(name, q)
		if errno == wasiOK {
			delete(q.places, from)
		}
		return errno
	}
	// wazero would grow its table up to any number that the guest names, to
	// where the process dies.
	to := int32(q.u32(1))
	if from == to || !w.isOpen(q, q.u32(1)) {
		if w.isOpen(q, q.u32(0)) && from == to {
			return wasiOK
		}
		return wasiBadf
	}
	errno := w.forward(name, q)
	if errno == wasiOK {
		moved, ok := q.places[from]
		delete(q.places, from)
		delete(q.places, to)
		if ok {
			q.places[to] = moved
		}
	}
	return errno
}

// pathArgs says where the paths among the parameters are, and what the
// function would do to them.
type pathArgs struct {
	kind string
	at   [][3]int // descriptor, path, length
}

var withPaths = map[string]pathArgs{
	"path_open":               {"fs.read", [][3]int{{0, 2, 3}}},
	"path_filestat_get":       {"fs.stat", [][3]int{{0, 2, 3}}},
	"path_readlink":           {"fs.stat", [][3]int{{0, 1, 2}}},
	"path_create_directory":   {"fs.write", [][3]int{{0, 1, 2}}},
	"path_filestat_set_times": {"fs.write", [][3]int{{0, 2, 3}}},
	"path_link":               {"fs.write", [][3]int{{0, 2, 3}, {4, 5, 6}}},
	"path_rename":             {"fs.write", [][3]int{{0, 1, 2}, {3, 4, 5}}},
	"path_symlink":            {"fs.write", [][3]int{{2, 3, 4}}},
	"path_remove_directory":   {"fs.remove", [][3]int{{0, 1, 2}}},
	"path_unlink_file":        {"fs.remove", [][3]int{{0, 1, 2}}},
}

// paths refuses and records paths that lead out of their directory by their
// text alone. wazero refuses them too, but tells nobody.
func (w wasi) paths(name string, p pathArgs, q *request) uint32 {
	var first string
	for i, at := range p.at {
		if q.u32(at[2]) > maxPath {
			return wasiNameTooLong
		}
		b, ok := q.mod.Memory().Read(q.u32(at[1]), q.u32(at[2]))
		if !ok {
			return wasiFault
		}
		clean := path.Clean(string(b))
		if i == 0 {
			first = clean
		}
		if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
			if in, ok := q.places[int32(q.u32(at[0]))]; ok {
				_ = in.dir.Refuse(p.kind, from(in.at, clean))
			}
			return wasiPerm
		}
	}
	if name == "path_symlink" && q.u32(1) > maxPath {
		return wasiNameTooLong
	}
	if name != "path_open" {
		return w.forward(name, q)
	}
	in, known := q.places[int32(q.u32(0))]
	result := q.u32(8)
	q.full = false
	errno := w.forward(name, q)
	if errno != wasiOK && q.full {
		return wasiMfile
	}
	if fd, ok := q.mod.Memory().ReadUint32Le(result); ok && known && errno == wasiOK {
		q.places[int32(fd)] = place{in.dir, path.Join(in.at, first)}
	}
	return errno
}

// from is where p leads from at; an absolute p stays what it is.
func from(at, p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(at, p)
}
