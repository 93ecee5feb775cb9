// Package meter checks core WebAssembly modules and rewrites them so that a
// host can stop them. Every module passes [Rewrite] before the engine sees it.
//
// The engine (wazero) cannot be relied on to stop a guest: its own option looks
// at loops only and costs a factor of ten, native code without a way back into
// Go holds up the garbage collector and with it the whole process, and a few
// bytes of module can make it allocate gigabytes or compile for minutes. So
// the module itself is changed. The rewritten one
//
//   - burns fuel, one unit for an instruction, 16 for a call, and for bulk
//     operations by their size before they run;
//   - counts the stack that its calls use;
//   - calls the host, through one injected import, when either is used up, and
//     between the chunks of bulk operations that take long.
//
// # The host's side
//
// The host links [YieldFunc] of [ImportModule], a function (fuel i64, stack i64)
// -> i64. Negative stack: the guest recursed too deep, and the host MUST NOT
// return. Otherwise the host looks at its clock and its budget and either does
// not return, or returns the fuel for the next slice. [Account] does that
// arithmetic. Fuel starts at zero, so that the host is asked before the first
// instruction, be it in a start function.
//
// The fuel that is left is in the exported global [FuelGlobal]. The same module
// with the same inputs, the same [Limits] and the same slices burns the same
// fuel, always. Whenever the guest calls a function of the host, or returns to
// it, all that it did is paid for; a call of the host that fuel does not pay for
// does not happen. After a trap the global may lack what a loop burned since
// the host was last asked, less than a slice.
//
// Exported functions put [StackGlobal] back when they return. After a trap or a
// stop it is not what it was; do not call into that instance again.
//
// # How it is done
//
// The code of a function is cut into regions that run at most once each time
// they are entered, and each is charged where it starts. Who looks whether the
// fuel is negative is fewer: loop headers, entries of functions that call others
// or are long, calls of the host, bulk operations, and the ends of exported
// functions. Between two looks there is no loop, so at worst a body's straight
// code and a thousand calls of short functions.
//
// Functions injected after all of the guest's, which it cannot name, ask the
// host, do bulk operations in chunks, and wrap what is exported: the wrapper
// pays for the call, looks, and puts the stack back.
//
// Everything else is for speed, and was measured on what the engine makes of it.
// Globals are memory there, so a loop that calls nothing keeps its fuel in a
// local and puts it back where it is left. Registers are assigned in the order
// of the code, so what is rarely done comes last: a loop becomes
//
//	loop  fuel -= cost  if fuel >= 0  BODY  else  ask for cost more  br loop  end end
//
// in which nothing of the body is ever spilled for the sake of the call. Calls
// pay for the first of their callee's instructions, since two charges one after
// the other wait for the store of the first. A function reads the stack that is
// left once, keeps it in a local, and tells it to whatever it calls.
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

	// NamesData tells that code copies or drops data segments. Lasting tells that
	// it may change what is neither memory nor a global: a table, or a segment that
	// it drops.
	NamesData, Lasting bool
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
	m := &module{limits: l, sections: s, declared: map[uint32]bool{}, refs: map[uint32]uint32{}, wrappers: map[uint32]uint32{}, helpers: map[helperKey]uint32{}}
	return m.rewrite()
}
