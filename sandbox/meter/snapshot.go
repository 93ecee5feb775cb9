package meter

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// StartFunc is the exported name of the guest's start function in [Parts.Wasm].
const StartFunc = ImportModule + "/start"

// Bounds of what is taken apart. What is beyond them stays as it was.
const (
	maxImage   = 64 << 20 // end of the last data segment
	maxMutable = 1_000    // mutable globals
)

// Parts are a rewritten module taken apart, so that a host can make instances of
// it, and make used ones new again, without the engine doing it all each time.
type Parts struct {
	// Wasm is the module without its active data segments, if they are in Data,
	// and without its start section: a start function is exported as StartFunc,
	// for the host to call first.
	Wasm []byte

	// Split tells that Data holds what memory starts with, in order; all of it
	// lies within MemoryMin pages. False means that the data stayed in Wasm,
	// because code names segments, an offset is not a constant, or a segment does
	// not fit, which is a trap that instantiating has to give.
	Split bool
	Data  []Segment

	// HasStart tells that StartFunc is exported.
	HasStart bool

	// Globals are the exported names of all mutable globals, with the injected
	// ones, and nil unless Resets.
	Globals []string

	// Held is about how many bytes of Go's heap an instance takes for its tables,
	// globals and references to functions.
	Held int

	// Resets tells that an instance is as new once memory, which did not grow, and
	// Globals are what they were. Nothing else in it can change.
	Resets bool
}

// Segment is an active data segment. Bytes are shared: read only.
type Segment struct {
	Offset uint32
	Bytes  []byte
}

// note looks for what a reset would miss: tables and dropped segments.
func (m *module) note(op byte, r *reader) {
	switch op {
	case opTableSet:
		m.out.Lasting = true
	case opMisc:
		ahead := *r
		switch ahead.u32() {
		case miscMemoryInit:
			m.out.NamesData = true
		case miscDataDrop:
			m.out.NamesData, m.out.Lasting = true, true
		case miscTableInit, miscElemDrop, miscTableCopy, miscTableGrow, miscTableFill:
			m.out.Lasting = true
		}
	}
}

// Parts takes the module apart. It fails only for a module that is not one of
// Rewrite's.
func (m *Module) Parts() (*Parts, error) {
	s, err := split(m.Wasm)
	if err != nil {
		return nil, fmt.Errorf("taking a module apart: %w", err)
	}
	p := &Parts{HasStart: m.HasStart}
	p.Data, p.Split = m.segments(s[secData])
	if p.Split {
		s[secData], s[secDataCount] = section{}, section{}
	}
	exports, count, injected, err := exported(s[secExport])
	if err != nil {
		return nil, err
	}
	globals, plain, err := mutable(s[secGlobal])
	if err != nil {
		return nil, err
	}
	items, err := tableItems(s[secTable])
	if err != nil {
		return nil, err
	}
	// An item of a segment takes at least a byte, and the engine keeps an object
	// for each function that one names.
	p.Held = 8*items + 48*len(s[secElement].b) + 16*len(globals)
	p.Resets = p.Split && !m.Lasting && plain && len(globals) <= maxMutable
	if p.Resets {
		for _, i := range globals {
			name, ok := injected[i]
			if !ok {
				name = fmt.Sprintf("%s/global/%d", ImportModule, i)
				exports = appendU32(append(appendName(exports, name), byte(Global)), i)
				count++
			}
			p.Globals = append(p.Globals, name)
		}
	}
	if p.HasStart {
		r := s[secStart].reader()
		f := r.u32()
		if err := r.done(); err != nil {
			return nil, fmt.Errorf("taking a module apart: %w", err)
		}
		exports = appendU32(append(appendName(exports, StartFunc), byte(Func)), f)
		count++
		s[secStart] = section{}
	}
	s[secExport].b = append(appendU32(nil, count), exports...)
	p.Wasm = []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range order {
		if s[id].ok {
			p.Wasm = append(appendU32(append(p.Wasm, id), len(s[id].b)), s[id].b...)
		}
	}
	return p, nil
}

// segments reads the data section, and reports whether its content can stand for
// it.
func (m *Module) segments(s section) ([]Segment, bool) {
	if !m.HasMemory || m.NamesData {
		return nil, !s.ok
	}
	r := s.reader()
	size := min(uint64(m.MemoryMin)*PageSize, maxImage)
	var data []Segment
	for range r.u32() {
		flags := r.u32()
		if flags == 1 { // nobody can name it
			r.bytes(r.u32())
			continue
		}
		if flags == 2 {
			r.u32()
		}
		if r.byte() != opI32Const {
			return nil, false
		}
		at := r.signed32()
		if r.byte() != opEnd {
			return nil, false
		}
		b := r.bytes(r.u32())
		if r.err != nil || at < 0 || uint64(at)+uint64(len(b)) > size {
			return nil, false
		}
		if len(b) > 0 {
			data = append(data, Segment{uint32(at), bytes.Clone(b)})
		}
	}
	return data, r.done() == nil
}

// signed32 reads a signed number of 32 bits.
func (r *reader) signed32() int32 {
	var v int32
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= int32(c&0x7f) << shift
		if c < 0x80 {
			if shift < 28 && c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail(Malformed, "number too long")
	return 0
}

// exported gives the export section without its count, and the names of the
// injected globals in it.
func exported(s section) (b []byte, count int, injected map[uint32]string, err error) {
	r := s.reader()
	n := r.u32()
	at := r.i
	injected = map[uint32]string{}
	for range n {
		name, kind, i := r.name(), Kind(r.byte()), r.u32()
		if r.err != nil {
			break
		}
		if kind == Global && strings.HasPrefix(name, ImportModule) {
			injected[i] = name
		}
	}
	if err := r.done(); err != nil {
		return nil, 0, nil, fmt.Errorf("taking a module apart: %w", err)
	}
	return slices.Clone(r.b[at:]), int(n), injected, nil
}

// mutable gives the indices of the mutable globals, and reports whether all are
// of types that a host can read and write as 64 bits.
func mutable(s section) (found []uint32, plain bool, err error) {
	r := s.reader()
	plain = true
	for i := range r.u32() {
		t, changes := r.byte(), r.byte() == 1
		switch r.byte() {
		case opI32Const, opI64Const:
			r.skipSigned(10)
		case opF32Const:
			r.bytes(4)
		case opF64Const:
			r.bytes(8)
		case opGlobalGet, opRefFunc:
			r.u32()
		case opRefNull:
			r.byte()
		case opVector:
			r.u32()
			r.bytes(16)
		default:
			r.fail(Malformed, "constant expression")
		}
		r.byte()
		if r.err != nil {
			break
		}
		if changes {
			found = append(found, i)
			plain = plain && (t == tI32 || t == tI64 || t == tF32 || t == tF64)
		}
	}
	if err := r.done(); err != nil {
		return nil, false, fmt.Errorf("taking a module apart: %w", err)
	}
	return found, plain, nil
}

// tableItems is how many items the tables of a new instance have.
func tableItems(s section) (sum int, err error) {
	r := s.reader()
	for range r.u32() {
		r.byte()
		limits := r.byte()
		sum += int(r.u32())
		if limits&1 != 0 {
			r.u32()
		}
		if r.err != nil {
			break
		}
	}
	if err := r.done(); err != nil {
		return 0, fmt.Errorf("taking a module apart: %w", err)
	}
	return sum, nil
}
