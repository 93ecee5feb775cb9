package meter

import "errors"

// Why a run was stopped.
var (
	ErrFuel  = errors.New("out of fuel")
	ErrStack = errors.New("recursed too deep")
)

// DefaultSlice is the fuel between two calls of the host: a tenth of a millisecond
// in tight loops, which is rare enough that the calls cost less than a hundredth,
// and some thirty in one that touches a page of memory for the first time in
// every eight instructions.
const DefaultSlice = 1 << 18

// An Account keeps the fuel of one run. Give its Yield to the injected import.
// Not for concurrent use. The zero value has no budget and stops the guest at once.
//
// Slices end at multiples of Slice, whenever the host is asked. So the guest is
// interrupted at the same places whether it did its first part here or started
// from a snapshot with the fuel of that part owed, and what [FuelGlobal] says
// after a trap is the same too.
type Account struct {
	Budget int64 // the fuel that the run may use; a run that uses exactly this ends well
	Slice  int64 // zero means DefaultSlice

	given int64
}

// Yield answers one call of the injected import: the fuel for the rest of the
// slice, or ErrFuel or ErrStack, after which the host must not return to the
// guest. Fuel may be left, in the midst of an operation that takes long.
func (a *Account) Yield(fuel, stack int64) (int64, error) {
	if stack < 0 {
		return 0, ErrStack
	}
	used := a.Used(fuel)
	if used > a.Budget {
		return 0, ErrFuel
	}
	slice := a.Slice
	if slice <= 0 {
		slice = DefaultSlice
	}
	next := min(slice-used%slice, a.Budget-used)
	a.given = used + next
	return next, nil
}

// Used is the fuel used so far, given what is left of the slice: the value of
// [FuelGlobal].
func (a *Account) Used(fuel int64) int64 { return a.given - fuel }
