package meter

import "errors"

// Why a run was stopped.
var (
	ErrFuel  = errors.New("out of fuel")
	ErrStack = errors.New("recursed too deep")
)

// DefaultSlice is the fuel between two calls of the host: a few milliseconds
// at most, as little as one in tight loops, and so rare that the calls cost
// nothing.
const DefaultSlice = 1 << 20

// An Account keeps the fuel of one run. Give its Yield to the injected import.
// Not for concurrent use. The zero value has no budget and stops the guest at once.
type Account struct {
	Budget int64 // the fuel that the run may use; a run that uses exactly this ends well
	Slice  int64 // the most to give at a time; zero means DefaultSlice

	given int64
}

// Yield answers one call of the injected import: the fuel for the next slice,
// or ErrFuel or ErrStack, after which the host must not return to the guest.
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
	next := min(slice, a.Budget-used)
	a.given = used + next
	return next, nil
}

// Used is the fuel used so far, given what is left of the slice: the value of
// [FuelGlobal].
func (a *Account) Used(fuel int64) int64 { return a.given - fuel }
