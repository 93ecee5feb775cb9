package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// Errors a caller may test for with errors.Is. A [*Denial] is one of the first
// three, a [*ToolError] is [ErrTool].
var (
	ErrDenied      = errors.New("denied")           // no: asking again gives the same answer
	ErrPending     = errors.New("pending approval") // not yet: people must approve
	ErrUnavailable = errors.New("cannot decide")    // nobody could tell, so no
	ErrTool        = errors.New("the tool ran and failed")
)

// Result is what a call that ran gives back.
type Result struct {
	CallID  string
	Output  []byte // what the tool returned
	Outcome call.Outcome
	Receipt Receipt
}

// Receipt says where the log keeps the decision about a call.
type Receipt struct {
	Index int64 // of the decision record; -1 when nothing could be recorded
}

// Denial says that nothing ran, and why. It is [ErrDenied], [ErrPending] or
// [ErrUnavailable], by the class of its code.
type Denial struct {
	CallID     string
	Tool       string
	Code       call.Code
	Reasons    []call.Reason // without hidden ones
	ApprovalID string        // of the approval that is pending
	Limit      string        // name of the limit that refused
	Remaining  int64         // units left in it
	RetryAfter time.Duration // zero: waiting does not help
	Receipt    Receipt

	cause error // for the operator's log, never for the caller
}

func (d *Denial) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", d.Tool, d.Code, d.Code.Info().Meaning)
	for i, r := range d.Reasons {
		b.WriteString(map[bool]string{true: " (", false: ", "}[i == 0])
		b.WriteString(r.Code)
		if r.Message != "" {
			b.WriteString(": " + r.Message)
		}
	}
	if len(d.Reasons) > 0 {
		b.WriteByte(')')
	}
	return b.String()
}

// Is makes errors.Is work by class.
func (d *Denial) Is(target error) bool {
	switch d.Code.Info().Class {
	case call.ClassDenied, call.ClassLimited:
		return target == ErrDenied
	case call.ClassPending:
		return target == ErrPending
	default:
		return target == ErrUnavailable
	}
}

// ToolError says that a call was allowed, recorded and run, and that the tool
// failed or hit a bound. It is [ErrTool].
type ToolError struct {
	Tool   string
	Result *Result
}

func (e *ToolError) Error() string {
	code := e.Result.Outcome.Code
	return fmt.Sprintf("%s: %s: %s", e.Tool, code, code.Info().Meaning)
}

// Is makes errors.Is(err, ErrTool) work.
func (e *ToolError) Is(target error) bool { return target == ErrTool }
