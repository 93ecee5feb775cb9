// Package state keeps what must hold across calls: limits, pending approvals
// and session labels.
//
// Most callers want [NewLocal], whose contents are nothing but the fold of the
// log's records: see [Local.Apply].
package state

import (
	"context"
	"errors"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// ErrSessionChanged says that the session moved after policy had seen it.
// Decide again.
var ErrSessionChanged = errors.New("session changed")

// Store answers whether a call that policy allows may run now.
//
// Every error but [ErrSessionChanged] means that the store cannot tell, and the
// call is refused.
type Store interface {
	// Session returns what is remembered of the session; an id that was never
	// seen is a session without labels.
	Session(ctx context.Context, id string) (call.Session, error)

	// Admit takes everything that a needs, or nothing. It MUST be idempotent by
	// a.Call, and MUST return an error when it cannot tell.
	Admit(ctx context.Context, a Admission) (Answer, error)

	// Settle says that the record of the call's admission is durable, so Admit
	// will not be asked about it again.
	Settle(callID string)
}

// Admission is what one call needs from the state.
type Admission struct {
	Call    string
	Now     time.Time
	Session string
	Version int64 // of the session that policy saw
	Charges []Charge
	Labels  []string // to add to the session

	// Asks are the approvals that the call needs; empty means none. Bind gives the
	// binding of an approval of this very call that was asked on that day.
	Asks []call.ApprovalRule
	Bind func(day time.Time) (string, error)
}

// Charge takes Cost units from the bucket Key, which holds Burst units and
// refills within Per.
type Charge struct {
	Name  string // for the caller
	Key   string // a keyed digest
	Burst int64  // units, at least 1
	Cost  int64  // units, at least 1
	Per   time.Duration
}

// Answer is what became of an admission. The zero value is not admitted.
type Answer struct {
	Admitted bool
	Limited  *Limited       // not admitted: a limit is used up
	Pending  *call.Approval // not admitted: this approval is asked for

	// Change is what the record of the call MUST carry, admitted or not.
	Change call.Change
}

// Limited says which limit refused a call and when it is worth another try.
type Limited struct {
	Name       string
	Limit      int64 // units in a full bucket
	Remaining  int64 // whole units left now
	RetryAfter time.Duration
}
