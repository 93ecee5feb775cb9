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
	loop    int // the innermost loop around it
}

type editKind uint8

const (
	charge   editKind = iota // charge region a
	enter                    // charge region a, then look at fuel and stack
	loop                     // charge region a, then look at fuel
	loopEnd                  // what the loop of region a does without fuel
	branch                   // the branch as it was, to label a
	branches                 // br_table to labels[a:], the first of which is their number
	exit                     // put the fuel back if loop a is not calm
	call                     // call function a, with what stack is left
	callHost                 // call function a, with fuel that is not negative
	indirect                 // the call instruction as it was, likewise
	refFunc                  // the reference in item a of the injected table
	bulk                     // charge by the top of the stack, rate a, then the instruction as it was
	chunked                  // the same in bytes, and if that takes long, helper a
)

// frame is an open block.
type frame struct {
	op     byte
	region int   // to go on with after it, for loops that of the loop
	from   int64 // branches to it
	last   int   // where the last one is
	label  int   // depth of its label in the rewritten function
	loop   int   // innermost loop that a branch to it leads into
}

// loopInfo is a loop; loop 0 stands for the function.
type loopInfo struct {
	parent int

	// A calm loop calls nothing and does nothing that is charged by size, so that
	// fuel can be kept in a local within it. So are the loops in it.
	calm bool
}

// body rewrites one function at a time. Its slices are used again.
type body struct {
	regions []region
	edits   []edit
	frames  []frame
	nests   []loopInfo
	labels  []uint32
	out     []byte

	cur    int   // region of the next instruction
	in     int   // innermost open loop
	depth  int   // open blocks of the rewritten function
	nest   int   // open loops
	loops  int   // most open loops
	joins  int   // places where the engine settles every local: blocks, arms, targets of tables
	blocks int   // of code, as the engine sees it
	fans   int64 // squares of how many branches lead to each
	extra  int   // values beyond the first that instructions give
	vecs   int   // vector instructions
	calls  int   // calls of the guest's functions
	bulks  int   // operations that are charged by size

	known   int   // place after an i32.const
	literal int32 // its value
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
	*f = body{regions: f.regions[:0], edits: f.edits[:0], frames: f.frames[:0], nests: f.nests[:0], labels: f.labels[:0], out: f.out[:0]}
	locals := len(t.Params) + total
	f.scan(m, r, t, locals)
	if m.addWork(r, int64(f.joins)*int64(locals+1), f.fans*int64(locals+1), int64(f.blocks)); r.err != nil {
		return nil
	}
	// Children come after their parents, so this settles chains.
	for i := len(f.regions) - 1; i > 0; i-- {
		if g := &f.regions[i]; g.cost < g.min {
			f.regions[g.parent].cost += g.cost
			g.cost = 0
		}
	}
	e := emitter{injected: m.injected(), out: f.out, items: int64(m.limits.TableItems), weight: f.weight(t, locals, len(r.b)-code)}
	e.deep = f.calls > 0 || e.weight > maxLeaf
	e.asks = f.calls > 0 || f.straight() > maxStraight
	e.wary = f.calls > maxCalls
	f.declare(&e, r.b[start:code], groups, locals)
	e.edit(f, r.b, code)
	f.out = e.out
	return e.out
}

const (
	// maxLeaf bounds what a function that calls nothing of the guest may weigh to be
	// left out of the looks at the stack, and maxStraight what it may cost to be left
	// out of those at fuel: three instructions can touch a new page of memory, which
	// takes the system a microsecond or two.
	maxLeaf     = 256
	maxStraight = 64

	// maxCalls is how many calls of such functions, written one after the other,
	// may come between two looks. A function with more looks before each.
	maxCalls = 1_000
)

// straight is what the function costs at most outside of loops, which look for
// themselves.
func (f *body) straight() (sum int64) {
	for _, x := range f.edits {
		if x.loop == 0 && (x.kind == charge || x.kind == enter) {
			sum += f.regions[x.a].cost
		}
	}
	return sum
}

// declare writes the declarations of locals. Ours come after the guest's:
// whatever index the guest writes was checked against its own.
func (f *body) declare(e *emitter, guests []byte, groups, locals int) {
	var ours []byte
	next := uint32(locals)
	add := func(typ byte) uint32 {
		ours = append(ours, 1, typ)
		next++
		return next - 1
	}
	if e.deep {
		e.room = add(tI64)
	}
	for _, l := range f.nests {
		if l.calm {
			e.left = add(tI64)
			break
		}
	}
	if f.bulks > 0 {
		e.size = add(tI32)
	}
	e.out = append(appendU32(e.out, groups+len(ours)/2), guests...)
	e.out = append(e.out, ours...)
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
