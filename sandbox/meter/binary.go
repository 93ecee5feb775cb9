package meter

import (
	"encoding/binary"
	"unicode/utf8"
)

// A reader reads hostile bytes. After the first error everything it returns is
// zero and err stays; loops over counts end by it.
type reader struct {
	b    []byte
	i    int
	base int // offset of b in the module
	fn   int // function for errors, or -1
	err  *Error
}

func (r *reader) fail(why Reason, detail string) {
	if r.err == nil {
		r.err = &Error{Reason: why, Func: r.fn, Offset: r.base + r.i, Detail: detail}
		r.i = len(r.b)
	}
}

func (r *reader) left() int { return len(r.b) - r.i }

func (r *reader) byte() byte {
	if r.i >= len(r.b) {
		r.fail(Malformed, "unexpected end")
		return 0
	}
	c := r.b[r.i]
	r.i++
	return c
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail(Malformed, "unexpected end")
		return nil
	}
	s := r.b[r.i : r.i+int(n)]
	r.i += int(n)
	return s
}

// u32 reads an unsigned number. Padding is allowed, as linkers write it.
func (r *reader) u32() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail(Malformed, "number too long")
	return 0
}

// skipSigned skips a signed number of at most n bytes. Its value is the
// engine's to check; its length is what both must agree on.
func (r *reader) skipSigned(n int) {
	for range n {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail(Malformed, "number too long")
}

// count reads the length of a vector whose items take at least size bytes, so
// that no count is believed that the bytes could not hold.
func (r *reader) count(limit int, why Reason, size int) int {
	n := r.u32()
	if uint64(n) > uint64(limit) {
		r.fail(why, limitText("items", uint64(n), limit))
		return 0
	}
	if uint64(n)*uint64(size) > uint64(r.left()) {
		r.fail(Malformed, "count larger than its section")
		return 0
	}
	return int(n)
}

// index reads an index and checks it against the original count of a space.
func (r *reader) index(n int) uint32 {
	at := r.i
	v := r.u32()
	if r.err == nil && uint64(v) >= uint64(n) {
		r.i = at
		r.fail(BadIndex, limitText("is the index", uint64(v), n))
		return 0
	}
	return v
}

func (r *reader) name() string {
	s := r.bytes(r.u32())
	if !utf8.Valid(s) {
		r.fail(Malformed, "name is not UTF-8")
	}
	return string(s)
}

// valueType reads the type of a value. All are one byte.
func (r *reader) valueType() byte {
	t := r.byte()
	switch t {
	case tI32, tI64, tF32, tF64, tV128, tFuncref, tExternref:
		return t
	}
	r.failType(t)
	return 0
}

func (r *reader) refType() byte {
	t := r.byte()
	switch t {
	case tFuncref, tExternref:
		return t
	}
	r.failType(t)
	return 0
}

func (r *reader) failType(t byte) {
	switch {
	case t == 0x40 || t == 0x63 || t == 0x64:
		r.fail(TypedReferences, "")
	case t == 0x69 || t == 0x74:
		r.fail(Exceptions, "")
	case t >= 0x65 && t <= 0x73:
		r.fail(GC, "")
	default:
		r.fail(Malformed, "not a type")
	}
}

const (
	tI32       = 0x7f
	tI64       = 0x7e
	tF32       = 0x7d
	tF64       = 0x7c
	tV128      = 0x7b
	tFuncref   = 0x70
	tExternref = 0x6f
)

func appendU32[T uint32 | int](b []byte, v T) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte { return append(appendU32(b, len(s)), s...) }
