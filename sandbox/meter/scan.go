package meter

// What instructions cost beyond one, from what they take on the engine.
const (
	// goCost is for instructions that leave native code for Go, about 50-100 ns.
	goCost = 64

	// callPays is what a call costs beyond what it passes, about 3 ns, and what its
	// caller pays of the entry of whatever is called, which mostly is all of it: two
	// charges one after the other wait for each other.
	callPays = 16
)

// note adds an edit.
func (f *body) note(e edit) {
	e.loop = f.in
	f.edits = append(f.edits, e)
}

// open starts a new region within the current one.
func (f *body) open(least int64, at int) {
	f.regions = append(f.regions, region{parent: f.cur, min: least})
	f.cur = len(f.regions) - 1
	f.note(edit{at: at, end: at, kind: charge, a: uint32(f.cur)})
}

func (f *body) spend(n int) { f.regions[f.cur].cost += int64(n) }

// passes notes values that go into and come out of a call or a block, which
// the engine moves one by one.
func (f *body) passes(t FuncType) {
	f.extra += max(0, len(t.Results)-1)
	f.spend(len(t.Params) + len(t.Results))
}

// loud marks the open loops as not calm.
func (f *body) loud() {
	for i := f.in; f.nests[i].calm; i = f.nests[i].parent {
		f.nests[i].calm = false
	}
}

// scan reads the instructions of a body, checks what they name, and notes
// regions and edits.
func (f *body) scan(m *module, r *reader, t FuncType, locals int) {
	f.regions = append(f.regions, region{cost: 1 + int64(len(t.Params)+len(t.Results))})
	f.nests = append(f.nests, loopInfo{})
	f.note(edit{at: r.i, end: r.i, kind: enter})
	f.frames = append(f.frames, frame{op: opBlock})
	dead := false // nothing falls through to here
	for len(f.frames) > 0 && r.err == nil {
		at := r.i
		op := r.byte()
		switch {
		case op == opBlock || op == opLoop || op == opIf:
			if len(f.frames) > m.limits.Nesting {
				r.fail(NestingTooDeep, limitText("blocks", uint64(len(f.frames)), m.limits.Nesting))
			}
			f.block(m, r, op, at)
			f.joins++
			f.blocks += 3
			dead = false
		case op == opElse:
			top := &f.frames[len(f.frames)-1]
			if top.op != opIf {
				r.fail(Malformed, "else without if")
				return
			}
			top.op = opElse
			f.joins++
			f.cur = top.region
			f.open(minArm, r.i)
			dead = false
		case op == opEnd:
			top := f.frames[len(f.frames)-1]
			f.frames = f.frames[:len(f.frames)-1]
			f.fans += top.from * top.from
			f.depth = top.label - 1
			f.cur = top.region
			if top.op == opLoop {
				f.note(edit{at: at, end: at, kind: loopEnd, a: uint32(top.region)})
				f.nest--
				f.in = f.nests[f.in].parent
				f.cur = f.regions[top.region].parent
			}
			if dead && len(f.frames) > 0 {
				f.open(minCase, r.i)
			}
			dead = false
		case op == opUnreachable || op == opReturn:
			f.note(edit{at: at, end: at, kind: exit})
			f.spend(1)
			dead = true
		case op == opBr:
			f.branch(r, at)
			f.spend(1)
			dead = true
		case op == opBrIf:
			f.blocks++
			f.branch(r, at)
			f.spend(1)
			f.open(minArm, r.i)
		case op == opBrTable:
			f.branchTable(m, r, at)
			f.spend(1)
			dead = true
		case op == opNop || op == opDrop:
		default:
			f.spend(1)
			f.plain(m, r, at, op, locals)
		}
	}
	if r.err == nil && r.left() != 0 {
		r.fail(Malformed, "code after the end of a function")
	}
}

// branch reads the label of a branch.
func (f *body) branch(r *reader, at int) {
	d, to := f.label(r, at)
	if r.err != nil {
		return
	}
	f.note(edit{at: at, end: at, kind: exit, a: uint32(to.loop)})
	if n := uint32(f.depth - to.label); n != d {
		f.note(edit{at: at, end: r.i, kind: branch, a: n})
	}
}

func (f *body) branchTable(m *module, r *reader, at int) {
	n := r.count(m.limits.BrTable, BrTableTooLarge, 1)
	first := len(f.labels)
	f.labels = append(f.labels, uint32(n))
	out, changed := f.in, false
	for range n + 1 {
		d, to := f.label(r, at)
		if r.err != nil {
			return
		}
		f.joins++
		out = min(out, to.loop) // loops are numbered from the outside in
		f.labels = append(f.labels, uint32(f.depth-to.label))
		changed = changed || uint32(f.depth-to.label) != d
	}
	f.note(edit{at: at, end: at, kind: exit, a: uint32(out)})
	if !changed {
		f.labels = f.labels[:first]
		return
	}
	f.note(edit{at: at, end: r.i, kind: branches, a: uint32(first)})
}

// label reads a label of the instruction at that place and notes that its frame
// is reached from there. A table that names a label twice is one place.
func (f *body) label(r *reader, at int) (d uint32, to *frame) {
	d = r.index(len(f.frames))
	if r.err != nil {
		return 0, nil
	}
	to = &f.frames[len(f.frames)-1-int(d)]
	if to.last != at {
		to.last = at
		to.from++
	}
	return d, to
}

// block reads the type of a block, a loop or an if, and enters it.
func (f *body) block(m *module, r *reader, op byte, at int) {
	passed := FuncType{}
	if r.left() > 0 && r.b[r.i] == blockEmpty {
		r.i++
	} else if r.left() > 0 && r.b[r.i] > 0x40 && r.b[r.i] < 0x80 {
		r.valueType()
	} else {
		// A type index is signed here: 33 bits, of which index allows few. In the
		// last byte of a longer form the sign must not be set.
		from := r.i
		i := r.index(len(m.types))
		if r.err != nil {
			return
		}
		if r.b[r.i-1]&0x40 != 0 {
			r.i = from
			r.fail(Malformed, "type of a block")
			return
		}
		passed = m.types[i]
	}
	f.depth++
	f.frames = append(f.frames, frame{op: op, region: f.cur, label: f.depth, loop: f.in})
	switch op {
	case opIf:
		f.spend(1)
		f.passes(passed)
		f.open(minArm, r.i)
	case opLoop:
		f.nest++
		f.loops = max(f.loops, f.nest)
		if f.nest > m.limits.Loops {
			r.fail(LoopsTooDeep, limitText("loops", uint64(f.nest), m.limits.Loops))
		}
		f.joins++ // the header has a branch more
		f.blocks += 2
		f.depth++ // the block within it
		f.nests = append(f.nests, loopInfo{parent: f.in, calm: true})
		f.in = len(f.nests) - 1
		f.regions = append(f.regions, region{parent: f.cur, cost: 1})
		f.cur = len(f.regions) - 1
		top := &f.frames[len(f.frames)-1]
		top.region, top.loop = f.cur, f.in
		f.note(edit{at: at, end: r.i, kind: loop, a: uint32(f.cur)})
		f.passes(passed)
	default:
		f.passes(passed)
	}
}

// plain reads an instruction that is not of control flow.
func (f *body) plain(m *module, r *reader, at int, op byte, locals int) {
	m.note(op, r)
	switch {
	case op == opCall:
		i := r.index(len(m.funcTypes))
		if r.err != nil {
			return
		}
		f.loud()
		f.passes(m.typeOf(i))
		if int(i) < m.imported {
			f.spend(goCost)
			f.note(edit{at: at, end: r.i, kind: callHost, a: i})
			return
		}
		f.spend(callPays)
		f.calls++
		f.note(edit{at: at, end: r.i, kind: call, a: m.shift(i)})
	case op == opCallIndirect:
		t := r.index(len(m.types))
		r.index(m.tables)
		if r.err != nil {
			return
		}
		f.loud()
		f.passes(m.types[t])
		f.spend(callPays)
		f.calls++
		host := uint32(0)
		if m.hostRefs {
			host = 1
		}
		f.note(edit{at: at, end: r.i, kind: indirect, a: host})
	case op == opSelectTyped:
		if r.byte() != 1 {
			r.fail(Malformed, "select")
		}
		r.valueType()
	case op >= opLocalGet && op <= opLocalTee:
		r.index(locals)
	case op == opGlobalGet || op == opGlobalSet:
		r.index(m.globals)
	case op == opTableGet || op == opTableSet:
		r.index(m.tables)
	case op >= 0x28 && op <= 0x3e:
		r.memarg()
	case op == opMemorySize:
		r.zero()
	case op == opMemoryGrow:
		r.zero()
		f.bulk(at, r.i, ratePages)
	case op == opI32Const:
		f.literal = r.signed32()
		f.known = r.i
	case op == opI64Const:
		r.skipSigned(10)
	case op == opF32Const:
		r.bytes(4)
	case op == opF64Const:
		r.bytes(8)
	case op == opRefNull:
		r.refType()
	case op == opRefFunc:
		i := r.index(len(m.funcTypes))
		if r.err == nil && !m.declared[i] {
			r.fail(Malformed, "reference to a function that is not declared")
		}
		if r.err != nil {
			return
		}
		f.note(edit{at: at, end: r.i, kind: refFunc, a: m.ref(i)})
	case op == opMisc:
		f.misc(m, r, at)
	case op == opVector:
		f.vecs++
		r.vector()
	case op == opSelect || op >= 0x45 && op <= 0xc4 || op == opRefIsNull:
	default:
		r.refuseOp(op)
	}
}
