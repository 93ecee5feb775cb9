package meter

// Bulk operations burn by their size, before they run. A byte in memory is an
// eighth, since a loop of 64-bit stores would burn at least that; a page grown
// is 1,024, half of that, since most of it is not touched at once; an item of a
// table is one.
const (
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

const (
	// maxInline is the size up to which an operation of a size that stands in the
	// code is charged with what is around it.
	maxInline = 1 << 10

	// maxFast is how many operations of a function, of sizes that do not stand in
	// the code, are done on the spot. In one with more, all are left to helpers.
	maxFast = 500

	// chunk is what is moved at a time, in bytes, when the fuel of a slice does not
	// pay for the whole: a millisecond, if no page of it was touched before. What a
	// slice does pay for is short by the meaning of a slice. Tables need no chunks,
	// for all their items are 8 MiB.
	chunk = 1 << 20
)

// misc reads the rest of an instruction after opMisc.
func (f *body) misc(m *module, r *reader, at int) {
	sub := r.u32()
	rate := rateItems
	segment := uint32(0)
	switch sub {
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating conversions
		return
	case miscMemoryInit:
		segment = r.index(m.data)
		r.zero()
		rate = rateBytes
	case miscDataDrop:
		r.index(m.data)
		return
	case miscMemoryCopy:
		r.zero()
		r.zero()
		rate = rateBytes
	case miscMemoryFill:
		r.zero()
		rate = rateBytes
	case miscTableInit:
		r.index(m.elements)
		r.index(m.tables)
	case miscElemDrop:
		r.index(m.elements)
		return
	case miscTableCopy:
		r.index(m.tables)
		r.index(m.tables)
	case miscTableGrow:
		r.index(m.tables)
		rate = rateGrowth
	case miscTableSize:
		r.index(m.tables)
		return
	case miscTableFill:
		r.index(m.tables)
	default:
		r.fail(UnknownOpcode, "")
		return
	}
	switch {
	case r.err != nil:
	case rate != rateBytes, sub == miscMemoryInit && m.segments[segment] <= chunk: // more than it has is a trap
		f.bulk(at, r.i, rate)
	case f.known == at && f.literal >= 0 && f.literal <= maxInline:
		f.spend(goCost + int(f.literal)>>shiftBytes)
	default:
		f.bulk(at, r.i, rate)
		f.joins++
		f.blocks += 3
		last := &f.edits[len(f.edits)-1]
		last.kind, last.a = chunked, m.helper(sub, segment)
	}
}

func (f *body) bulk(at, end int, rate uint32) {
	f.loud()
	f.spend(goCost)
	f.bulks++
	f.note(edit{at: at, end: end, kind: bulk, a: rate})
}

// A helper key is a bulk operation that has a helper.
type helperKey struct{ sub, segment uint32 }

// helper gives the function that does an operation in chunks. It is called after
// the charge, with the operands.
func (m *module) helper(sub, segment uint32) uint32 {
	k := helperKey{sub, segment}
	i, ok := m.helpers[k]
	if !ok {
		e := &emitter{injected: m.injected()}
		e.helper(k, m.segments)
		i = m.inject(e.spread, e.out)
		m.helpers[k] = i
	}
	return i
}

// Operands of a helper: to, from (or a byte to fill with), n.
const (
	opTo = iota
	opFrom
	opSize
)

// helper writes the body of a helper. If fuel is negative, the host is asked
// before anything is written, and again between chunks, where it may find that
// fuel is left. What is out of bounds is left to the operation itself, which
// then is a trap before any write.
func (e *emitter) helper(k helperKey, segments []uint32) {
	e.out = append(e.out, 0) // no locals
	e.whileFuel(false, blockEmpty)
	e.whole(k)
	e.out = append(e.out, opReturn, opEnd)
	e.askHost()
	e.sum(opTo)
	e.out = append(e.out, opMemorySize, 0, opI64ExtendU)
	e.i64(16)
	e.out = append(e.out, opI64Shl, opI64GtU, opIf, blockEmpty)
	e.whole(k)
	e.out = append(e.out, opReturn, opEnd)
	switch k.sub {
	case miscMemoryFill:
		e.chunks(k, opTo)
	case miscMemoryInit:
		// The size that the segment was made with: if it was dropped, the first
		// chunk is a trap.
		e.sum(opFrom)
		e.i64(int64(segments[k.segment]))
		e.out = append(e.out, opI64GtU, opIf, blockEmpty)
		e.whole(k)
		e.out = append(e.out, opReturn, opEnd)
		e.chunks(k, opTo, opFrom)
	case miscMemoryCopy:
		e.sum(opFrom)
		e.out = append(e.out, opMemorySize, 0, opI64ExtendU)
		e.i64(16)
		e.out = append(e.out, opI64Shl, opI64GtU, opIf, blockEmpty)
		e.whole(k)
		e.out = append(e.out, opReturn, opEnd)
		// From the end, where it would overwrite what it has yet to read.
		e.op(opLocalGet, opTo)
		e.op(opLocalGet, opFrom)
		e.out = append(e.out, opI32GtU, opIf, blockEmpty)
		e.backwards(k)
		e.out = append(e.out, opElse)
		e.chunks(k, opTo, opFrom)
		e.out = append(e.out, opEnd)
	}
	e.whole(k)
	e.out = append(e.out, opEnd)
}

// sum gives the end of an operand's range, as an i64.
func (e *emitter) sum(operand uint32) {
	e.op(opLocalGet, operand)
	e.out = append(e.out, opI64ExtendU)
	e.op(opLocalGet, opSize)
	e.out = append(e.out, opI64ExtendU, opI64Add)
}

// whole does the operation on all that is left.
func (e *emitter) whole(k helperKey) {
	e.op(opLocalGet, opTo)
	e.op(opLocalGet, opFrom)
	e.op(opLocalGet, opSize)
	e.operation(k)
}

func (e *emitter) operation(k helperKey) {
	e.out = append(e.out, opMisc, byte(k.sub))
	switch k.sub {
	case miscMemoryInit:
		e.out = append(appendU32(e.out, k.segment), 0)
	case miscMemoryCopy:
		e.out = append(e.out, 0, 0)
	default:
		e.out = append(e.out, 0)
	}
}

// chunks does the operation in chunks from the start, but for the last, moving
// these operands on.
func (e *emitter) chunks(k helperKey, moving ...uint32) {
	e.whileLarge()
	e.op(opLocalGet, opTo)
	e.op(opLocalGet, opFrom)
	e.i32(chunk)
	e.operation(k)
	for _, i := range moving {
		e.move(i, opI32Add)
	}
	e.move(opSize, opI32Sub)
	e.again()
}

// backwards does the operation in chunks from the end, but for the first.
func (e *emitter) backwards(k helperKey) {
	e.whileLarge()
	e.move(opSize, opI32Sub)
	for _, i := range []uint32{opTo, opFrom} {
		e.op(opLocalGet, i)
		e.op(opLocalGet, opSize)
		e.out = append(e.out, opI32Add)
	}
	e.i32(chunk)
	e.operation(k)
	e.again()
}

func (e *emitter) whileLarge() {
	e.out = append(e.out, opLoop, blockEmpty)
	e.op(opLocalGet, opSize)
	e.i32(chunk)
	e.out = append(e.out, opI32GtU, opIf, blockEmpty)
}

func (e *emitter) again() {
	e.askHost()
	e.out = append(e.out, opBr, 1, opEnd, opEnd)
}

func (e *emitter) move(operand uint32, op byte) {
	e.op(opLocalGet, operand)
	e.i32(chunk)
	e.out = append(e.out, op)
	e.op(opLocalSet, operand)
}
