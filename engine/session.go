package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"regexp"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// OpenSession starts a session of its own for the principal: labels added in it
// stay in it. The session is bound to the principal; nobody else can use its id.
// Without one, all calls of a principal through one client share a session, so
// that labels cannot be shed by leaving the id out. It ends with [Engine.CloseSession],
// or after [state.SessionLife].
//
// # Errors
//
// A [*Denial] with principal_invalid, engine_closed, log_unavailable or state_unavailable.
func (e *Engine) OpenSession(ctx context.Context, who call.Principal) (id string, err error) {
	who = clonePrincipal(who)
	leave, code := e.enter(ctx)
	if code == "" {
		defer leave()
		if checkPrincipal(who, true) != nil {
			code = call.CodePrincipalInvalid
		}
	}
	if code != "" {
		return "", &Denial{Tool: "session", Code: code, Receipt: Receipt{-1}}
	}
	by := recordPrincipal(who)
	now := e.o.Now().UTC()
	change := call.Change{Session: &call.SessionChange{
		ID: "so-" + rand.Text(), Owner: principalDigest(who, ""), Until: now.Add(state.SessionLife).UnixNano(),
	}}
	rec := call.Record{Type: call.TypeSession, Time: now, Node: e.o.Node, Principal: &by, Session: change.Session.ID, Change: &change}
	if err := e.appendRecord(rec); err != nil {
		return "", &Denial{Tool: "session", Code: call.CodeLogUnavailable, Receipt: Receipt{-1}}
	}
	if err := e.o.State.Apply(context.WithoutCancel(ctx), change); err != nil {
		return "", &Denial{Tool: "session", Code: call.CodeStateUnavailable, Receipt: Receipt{-1}}
	}
	return change.Session.ID, nil
}

// CloseSession ends a session that [Engine.OpenSession] started for the principal. From
// then on its id is refused, with session_invalid, and what its commands left running on
// this engine's host is ended; runs under way go on, without its plan. It gives nothing
// back: other sessions are as they were. To end it again is no error, and ends what its
// commands left running on the host of that engine.
//
// # Errors
//
// A [*Denial] with principal_invalid; session_invalid for a session that is not the
// principal's, or whose time is over; engine_closed, overloaded; state_unavailable or
// log_unavailable, after which nobody can tell.
func (e *Engine) CloseSession(ctx context.Context, who call.Principal, id string) error {
	who = clonePrincipal(who)
	leave, code := e.enter(ctx)
	if code == "" {
		defer leave()
		code = e.closeSession(context.WithoutCancel(ctx), who, id)
	}
	if code != "" {
		return &Denial{Tool: "session", Code: code, Receipt: Receipt{-1}}
	}
	return nil
}

func (e *Engine) closeSession(ctx context.Context, who call.Principal, id string) call.Code {
	if checkPrincipal(who, true) != nil {
		return call.CodePrincipalInvalid
	}
	if id == "" || !printable(id) {
		return call.CodeSessionInvalid
	}
	owner, now := principalDigest(who, ""), e.o.Now().UTC()
	s, err := e.o.State.Session(ctx, id, now)
	switch {
	case err != nil:
		return call.CodeStateUnavailable
	case s.Ended == owner:
		// Perhaps by another engine, or nobody could tell: what goes on here does not.
		e.o.Host.EndSession(owner, id)
		return ""
	case s.Owner != owner:
		return call.CodeSessionInvalid
	}
	c := &call.SessionChange{ID: id, Owner: owner, Ended: true}
	if !s.Until.IsZero() {
		c.Until = s.Until.UnixNano()
	}
	// It acts at once, as all that restricts does.
	change := call.Change{Session: c}
	if e.o.State.Apply(ctx, change) != nil {
		return call.CodeStateUnavailable
	}
	e.o.Host.EndSession(owner, id)
	by := recordPrincipal(who)
	if e.appendRecord(call.Record{Type: call.TypeSession, Time: now, Node: e.o.Node, Principal: &by, Session: id, Change: &change}) != nil {
		return call.CodeLogUnavailable
	}
	return ""
}

// Revoke ends what was permitted, from now on and for ever: every call and vote of
// a principal or in their name, every call of a tool, or, with any epoch, every
// approval that is pending or given and every grant of [Engine.Issue] that has not
// run. It acts at once on what is asked from then on; runs and permits under way go on
// to the end of their time. Commands that the principal, or the tool, left running on
// this engine's host are ended.
//
// # Errors
//
// A [*Denial] with engine_closed, overloaded or log_unavailable; or the store's,
// which then cannot tell; or one that says that r revokes nothing.
func (e *Engine) Revoke(ctx context.Context, r call.Revocation) error {
	leave, code := e.enter(ctx)
	if code != "" {
		return &Denial{Tool: "revoke", Code: code, Receipt: Receipt{-1}}
	}
	defer leave()
	if !printable(r.Principal) || !printable(r.Tool) {
		return errors.New("engine: a revocation names its principal or tool in plain text of at most 256 bytes")
	}
	if r == (call.Revocation{}) || r.Epoch < 0 || r.Principal != "" && !digestForm.MatchString(r.Principal) {
		// It would be recorded, and revoke nothing.
		return errors.New("engine: a revocation is of a tool, of everything, or of a principal by its PrincipalDigest")
	}
	err := e.revoke(context.WithoutCancel(ctx), r)
	if r.Principal != "" {
		e.o.Host.EndOwner(r.Principal)
	}
	e.o.Host.EndTool(r.Tool)
	if err != nil {
		return err
	}
	return e.sweep(ctx)
}

func (e *Engine) revoke(ctx context.Context, r call.Revocation) error {
	e.asking.RLock()
	defer e.asking.RUnlock()
	change, err := e.o.State.Revoke(ctx, r)
	if err != nil {
		return err
	}
	now := e.o.Now().UTC()
	if e.appendRecord(call.Record{Type: call.TypeRevoke, Time: now, Node: e.o.Node, Change: &change}) != nil {
		return &Denial{Tool: "revoke", Code: call.CodeLogUnavailable, Receipt: Receipt{-1}}
	}
	if change.Revoked != nil {
		e.epochs.begin(change.Revoked.Epoch, now)
	}
	return nil
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// PrincipalDigest names a principal in revocations: by tenant, kind and id.
func PrincipalDigest(p call.Principal) string { return principalDigest(p, "") }

func principalDigest(p call.Principal, client string) string {
	b, err := json.Marshal([]string{p.Tenant, p.Kind, p.ID, client})
	if err != nil {
		return "" // not UTF-8: arrive refuses it
	}
	return call.Digest(b)
}
