// Package meter checks core WebAssembly modules and rewrites them so that a
// host can stop them. Every module passes [Rewrite] before the engine sees it.
//
// The engine (wazero) cannot be relied on to stop a guest: its own option looks
// at loops only and costs a factor of ten, native code without a way back into
// Go holds up the garbage collector and with it the whole process, and a few
// bytes of module can make it allocate gigabytes or compile for minutes. So
// the module itself is changed. The rewritten one
//
//   - burns fuel at each function entry and loop header, one unit for an
//     instruction, and for bulk operations by their size before they run;
//   - counts the stack that its calls use;
//   - calls the host, through one injected import, when either is used up.
//
// # The host's side
//
// The host links [YieldFunc] of [ImportModule], a function (fuel i64, stack i64)
// -> i64. Negative stack: the guest recursed too deep, and the host MUST NOT
// return. Otherwise fuel is negative: the host looks at its clock and its
// budget and either does not return, or returns the fuel for the next slice.
// [Account] does that arithmetic. Fuel starts at zero, so that the host is
// asked before the first instruction, be it in a start function.
//
// The fuel that is left is in the exported global [FuelGlobal]. The same module
// with the same inputs and the same [Limits] burns the same fuel, always.
//
// After a trap or a stop [StackGlobal] is not what it was; do not call into
// that instance again.
//
// # What it does not do
//
// Types are the engine's to check: a module that Rewrite accepts may still be
// refused by the compiler. What Rewrite does promise is that no index in the
// module names anything injected, and that both read the same instructions.
// Compile time is bounded only roughly, by [Limits]; compile what is not
// trusted in a process that can be killed. The stack is weighed, not measured:
// a function built for it can make the engine's own stack overflow come first,
// which is a trap like any other.
package meter

// Names of what is injected. A guest that imports from ImportModule, or exports
// a name that begins with it, is refused.
const (
	ImportModule = "callgate:meter"
	YieldFunc    = "yield"
	FuelGlobal   = ImportModule + "/fuel"  // mutable i64: fuel left in this slice
	StackGlobal  = ImportModule + "/stack" // mutable i64: weighed bytes of stack left
)

// PageSize is the size of a page of memory in bytes; maxPages is what 32 bits
// can address.
const (
	PageSize = 1 << 16
	maxPages = 1 << 16
)

// Kind says what an import or an export is.
type Kind uint8

// The kinds, numbered as in the binary format.
const (
	Func Kind = iota
	Table
	Memory
	Global
)

func (k Kind) String() string {
	switch k {
	case Func:
		return "func"
	case Table:
		return "table"
	case Memory:
		return "memory"
	case Global:
		return "global"
	default:
		return "unknown"
	}
}

// FuncType is the type of a function. Values are the bytes of the binary
// format: 0x7f i32, 0x7e i64, 0x7d f32, 0x7c f64, 0x7b v128, 0x70 funcref,
// 0x6f externref, as in wazero's api.ValueType. The slices are shared: read only.
type FuncType struct {
	Params, Results []byte
}

// Import is something that the guest wants from the host. Only functions can
// be imported.
type Import struct {
	Module, Name string
	Type         FuncType
}

// Export is something that the guest offers. Type is set for functions only.
type Export struct {
	Name string
	Kind Kind
	Type FuncType
}

// Module is a rewritten module, and what a host wants to know of it before
// instantiating it. Imports and Exports are the guest's own, in its order,
// without the injected ones.
type Module struct {
	Wasm    []byte
	Imports []Import
	Exports []Export

	// HasMemory tells that there is a memory. MemoryMin and MemoryMax are its
	// bounds in pages; without a declared maximum, MemoryMax is 65,536.
	HasMemory            bool
	MemoryMin, MemoryMax uint32

	// HasStart tells that instantiating runs a function of the guest.
	HasStart bool
}

// Rewrite checks a module against l and returns it with metering injected. It
// takes time and memory linear in len(wasm), and does not keep wasm. An error is
// always an [*Error].
func Rewrite(wasm []byte, l Limits) (*Module, error) {
	l = l.withDefaults()
	if len(wasm) > l.Module {
		return nil, &Error{Reason: ModuleTooLarge, Func: -1, Detail: limitText("bytes", uint64(len(wasm)), l.Module)}
	}
	s, err := split(wasm)
	if err != nil {
		return nil, err
	}
	m := &module{limits: l, sections: s}
	return m.rewrite()
}
