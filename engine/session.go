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
// that labels cannot be shed by leaving the id out. It ends after [state.SessionLife].
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

// Revoke ends what was permitted, from now on and for ever: every call and vote of
// a principal or in their name, every call of a tool, or, with any epoch, every
// approval that is pending or given and every grant of [Engine.Issue] that has not
// run. It acts at once on what is asked from then on; runs and permits under way go on
// to the end of their time.
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
	if err := e.revoke(context.WithoutCancel(ctx), r); err != nil {
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
