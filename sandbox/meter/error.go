package meter

import "fmt"

// Reason is a short word for why a module was refused.
type Reason string

// The reasons. The first group means that the module is broken, the second that
// it was built for features that are off, the third that it is over a limit.
const (
	NotWasm      Reason = "not-wasm"
	Malformed    Reason = "malformed"
	SectionOrder Reason = "section-order"
	BadIndex     Reason = "index-out-of-range"
	ReservedName Reason = "reserved-name" // imports from, or exports as, what is injected

	Component       Reason = "component" // a component, not a core module
	ImportedMemory  Reason = "imported-memory"
	ImportedTable   Reason = "imported-table"
	ImportedGlobal  Reason = "imported-global"
	SharedMemory    Reason = "shared-memory"
	Memory64        Reason = "memory64"
	MultiMemory     Reason = "multi-memory"
	Threads         Reason = "threads"
	Exceptions      Reason = "exceptions"
	TailCall        Reason = "tail-call"
	ExtendedConst   Reason = "extended-const"
	TypedReferences Reason = "typed-references"
	GC              Reason = "gc"
	RelaxedSIMD     Reason = "relaxed-simd"
	UnknownOpcode   Reason = "unknown-opcode"

	ModuleTooLarge      Reason = "module-too-large"
	TooManyTypes        Reason = "too-many-types"
	TooManyParams       Reason = "too-many-params"
	TooManyImports      Reason = "too-many-imports"
	TooManyExports      Reason = "too-many-exports"
	TooManyFunctions    Reason = "too-many-functions"
	TooManyGlobals      Reason = "too-many-globals"
	TooManyData         Reason = "too-many-data-segments"
	TooManyElements     Reason = "too-many-element-segments"
	TooManyElementItems Reason = "too-many-element-items"
	TooManyTables       Reason = "too-many-tables"
	TableTooLarge       Reason = "table-too-large"
	MemoryTooLarge      Reason = "memory-too-large"
	BodyTooLarge        Reason = "function-too-large"
	TooManyLocals       Reason = "too-many-locals"
	NestingTooDeep      Reason = "nesting-too-deep"
	LoopsTooDeep        Reason = "loops-too-deep"
	BrTableTooLarge     Reason = "br-table-too-large"
	TooMuchWork         Reason = "too-much-to-compile"
)

// Error says why and where a module was refused. It quotes nothing of the
// module but numbers.
type Error struct {
	Reason Reason
	Func   int // index of the function, counted with imports; -1 if it is not in one
	Offset int // in the module
	Detail string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("wasm module: %s at offset %d", e.Reason, e.Offset)
	if e.Func >= 0 {
		s = fmt.Sprintf("wasm module: %s in function %d at offset %d", e.Reason, e.Func, e.Offset)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func limitText(what string, n uint64, limit int) string {
	return fmt.Sprintf("%d %s, limit %d", n, what, limit)
}
