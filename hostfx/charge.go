package hostfx

import (
	"errors"
	"maps"
	"math"
	"sync"

	"github.com/callgate/callgate/engine/call"
)

// maxCharges is how many names one call may charge.
const maxCharges = 64

// charges are what the tool says that it used, by name.
type charges struct {
	mu   sync.Mutex // protects the fields below
	used map[string]int64
}

// Charge says that the call used so many units more of what policies count by that
// name: tokens, money, rows. A limit with that charge has taken its cost already; when
// the tool has ended by itself, what it did not use of that is given back. Of what it
// never says anything, not even that it used 0, nothing is given back.
//
// # Errors
//
// [ErrClosed]; or an error for negative units, a name that the engine measures itself
// or bounds (output_bytes, fuel and the like), one that is empty or too long, and the
// 65th name. That changes nothing.
func (fx *Effects) Charge(name string, units int64) error {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return err
	}
	if units < 0 {
		return errors.New("a charge of less than nothing")
	}
	if name == "" || len(name) > 64 || call.Measured(name) || call.Unmeasured(name) {
		return errors.New("not a charge that tools report")
	}
	c := &fx.charges
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == nil {
		c.used = map[string]int64{}
	}
	was, ok := c.used[name]
	if !ok && len(c.used) >= maxCharges {
		return errors.New("too many charges in one call")
	}
	c.used[name] = was + min(units, math.MaxInt64-was)
	return nil
}

// Charged returns what the tool said that it used, by name, and the bytes of the bodies
// that it sent and received over HTTP. It is for the engine, once the effects are
// closed.
func (fx *Effects) Charged() (reported map[string]int64, httpBytes int64) {
	fx.charges.mu.Lock()
	defer fx.charges.mu.Unlock()
	return maps.Clone(fx.charges.used), fx.budget.used(fx.caps.Bounds.HTTP())
}

// used is what is gone of the two budgets for bytes, which began with most each.
func (b *budget) used(most int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return (most - b.sends) + (most - b.receipt)
}
