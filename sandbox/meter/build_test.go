package meter_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

var magic = []byte("\x00asm\x01\x00\x00\x00")

func uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func build(sections ...[]byte) []byte { return cat(append([][]byte{magic}, sections...)...) }

func section(id byte, items ...[]byte) []byte {
	return raw(id, cat(uleb(uint64(len(items))), cat(items...)))
}

func raw(id byte, b []byte) []byte { return cat([]byte{id}, uleb(uint64(len(b))), b) }

func str(s string) []byte { return append(uleb(uint64(len(s))), s...) }

// code is a function body without locals, and its end.
func code(b ...byte) []byte { return withLocals([]byte{0}, b...) }

func withLocals(locals []byte, b ...byte) []byte {
	b = slices.Concat(locals, b, []byte{0x0b})
	return append(uleb(uint64(len(b))), b...)
}

// Items that most modules have: the type () -> (), a function of it.
var (
	void   = []byte{0x60, 0, 0}
	types  = section(1, void)
	funcs  = section(3, []byte{0})
	export = section(7, cat(str("_start"), []byte{0, 0}))
)

// one is a module with one function, exported as _start.
func one(body ...byte) []byte { return build(types, funcs, export, section(10, code(body...))) }

const huge = math.MaxUint32
