package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"

	"github.com/tetratelabs/wazero"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/meter"
)

// hostModule is the module that guests import the functions of the host from.
// docs/guest-abi.md describes them. What a function of this module does never
// changes in a way that a guest can notice; one that must gets another module.
const hostModule = "callgate"

// Error numbers of the module callgate.
const (
	numOK         = 0
	numFault      = 1 // a pointer or length leads out of the guest's memory
	numMalformed  = 2 // no such request can be made
	numNotGranted = 3
	numNotFound   = 4
	numTooLarge   = 5
	numFailed     = 6 // the network, the other side or the disk
	numRedirect   = 7
	numBusy       = 8 // the call holds as many files as it may
	numClosed     = 9 // the call is over
	numWithheld   = 10
)

// Limits of what a guest asks for at once. Bodies are bounded by its memory and
// its grant.
const (
	maxHead = 64 << 10 // bytes of the first line of a request
	maxLine = 8 << 10  // bytes of a line for the log, more than hostfx keeps
	maxMove = 1 << 20  // bytes moved between two looks at the clock
	maxSome = 256      // entries of a directory, likewise
)

// hostFunc is one function of the module callgate.
type hostFunc struct {
	name   string
	params int // all i32; so is the result, an error number
	do     func(*request) uint32
}

var hostFuncs = []hostFunc{
	{"http", 3, func(q *request) uint32 { return q.ask(q.http) }},
	{"fs_read", 3, func(q *request) uint32 { return q.ask(q.readFile) }},
	{"fs_list", 3, func(q *request) uint32 { return q.ask(q.list) }},
	{"answer", 2, (*request).answer},
	{"log", 2, (*request).log},
}

// hostCallgate links the functions that guests reach the call's effects with.
func hostCallgate(ctx context.Context, rt wazero.Runtime) (map[string]signature, error) {
	host := rt.NewHostModuleBuilder(hostModule)
	signatures := map[string]signature{}
	for _, f := range hostFuncs {
		sig := signature{bytes.Repeat([]byte{i32}, f.params), []byte{i32}}
		host.NewFunctionBuilder().WithGoModuleFunction(guarded(func(q *request) uint32 { q.touch(); return f.do(q) }), sig.params, sig.results).Export(f.name)
		signatures[f.name] = sig
	}
	_, err := host.Instantiate(ctx)
	return signatures, err
}

// kept is an answer that waits for the guest to take it: first head, then body.
type kept struct{ head, body []byte }

func (k *kept) size() uint64 { return uint64(len(k.head)) + uint64(len(k.body)) }

// room is the size of the largest answer: what the guest's memory can become, in
// whole pages.
func (r *run) room() uint64 {
	return min(uint64(len(r.memory.space)), math.MaxUint32) / meter.PageSize * meter.PageSize
}

// ask does what the parameters (request, length, where the answer's length
// goes) ask for, and keeps the answer. Every pointer is checked before anything
// happens, so that no effect is lost on a guest that cannot learn of it.
func (q *request) ask(do func(req []byte) (*kept, error)) uint32 {
	q.kept = nil
	mem := q.mod.Memory()
	req, ok := mem.Read(q.u32(0), q.u32(1))
	if !ok {
		return numFault
	}
	if _, ok := mem.Read(q.u32(2), 4); !ok {
		return numFault
	}
	k, err := do(req)
	q.check()
	if err == nil && k.size() > q.room() {
		err = hostfx.ErrTooLarge
	}
	if err != nil {
		return number(err)
	}
	q.kept = k
	mem.WriteUint32Le(q.u32(2), uint32(k.size()))
	return numOK
}

// life is a context that ends when the run does.
func (r *run) life() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.ctx, r.deadline.Sub(r.sandbox.now()))
	go func() {
		select {
		case <-r.sandbox.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// number is what a guest gets to know of an error.
func number(err error) uint32 {
	if call.CodeOf(err, "") == call.CodeFactsUnparsable {
		return numMalformed // a URL
	}
	for _, n := range []struct {
		err error
		num uint32
	}{
		{errMalformed, numMalformed},
		{hostfx.ErrBadRequest, numMalformed},
		{fs.ErrInvalid, numMalformed},
		{hostfx.ErrNotGranted, numNotGranted},
		{fs.ErrNotExist, numNotFound},
		{hostfx.ErrTooLarge, numTooLarge},
		{hostfx.ErrRedirect, numRedirect},
		{hostfx.ErrTooManyOpen, numBusy},
		{hostfx.ErrClosed, numClosed},
		{hostfx.ErrWithheld, numWithheld},
	} {
		if errors.Is(err, n.err) {
			return n.num
		}
	}
	return numFailed
}

// answer copies the kept answer to the guest and forgets it. The guest must
// name its exact length, so that it can neither cut it nor read past it.
func (q *request) answer() uint32 {
	k, at, n := q.kept, q.u32(0), q.u32(1)
	if k == nil {
		return numNotFound
	}
	if uint64(n) != k.size() {
		return numMalformed
	}
	to, ok := q.mod.Memory().Read(at, n)
	if !ok {
		return numFault
	}
	for _, from := range [][]byte{k.head, k.body} {
		for len(from) > 0 {
			n := copy(to, from[:min(len(from), maxMove)])
			to, from = to[n:], from[n:]
			q.check()
		}
	}
	q.kept = nil
	return numOK
}

// log adds one line to the call's log.
func (q *request) log() uint32 {
	line, ok := q.mod.Memory().Read(q.u32(0), q.u32(1))
	if !ok {
		return numFault
	}
	if err := q.fx.Log(string(line[:min(len(line), maxLine)])); err != nil {
		return number(err)
	}
	return numOK
}

func (q *request) http(req []byte) (*kept, error) {
	r, err := parseRequest(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := q.life()
	defer cancel()
	res, err := q.fx.HTTP(ctx, r)
	if err != nil {
		return nil, err
	}
	head, err := responseHead(res)
	return &kept{head, res.Body}, err
}

// nameIn is the path of a file or directory that a request is for. Of one that
// is too long there is enough for hostfx to see that.
func nameIn(req []byte) string { return string(req[:min(len(req), maxPath+1)]) }

// readFile reads a file that the guest's memory could hold.
func (q *request) readFile(req []byte) (*kept, error) {
	f, err := q.fx.OpenRead(nameIn(req))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	limit := int64(q.room())
	if info.Size() > limit {
		return nil, hostfx.ErrTooLarge
	}
	// The file may grow while it is read; one byte too many tells.
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	_, err = b.ReadFrom(io.LimitReader(checked{q.run, f}, limit+1))
	return &kept{body: b.Bytes()}, err
}

// checked looks at the clock before each read.
type checked struct {
	run *run
	in  io.Reader
}

func (c checked) Read(b []byte) (int, error) {
	c.run.check()
	return c.in.Read(b)
}

func (q *request) list(req []byte) (*kept, error) {
	entries, err := q.fx.List(nameIn(req))
	if err != nil {
		return nil, err
	}
	b, err := listing(entries, q.room(), q.check)
	return &kept{body: b}, err
}
