package meter

// What instructions cost beyond one, from what they take on the engine.
const (
	// goCost is for instructions that leave native code for Go, about 50-100 ns.
	goCost = 64

	// Bulk operations burn by their size. A byte in memory is an eighth, since
	// a loop of 64-bit stores would burn at least that; a page grown is 1,024,
	// half of that, since most of it is not touched at once; an item of a table
	// is one.
	shiftBytes = 3  // n >> 3
	shiftPages = 10 // n << 10
)

// Rates of bulk edits.
const (
	rateBytes  uint32 = iota // memory.fill, copy, init
	rateItems                // table.fill, copy, init
	ratePages                // memory.grow: more than there can be fails at no cost
	rateGrowth               // table.grow: likewise
)

// open starts a new region within the current one.
func (f *body) open(least int64, at int) {
	f.regions = append(f.regions, region{parent: f.cur, min: least})
	f.cur = len(f.regions) - 1
	f.edits = append(f.edits, edit{at: at, end: at, kind: charge, a: uint32(f.cur)})
}

func (f *body) spend(n int) { f.regions[f.cur].cost += int64(n) }

// passes notes values that go into and come out of a call or a block, which
// the engine moves one by one.
func (f *body) passes(t FuncType) {
	f.extra += max(0, len(t.Results)-1)
	f.spend(len(t.Params) + len(t.Results))
}

// scan reads the instructions of a body, checks what they name, and notes
// regions and edits.
func (f *body) scan(m *module, r *reader, t FuncType, locals int) {
	f.regions = append(f.regions, region{cost: 1 + int64(len(t.Params)+len(t.Results))})
	f.edits = append(f.edits, edit{at: r.i, end: r.i, kind: enter})
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
			f.block(m, r, op)
			f.joins++
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
			if top.op == opLoop {
				f.nest--
			}
			f.cur = top.region
			if dead && len(f.frames) > 0 {
				f.open(minCase, r.i)
			}
			dead = false
		case op == opUnreachable || op == opReturn:
			f.spend(1)
			dead = true
		case op == opBr:
			f.branch(r, at)
			f.spend(1)
			dead = true
		case op == opBrIf:
			f.branch(r, at)
			f.spend(1)
			f.open(minArm, r.i)
		case op == opBrTable:
			for range r.count(m.limits.BrTable, BrTableTooLarge, 1) + 1 {
				f.branch(r, at)
				f.joins++
			}
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

// branch reads a label of the instruction at that place and notes that its frame
// is reached from there. A table that names a label twice is one place.
func (f *body) branch(r *reader, at int) {
	d := r.index(len(f.frames))
	if r.err != nil {
		return
	}
	if to := &f.frames[len(f.frames)-1-int(d)]; to.last != at {
		to.last = at
		to.from++
	}
}

// block reads the type of a block, a loop or an if, and enters it.
func (f *body) block(m *module, r *reader, op byte) {
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
	f.frames = append(f.frames, frame{op: op, region: f.cur})
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
		f.regions = append(f.regions, region{parent: f.cur, cost: 1})
		f.cur = len(f.regions) - 1
		f.edits = append(f.edits, edit{at: r.i, end: r.i, kind: loop, a: uint32(f.cur)})
		f.passes(passed)
	default:
		f.passes(passed)
	}
}

// plain reads an instruction that is not of control flow.
func (f *body) plain(m *module, r *reader, at int, op byte, locals int) {
	switch {
	case op == opCall:
		i := r.index(len(m.funcTypes))
		if r.err == nil {
			f.passes(m.typeOf(i))
			f.edits = append(f.edits, edit{at: at, end: r.i, kind: call, a: m.shift(i)})
		}
	case op == opCallIndirect:
		t := r.index(len(m.types))
		r.index(m.tables)
		if r.err == nil {
			f.passes(m.types[t])
			f.edits = append(f.edits, edit{at: at, end: r.i, kind: indirect})
		}
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
		r.skipSigned(5)
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
		if r.err == nil {
			f.spend(goCost)
			f.edits = append(f.edits, edit{at: at, end: r.i, kind: refFunc, a: m.shift(i)})
		}
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

// misc reads the rest of an instruction after opMisc.
func (f *body) misc(m *module, r *reader, at int) {
	sub := r.u32()
	rate := rateBytes
	switch sub {
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating conversions
		return
	case miscMemoryInit:
		r.index(m.data)
		r.zero()
	case miscDataDrop:
		r.index(m.data)
		return
	case miscMemoryCopy:
		r.zero()
		r.zero()
	case miscMemoryFill:
		r.zero()
	case miscTableInit:
		r.index(m.elements)
		r.index(m.tables)
		rate = rateItems
	case miscElemDrop:
		r.index(m.elements)
		return
	case miscTableCopy:
		r.index(m.tables)
		r.index(m.tables)
		rate = rateItems
	case miscTableGrow:
		r.index(m.tables)
		rate = rateGrowth
	case miscTableSize:
		r.index(m.tables)
		return
	case miscTableFill:
		r.index(m.tables)
		rate = rateItems
	default:
		r.fail(UnknownOpcode, "")
		return
	}
	f.bulk(at, r.i, rate)
}

func (f *body) bulk(at, end int, rate uint32) {
	f.spend(goCost)
	f.bulks = true
	f.edits = append(f.edits, edit{at: at, end: end, kind: bulk, a: rate})
}
