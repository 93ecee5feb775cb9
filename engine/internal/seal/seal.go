// Package seal mints grants. It is internal to engine, so nothing outside can.
package seal

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// Terms are what a grant says.
type Terms struct {
	Call       string // call id
	Principal  string // principal id
	Tool       string // tool name
	ToolDigest string
	Args       call.Args
	Caps       call.Caps
	Policy     []call.Revision // that decided
	Index      int64           // of the decision record
	Expires    time.Time

	Preconditions []call.Precondition // of whatever the call changes
}

// Grant lets one call of one tool run once. The zero value grants nothing.
type Grant struct{ b *body }

type body struct {
	terms Terms
	spent atomic.Bool
	dead  atomic.Bool
}

// Mint seals t into a grant. Only the engine may call it, after the decision's
// record is durable.
func Mint(t Terms) Grant {
	t.Caps, t.Policy, t.Preconditions = t.Caps.Clone(), slices.Clone(t.Policy), slices.Clone(t.Preconditions)
	return Grant{&body{terms: t}}
}

// Kill ends the grant. Handles opened under it refuse from then on.
func Kill(g Grant) {
	if g.b != nil {
		g.b.dead.Store(true)
	}
}

// Spend uses the grant up at the time now. It reports true once at most, and
// never for a grant that is zero, dead or expired.
func (g Grant) Spend(now time.Time) bool {
	return g.Live() && now.Before(g.b.terms.Expires) && g.b.spent.CompareAndSwap(false, true)
}

// Live reports whether the call that the grant is for is still under way.
func (g Grant) Live() bool { return g.b != nil && !g.b.dead.Load() }

// Caps returns a copy of the capabilities; none once the grant is dead.
func (g Grant) Caps() call.Caps {
	if !g.Live() {
		return call.Caps{}
	}
	return g.b.terms.Caps.Clone()
}

// Is reports whether the grant is for this tool, by digest, with exactly these
// arguments.
func (g Grant) Is(toolDigest string, args call.Args) bool {
	return g.Live() && !args.IsZero() && g.b.terms.ToolDigest == toolDigest && g.b.terms.Args == args
}

// CallID is the id of the call, "" for the zero grant.
func (g Grant) CallID() string { return g.terms().Call }

// Principal is the id of who asked.
func (g Grant) Principal() string { return g.terms().Principal }

// Tool is the tool's name.
func (g Grant) Tool() string { return g.terms().Tool }

// Policy names the bundles that decided.
func (g Grant) Policy() []call.Revision { return slices.Clone(g.terms().Policy) }

// Preconditions are what must be as it was, or the call may change nothing.
func (g Grant) Preconditions() []call.Precondition { return slices.Clone(g.terms().Preconditions) }

// Index is the place of the decision record in the log.
func (g Grant) Index() int64 { return g.terms().Index }

func (g Grant) terms() Terms {
	if g.b == nil {
		return Terms{}
	}
	return g.b.terms
}
