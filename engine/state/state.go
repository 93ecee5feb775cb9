// Package state keeps what must hold across calls: limits, approvals, sessions
// and revocations.
//
// Most callers want [NewLocal], whose contents are nothing but the fold of the
// log's records: see [Local.Apply].
package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// Errors a caller may test for with errors.Is. Any other error means that the
// store cannot tell, and is a refusal.
var (
	// ErrSessionChanged says that the session moved after policy had seen it.
	// Decide again.
	ErrSessionChanged = errors.New("session changed")

	// ErrSessionForeign says that the session was not opened for this principal.
	ErrSessionForeign = errors.New("session belongs to somebody else or was never opened")

	// ErrNoApproval says that there is no such approval, or that it ended.
	ErrNoApproval = errors.New("no such approval is open")

	// ErrMayNotVote says that the voter asked for the call, or satisfies no rule.
	ErrMayNotVote = errors.New("may not vote on this approval")
)

// Store answers whether a call that policy allows may run now.
type Store interface {
	// Session returns what is remembered of the session at that time. An id that
	// was never seen is a session without labels and owner.
	Session(ctx context.Context, id string, now time.Time) (Session, error)

	// Admit takes everything that a needs, or nothing. It MUST be idempotent by
	// a.Call, and MUST return an error when it cannot tell: [ErrSessionChanged],
	// [ErrSessionForeign], or any other for an admission that makes no sense.
	//
	// With a.Peek it MUST answer as it would without, and change nothing: see
	// [Answer].
	Admit(ctx context.Context, a Admission) (Answer, error)

	// Settle says that the record of the call's admission is durable, so Admit
	// will not be asked about it again.
	Settle(callID string)

	// Vote checks a vote and returns what its record MUST carry; the zero Change
	// when it says nothing new. A vote against acts at once. One in favour acts
	// when Apply is called, after its record is durable.
	Vote(ctx context.Context, v call.Vote, now time.Time) (call.Change, error)

	// Revoke acts at once and returns what its record MUST carry. An epoch other
	// than 0 asks for everything: the store puts the next epoch in its place, so
	// that no revocation is one that was made before.
	Revoke(ctx context.Context, r call.Revocation) (call.Change, error)

	// Revoked reports whether the principal with that digest is revoked: they
	// should not vote either.
	Revoked(ctx context.Context, principal string) (bool, error)

	// Apply makes the change of a durable record act. A question is hidden, and
	// nobody can answer it, until that.
	Apply(c call.Change)

	// Approvals lists what is asked for and not over, the oldest first. Approval
	// returns one by id, or ErrNoApproval.
	Approvals(ctx context.Context, now time.Time) ([]Approval, error)
	Approval(ctx context.Context, id string, now time.Time) (Approval, error)

	// Changed is closed when an approval may have changed since it was called.
	Changed() <-chan struct{}
}

// Session is what is remembered between calls.
type Session struct {
	Owner   string // digest of the principal it is bound to, "" when it was never opened
	Labels  []string
	Version int64 // moves when Labels grow
	Calls   int64 // advisory
}

// Admission is what one call needs from the state.
type Admission struct {
	Peek      bool // only tell: nothing is taken, asked or remembered
	Call      string
	Now       time.Time
	Principal string   // digest, as in revocations and sessions
	ActsFor   []string // digests of those for whom the principal asks
	Session   string
	Version   int64 // of the session that policy saw
	Charges   []Charge
	Labels    []string  // to add to the session
	LabelsEnd time.Time // when they leave it again

	// Asks are the approvals that the call needs; empty means none. Bind gives the
	// binding of an approval of this very call that was asked on that UTC day.
	// Whoever asks for the same, but for somebody else, has asked for something else.
	Asks      []call.ApprovalRule
	Bind      func(day time.Time) (string, error)
	Requester call.RecordPrincipal
	Tool      call.RecordTool
	Caps      call.Caps
}

// check refuses what would overdraw a bucket or could never be recorded.
func (a Admission) check() error {
	if a.Call == "" {
		return errors.New("a call without an id")
	}
	for _, c := range a.Charges {
		if c.Burst < 1 || c.Cost < 1 || c.Per < 1 {
			return fmt.Errorf("limit %s: burst, cost and per are not all positive", c.Name)
		}
	}
	if len(a.Labels) > 0 && a.LabelsEnd.UnixNano() <= a.Now.UnixNano() {
		return errors.New("labels that end before they begin")
	}
	if len(a.Asks) > 0 && a.Bind == nil {
		return errors.New("approvals are asked for, yet not bound to anything")
	}
	return nil
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

// Answer is what became of an admission, or would become of it. The zero value is
// not admitted.
type Answer struct {
	Admitted bool
	Limited  *Limited // not admitted: a limit is used up
	Revoked  bool     // not admitted: the principal or the tool is revoked

	// Approval is asked for, or was denied: not admitted. To a peek it is also the
	// one that the call would consume; one without an id is a question that nobody
	// may be told about yet, because it is not asked or its record is not durable.
	Approval *Approval

	// Limits is for peeks: each limit of the call in turn, with what remains in it
	// after the call if it lets the call pass, or else as Limited has it.
	Limits []Limited

	// Change is what the record of the call MUST carry, admitted or not. It is
	// always zero for a peek.
	Change call.Change
}

// Limited says which limit refused a call and when it is worth another try.
type Limited struct {
	Name       string
	Limit      int64         // units in a full bucket
	Remaining  int64         // whole units left now
	RetryAfter time.Duration // the largest there is when it never passes; zero when it does now
}

// Standing is where an approval stands. The zero value is open and permits
// nothing.
type Standing string

// The standings. Only Approved lets the call run, once.
const (
	Open     Standing = "pending"
	Approved Standing = "approved"
	Denied   Standing = "denied"
	Consumed Standing = "consumed"
	Expired  Standing = "expired"
)

// Approval is a question and its answers so far.
type Approval struct {
	call.Approval
	Standing Standing
	Votes    []call.Vote
}
