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
	"github.com/callgate/callgate/engine/state/internal/question"
)

// Errors a caller may test for with errors.Is. Any other error means that the
// store cannot tell, and is a refusal.
var (
	// ErrSessionChanged says that the session moved after policy had seen it.
	// Decide again.
	ErrSessionChanged = errors.New("session changed")

	// ErrSessionForeign says that the session was not opened for this principal, or
	// that its owner has ended it.
	ErrSessionForeign = errors.New("session belongs to somebody else, was never opened, or has ended")

	// ErrNoApproval says that there is no such approval, or that it ended.
	ErrNoApproval = errors.New("no such approval is open")

	// ErrTooManyPending says that the principal has asked too much already.
	ErrTooManyPending = errors.New("too many approvals are pending")

	// ErrTooManyKeys says that a limit is in use under too many different keys.
	ErrTooManyKeys = errors.New("too many keys of one limit are in use")

	// ErrSpent says that the grant was used up before.
	ErrSpent = errors.New("the grant is spent")

	// ErrRevoked says that the principal, the tool, or everything of its epoch is
	// revoked.
	ErrRevoked = errors.New("revoked")

	// ErrLogBehind says that the store remembers records that the log does not hold.
	ErrLogBehind = errors.New("the log is behind the store")

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

	// Settle says that the record of the call's admission is durable, at that index of
	// the log, so Admit will not be asked about it again, nor is it given back.
	Settle(callID string, index int64)

	// Release gives back what Admit took from the limits for a call that is not
	// settled, at most once. Approvals that it consumed stay consumed. A call that the
	// store does not know is no error.
	Release(ctx context.Context, callID string) error

	// Refund gives units of counted limits back, by key, which a call took and did not
	// use. At most once for each call; the second change is zero. The record of the
	// call's outcome MUST carry the change.
	Refund(ctx context.Context, callID string, units call.Uses) (call.Change, error)

	// Replan changes the plan of a session at once, and moves its version. The record of
	// the call that did it MUST carry the change, which holds the whole plan. It MUST
	// return [ErrSessionForeign], an error of [call.Plan.Change], or any other when it
	// cannot tell whether the plan changed.
	Replan(ctx context.Context, r Replan) (call.Change, error)

	// Spend uses up a grant that another process issued, at once, and returns what its
	// record MUST carry: [ErrSpent], [ErrRevoked], or any other error when it cannot
	// tell.
	Spend(ctx context.Context, s Spend) (call.Change, error)

	// Epoch is the one that grants and approvals of now belong to.
	Epoch(ctx context.Context) (int64, error)

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
	// nobody can answer it, until that. After an error it may act or not; applying it
	// again is no harm.
	Apply(ctx context.Context, c call.Change) error

	// Approvals lists what is asked for and not over, the oldest first. Approval
	// returns one by id, or ErrNoApproval.
	Approvals(ctx context.Context, now time.Time) ([]Approval, error)
	Approval(ctx context.Context, id string, now time.Time) (Approval, error)

	// Changed is closed when an approval may have changed since it was called.
	Changed() <-chan struct{}
}

// Lasting is a [Store] that outlives the process, or that many processes share, so
// that it and the log of one of them can differ. Whoever opens the log calls Begin,
// reads the log, and calls Recover, before anything else.
type Lasting interface {
	Store

	// Begin says what the store knows of this node's log.
	Begin(ctx context.Context) (Mark, error)

	// Recover brings store and log together. It releases the calls that were admitted
	// and have no record, whose ids it returns. [ErrLogBehind] is final: the log lost
	// records.
	Recover(ctx context.Context, r Recovery) (released []string, err error)
}

// Waiving is a [Store] that may have been told to go on without something that it
// should have. An engine records that on each start.
type Waiving interface {
	Store

	// Waived names what it goes without.
	Waived() []string
}

// Mark is what a store knows of one node's log.
type Mark struct {
	Index int64    // of the newest record that was settled; -1 for none
	Open  []string // calls admitted, neither settled nor released
}

// Recovery is what the log says.
type Recovery struct {
	Size     int64            // records in the log
	Recorded map[string]int64 // of the calls in Mark.Open, those with a record, and its index
	// Lost says that the log admits calls, later than Mark.Index, of which the store
	// knows nothing: it was restored from something older. The epoch rises.
	Lost    bool
	Revoked []call.Revocation // everything that the log revokes, which MUST hold again
	// Sessions are those with labels or a plan that the log says they still have, and
	// those that their owners ended, which MUST hold again.
	Sessions []call.SessionChange
}

// Replan is one change of a session's plan.
type Replan struct {
	Now       time.Time
	Principal string // digest: whose session it must be, if it is anybody's
	Session   string
	Op        call.PlanOp
	Ends      time.Time // when the plan leaves the session, or with the session if that ends before
}

// Until is when the plan leaves the session, in Unix ns, which ends then, or never if
// that is zero: never before the plan that it was, or that would be taken for the later
// one.
func (r Replan) Until(was, ends int64) int64 {
	until := r.Ends.UnixNano()
	if ends != 0 {
		until = min(until, ends)
	}
	return max(was, until)
}

// check refuses what could never be recorded, or would not stay.
func (r Replan) check() error {
	if r.Session == "" || r.Ends.UnixNano() <= r.Now.UnixNano() {
		return errors.New("a plan of no session, or one that ends before it begins")
	}
	return nil
}

// Spend is the use of a grant that another process issued.
type Spend struct {
	ID         string
	Now        time.Time
	Expires    time.Time
	Epoch      int64    // it was issued in: any but the store's is revoked, a newer one too, for the store lost that
	Principals []string // digests of the principal and those it acts for
	Tool       string   // name
}

// SessionLife is how long a session that was opened is its owner's. After that it is as
// if it had never been opened.
const SessionLife = 30 * 24 * time.Hour

// Session is what is remembered between calls.
type Session struct {
	Owner   string // digest of the principal it is bound to, "" when it was never opened, or ended
	Ended   string // digest of the principal it was bound to, who ended it; "" when nobody did, or its time is over
	Labels  []string
	Plan    call.Plan
	Version int64     // moves when Labels grow or Plan changes
	Until   time.Time // when it ends to be Owner's; zero: never
	Calls   int64     // advisory
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
	Bind      func(day time.Time) (Binding, error)
	Requester call.RecordPrincipal
	Tool      call.RecordTool
	Caps      call.Caps
	Policy    []call.Revision // that asks: an approval given under another is void
}

// Binding ties an approval to one call.
type Binding struct {
	Exact string // requester, tool, arguments, policy and capabilities
	About string // requester, tool name and arguments alone
}

// maxUnits is what every reader of a record keeps.
const maxUnits = 1<<53 - 1

// check refuses what would overdraw a bucket or could never be recorded.
func (a Admission) check() error {
	if a.Call == "" {
		return errors.New("a call without an id")
	}
	for _, c := range a.Charges {
		if c.Burst < 1 || c.Cost < 1 || c.Per < 1 {
			return fmt.Errorf("limit %s: burst, cost and per are not all positive", c.Name)
		}
		if !c.End.IsZero() && c.Burst > maxUnits {
			return fmt.Errorf("limit %s: a burst of more than 2^53-1, which records do not hold", c.Name)
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

// Charge takes Cost units from the bucket Key, which holds Burst units and refills
// within Per, unit by unit. With End it is counted instead: of Burst units until
// then, none comes back before, but by [Store.Refund].
type Charge struct {
	Name  string // for the caller
	Key   string // a keyed digest; what is before its last slash is the limit, the rest its key
	Burst int64  // units, at least 1
	Cost  int64  // units, at least 1
	Per   time.Duration
	End   time.Time // of the window that Key names; zero: refills
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

	// Stale says that the call was approved, but not as it would run now: Approval is
	// about that, and the old one is void.
	Stale bool

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

// Standing is where an approval stands. The zero value permits nothing.
type Standing = question.Standing

// The standings. Only Approved lets the call run, once.
const (
	Open     = question.Open
	Approved = question.Approved
	Denied   = question.Denied
	Consumed = question.Consumed
	Expired  = question.Expired
)

// Approval is a question and its answers so far.
type Approval struct {
	call.Approval
	Standing Standing
	Votes    []call.Vote
}
