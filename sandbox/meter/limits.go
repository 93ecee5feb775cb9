package meter

import "math"

// Limits bound what a module may hold. A zero field means the default that
// stands beside it. They keep a small module from costing much to decode,
// compile or instantiate; a grant's bounds (memory, fuel, time) come on top.
// Negative fields refuse everything of that kind.
//
// The defaults are chosen so that what C, AssemblyScript, QuickJS and Go
// toolchains write passes with room: the largest function body seen is 43,718
// bytes (QuickJS) and 29,238 (Go), with at most 46 locals.
type Limits struct {
	// Module is the size of a module in bytes: 32 MiB. A rewritten module may
	// be twice as large.
	Module int

	Types     int // function types: 10,000
	Params    int // parameters, and results, of one type: 1,000, as in the JavaScript API
	Imports   int // 10,000
	Exports   int // 10,000
	Functions int // with imported ones: 100,000, which compile in about a second if empty
	Globals   int // 10,000
	Data      int // data segments: 100,000; a Go program has 36,000
	Elements  int // element segments: 10,000

	// ElementItems is the number of items in all element segments: 1<<17. The engine
	// makes an object for each whenever it makes an instance, in which nothing stops
	// it; as many take some 20 ms and 6 MiB. A Go program has one for each function.
	ElementItems int

	// Tables is the number of tables: 16.
	Tables int
	// TableItems bounds all tables together, 8 bytes of host memory each:
	// 1<<20. Declared maxima are lowered to keep to it, so table.grow gives -1
	// there, and table.grow to 2^31, which kills a process, never happens.
	TableItems int

	// Body is the size of one function body in bytes: 128 KiB. A rewritten body may
	// be twice as large.
	Body int
	// Locals is the number of locals of one function: 50,000, as in the
	// JavaScript API. The engine allocates them when it decodes.
	Locals int
	// AllLocals bounds the locals of all functions together, since a few bytes
	// of each declare 50,000: 5,000,000.
	AllLocals int
	// Work bounds what the engine's compiler does beyond reading code: at every
	// block, arm and target of a table it settles every local. The sum of those
	// times locals is at most 8,000,000 over all functions, and an eighth of that in
	// one, which compiles in 2 s. A Go program of 3.3 MB comes to 1,200,000, and its
	// largest function to 17,000; without this limit one function of 128 KiB with
	// 5,000 locals takes minutes and gigabytes.
	Work int
	// Fans bounds what the compiler does where many branches lead to one place: for
	// each local it looks at every branch, and again for every one that differs. The
	// sum of the squares of branches to a place, times locals, is at most 512,000,000
	// over all functions, and a thirty-second of that in one. The Go program comes to
	// 13,000,000, its largest function to 1,000,000; 9 KB with 1,000 branches over
	// 1,000 locals come to 1,000,000,000 and take 14 s.
	Fans int
	// Blocks is the number of pieces that branches cut a function into: 12,000,
	// which compile in 0.8 s. The time grows with the square, so the sum of the squares
	// is at most eight times that over all functions. The largest function of a Go
	// program of 16 MB has 3,445, and all of it comes to a quarter of the sum.
	Blocks int
	// Nesting is the depth of blocks in a function: 1,000. Go's compiler nests
	// a block for every resume point of a function.
	Nesting int
	// Loops is the depth of loops within loops: 256, which compile in 0.4 s;
	// the time grows with the square.
	Loops int
	// BrTable is the number of targets of one br_table: 16,384, which compile
	// in 0.2 s; 100,000 take 8 s.
	BrTable int

	// Stack bounds the calls that are active at a time, in weighed bytes: 16
	// MiB. A frame weighs at least 64 and more with its locals, the values it
	// passes and its code (see body.weight), which is about what the engine
	// uses for it in ordinary code and at least a quarter in hostile code. The
	// engine's own end is at 84 MB. Small C functions reach a depth of 100,000.
	Stack int64
}

// withDefaults fills in the zero fields.
func (l Limits) withDefaults() Limits {
	set := func(p *int, def int) {
		switch {
		case *p == 0:
			*p = def
		case *p < 0:
			*p = 0
		default:
			// Counts are 32 bits in the format, and sums of two must not wrap.
			*p = min(*p, math.MaxInt32)
		}
	}
	set(&l.Module, 32<<20)
	set(&l.Types, 10_000)
	set(&l.Params, 1_000)
	set(&l.Imports, 10_000)
	set(&l.Exports, 10_000)
	set(&l.Functions, 100_000)
	set(&l.Globals, 10_000)
	set(&l.Data, 100_000)
	set(&l.Elements, 10_000)
	set(&l.ElementItems, 1<<17)
	set(&l.Tables, 16)
	set(&l.TableItems, 1<<20)
	set(&l.Body, 128<<10)
	set(&l.Locals, 50_000)
	set(&l.AllLocals, 5_000_000)
	set(&l.Work, 8_000_000)
	set(&l.Fans, 512_000_000)
	set(&l.Blocks, 12_000)
	set(&l.Nesting, 1_000)
	set(&l.Loops, 256)
	set(&l.BrTable, 16_384)
	switch {
	case l.Stack == 0:
		l.Stack = 16 << 20
	case l.Stack < 0:
		l.Stack = 0
	}
	return l
}
