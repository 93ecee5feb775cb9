package meter

// Injected functions stand after all of the guest's, whose indices are checked
// against the guest's own number.

// maxPassed bounds the parameters that all wrappers pass on, which is what makes
// them large.
const maxPassed = 100_000

// injected tells where things are.
func (m *module) injected() injected {
	return injected{
		fuel:   uint32(m.globals),
		stack:  uint32(m.globals + 1),
		yield:  uint32(m.imported),
		ask:    uint32(len(m.funcTypes) + 1),
		look:   uint32(len(m.funcTypes) + 2),
		void:   uint32(len(m.types) + 2),
		spread: uint32(len(m.types) + 3),
		refs:   uint32(m.tables),
	}
}

// injectedTypes are the types of yield, of ask, of look, and of bulk operations.
var injectedTypes = []byte{
	0x60, 2, tI64, tI64, 1, tI64,
	0x60, 1, tI64, 1, tI64,
	0x60, 0, 0,
	0x60, 3, tI32, tI32, tI32, 0,
}

// inject adds a function and gives its index.
func (m *module) inject(typ uint32, body []byte) uint32 {
	m.extraTypes = append(m.extraTypes, typ)
	m.extra = append(m.extra, body)
	return uint32(len(m.funcTypes) + len(m.extra))
}

// injectAsk adds the first functions, ask and look.
func (m *module) injectAsk() {
	e := &emitter{injected: m.injected()}
	e.out = append(e.out, 0) // no locals
	e.op(opGlobalGet, e.fuel)
	e.op(opGlobalGet, e.stack)
	e.op(opCall, e.yield)
	e.op(opLocalGet, 0)
	e.out = append(e.out, opI64Add)
	e.op(opLocalTee, 0)
	e.op(opGlobalSet, e.fuel)
	e.op(opLocalGet, 0)
	e.out = append(e.out, opEnd)
	m.inject(uint32(len(m.types)+1), e.out)

	e.out = []byte{0}
	e.whileFuel(false, blockEmpty)
	e.out = append(e.out, opElse)
	e.askHost()
	e.out = append(e.out, opEnd, opEnd)
	m.inject(e.void, e.out)
}

// wrapper gives the function that the host calls for the guest's function i: it
// pays for the call, asks the host before anything runs and if it ends with less
// fuel than none, and leaves the stack as it found it. Functions of the host
// stay themselves.
func (m *module) wrapper(r *reader, i uint32) uint32 {
	if int(i) < m.imported {
		return i
	}
	if w, ok := m.wrappers[i]; ok {
		return w
	}
	params := len(m.typeOf(i).Params)
	if m.passed += params; m.passed > maxPassed {
		r.fail(TooManyExports, limitText("parameters of exported functions", uint64(m.passed), maxPassed))
		return 0
	}
	e := &emitter{injected: m.injected(), room: uint32(params)}
	e.out = append(e.out, 1, 1, tI64)
	e.burn(callPays, false)
	e.check()
	e.op(opGlobalGet, e.stack)
	e.op(opLocalSet, e.room)
	for p := range params {
		e.op(opLocalGet, uint32(p))
	}
	e.op(opCall, m.shift(i))
	e.below()
	e.check()
	e.out = append(e.out, opEnd)
	w := m.inject(m.funcTypes[i], e.out)
	m.wrappers[i] = w
	return w
}

// withExtra puts the injected functions into their sections.
func (m *module) withExtra(types, code []byte) (newTypes, newCode []byte) {
	newTypes, newCode = grown(types, len(m.extra)), grown(code, len(m.extra))
	for i, b := range m.extra {
		newTypes = appendU32(newTypes, m.extraTypes[i])
		newCode = append(appendU32(newCode, len(b)), b...)
	}
	return newTypes, newCode
}

// ref gives the item of the injected table that holds a reference to a function.
// Code takes it from there, for the engine allocates a new one whenever it makes
// one, and frees none before the instance.
func (m *module) ref(i uint32) uint32 {
	k, ok := m.refs[i]
	if !ok {
		k = uint32(len(m.listed))
		m.refs[i] = k
		m.listed = append(m.listed, m.shift(i))
	}
	return k
}

// withRefs puts that table and the segment that fills it after the guest's.
func (m *module) withRefs(tables, elements []byte) (newTables, newElements []byte) {
	if tables == nil {
		tables = []byte{0}
	}
	if elements == nil {
		elements = []byte{0}
	}
	n := len(m.listed)
	newTables = appendU32(appendU32(append(grown(tables, 1), tFuncref, 1), n), n)
	newElements = appendU32(append(grown(elements, 1), 2), m.tables)
	newElements = appendU32(append(newElements, opI32Const, 0, opEnd, 0), n)
	for _, i := range m.listed {
		newElements = appendU32(newElements, i)
	}
	return newTables, newElements
}

// grown is a section with a count that is larger by so many, for them to follow.
func grown(b []byte, more int) []byte {
	r := &reader{b: b, fn: -1}
	n := r.u32() // which was read before
	return append(appendU32(nil, int(n)+more), b[r.i:]...)
}
