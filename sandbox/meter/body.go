package meter

// A region is code that runs at most once each time its first instruction runs:
// from there to the end of the block that it starts in, without the regions in
// between. Its cost is charged at its start. Structured control flow makes that
// sound: what follows a block is reached only through the block's start, what
// is in a loop only through its header, and neither can be entered in between.
type region struct {
	parent int
	cost   int64
	min    int64 // cost below which it is charged with its parent
}

// Small arms are charged with what is around them, taken or not: a charge costs
// about four instructions. An arm that no code falls into, as in the cases of
// an interpreter, stays its own unless it is tiny.
const (
	minArm  = 16
	minCase = 4
)

// An edit replaces b[at:end] of the original.
type edit struct {
	at, end int
	kind    editKind
	a       uint32
}

type editKind uint8

const (
	charge   editKind = iota // charge region a
	enter                    // charge region a, then look at fuel and stack
	loop                     // charge region a, then look at fuel
	call                     // call function a, weighed
	indirect                 // the call instruction as it was, weighed
	refFunc                  // ref.func a
	bulk                     // charge by the top of the stack, rate a, then the instruction as it was
)

// frame is an open block.
type frame struct {
	op     byte
	region int   // to go on with after it
	from   int64 // branches to it
	last   int   // where the last one is
}

// body rewrites one function at a time. Its slices are used again.
type body struct {
	regions []region
	edits   []edit
	frames  []frame
	out     []byte

	cur   int   // region of the next instruction
	nest  int   // open loops
	loops int   // most open loops
	joins int   // places where the engine settles every local: blocks, arms, targets of tables
	fans  int64 // squares of how many branches lead to each
	extra int   // values beyond the first that instructions give
	vecs  int   // vector instructions
	bulks bool
}

// rewrite gives the new body, valid until the next call. Errors are in r.
func (f *body) rewrite(m *module, r *reader, t FuncType) []byte {
	groups := r.count(m.limits.Locals, TooManyLocals, 2)
	start := r.i
	total := 0
	for range groups {
		n := r.u32()
		r.valueType()
		if uint64(total)+uint64(n) > uint64(m.limits.Locals) {
			r.fail(TooManyLocals, limitText("locals", uint64(total)+uint64(n), m.limits.Locals))
			return nil
		}
		total += int(n)
	}
	m.allLocals += total
	if m.allLocals > m.limits.AllLocals {
		r.fail(TooManyLocals, limitText("locals in all functions", uint64(m.allLocals), m.limits.AllLocals))
		return nil
	}
	code := r.i
	*f = body{regions: f.regions[:0], edits: f.edits[:0], frames: f.frames[:0], out: f.out[:0]}
	locals := len(t.Params) + total
	f.scan(m, r, t, locals)
	if m.addWork(r, int64(f.joins)*int64(locals+1), f.fans*int64(locals+1)); r.err != nil {
		return nil
	}
	// Children come after their parents, so this settles chains.
	for i := len(f.regions) - 1; i > 0; i-- {
		if g := &f.regions[i]; g.cost < g.min {
			f.regions[g.parent].cost += g.cost
			g.cost = 0
		}
	}
	e := emitter{
		out:   f.out,
		fuel:  uint32(m.globals),
		stack: uint32(m.globals + 1),
		yield: uint32(m.imported),
		size:  uint32(locals),
		items: int64(m.limits.TableItems),
	}
	if f.bulks {
		// A local of ours comes after the guest's: whatever index the guest
		// writes was checked against its own.
		e.out = append(appendU32(e.out, groups+1), r.b[start:code]...)
		e.out = append(e.out, 1, tI32)
	} else {
		e.out = append(appendU32(e.out, groups), r.b[start:code]...)
	}
	e.edit(f, r.b, code, f.weight(t, locals, len(r.b)-code))
	f.out = e.out
	return e.out
}

// weight estimates the engine's stack frame of a function, in bytes; locals
// include parameters, code is the size of its instructions. Measured on wazero
// 1.12.0 (amd64): the frames of QuickJS have a median of 112 bytes and a maximum
// of 5,344, for its largest function of 43,718 bytes; a value that must be kept
// takes a slot of its own, 16 bytes for a vector, and so does each local in each
// loop that changes it; each value passed takes a slot. A quarter of the code's
// size fits the first and is not far below the others: the worst found, arms
// that change 100 locals, take 72 kB and weigh 20.
func (f *body) weight(t FuncType, locals, code int) int64 {
	return 64 +
		16*int64(locals+len(t.Results)) +
		8*int64(locals)*int64(f.loops) +
		16*int64(f.extra) +
		4*int64(f.vecs) +
		int64(code)/4
}
