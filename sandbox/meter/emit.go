package meter

// emitter writes a body with its edits. All that it adds leaves the guest's
// operand stack, locals and labels as they were.
type emitter struct {
	out         []byte
	fuel, stack uint32 // the injected globals
	yield       uint32 // the injected function
	size        uint32 // the injected local, an i32, in functions with bulk operations
	items       int64  // the most that all tables can hold
}

func (e *emitter) edit(f *body, b []byte, from int, weight int64) {
	for _, x := range f.edits {
		e.out = append(e.out, b[from:x.at]...)
		from = x.end
		switch x.kind {
		case charge:
			if cost := f.regions[x.a].cost; cost > 0 {
				e.burn(cost)
			}
		case enter:
			e.burn(f.regions[x.a].cost)
			e.op(opGlobalGet, e.fuel)
			e.op(opGlobalGet, e.stack)
			e.out = append(e.out, opI64Or) // negative if either is
			e.ask()
		case loop:
			e.burn(f.regions[x.a].cost)
			e.op(opGlobalGet, e.fuel)
			e.ask()
		case call:
			e.weigh(weight, opI64Sub)
			e.op(opCall, x.a)
			e.weigh(weight, opI64Add)
		case indirect:
			e.weigh(weight, opI64Sub)
			e.out = append(e.out, b[x.at:x.end]...)
			e.weigh(weight, opI64Add)
		case refFunc:
			e.op(opRefFunc, x.a)
		case bulk:
			e.bulk(x.a)
			e.out = append(e.out, b[x.at:x.end]...)
		}
	}
	e.out = append(e.out, b[from:]...)
}

func (e *emitter) op(op byte, i uint32) { e.out = appendU32(append(e.out, op), i) }

func (e *emitter) i64(v int64) { e.out = appendS64(append(e.out, opI64Const), v) }

func (e *emitter) i32(v int64) { e.out = appendS64(append(e.out, opI32Const), v) }

// burn takes cost off the fuel.
func (e *emitter) burn(cost int64) {
	e.op(opGlobalGet, e.fuel)
	e.i64(cost)
	e.out = append(e.out, opI64Sub)
	e.op(opGlobalSet, e.fuel)
}

// ask calls the host if the top of the stack is negative.
func (e *emitter) ask() {
	e.i64(0)
	e.out = append(e.out, opI64LtS, opIf, blockEmpty)
	e.op(opGlobalGet, e.fuel)
	e.op(opGlobalGet, e.stack)
	e.op(opCall, e.yield)
	e.op(opGlobalSet, e.fuel)
	e.out = append(e.out, opEnd)
}

// weigh takes the caller's frame off the stack that is left, or gives it back.
// It is the callee that looks, at its entry.
func (e *emitter) weigh(weight int64, op byte) {
	e.op(opGlobalGet, e.stack)
	e.i64(weight)
	e.out = append(e.out, op)
	e.op(opGlobalSet, e.stack)
}

// bulk burns by the i32 on top of the stack, which stays there.
func (e *emitter) bulk(rate uint32) {
	e.op(opLocalSet, e.size)
	e.op(opGlobalGet, e.fuel)
	e.op(opLocalGet, e.size)
	switch rate {
	case ratePages:
		e.atMost(maxPages)
	case rateGrowth:
		e.atMost(e.items)
	}
	e.out = append(e.out, opI64ExtendU)
	switch rate {
	case rateBytes:
		e.i64(shiftBytes)
		e.out = append(e.out, opI64ShrU)
	case ratePages:
		e.i64(shiftPages)
		e.out = append(e.out, opI64Shl)
	}
	e.out = append(e.out, opI64Sub)
	e.op(opGlobalSet, e.fuel)
	e.op(opGlobalGet, e.fuel)
	e.ask()
	e.op(opLocalGet, e.size)
}

// atMost lowers the size on the stack. Growing by more than can be had gives -1
// and takes no time, and guests do try -1.
func (e *emitter) atMost(most int64) {
	e.i32(most)
	e.op(opLocalGet, e.size)
	e.i32(most)
	e.out = append(e.out, opI32LtU, opSelect)
}
