package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
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

// Effects are what the tool did to the world through its [hostfx.Effects], and what it
// tried, in order. The record of the outcome has them, too.
func (r *Result) Effects() []call.Effect { return r.Outcome.Effects }

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
	Detail     string         // what the code leaves open, without quoting arguments
	Reasons    []call.Reason  // policy's, without hidden ones
	ApprovalID string         // of the approval that is pending or was denied
	Limited    *state.Limited // the limit that refused, as [call.InLayer] names it; nil for none
	RetryAfter time.Duration  // zero: waiting does not help
	Receipt    Receipt
}

func (d *Denial) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", d.Tool, d.Code, d.Code.Info().Meaning)
	if d.Detail != "" {
		b.WriteString(": " + d.Detail)
	}
	for i, r := range d.Reasons {
		b.WriteString(map[bool]string{true: " (", false: ", "}[i == 0])
		b.WriteString(call.InLayer(r.Layer, r.Code))
		if r.Message != "" {
			b.WriteString(": " + r.Message)
		}
	}
	if len(d.Reasons) > 0 {
		b.WriteByte(')')
	}
	if d.ApprovalID != "" {
		b.WriteString(", approval " + d.ApprovalID)
	}
	if d.Limited != nil {
		b.WriteString(", limit " + d.Limited.Name)
	}
	if d.RetryAfter > 0 && d.RetryAfter < 1<<62 {
		fmt.Fprintf(&b, ", try again in %v", max(d.RetryAfter.Round(time.Second), time.Second))
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
