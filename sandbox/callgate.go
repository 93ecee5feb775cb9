package sandbox

import (
	"context"
	"errors"
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
	numBusy       = 8 // the call holds as many files as it may, or as many commands go on
	numClosed     = 9 // the call is over
	numWithheld   = 10
	numQuota      = 11 // the call would write more than it may, or plan more than there may be
	numChanged    = 12 // a file that the call depends on has changed
	numEnded      = 13 // a command was ended before it was done
	numExists     = 14 // something is there already
	numStatus     = 15 // the task cannot become that now
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
	params []byte // the result is an i32, an error number
	do     func(*request) uint32
}

// Parameters of functions: addresses and lengths, but for the last of longThird.
var (
	one       = []byte{i32}
	two       = []byte{i32, i32}
	three     = []byte{i32, i32, i32}
	four      = []byte{i32, i32, i32, i32}
	longThird = []byte{i32, i32, i64}
)

var hostFuncs = []hostFunc{
	{"http", three, func(q *request) uint32 { return q.ask(q.http) }},
	{"fs_read", three, func(q *request) uint32 { return q.ask(q.readFile) }},
	{"fs_list", three, func(q *request) uint32 { return q.ask(q.list) }},
	{"fs_stat", three, func(q *request) uint32 { return q.ask(q.stat) }},
	{"fs_write", four, func(q *request) uint32 { return q.tellTwo(q.writeFile) }},
	{"fs_append", four, func(q *request) uint32 { return q.tellTwo(q.appendFile) }},
	{"fs_mkdir", two, func(q *request) uint32 { return q.tell(q.mkdir) }},
	{"fs_remove", two, func(q *request) uint32 { return q.tell(q.remove) }},
	{"fs_rename", four, func(q *request) uint32 { return q.tellTwo(q.rename) }},
	{"exec", three, func(q *request) uint32 { return q.ask(q.exec) }},
	{"exec_start", three, func(q *request) uint32 { return q.ask(q.execStart) }},
	{"exec_output", three, func(q *request) uint32 { return q.ask(q.execOutput) }},
	{"exec_kill", two, func(q *request) uint32 { return q.tell(q.execKill) }},
	{"plan", one, func(q *request) uint32 { return q.answered(q.u32(0), q.plan) }},
	{"task_register", two, func(q *request) uint32 { return q.tell(q.taskRegister) }},
	{"task_advance", four, func(q *request) uint32 { return q.tellTwo(q.taskAdvance) }},
	{"task_replan", four, func(q *request) uint32 { return q.tellTwo(q.taskReplan) }},
	{"charge", longThird, func(q *request) uint32 { return q.tell(q.charge) }},
	{"answer", two, (*request).answer},
	{"log", two, (*request).log},
}

// hostCallgate links the functions that guests reach the call's effects with.
func hostCallgate(ctx context.Context, rt wazero.Runtime) (map[string]signature, error) {
	host := rt.NewHostModuleBuilder(hostModule)
	signatures := map[string]signature{}
	for _, f := range hostFuncs {
		sig := signature{f.params, []byte{i32}}
		host.NewFunctionBuilder().WithGoModuleFunction(guarded(func(q *request) uint32 { q.touch(); return f.do(q) }), sig.params, sig.results).Export(f.name)
		signatures[f.name] = sig
	}
	_, err := host.Instantiate(ctx)
	return signatures, err
}

// kept is an answer that waits for the guest to take it: first head, then body, then
// more.
type kept struct{ head, body, more []byte }

func (k *kept) size() uint64 {
	return uint64(len(k.head)) + uint64(len(k.body)) + uint64(len(k.more))
}

// room is the size of the largest answer: what the guest's memory can become, in
// whole pages.
func (r *run) room() uint64 {
	return min(uint64(len(r.memory.space)), math.MaxUint32) / meter.PageSize * meter.PageSize
}

// ask does what the parameters (request, length, where the answer's length
// goes) ask for, and keeps the answer.
func (q *request) ask(do func(req []byte) (*kept, error)) uint32 {
	q.kept = nil
	req, ok := q.mod.Memory().Read(q.u32(0), q.u32(1))
	if !ok {
		return numFault
	}
	return q.answered(q.u32(2), func() (*kept, error) { return do(req) })
}

// answered does something, keeps the answer, and says at length how long it is. Every
// pointer is checked before anything happens, so that no effect is lost on a guest that
// cannot learn of it.
func (q *request) answered(length uint32, do func() (*kept, error)) uint32 {
	q.kept = nil
	mem := q.mod.Memory()
	if _, ok := mem.Read(length, 4); !ok {
		return numFault
	}
	k, err := do()
	q.check()
	if err == nil && k.size() > q.room() {
		err = hostfx.ErrTooLarge
	}
	if err != nil {
		return number(err)
	}
	q.kept = k
	mem.WriteUint32Le(length, uint32(k.size()))
	return numOK
}

// tell does what the parameters (request, length) ask for. There is no answer, and the
// one before is still there.
func (q *request) tell(do func(req []byte) error) uint32 {
	req, ok := q.mod.Memory().Read(q.u32(0), q.u32(1))
	if !ok {
		return numFault
	}
	err := do(req)
	q.check()
	return number(err)
}

// tellTwo is tell for the parameters (request, length, another, its length).
func (q *request) tellTwo(do func(req, other []byte) error) uint32 {
	other, ok := q.mod.Memory().Read(q.u32(2), q.u32(3))
	if !ok {
		return numFault
	}
	return q.tell(func(req []byte) error { return do(req, other) })
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
	if err == nil {
		return numOK
	}
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
		{hostfx.ErrQuota, numQuota},
		{hostfx.ErrChanged, numChanged},
		{hostfx.ErrEnded, numEnded},
		{fs.ErrExist, numExists},
		{hostfx.ErrTooManyProcesses, numBusy},
		{hostfx.ErrTask, numMalformed},
		{hostfx.ErrNoTask, numNotFound},
		{hostfx.ErrTaskThere, numExists},
		{hostfx.ErrTaskStatus, numStatus},
		{hostfx.ErrPlanFull, numQuota},
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
	for _, from := range [][]byte{k.head, k.body, k.more} {
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
	return number(q.fx.Log(string(line[:min(len(line), maxLine)])))
}

func (q *request) http(req []byte) (*kept, error) {
	r, err := parseRequest(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := q.life()
	defer cancel()
	res, err := q.fx.HTTP(ctx, r)
	if errors.Is(err, hostfx.ErrChanged) {
		err = hostfx.ErrNoAnswer // the number that this had before there was one for it
	}
	if err != nil {
		return nil, err
	}
	head, err := responseHead(res)
	return &kept{head: head, body: res.Body}, err
}

// charge says what the call used: (name, its length, units).
func (q *request) charge(name []byte) error {
	err := q.fx.Charge(string(name[:min(len(name), maxLine)]), int64(q.args[2]))
	if err != nil && !errors.Is(err, hostfx.ErrClosed) {
		return errMalformed
	}
	return err
}
