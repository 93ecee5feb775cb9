package local

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/token"
)

// protocol is the version of the messages below. Owner and client speak the same
// or do not speak.
//
// A connection carries one exchange, each message a line of JSON: the owner's
// hello, the client's request, the owner's answer. A client that shuts its side
// down, or is gone, cancels the run that it asked for.
const protocol = 4

// Limits of messages in bytes. Whatever is over one is refused, never cut.
const (
	// maxRequest holds arguments and the asserted part, each of call.MaxArgsBytes
	// and in base64, and as much again as one of them for everything else.
	maxRequest = 4 << 20

	// maxAnswer only keeps a client's memory from filling: what a tool may put out is
	// bounded by its grant.
	maxAnswer = 1 << 30

	maxHello = 4096
)

var errTooLarge = &call.Error{Code: call.CodeRequestInvalid, Detail: "the message is too large"}

// hello is what the owner says once it is ready.
type hello struct {
	Callgate int    `json:"callgate"` // protocol
	Config   string `json:"config"`   // see Config.digest
}

// op is what a client asks for.
type op string

const (
	opDo        op = "do"
	opExplain   op = "explain"
	opIssue     op = "issue"
	opExecute   op = "execute"
	opRevoke    op = "revoke"
	opVote      op = "vote"
	opApprovals op = "approvals"
	opApproval  op = "approval"
	opReveal    op = "reveal"
	opWait      op = "wait"
)

// request is what a client sends, once.
type request struct {
	Op       op         `json:"op"`
	Call     *wireCall  `json:"call,omitzero"`     // of do, explain and issue
	By       *principal `json:"by,omitzero"`       // of vote and reveal
	Deny     bool       `json:"deny,omitzero"`     // of vote
	Reason   string     `json:"reason,omitzero"`   // of vote
	Approval string     `json:"approval,omitzero"` // of vote, approval, reveal and wait

	Audience string           `json:"audience,omitzero"` // of issue
	Grant    *wireGrant       `json:"grant,omitzero"`    // of execute
	Revoke   *call.Revocation `json:"revoke,omitzero"`
}

// wireGrant is a grant with the arguments to run it with.
type wireGrant struct {
	Token string `json:"token"`
	Args  []byte `json:"args,omitzero"`
}

func wireGrantOf(raw string, args []byte) *wireGrant {
	// No token is cut to another one.
	return &wireGrant{Token: strings.ToValidUTF8(raw[:min(len(raw), token.MaxBytes+1)], "?"), Args: oneTooMany(args)}
}

// harmless requests may be made twice.
func (q request) harmless() bool {
	return !slices.Contains([]op{opDo, opVote, opIssue, opExecute, opRevoke}, q.Op)
}

// wireCall is a call as a client sends it. Arguments are bytes, so that the engine
// sees and records exactly what the caller sent, JSON or not.
type wireCall struct {
	Principal principal `json:"principal"`
	Session   string    `json:"session,omitzero"`
	Tool      string    `json:"tool"`
	Args      []byte    `json:"args,omitzero"`
	Asserted  []byte    `json:"asserted,omitzero"`
}

func wireCallOf(c call.Call) *wireCall {
	return &wireCall{
		Principal: principalOf(c.Principal), Session: c.Session, Tool: c.Tool,
		Args: oneTooMany(c.Args), Asserted: oneTooMany(c.Asserted),
	}
}

// oneTooMany cuts what is too long to one byte too many, so that the owner
// refuses and records it like any other call.
func oneTooMany(b []byte) []byte { return b[:min(len(b), call.MaxArgsBytes+1)] }

// from is the call when it comes from a process of that user.
func (w *wireCall) from(uid int) call.Call {
	return call.Call{
		Principal: w.Principal.from(uid), Session: w.Session, Tool: w.Tool,
		Args: w.Args, Asserted: w.Asserted,
	}
}

// principal is who asks, in the client's word. How the owner knows is not the
// client's to say, see from.
type principal struct {
	ID         string                    `json:"id"`
	Kind       string                    `json:"kind"`
	Roles      []string                  `json:"roles,omitzero"`
	Tenant     string                    `json:"tenant,omitzero"`
	Claims     map[string]jsontext.Value `json:"claims,omitzero"`
	OnBehalfOf []principal               `json:"on_behalf_of,omitzero"`
}

func principalOf(p call.Principal) principal {
	w := principal{ID: p.ID, Kind: p.Kind, Roles: p.Roles, Tenant: p.Tenant, Claims: p.Claims}
	for _, o := range p.OnBehalfOf {
		w.OnBehalfOf = append(w.OnBehalfOf, principalOf(o))
	}
	return w
}

// from is the principal when a process of that user names it: vouched for by the
// kernel if it is that very user and claims nothing more, by a word otherwise.
func (w principal) from(uid int) call.Principal {
	p := call.Principal{ID: w.ID, Kind: w.Kind, Roles: w.Roles, Tenant: w.Tenant, Claims: w.Claims, Auth: assertedBy(uid)}
	for _, o := range w.OnBehalfOf {
		p.OnBehalfOf = append(p.OnBehalfOf, o.from(uid))
	}
	if u := userOf(uid); w.ID == u.ID && w.Kind == u.Kind && len(w.Roles)+len(w.Claims)+len(w.OnBehalfOf) == 0 && w.Tenant == "" {
		p.Auth = u.Auth
	}
	return p
}

// answer is what the owner says to a request, once.
type answer struct {
	Bye         bool                `json:"bye,omitzero"` // nothing was done and nothing will be: ask another owner
	Result      *wireResult         `json:"result,omitzero"`
	Failed      string              `json:"failed,omitzero"` // the tool that ran and failed
	Denial      *wireDenial         `json:"denial,omitzero"`
	Explanation *engine.Explanation `json:"explanation,omitzero"`
	Approval    *wireApproval       `json:"approval,omitzero"`
	Args        []byte              `json:"args,omitzero"`   // what the approval is about
	Masked      []engine.Masked     `json:"masked,omitzero"` // of the arguments
	Approvals   []wireApproval      `json:"approvals,omitzero"`
	Token       string              `json:"token,omitzero"` // of issue
	Error       *wireError          `json:"error,omitzero"`
}

// wireResult is an [engine.Result], with what records and callers' JSON leave out.
type wireResult struct {
	CallID  string       `json:"call"`
	Output  []byte       `json:"output,omitzero"`
	Outcome call.Outcome `json:"outcome"`
	TookNS  int64        `json:"took_ns"`
	Stderr  []byte       `json:"stderr,omitzero"`
	Index   int64        `json:"index"`
}

func wireResultOf(r *engine.Result) *wireResult {
	if r == nil {
		return nil
	}
	return &wireResult{
		CallID: r.CallID, Output: r.Output, Outcome: r.Outcome,
		TookNS: int64(r.Outcome.Took), Stderr: r.Outcome.Stderr, Index: r.Receipt.Index,
	}
}

func (w *wireResult) result() *engine.Result {
	if w == nil {
		return nil
	}
	r := &engine.Result{CallID: w.CallID, Output: w.Output, Outcome: w.Outcome, Receipt: engine.Receipt{Index: w.Index}}
	r.Outcome.Took, r.Outcome.Stderr = time.Duration(w.TookNS), w.Stderr
	return r
}

// wireApproval is a [state.Approval].
type wireApproval struct {
	Asked    call.Approval  `json:"asked"`
	Standing state.Standing `json:"standing"`
	Votes    []call.Vote    `json:"votes,omitzero"`
}

func wireApprovalOf(a state.Approval) wireApproval {
	return wireApproval{Asked: a.Approval, Standing: a.Standing, Votes: a.Votes}
}

func (w *wireApproval) approval() state.Approval {
	if w == nil {
		return state.Approval{}
	}
	return state.Approval{Approval: w.Asked, Standing: w.Standing, Votes: w.Votes}
}

// encode writes a message as one line. Not in RFC 8785's form, which would round
// the numbers in claims.
func encode(message any) ([]byte, error) {
	b, err := json.Marshal(message, json.Deterministic(true))
	return append(b, '\n'), err
}

// decode reads a message. Names match exactly and once, and no others may occur.
func decode(line []byte, message any) error {
	return json.Unmarshal(line, message, json.RejectUnknownMembers(true))
}

// decodeRequest reads what a client sent.
//
// # Errors
//
// A [*call.Error] with [call.CodeRequestInvalid].
func decodeRequest(line []byte) (request, error) {
	var q request
	if err := decode(line, &q); err != nil {
		return request{}, &call.Error{Code: call.CodeRequestInvalid, Detail: "not a request", Err: err}
	}
	has := func(call, by, approval bool) bool {
		return (q.Call != nil) == call && (q.By != nil) == by && (approval || q.Approval == "") &&
			(q.Op == opVote || !q.Deny && q.Reason == "") &&
			(q.Op == opIssue || q.Audience == "") && (q.Grant != nil) == (q.Op == opExecute) && (q.Revoke != nil) == (q.Op == opRevoke)
	}
	ok := false
	switch q.Op {
	case opDo, opExplain, opIssue:
		ok = has(true, false, false)
	case opVote, opReveal:
		ok = has(false, true, true)
	case opApprovals, opExecute, opRevoke:
		ok = has(false, false, false)
	case opApproval, opWait:
		ok = has(false, false, true)
	}
	if !ok {
		return request{}, &call.Error{Code: call.CodeRequestInvalid, Detail: "no such request, or with the wrong parts"}
	}
	return q, nil
}

// readLine reads one message of at most so many bytes, which must be all that
// has been sent so far.
//
// # Errors
//
// errTooLarge; a [*call.Error] with [call.CodeRequestInvalid] when more follows;
// [io.ErrUnexpectedEOF] when the peer is gone before the end of the line; what
// the connection says.
func readLine(c io.Reader, most int64) ([]byte, error) {
	r := bufio.NewReader(io.LimitReader(c, most+1))
	line, err := r.ReadBytes('\n')
	switch {
	case int64(len(line)) > most:
		return nil, errTooLarge
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case r.Buffered() > 0:
		return nil, &call.Error{Code: call.CodeRequestInvalid, Detail: "more than one message"}
	}
	return line, nil
}
