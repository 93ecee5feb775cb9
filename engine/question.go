package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Question is an approval with what its approvers must see.
type Question struct {
	state.Approval

	// Args are canonical, and nil when they are not kept, lost, or no longer needed.
	// With Masked there is null in place of each value that is listed there.
	Args   []byte
	Masked []Masked // what [Engine.Reveal] shows; none after it
}

// Masked stands for a value that the tool's schema marks writeOnly, or for all
// arguments when the tool is not the one that was asked about.
type Masked struct {
	At   jsontext.Pointer `json:"at"` // RFC 6901; "" for all arguments
	Type string           `json:"type"`

	// Bytes are those of a string, or of the canonical JSON of an object or array.
	// Those of other values are not told, since they could tell the value.
	Bytes int64 `json:"bytes,omitzero"`

	// Digest is keyed, of the place and the value within this approval: it tells
	// whoever has the key of that day whether a value is the one.
	Digest string `json:"digest"`
}

// Approval is one question, with the arguments that it is about, less what is masked.
//
// # Errors
//
// [state.ErrNoApproval].
func (e *Engine) Approval(ctx context.Context, id string) (Question, error) {
	a, err := e.o.State.Approval(ctx, id, e.o.Now())
	if err != nil {
		return Question{}, err
	}
	q := e.withArgs(a)
	if err := e.mask(&q); err != nil {
		// Shown without them rather than with too much of them.
		e.log.Error().AnErr("cause", err).Str("approval", id).Msg("pending arguments not masked")
		q.Args, q.Masked = nil, nil
	}
	return q, nil
}

// Reveal is [Engine.Approval] with nothing masked, for somebody who is asked. That
// they looked is durable in the log before anything is returned.
//
// # Errors
//
// [ErrAsserted], [state.ErrNoApproval] when nothing is open to look at,
// [state.ErrMayNotVote] for whoever may not answer; a [*Denial] with
// principal_invalid, engine_closed, overloaded or log_unavailable.
func (e *Engine) Reveal(ctx context.Context, id string, who call.Principal) (Question, error) {
	leave, code := e.enter(ctx)
	if code != "" {
		return Question{}, &Denial{Tool: "reveal", Code: code, Receipt: Receipt{-1}}
	}
	defer leave()
	ctx = context.WithoutCancel(ctx)
	by, _, err := e.approver(ctx, "reveal", who)
	if err != nil {
		return Question{}, err
	}
	now := e.o.Now().UTC()
	a, err := e.o.State.Approval(ctx, id, now)
	switch {
	case err != nil:
		return Question{}, err
	case !a.MayVote(by):
		return Question{}, fmt.Errorf("%w, nor see what is masked", state.ErrMayNotVote)
	case !undecided(a):
		return Question{}, state.ErrNoApproval
	}
	rec := call.Record{Type: call.TypeReveal, Time: now, Node: e.o.Node, Principal: &by, Approval: a.ID}
	if e.appendRecord(rec) != nil {
		return Question{}, &Denial{Tool: "reveal", Code: call.CodeLogUnavailable, Receipt: Receipt{-1}}
	}
	e.log.Info().Str("approval", a.ID).Str("by", by.ID).Msg("revealed")
	return e.withArgs(a), nil
}

// undecided reports whether the arguments may still be needed.
func undecided(a state.Approval) bool {
	return a.Standing == state.Open || a.Standing == state.Approved
}

// withArgs adds all arguments, if they are kept.
func (e *Engine) withArgs(a state.Approval) Question {
	q := Question{Approval: a}
	if e.o.Pending == nil || !undecided(a) {
		return q
	}
	args, err := e.o.Pending.Get(a.ID)
	if err != nil {
		e.log.Error().AnErr("cause", err).Str("approval", a.ID).Msg("pending arguments not readable")
		return q
	}
	q.Args = args
	return q
}

// mask takes out of the arguments what is secret.
func (e *Engine) mask(q *Question) error {
	if q.Args == nil {
		return nil
	}
	args, err := call.Canonical(q.Args)
	if err != nil {
		return err
	}
	key, err := e.o.Salts.Key(q.Requester.Tenant, q.Asked.UTC().Truncate(24*time.Hour))
	if err != nil {
		return err
	}
	var failed error
	masked := func(at jsontext.Pointer, v jsontext.Value) {
		m, err := maskOf(key, q.ID, at, v)
		if err != nil {
			failed = err
		}
		q.Masked = append(q.Masked, m)
	}
	t := e.tool(q.Tool.Name)
	if t == nil || t.digest != q.Tool.Digest {
		// Nobody here knows what is secret in it.
		q.Args = []byte("null")
		masked("", args.Bytes())
		return failed
	}
	shown, err := t.manifest.Mask(args, masked)
	q.Args = shown
	if err != nil {
		return err
	}
	return failed
}

func maskOf(key [32]byte, approval string, at jsontext.Pointer, v jsontext.Value) (Masked, error) {
	m := Masked{At: at}
	switch v.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return m, err
		}
		m.Type, m.Bytes = "string", int64(len(text))
	case '{':
		m.Type, m.Bytes = "object", int64(len(v))
	case '[':
		m.Type, m.Bytes = "array", int64(len(v))
	case '0':
		m.Type = "number"
	case 't', 'f':
		m.Type = "boolean"
	default:
		m.Type = "null"
	}
	// With its place, or two equal values would be seen to be equal.
	placed, err := json.Marshal([]any{at, v})
	if err != nil {
		return m, err
	}
	m.Digest = call.Keyed(key, approval, "masked", placed)
	return m, nil
}
