package meter_test

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/callgate/callgate/sandbox/meter"
)

func TestRefusesFeatures(t *testing.T) {
	tests := []struct {
		name string
		wasm []byte
		want meter.Reason
	}{
		{"threads", file(t, "threads"), meter.SharedMemory},
		{"exceptions", file(t, "eh"), meter.Exceptions},
		{"tail call", file(t, "tailcall"), meter.TailCall},
		{"extended const", file(t, "extconst"), meter.ExtendedConst},
		{"memory64", file(t, "memory64"), meter.Memory64},
		{"multi memory", file(t, "multimem"), meter.MultiMemory},
		{"table minimum", file(t, "tablemin"), meter.TableTooLarge},
		{"table of 10 million", file(t, "tablefill"), meter.TableTooLarge},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), meter.Component},
		{"empty", nil, meter.NotWasm},
		{"text", []byte("(module)"), meter.NotWasm},
		{"version 2", []byte("\x00asm\x02\x00\x00\x00"), meter.NotWasm},
		{"atomics", one(0xfe, 0x03, 0x00), meter.Threads},
		{"try_table", one(0x1f, 0x40, 0, 0x0b), meter.Exceptions},
		{"throw", one(0x08, 0), meter.Exceptions},
		{"return_call_indirect", one(0x41, 0, 0x13, 0, 0), meter.TailCall},
		{"call_ref", one(0x14, 0), meter.TypedReferences},
		{"ref.as_non_null", one(0xd4), meter.TypedReferences},
		{"gc", one(0xfb, 0), meter.GC},
		{"relaxed simd", one(0xfd, 0x80, 0x02), meter.RelaxedSIMD},
		{"unknown opcode", one(0x27), meter.UnknownOpcode},
		{"unknown bulk opcode", one(0xfc, 18), meter.UnknownOpcode},
		{"rec group", build(section(1, []byte{0x4e, 1, 0x60, 0, 0})), meter.GC},
		{"struct type", build(section(1, []byte{0x5f, 0, 0})), meter.GC},
		{"typed reference parameter", build(section(1, []byte{0x60, 1, 0x64, 0x70, 0})), meter.TypedReferences},
		{"table with initialiser", build(section(4, []byte{0x40, 0, 0x70, 0, 0, 0xd0, 0x70, 0x0b})), meter.TypedReferences},
		{"shared table", build(section(4, []byte{0x70, 3, 0, 1})), meter.Threads},
		{"table64", build(section(4, []byte{0x70, 4, 0})), meter.Memory64},
		{"imported memory", build(section(2, cat(str("m"), str("x"), []byte{2, 0, 1}))), meter.ImportedMemory},
		{"imported table", build(section(2, cat(str("m"), str("x"), []byte{1, 0x70, 0, 1}))), meter.ImportedTable},
		{"imported global", build(section(2, cat(str("m"), str("x"), []byte{3, 0x7f, 0}))), meter.ImportedGlobal},
		{"imported mutable global", build(section(2, cat(str("m"), str("x"), []byte{3, 0x7f, 1}))), meter.ImportedGlobal},
		{"imported tag", build(section(2, cat(str("m"), str("x"), []byte{4, 0, 0}))), meter.Exceptions},
		{"memory index in memarg", one(0x41, 0, 0x28, 0x42, 0, 0, 0x1a), meter.MultiMemory},
		{"memory index in fill", one(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 1), meter.MultiMemory},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := meter.Rewrite(tt.wasm, meter.Limits{})
			if reason(err) != tt.want || m != nil {
				t.Errorf("Rewrite() = %v, %v, want %s", m, err, tt.want)
			}
		})
	}
}

// Whatever the guest writes as an index, it cannot name what is injected: the
// first index past its own is refused everywhere.
func TestRefusesToNameTheInjected(t *testing.T) {
	table := section(4, []byte{0x70, 0, 1})
	global := func(expr ...byte) []byte { return section(6, cat([]byte{0x7e, 0}, expr, []byte{0x0b})) }
	in := func(sections ...[]byte) []byte { return build(append([][]byte{types, funcs}, sections...)...) }
	body := func(b ...byte) []byte { return section(10, code(b...)) }
	end := body()
	tests := []struct {
		name string
		wasm []byte
		want meter.Reason
	}{
		{"global.get of fuel", in(body(0x23, 0, 0x1a)), meter.BadIndex},
		{"global.set of fuel", in(body(0x42, 0, 0x24, 0)), meter.BadIndex},
		{"global.set of stack", in(body(0x42, 0, 0x24, 1)), meter.BadIndex},
		{"global.set after own", in(global(0x42, 0), body(0x42, 0, 0x24, 1)), meter.BadIndex},
		{"padded index", in(body(0x42, 0, 0x24, 0x80, 0x80, 0x80, 0x80, 0)), meter.BadIndex},
		{"global.get in a global", in(global(0x23, 1), end), meter.BadIndex},
		{"global.get in an offset", in(section(5, []byte{0, 1}), end, section(11, []byte{0, 0x23, 0, 0x0b, 0})), meter.BadIndex},
		{"exported fuel", in(section(7, cat(str("f"), []byte{3, 0})), end), meter.BadIndex},
		{"exported stack", in(section(7, cat(str("f"), []byte{3, 1})), end), meter.BadIndex},
		{"call past the last", in(body(0x10, 1)), meter.BadIndex},
		{"ref.func past the last", in(body(0xd2, 1, 0x1a)), meter.BadIndex},
		{"ref.func that nothing declares", in(body(0xd2, 0, 0x1a)), meter.Malformed},
		{"start with parameters", build(section(1, []byte{0x60, 1, 0x7f, 0}), section(3, []byte{0}), raw(8, []byte{0}), end), meter.Malformed},
		{"exported function past the last", in(section(7, cat(str("f"), []byte{0, 1})), end), meter.BadIndex},
		{"element past the last", in(table, section(9, []byte{0, 0x41, 0, 0x0b, 1, 1}), end), meter.BadIndex},
		{"element expression past the last", in(table, section(9, []byte{4, 0x41, 0, 0x0b, 1, 0xd2, 1, 0x0b}), end), meter.BadIndex},
		{"start past the last", in(raw(8, []byte{1}), end), meter.BadIndex},
		{"block of yield's type", in(body(0x02, 1, 0x0b)), meter.BadIndex},
		{"call_indirect of yield's type", in(table, body(0x41, 0, 0x11, 1, 0)), meter.BadIndex},
		{"function of yield's type", build(types, section(3, []byte{1}), end), meter.BadIndex},
		{"import of yield's type", build(types, section(2, cat(str("m"), str("x"), []byte{0, 1}))), meter.BadIndex},
		{"local for sizes", in(section(5, []byte{0, 1}), body(0x41, 0, 0x21, 0, 0x41, 0, 0x40, 0, 0x1a)), meter.BadIndex},
		{"table past the last", in(table, body(0x41, 0, 0x25, 1, 0x1a)), meter.BadIndex},
		{"exported table past the last", in(table, section(7, cat(str("t"), []byte{1, 1})), end), meter.BadIndex},
		{"exported memory that is not there", in(section(7, cat(str("m"), []byte{2, 0})), end), meter.BadIndex},
		{"data segment past the last", in(section(5, []byte{0, 1}), raw(12, []byte{0}), body(0xfc, 9, 0)), meter.BadIndex},
		{"element segment past the last", in(body(0xfc, 13, 0)), meter.BadIndex},
		{"label past the last", in(body(0x0c, 1)), meter.BadIndex},
		{"import of yield", build(types, section(2, cat(str(meter.ImportModule), str(meter.YieldFunc), []byte{0, 0}))), meter.ReservedName},
		{"import from its module", build(types, section(2, cat(str(meter.ImportModule), str("x"), []byte{0, 0}))), meter.ReservedName},
		{"export as fuel", in(section(7, cat(str(meter.FuelGlobal), []byte{0, 0})), end), meter.ReservedName},
		{"export as something like it", in(section(7, cat(str(meter.ImportModule+"!"), []byte{0, 0})), end), meter.ReservedName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := meter.Rewrite(tt.wasm, meter.Limits{}); reason(err) != tt.want {
				t.Errorf("Rewrite() = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestRefusesBrokenModules(t *testing.T) {
	tests := []struct {
		name string
		wasm []byte
		want meter.Reason
	}{
		{"two type sections", build(types, types), meter.SectionOrder},
		{"function before type", build(funcs, types), meter.SectionOrder},
		{"data count after code", build(types, funcs, section(10, code()), raw(12, []byte{0})), meter.SectionOrder},
		{"unknown section", build(raw(14, nil)), meter.Malformed},
		{"section longer than the module", build([]byte{1, 5, 0}), meter.Malformed},
		{"section longer than its content", build(raw(1, []byte{0, 0})), meter.Malformed},
		{"bodies without functions", build(types, section(10, code())), meter.Malformed},
		{"functions without bodies", build(types, funcs), meter.Malformed},
		{"data count differs", build(raw(12, []byte{1})), meter.Malformed},
		{"two exports of one name", build(types, funcs, section(7, cat(str("a"), []byte{0, 0}), cat(str("a"), []byte{0, 0})), section(10, code())), meter.Malformed},
		{"name not UTF-8", build(types, funcs, section(7, []byte{1, 0xff, 0, 0}), section(10, code())), meter.Malformed},
		{"custom section without a name", build(raw(0, nil)), meter.Malformed},
		{"code after the end", one(0x0b), meter.Malformed},
		{"no end", build(types, funcs, section(10, []byte{2, 0, 0x01})), meter.Malformed},
		{"else without if", one(0x05), meter.Malformed},
		{"two elses", one(0x41, 0, 0x04, 0x40, 0x05, 0x05, 0x0b), meter.Malformed},
		{"number of six bytes", one(0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0), meter.Malformed},
		{"number over 32 bits", one(0x10, 0x80, 0x80, 0x80, 0x80, 0x10), meter.Malformed},
		{"block type of two bytes", one(0x02, 0xc0, 0x7f, 0x0b), meter.BadIndex},
		// Index 8,192 if read without a sign, -8,192 with it.
		{"block type that has a sign", build(raw(1, cat(uleb(9000), bytes.Repeat(void, 9000))), funcs, section(10, code(0x02, 0x80, 0x40, 0x0b))), meter.Malformed},
		{"padded vector opcode", one(0xfd, 0x8c, 0x00), meter.Malformed},
		{"padded bulk opcode, unknown", one(0xfc, 0x92, 0x00), meter.UnknownOpcode},
		{"select of two types", one(0x1c, 2, 0x7f, 0x7f), meter.Malformed},
		{"table minimum over maximum", build(section(4, []byte{0x70, 1, 2, 1})), meter.Malformed},
		{"memory minimum over maximum", build(section(5, []byte{1, 2, 1})), meter.Malformed},
		{"memory over 4 GiB", build(section(5, cat([]byte{0}, uleb(65537)))), meter.MemoryTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := meter.Rewrite(tt.wasm, meter.Limits{}); reason(err) != tt.want {
				t.Errorf("Rewrite() = %v, want %s", err, tt.want)
			}
		})
	}
}

// Each limit, at its default and one above where that is cheap to write.
func TestLimits(t *testing.T) {
	nest := func(n int, op byte) []byte {
		return one(slices.Concat(bytes.Repeat([]byte{op, 0x40}, n), bytes.Repeat([]byte{0x0b}, n))...)
	}
	locals := func(n uint64, functions int) []byte {
		b := withLocals(cat([]byte{1}, uleb(n), []byte{0x7f}))
		return build(types, section(3, bytes.Split(make([]byte, functions), nil)...), section(10, slices.Repeat([][]byte{b}, functions)...))
	}
	brTable := func(n int) []byte {
		return one(slices.Concat([]byte{0x41, 0, 0x0e}, uleb(uint64(n)), make([]byte, n+1))...)
	}
	// n times code in a block, over so many locals.
	over := func(locals uint64, n, functions int, code ...byte) []byte {
		b := withLocals(cat([]byte{1}, uleb(locals), []byte{0x7f}), cat([]byte{0x02, 0x40}, bytes.Repeat(code, n), []byte{0x0b})...)
		return build(types, section(3, bytes.Split(make([]byte, functions), nil)...), section(10, slices.Repeat([][]byte{b}, functions)...))
	}
	diamond := []byte{0x20, 0, 0x04, 0x40, 0x05, 0x0b} // if else end
	leave := []byte{0x20, 0, 0x0d, 0}                  // br_if 0
	many := func(id byte, n uint64, item ...byte) []byte {
		return raw(id, cat(uleb(n), bytes.Repeat(item, int(n))))
	}
	imports := func(n int) []byte {
		return build(types, section(2, slices.Repeat([][]byte{cat(str("m"), str("x"), []byte{0, 0})}, n)...))
	}
	exports := func(n int, params int) []byte {
		var names [][]byte
		for i := range n {
			names = append(names, cat(str(strconv.Itoa(i)), []byte{0}, uleb(uint64(i))))
		}
		typ := cat([]byte{0x60}, uleb(uint64(params)), bytes.Repeat([]byte{0x7f}, params), []byte{0})
		return build(section(1, typ), many(3, uint64(n), 0), section(7, names...), many(10, uint64(n), 2, 0, 0x0b))
	}
	elements := func(n uint64) []byte {
		return build(types, funcs, section(9, cat([]byte{1, 0}, uleb(n), make([]byte, n))), section(10, code()))
	}
	padded := func(n int) []byte { // a module of this size
		b := build(raw(0, cat(str("pad"), make([]byte, n-len(magic)-9))))
		return append(b, make([]byte, n-len(b))...)
	}
	functions := func(n uint64) []byte {
		return build(types, many(3, n, 0), many(10, n, 2, 0, 0x0b))
	}
	tests := []struct {
		name string
		wasm []byte
		want meter.Reason // "" passes
	}{
		{"5e8 exports in 21 bytes", build(raw(7, uleb(500_000_000))), meter.TooManyExports},
		{"exports of no bytes", build(raw(7, uleb(9_999))), meter.Malformed},
		{"4e9 names of locals in a section that is dropped", build(types, funcs, section(10, code()),
			raw(0, cat(str("name"), []byte{2, 8, 1, 0}, uleb(huge), []byte{0}))), ""},
		{"4e9 locals in 42 bytes", locals(4_000_000_000, 1), meter.TooManyLocals},
		{"locals", locals(50_000, 1), ""},
		{"one local more", locals(50_001, 1), meter.TooManyLocals},
		{"locals that wrap", build(types, funcs, section(10, withLocals(cat([]byte{2}, uleb(huge), []byte{0x7f}, uleb(2), []byte{0x7f})))), meter.TooManyLocals},
		{"locals of all functions", locals(50_000, 101), meter.TooManyLocals},
		{"arms over few locals", over(64, 3_900, 1, diamond...), ""},
		{"arms over many", over(1_000, 3_900, 1, diamond...), meter.TooMuchWork},
		{"arms in many functions", over(100, 3_300, 14, diamond...), meter.TooMuchWork},
		{"blocks", over(1, 3_999, 1, diamond...), ""},
		{"more blocks", over(1, 4_000, 1, diamond...), meter.TooMuchWork},
		{"blocks in some functions", over(1, 3_999, 8, diamond...), ""},
		{"blocks in more", over(1, 3_999, 9, diamond...), meter.TooMuchWork},
		{"branches to one place", over(200, 200, 1, leave...), ""},
		{"more of them", over(1_000, 1_000, 1, leave...), meter.TooMuchWork},
		{"branches in many functions", over(200, 200, 65, leave...), meter.TooMuchWork},
		{"module", padded(32 << 20), ""},
		{"one byte more of it", padded(32<<20 + 1), meter.ModuleTooLarge},
		{"4e9 types", build(raw(1, uleb(huge))), meter.TooManyTypes},
		{"types", build(many(1, 10_000, void...)), ""},
		{"one type more", build(many(1, 10_001, void...)), meter.TooManyTypes},
		{"most parameters", build(section(1, cat([]byte{0x60}, uleb(1000), bytes.Repeat([]byte{0x7f}, 1000), []byte{0}))), ""},
		{"parameters", build(section(1, cat([]byte{0x60}, uleb(1001), bytes.Repeat([]byte{0x7f}, 1001), []byte{0}))), meter.TooManyParams},
		{"results", build(section(1, cat([]byte{0x60, 0}, uleb(1001), bytes.Repeat([]byte{0x7f}, 1001)))), meter.TooManyParams},
		{"4e9 imports", build(types, raw(2, uleb(huge))), meter.TooManyImports},
		{"imports", imports(10_000), ""},
		{"one import more", imports(10_001), meter.TooManyImports},
		{"exports", exports(10_000, 0), ""},
		{"one export more", exports(10_001, 0), meter.TooManyExports},
		{"exports of functions with many parameters", exports(100, 1_000), ""},
		{"more of those", exports(101, 1_000), meter.TooManyExports},
		{"4e9 functions", build(types, raw(3, uleb(huge))), meter.TooManyFunctions},
		{"4e9 bodies", build(types, raw(10, uleb(huge))), meter.TooManyFunctions},
		{"functions", functions(100_000), ""},
		{"one function more", functions(100_001), meter.TooManyFunctions},
		{"4e9 globals", build(raw(6, uleb(huge))), meter.TooManyGlobals},
		{"one global more", build(many(6, 10_001, 0x7f, 0, 0x41, 0, 0x0b)), meter.TooManyGlobals},
		{"globals", build(many(6, 10_000, 0x7f, 0, 0x41, 0, 0x0b)), ""},
		{"element segments", build(types, many(9, 10_000, 1, 0, 0)), ""},
		{"one segment more", build(types, many(9, 10_001, 1, 0, 0)), meter.TooManyElements},
		{"items of elements", elements(1 << 17), ""},
		{"one of them more", elements(1<<17 + 1), meter.TooManyElementItems},
		{"data segments", build(many(11, 100_000, 1, 0)), ""},
		{"one of those more", build(many(11, 100_001, 1, 0)), meter.TooManyData},
		{"most locals of all functions", locals(50_000, 100), ""},
		{"4e9 element segments", build(raw(9, uleb(huge))), meter.TooManyElements},
		{"4e9 items", build(types, funcs, section(9, cat([]byte{1, 0}, uleb(huge)))), meter.TooManyElementItems},
		{"4e9 data segments", build(raw(11, uleb(huge))), meter.TooManyData},
		{"data segment of 4 GiB", build(section(5, []byte{0, 1}), section(11, cat([]byte{1}, uleb(huge)))), meter.Malformed},
		{"tables", build(many(4, 16, 0x70, 0, 1)), ""},
		{"one table more", build(many(4, 17, 0x70, 0, 1)), meter.TooManyTables},
		{"table", build(section(4, cat([]byte{0x70, 0}, uleb(1<<20)))), ""},
		{"one item more", build(section(4, cat([]byte{0x70, 0}, uleb(1<<20+1)))), meter.TableTooLarge},
		{"one item more in two tables", build(section(4, cat([]byte{0x70, 0}, uleb(1<<20)), []byte{0x70, 0, 1})), meter.TableTooLarge},
		{"body", one(bytes.Repeat([]byte{1}, 128<<10-2)...), ""},
		{"one byte more", one(bytes.Repeat([]byte{1}, 128<<10-1)...), meter.BodyTooLarge},
		{"body that grows", one(bytes.Repeat([]byte{0x10, 0}, 50_000)...), meter.BodyTooLarge},
		{"nesting", nest(1000, 0x02), ""},
		{"one block more", nest(1001, 0x02), meter.NestingTooDeep},
		{"loops", nest(256, 0x03), ""},
		{"one loop more", nest(257, 0x03), meter.LoopsTooDeep},
		{"5,000 loops in each other", nest(5_000, 0x03), meter.LoopsTooDeep},
		{"40,000 blocks in each other", nest(40_000, 0x02), meter.NestingTooDeep},
		{"20,000 ifs in a row", one(bytes.Repeat([]byte{0x41, 0, 0x04, 0x40, 0x0b}, 20_000)...), meter.TooMuchWork},
		{"10,000 loops in a row", one(bytes.Repeat([]byte{0x03, 0x40, 0x0b}, 10_000)...), meter.TooMuchWork},
		{"br_table", brTable(16_384), ""},
		{"one target more", brTable(16_385), meter.BrTableTooLarge},
		{"br_table of 4e9", one(slices.Concat([]byte{0x41, 0, 0x0e}, uleb(huge))...), meter.BrTableTooLarge},
	}
	slow := []string{"functions", "blocks in some functions", "most locals of all functions"} // seconds
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := meter.Rewrite(tt.wasm, meter.Limits{})
			if reason(err) != tt.want || (err == nil) != (tt.want == "") {
				t.Fatalf("Rewrite() = %v, want %q", err, tt.want)
			}
			if m != nil && !slices.Contains(slow, tt.name) && !raceEnabled {
				h := newHost(t, 0)
				if _, err := h.CompileModule(t.Context(), m.Wasm); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestLimitsOfAnOperator(t *testing.T) {
	loop := file(t, "inf")
	tests := []struct {
		name string
		give meter.Limits
		want meter.Reason
	}{
		{"module", meter.Limits{Module: 10}, meter.ModuleTooLarge},
		{"no types", meter.Limits{Types: -1}, meter.TooManyTypes},
		{"no functions", meter.Limits{Functions: -1}, meter.TooManyFunctions},
		{"body", meter.Limits{Body: 3}, meter.BodyTooLarge},
		{"no loops", meter.Limits{Loops: -1}, meter.LoopsTooDeep},
		{"no blocks", meter.Limits{Nesting: -1}, meter.NestingTooDeep},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := meter.Rewrite(loop, tt.give); reason(err) != tt.want {
				t.Errorf("Rewrite() = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestErrorSaysWhere(t *testing.T) {
	_, err := meter.Rewrite(file(t, "tailcall"), meter.Limits{})
	var e *meter.Error
	if !errors.As(err, &e) {
		t.Fatalf("Rewrite() = %v, want an *Error", err)
	}
	if wasm := file(t, "tailcall"); e.Func != 0 || wasm[e.Offset] != 0x12 {
		t.Errorf("error is at function %d, offset %d, which is not the instruction", e.Func, e.Offset)
	}
	if want := "wasm module: tail-call in function 0 at offset 36"; err.Error() != want {
		t.Errorf("Error() = %q, want %q", err, want)
	}
}
