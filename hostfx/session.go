package hostfx

import (
	"context"
	"time"

	"github.com/callgate/callgate/engine/grant"
)

// Session says whose call it is, for the effects that outlive a call. The zero value is
// nobody's: such a call leaves nothing behind and finds nothing of others.
type Session struct {
	Call    string    // the call's id
	Owner   string    // the principal that the session is bound to, as records name it
	ActsFor []string  // the principals that this one acts for, likewise
	Tool    string    // the tool's name
	ID      string    // the session's id
	Ends    time.Time // when the session does; zero for with the Host
	Plan    Planner   // nil: there is none
}

// OpenFor is [Host.Open] for a call of a session.
func (h *Host) OpenFor(ctx context.Context, g grant.Grant, s Session) (*Effects, error) {
	fx, err := h.begin(ctx, g, s)
	if err != nil {
		return nil, err
	}
	if h != nil && len(fx.caps.Exec) > 0 {
		fx.caller = h.processes.join(s)
	}
	return fx, nil
}
