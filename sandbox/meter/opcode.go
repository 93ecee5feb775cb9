package meter

// Opcodes that are looked at or written.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32LtU       = 0x49
	opI32GtU       = 0x4b
	opI64GtU       = 0x56
	opI64GeS       = 0x59
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI32ShrU      = 0x76
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Or        = 0x84
	opI64Shl       = 0x86
	opI64ExtendU   = 0xad
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd

	blockEmpty = 0x40
	vecConst   = 0x0c
)

// After opMisc.
const (
	miscMemoryInit = 8 + iota
	miscDataDrop
	miscMemoryCopy
	miscMemoryFill
	miscTableInit
	miscElemDrop
	miscTableCopy
	miscTableGrow
	miscTableSize
	miscTableFill
)

// refuseOp says why an opcode is not allowed.
func (r *reader) refuseOp(op byte) {
	r.i--
	switch op {
	case 0x06, 0x07, 0x08, 0x09, 0x0a, 0x18, 0x19, 0x1f:
		r.fail(Exceptions, "")
	case 0x12, 0x13:
		r.fail(TailCall, "")
	case 0x14, 0x15, 0xd4, 0xd5, 0xd6:
		r.fail(TypedReferences, "")
	case 0xd3, 0xfb:
		r.fail(GC, "")
	case 0xfe:
		r.fail(Threads, "")
	default:
		r.fail(UnknownOpcode, "")
	}
}

func (r *reader) memarg() {
	if align := r.u32(); align >= 0x40 && align < 0x80 {
		r.fail(MultiMemory, "")
	}
	r.u32()
}

// zero reads an index that must be 0 in one byte, as the engine reads it.
func (r *reader) zero() {
	if r.byte() != 0 {
		r.i--
		r.fail(MultiMemory, "")
	}
}

// vector skips the rest of a vector instruction. The engine reads its opcode
// as one byte, and takes the second byte of a two-byte number, always 1, for a
// nop; any other form would be read as other instructions than were checked.
func (r *reader) vector() {
	op := r.byte()
	if op >= 0x80 {
		if hi := r.byte(); hi != 1 {
			r.i -= 2
			if hi == 2 {
				r.fail(RelaxedSIMD, "")
			} else {
				r.fail(Malformed, "vector opcode")
			}
		}
	}
	switch {
	case op <= 11 || op == 92 || op == 93:
		r.memarg()
	case op == vecConst || op == 13:
		r.bytes(16)
	case op >= 21 && op <= 34:
		r.byte()
	case op >= 84 && op <= 91:
		r.memarg()
		r.byte()
	}
}
