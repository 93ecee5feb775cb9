package meter

import "strings"

// module is a module on its way through. Counts are of the original, and every
// index that the guest wrote is checked against them.
type module struct {
	limits   Limits
	sections [secTag]section
	out      Module

	types     []FuncType
	funcTypes []uint32 // type of each function, imported ones first
	imported  int      // functions imported; the injected import gets this index
	tables    int
	globals   int // the injected globals get this index and the next
	elements  int
	data      int
	segments  []uint32 // sizes of the data segments
	hostRefs  bool     // a table may hold an imported function

	extra      [][]byte // injected functions, and their types
	extraTypes []uint32
	wrappers   map[uint32]uint32 // guest's function -> its wrapper
	declared   map[uint32]bool   // functions that code may have references to
	refs       map[uint32]uint32 // those that it has references to -> their item of the injected table
	listed     []uint32          // the items
	helpers    map[helperKey]uint32
	passed     int // parameters that wrappers pass on

	allLocals int
	work      int64 // see Limits.Work
	fans      int64 // see Limits.Fans
	blocks    int64 // sum of squares, see Limits.Blocks
	body      body
}

// rewrite reads the sections in their order, since each is checked with the
// ones before it, and writes them.
func (m *module) rewrite() (*Module, error) {
	var s [secTag][]byte // what is written for each section
	// Segments are counted first: code names them and stands before the data.
	for _, step := range []struct {
		id  byte
		run func(*reader) []byte
	}{
		{secType, m.typeSection},
		{secImport, m.importSection},
		{secFunction, m.functionSection},
		{secTable, m.tableSection},
		{secMemory, m.memorySection},
		{secGlobal, m.globalSection},
		{secExport, m.exportSection},
		{secStart, m.startSection},
		{secElement, m.elementSection},
		{secDataCount, m.dataCountSection},
		{secData, m.dataSection},
		{secCode, m.codeSection},
	} {
		if step.id == secStart || step.id == secDataCount {
			if !m.sections[step.id].ok {
				continue
			}
		}
		r := m.sections[step.id].reader()
		b := step.run(r)
		if err := r.done(); err != nil {
			return nil, err
		}
		s[step.id] = b
	}
	if len(m.extra) > 0 {
		s[secFunction], s[secCode] = m.withExtra(s[secFunction], s[secCode])
	}
	if len(m.listed) > 0 {
		s[secTable], s[secElement] = m.withRefs(s[secTable], s[secElement])
	}
	size := 8
	for _, b := range s {
		size += len(b) + 6
	}
	out := append(make([]byte, 0, size), "\x00asm\x01\x00\x00\x00"...)
	for _, id := range order {
		if s[id] != nil {
			out = appendU32(append(out, id), len(s[id]))
			out = append(out, s[id]...)
		}
	}
	if len(out) > 2*m.limits.Module {
		return nil, &Error{Reason: ModuleTooLarge, Func: -1, Detail: limitText("bytes after rewriting", uint64(len(out)), 2*m.limits.Module)}
	}
	m.out.Wasm = out
	return &m.out, nil
}

// shift gives the index of a function after the injected import.
func (m *module) shift(i uint32) uint32 {
	if int(i) >= m.imported {
		return i + 1
	}
	return i
}

// declare notes a function that a reference may be to.
func (m *module) declare(i uint32) {
	m.declared[i] = true
	m.hostRefs = m.hostRefs || int(i) < m.imported
}

func (m *module) typeOf(fn uint32) FuncType { return m.types[m.funcTypes[fn]] }

func (m *module) typeSection(r *reader) []byte {
	n := r.count(m.limits.Types, TooManyTypes, 3)
	start := r.i
	m.types = make([]FuncType, 0, n)
	for range n {
		switch form := r.byte(); form {
		case 0x60:
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			r.fail(GC, "type is not a function")
		default:
			r.fail(Malformed, "type is not a function")
		}
		values := func() []byte {
			k := r.count(m.limits.Params, TooManyParams, 1)
			at := r.i
			for range k {
				r.valueType()
			}
			if r.err != nil {
				return nil
			}
			return r.b[at:r.i:r.i]
		}
		t := FuncType{Params: values(), Results: values()}
		if r.err != nil {
			return nil
		}
		// Copied, so that the caller's bytes are not kept.
		t.Params, t.Results = append([]byte(nil), t.Params...), append([]byte(nil), t.Results...)
		m.types = append(m.types, t)
	}
	b := append(appendU32(nil, n+4), r.b[start:r.i]...)
	return append(b, injectedTypes...)
}

func (m *module) importSection(r *reader) []byte {
	n := r.count(m.limits.Imports, TooManyImports, 4)
	start := r.i
	for range n {
		im := Import{Module: r.name(), Name: r.name()}
		switch r.byte() {
		case 0:
		case 1:
			r.fail(ImportedTable, "")
		case 2:
			r.fail(ImportedMemory, "")
		case 3:
			r.fail(ImportedGlobal, "")
		case 4:
			r.fail(Exceptions, "imported tag")
		default:
			r.fail(Malformed, "unknown kind of import")
		}
		if im.Module == ImportModule {
			r.fail(ReservedName, "imports from "+ImportModule)
		}
		t := r.index(len(m.types))
		if r.err != nil {
			return nil
		}
		im.Type = m.types[t]
		m.out.Imports = append(m.out.Imports, im)
		m.funcTypes = append(m.funcTypes, t)
	}
	m.imported = n
	b := append(appendU32(nil, n+1), r.b[start:r.i]...)
	b = appendName(appendName(b, ImportModule), YieldFunc)
	return appendU32(append(b, 0), len(m.types))
}

func (m *module) functionSection(r *reader) []byte {
	n := r.count(m.limits.Functions-m.imported, TooManyFunctions, 1)
	for range n {
		m.funcTypes = append(m.funcTypes, r.index(len(m.types)))
	}
	return m.same(r)
}

// same gives a section back as it was, or nothing if it was not there.
func (m *module) same(r *reader) []byte {
	if r.err != nil || r.base == 0 {
		return nil
	}
	return r.b
}

func (m *module) tableSection(r *reader) []byte {
	n := r.count(m.limits.Tables, TooManyTables, 3)
	type table struct {
		elem     byte
		min, max uint32
	}
	ts := make([]table, 0, n)
	room := m.limits.TableItems
	for range n {
		t := table{elem: r.refType(), max: 1<<32 - 1}
		switch flags := r.byte(); flags {
		case 0:
			t.min = r.u32()
		case 1:
			t.min, t.max = r.u32(), r.u32()
		case 2, 3:
			r.fail(Threads, "shared table")
		case 4, 5, 6, 7:
			r.fail(Memory64, "64-bit table")
		default:
			r.fail(Malformed, "limits of a table")
		}
		if t.min > t.max {
			r.fail(Malformed, "table has a minimum over its maximum")
		}
		if uint64(t.min) > uint64(room) {
			r.fail(TableTooLarge, limitText("items", uint64(t.min), room))
		}
		if r.err != nil {
			return nil
		}
		room -= int(t.min)
		ts = append(ts, t)
	}
	m.tables = n
	b := appendU32(nil, n)
	for _, t := range ts {
		// What the minima leave is shared out evenly.
		t.max = min(t.max, t.min+uint32(room/n))
		b = appendU32(appendU32(append(b, t.elem, 1), t.min), t.max)
	}
	if n == 0 {
		return m.same(r)
	}
	return b
}

func (m *module) memorySection(r *reader) []byte {
	n := r.u32()
	if n > 1 {
		r.fail(MultiMemory, "")
	}
	if n == 0 {
		return m.same(r)
	}
	lo, hi := uint32(0), uint32(maxPages)
	switch flags := r.byte(); flags {
	case 0:
		lo = r.u32()
	case 1:
		lo, hi = r.u32(), r.u32()
	case 2, 3:
		r.fail(SharedMemory, "")
	case 4, 5, 6, 7:
		r.fail(Memory64, "")
	default:
		r.fail(Malformed, "limits of a memory")
	}
	if lo > maxPages || hi > maxPages {
		r.fail(MemoryTooLarge, limitText("pages", uint64(max(lo, hi)), maxPages))
	}
	if lo > hi {
		r.fail(Malformed, "memory has a minimum over its maximum")
	}
	m.out.HasMemory, m.out.MemoryMin, m.out.MemoryMax = true, lo, hi
	return m.same(r)
}

func (m *module) globalSection(r *reader) []byte {
	n := r.count(m.limits.Globals, TooManyGlobals, 4)
	m.globals = n
	b := appendU32(nil, n+2)
	for range n {
		at := r.i
		r.valueType()
		if r.byte() > 1 {
			r.fail(Malformed, "mutability of a global")
		}
		if r.err != nil {
			return nil
		}
		b = append(b, r.b[at:r.i]...)
		b = m.constExpr(r, b)
	}
	if len(m.funcTypes) > m.imported {
		m.injectAsk()
	}
	b = append(b, tI64, 1, opI64Const, 0, opEnd) // no fuel: the host is asked first
	b = append(b, tI64, 1, opI64Const)
	return append(appendS64(b, m.limits.Stack), opEnd)
}

// constExpr copies a constant expression: one instruction and end. Functions
// are renumbered.
func (m *module) constExpr(r *reader, b []byte) []byte {
	at := r.i
	switch op := r.byte(); op {
	case opI32Const:
		r.skipSigned(5)
	case opI64Const:
		r.skipSigned(10)
	case opF32Const:
		r.bytes(4)
	case opF64Const:
		r.bytes(8)
	case opGlobalGet:
		r.index(m.globals)
	case opRefNull:
		r.refType()
	case opRefFunc:
		i := r.index(len(m.funcTypes))
		if r.err == nil && r.byte() == opEnd {
			m.declare(i)
			return append(appendU32(append(b, opRefFunc), m.shift(i)), opEnd)
		}
		r.fail(ExtendedConst, "")
		return b
	case opVector:
		if r.byte() != vecConst {
			r.fail(Malformed, "constant expression")
		}
		r.bytes(16)
	case 0xfb:
		r.fail(GC, "constant expression")
	default:
		r.fail(Malformed, "constant expression")
	}
	if r.err == nil && r.byte() != opEnd {
		r.i--
		r.fail(ExtendedConst, "")
	}
	if r.err != nil {
		return b
	}
	return append(b, r.b[at:r.i]...)
}

func (m *module) exportSection(r *reader) []byte {
	n := r.count(m.limits.Exports, TooManyExports, 3)
	b := appendU32(nil, n+2)
	seen := make(map[string]bool, n)
	for range n {
		e := Export{Name: r.name(), Kind: Kind(r.byte())}
		if strings.HasPrefix(e.Name, ImportModule) {
			r.fail(ReservedName, "exports a name of "+ImportModule)
		}
		if r.err == nil && seen[e.Name] {
			r.fail(Malformed, "two exports of one name")
		}
		seen[e.Name] = true
		var i uint32
		switch e.Kind {
		case Func:
			i = r.index(len(m.funcTypes))
			if r.err == nil {
				e.Type = m.typeOf(i)
				m.declare(i)
				i = m.wrapper(r, i)
			}
		case Table:
			i = r.index(m.tables)
		case Memory:
			i = r.index(m.memories())
		case Global:
			i = r.index(m.globals)
		case 4:
			r.fail(Exceptions, "exported tag")
		default:
			r.fail(Malformed, "unknown kind of export")
		}
		if r.err != nil {
			return nil
		}
		m.out.Exports = append(m.out.Exports, e)
		b = appendU32(append(appendName(b, e.Name), byte(e.Kind)), i)
	}
	b = appendU32(append(appendName(b, FuelGlobal), byte(Global)), m.globals)
	return appendU32(append(appendName(b, StackGlobal), byte(Global)), m.globals+1)
}

func (m *module) memories() int {
	if m.out.HasMemory {
		return 1
	}
	return 0
}

func (m *module) startSection(r *reader) []byte {
	m.out.HasStart = true
	i := r.index(len(m.funcTypes))
	if r.err != nil {
		return nil
	}
	if t := m.typeOf(i); len(t.Params)+len(t.Results) > 0 {
		r.fail(Malformed, "the start function has parameters or results") // the host may call it instead of the engine
		return nil
	}
	return appendU32(nil, m.wrapper(r, i))
}

// addWork adds what a function costs the engine's compiler beyond its size, and
// refuses it when it or all of them together cost too much.
func (m *module) addWork(r *reader, work, fans, blocks int64) {
	m.work += work
	m.fans += fans
	m.blocks += blocks * blocks
	if most := int64(m.limits.Work); work > most/8 || m.work > most {
		r.fail(TooMuchWork, limitText("joins times locals", uint64(max(m.work, 8*work)), m.limits.Work))
	}
	if most := int64(m.limits.Fans); fans > most/32 || m.fans > most {
		r.fail(TooMuchWork, limitText("squares of branches to one place times locals", uint64(max(m.fans, 32*fans)), m.limits.Fans))
	}
	if most := int64(m.limits.Blocks); blocks > most || m.blocks > 8*most*most {
		r.fail(TooMuchWork, limitText("blocks in a function, or as many in some", uint64(blocks), m.limits.Blocks))
	}
}
