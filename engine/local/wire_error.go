package local

import (
	"context"
	"errors"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// wireDenial is an [engine.Denial]. Its cause stays with the owner.
type wireDenial struct {
	CallID       string        `json:"call"`
	Tool         string        `json:"tool"`
	Code         call.Code     `json:"code"`
	Detail       string        `json:"detail,omitzero"`
	Reasons      []call.Reason `json:"reasons,omitzero"`
	ApprovalID   string        `json:"approval,omitzero"`
	Limited      *wireLimited  `json:"limited,omitzero"`
	RetryAfterNS int64         `json:"retry_after_ns,omitzero"`
	Index        int64         `json:"index"`
}

// wireLimited is a [state.Limited].
type wireLimited struct {
	Name         string `json:"name"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	RetryAfterNS int64  `json:"retry_after_ns"`
}

func wireDenialOf(d *engine.Denial) *wireDenial {
	w := &wireDenial{
		CallID: d.CallID, Tool: d.Tool, Code: d.Code, Detail: d.Detail, Reasons: d.Reasons, ApprovalID: d.ApprovalID,
		RetryAfterNS: int64(d.RetryAfter), Index: d.Receipt.Index,
	}
	if l := d.Limited; l != nil {
		w.Limited = &wireLimited{Name: l.Name, Limit: l.Limit, Remaining: l.Remaining, RetryAfterNS: int64(l.RetryAfter)}
	}
	return w
}

func (w *wireDenial) denial() *engine.Denial {
	d := &engine.Denial{
		CallID: w.CallID, Tool: w.Tool, Code: w.Code, Detail: w.Detail, Reasons: w.Reasons, ApprovalID: w.ApprovalID,
		RetryAfter: time.Duration(w.RetryAfterNS), Receipt: engine.Receipt{Index: w.Index},
	}
	if l := w.Limited; l != nil {
		d.Limited = &state.Limited{Name: l.Name, Limit: l.Limit, Remaining: l.Remaining, RetryAfter: time.Duration(l.RetryAfterNS)}
	}
	return d
}

// wireError is any other error: which of the known ones it is, or its code and
// detail when it has a code, or else its text.
type wireError struct {
	Kind   string    `json:"kind,omitzero"`
	Text   string    `json:"text,omitzero"`
	Code   call.Code `json:"code,omitzero"`
	Detail string    `json:"detail,omitzero"`
}

// kinds are the errors that callers test for.
var kinds = []struct {
	name string
	err  error
}{
	{"asserted", engine.ErrAsserted},
	{"reason", engine.ErrReason},
	{"not_approved", engine.ErrNotApproved},
	{"no_approval", state.ErrNoApproval},
	{"may_not_vote", state.ErrMayNotVote},
	{"cancelled", context.Canceled},
	{"deadline", context.DeadlineExceeded},
}

// fail puts err into the answer.
func (a *answer) fail(err error) {
	if err == nil {
		return
	}
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		a.Denial = wireDenialOf(d)
		return
	}
	if t, ok := errors.AsType[*engine.ToolError](err); ok {
		a.Failed, a.Result = t.Tool, wireResultOf(t.Result)
		return
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			a.Error = &wireError{Kind: k.name, Text: err.Error()}
			return
		}
	}
	if e, ok := errors.AsType[*call.Error](err); ok {
		a.Error = &wireError{Code: e.Code, Detail: e.Detail} // e.Err is the operator's
		return
	}
	a.Error = &wireError{Text: err.Error()}
}

// err is the error that fail put in.
func (a *answer) err() error {
	switch {
	case a.Denial != nil:
		return a.Denial.denial()
	case a.Failed != "" && a.Result != nil:
		return &engine.ToolError{Tool: a.Failed, Result: a.Result.result()}
	case a.Error == nil:
		return nil
	case a.Error.Code != "":
		return &call.Error{Code: a.Error.Code, Detail: a.Error.Detail}
	}
	e := &ownersError{text: a.Error.Text}
	for _, k := range kinds {
		if k.name == a.Error.Kind {
			e.is = k.err
		}
	}
	return e
}

// ownersError is an error of the owner's, in its words.
type ownersError struct {
	text string
	is   error // nil for none that a caller could test for
}

func (e *ownersError) Error() string { return e.text }
func (e *ownersError) Unwrap() error { return e.is }
