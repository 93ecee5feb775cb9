package meter

// Section identifiers of the binary format.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
	secTag
)

// order is how sections follow each other, which is not by number.
var order = [...]byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart, secElement, secDataCount, secCode, secData}

// A section is the content of one section. An absent one has no bytes.
type section struct {
	b    []byte
	base int
	ok   bool
}

// reader gives a reader of a section that starts with a count; the zero section
// reads as an empty vector.
func (s section) reader() *reader {
	if !s.ok {
		return &reader{b: []byte{0}, fn: -1}
	}
	return &reader{b: s.b, base: s.base, fn: -1}
}

// done fails unless all bytes were read.
func (r *reader) done() *Error {
	if r.err == nil && r.left() != 0 {
		r.fail(Malformed, "section longer than its content")
	}
	return r.err
}

// split cuts a module into its sections, each at most once and in order.
// Custom sections are dropped.
func split(wasm []byte) (s [secTag]section, err error) {
	if len(wasm) < 8 || string(wasm[:4]) != "\x00asm" {
		return s, &Error{Reason: NotWasm, Func: -1}
	}
	switch string(wasm[4:8]) {
	case "\x01\x00\x00\x00":
	case "\x0d\x00\x01\x00":
		return s, &Error{Reason: Component, Func: -1, Offset: 4}
	default:
		return s, &Error{Reason: NotWasm, Func: -1, Offset: 4, Detail: "unknown version"}
	}
	var rank [secTag]int
	for i, id := range order {
		rank[id] = i + 1
	}
	r := &reader{b: wasm, i: 8, fn: -1}
	last := 0
	for r.left() > 0 {
		at := r.i
		id := r.byte()
		b := r.bytes(r.u32())
		switch {
		case r.err != nil:
			return s, r.err
		case id == secCustom:
			c := &reader{b: b, base: r.i - len(b), fn: -1}
			if c.name(); c.err != nil {
				return s, c.err
			}
			continue
		case id == secTag:
			return s, &Error{Reason: Exceptions, Func: -1, Offset: at, Detail: "tag section"}
		case id > secTag:
			return s, &Error{Reason: Malformed, Func: -1, Offset: at, Detail: "unknown section"}
		case rank[id] <= last:
			return s, &Error{Reason: SectionOrder, Func: -1, Offset: at}
		}
		last = rank[id]
		s[id] = section{b: b, base: r.i - len(b), ok: true}
	}
	if r.err != nil {
		return s, r.err
	}
	return s, nil
}
