package meter

// injected says where what is injected is found: it comes after all that the
// guest has, but for the import, which is the last of those.
type injected struct {
	fuel, stack uint32 // globals, i64
	yield       uint32 // the import
	ask         uint32 // function (give i64) -> i64: asks, gives the fuel that is left and what it is given
	look        uint32 // function () -> (): asks if fuel is negative
	void        uint32 // type () -> ()
	spread      uint32 // type (i32, i32, i32) -> (), of the helpers of bulk operations
	refs        uint32 // table of the references to functions that code makes
}

// emitter writes a body with its edits. All that it adds leaves the guest's
// operand stack and locals as they were. Labels change, for a loop's body gets a
// block of its own.
//
// What happens without fuel is written where the engine's code for it does not
// stand in the way: its registers are assigned in the order of the code, so the
// usual way must come first, and values that a call would spill stay where they
// are.
type emitter struct {
	injected
	out    []byte
	left   uint32 // local, i64: the fuel that is left, in calm loops
	room   uint32 // local, i64: the stack that is left below this function
	size   uint32 // local, i32: in functions with bulk operations
	weight int64
	deep   bool  // its stack counts
	asks   bool  // it looks at fuel at its entry
	wary   bool  // and before each call
	items  int64 // the most that all tables can hold
}

func (e *emitter) edit(f *body, b []byte, from int) {
	for _, x := range f.edits {
		e.out = append(e.out, b[from:x.at]...)
		from = x.end
		in := f.nests[x.loop]
		switch x.kind {
		case charge:
			e.burn(f.regions[x.a].cost, in.calm)
		case enter:
			e.enter(f.regions[x.a].cost)
		case loop:
			if in.calm && !f.nests[in.parent].calm {
				e.op(opGlobalGet, e.fuel)
				e.op(opLocalSet, e.left)
			}
			e.out = append(e.out, b[x.at:x.end]...)
			e.burn(f.regions[x.a].cost, in.calm)
			e.whileFuel(in.calm, b[x.at+1:x.end]...)
		case loopEnd:
			if in.calm && !f.nests[in.parent].calm {
				e.putBack()
			}
			e.loopEnd(f.regions[x.a].cost, in.calm)
		case branch:
			e.op(b[x.at], x.a)
		case branches:
			e.out = append(e.out, opBrTable)
			for _, l := range f.labels[x.a : x.a+f.labels[x.a]+2] {
				e.out = appendU32(e.out, l)
			}
		case exit:
			if in.calm && !f.nests[x.a].calm {
				e.putBack()
			}
		case call:
			if e.wary {
				e.check()
			}
			e.below()
			e.op(opCall, x.a)
		case callHost:
			e.check()
			e.op(opCall, x.a)
		case indirect:
			if x.a != 0 || e.wary {
				e.check()
			}
			e.below()
			e.out = append(e.out, b[x.at:x.end]...)
		case refFunc:
			e.i32(int64(x.a))
			e.op(opTableGet, e.refs)
		case bulk:
			e.burnBySize(x.a)
			e.check()
			e.out = append(e.out, b[x.at:x.end]...)
		case chunked:
			e.burnBySize(rateBytes)
			if f.bulks > maxFast {
				e.op(opCall, x.a)
				break
			}
			e.whileFuel(false, appendS64(nil, int64(e.spread))...)
			e.out = append(e.out, b[x.at:x.end]...)
			e.out = append(e.out, opElse)
			e.op(opCall, x.a)
			e.out = append(e.out, opEnd)
		}
	}
	e.out = append(e.out, b[from:]...)
}

func (e *emitter) op(op byte, i uint32) { e.out = appendU32(append(e.out, op), i) }

func (e *emitter) i64(v int64) { e.out = appendS64(append(e.out, opI64Const), v) }

func (e *emitter) i32(v int64) { e.out = appendS64(append(e.out, opI32Const), v) }

// fuelLeft gives the fuel that is left: in calm loops it is in a local, since
// globals are memory.
func (e *emitter) fuelLeft(calm bool) {
	if calm {
		e.op(opLocalGet, e.left)
	} else {
		e.op(opGlobalGet, e.fuel)
	}
}

// burn takes cost off the fuel.
func (e *emitter) burn(cost int64, calm bool) {
	if cost <= 0 {
		return
	}
	e.fuelLeft(calm)
	e.i64(cost)
	e.out = append(e.out, opI64Sub)
	if calm {
		e.op(opLocalSet, e.left)
	} else {
		e.op(opGlobalSet, e.fuel)
	}
}

// putBack ends the keeping of fuel in a local. It disturbs nothing when what
// follows does not leave the loop after all.
func (e *emitter) putBack() {
	e.op(opLocalGet, e.left)
	e.op(opGlobalSet, e.fuel)
}

// whileFuel opens a block of this type that is entered if fuel is not negative.
// Else and end are the caller's to write.
func (e *emitter) whileFuel(calm bool, typ ...byte) {
	e.fuelLeft(calm)
	e.ifNotNegative(typ...)
}

func (e *emitter) ifNotNegative(typ ...byte) {
	e.out = append(e.out, opI64Const, 0, opI64GeS, opIf)
	e.out = append(e.out, typ...)
}

// check asks the host if fuel is negative. It is a call where a branch would cost
// less, since each branch makes the engine compile longer, by all that come
// before.
func (e *emitter) check() { e.op(opCall, e.look) }

func (e *emitter) askHost() {
	e.i64(0)
	e.op(opCall, e.ask)
	e.out = append(e.out, opDrop)
}

// enter is the entry of a function. The caller has paid what a call pays for.
func (e *emitter) enter(cost int64) {
	e.burn(cost-callPays, false)
	if e.asks {
		e.op(opGlobalGet, e.fuel)
	}
	if e.deep {
		e.op(opGlobalGet, e.stack)
		e.i64(e.weight)
		e.out = append(e.out, opI64Sub)
		e.op(opLocalTee, e.room)
	}
	switch {
	case e.asks && e.deep:
		e.out = append(e.out, opI64Or) // negative if either is
	case !e.asks && !e.deep:
		return
	}
	e.ifNotNegative(blockEmpty)
	e.out = append(e.out, opElse)
	if e.deep {
		e.below()
	}
	e.askHost()
	e.out = append(e.out, opEnd)
}

// loopEnd ends the block in which the loop's body is, asks the host, and goes
// back to the header, which takes its cost again.
func (e *emitter) loopEnd(cost int64, calm bool) {
	e.out = append(e.out, opElse)
	if calm {
		e.putBack()
	}
	e.i64(cost)
	e.op(opCall, e.ask)
	if calm {
		e.op(opLocalSet, e.left)
	} else {
		e.out = append(e.out, opDrop)
	}
	e.out = append(e.out, opBr, 1, opEnd)
}

// below tells a callee what stack is left. It is the callee that looks; no one
// puts the global back, since each function keeps what it was told in a local.
func (e *emitter) below() {
	e.op(opLocalGet, e.room)
	e.op(opGlobalSet, e.stack)
}

// burnBySize burns by the i32 on top of the stack, which stays there.
func (e *emitter) burnBySize(rate uint32) {
	e.op(opLocalTee, e.size)
	e.op(opGlobalGet, e.fuel)
	e.op(opLocalGet, e.size)
	switch rate {
	case rateBytes:
		e.i32(shiftBytes)
		e.out = append(e.out, opI32ShrU)
	case ratePages:
		e.atMost(maxPages)
	case rateGrowth:
		e.atMost(e.items)
	}
	e.out = append(e.out, opI64ExtendU)
	if rate == ratePages {
		e.i64(shiftPages)
		e.out = append(e.out, opI64Shl)
	}
	e.out = append(e.out, opI64Sub)
	e.op(opGlobalSet, e.fuel)
}

// atMost lowers the size on the stack. Growing by more than can be had gives -1
// and takes no time, and guests do try -1.
func (e *emitter) atMost(most int64) {
	e.i32(most)
	e.op(opLocalGet, e.size)
	e.i32(most)
	e.out = append(e.out, opI32LtU, opSelect)
}
