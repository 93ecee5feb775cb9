// Package token is the form of grants that leave the process: a compact JWS (RFC
// 7515) of the type grant+jwt, signed with Ed25519 (RFC 8037) and nothing else.
//
// An issuer has a [Signer], made by [NewSigner] over any crypto.Signer or by
// [OpenRing] over files that rotate, and publishes its public keys as a [Set]. An
// executor has a [Verifier] of the issuers that it trusts.
//
// # What a token does not protect
//
// A token is for whoever holds it, so it travels like a password: over TLS, and into
// no log. It holds a digest of the arguments without a key: who sees it can test a
// guess of them; a file that the call depends on stands there by its path. That it
// runs once is not in it either: the executor's state keeps
// that. Whoever holds an issuer's key can write any grant in its name.
package token

import (
	"crypto/subtle"
	"regexp"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// Type is the typ of the header, RFC 8725 section 3.11.
const Type = "grant+jwt"

// Limits of tokens.
const (
	// MaxBytes is how long a token is at most. Whatever is longer is refused unread.
	MaxBytes = 1 << 20

	// MaxLife is how long after its issue a grant may be started at most.
	MaxLife = time.Minute

	// Skew is how much the clocks of issuer and executor may differ.
	Skew = 5 * time.Second
)

// Claims are what a grant says: who may run what, where, when and within which
// capabilities, and where it is recorded that they may.
type Claims struct {
	Issuer   string `json:"iss"` // name of the engine that decided
	Audience string `json:"aud"` // name of the executor
	Subject  string `json:"sub"` // id of Principal
	ID       string `json:"jti"` // spent when it runs

	// Unix seconds. The run starts from NotBefore on and before Expires.
	IssuedAt  int64 `json:"iat"`
	NotBefore int64 `json:"nbf"`
	Expires   int64 `json:"exp"`

	// Principal is who asked, how the issuer knows them, and for whom they act.
	Principal call.RecordPrincipal `json:"prn"`

	Tool      Tool            `json:"tool"`
	Args      string          `json:"args"` // sha256:<hex> of the canonical arguments
	Caps      call.Caps       `json:"caps"`
	Policy    []call.Revision `json:"pol,omitzero"` // that decided
	Approvals []string        `json:"apr,omitzero"` // that were consumed
	Decision  string          `json:"dec"`          // id of the call that was decided on
	Log       Place           `json:"log"`
	Epoch     int64           `json:"ep"` // of the issuer's state

	// Preconditions are what must be as the issuer found it, or nothing may change.
	Preconditions []call.Precondition `json:"pre,omitzero"`
}

// Tool is the tool, pinned.
type Tool struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // of the whole descriptor, with its module
}

// Place is where the decision is recorded.
type Place struct {
	Origin string `json:"origin"`
	Index  int64  `json:"index"`
}

// Last is the time from which on nobody takes the grant, so until when it must be
// remembered that it is spent.
func (c Claims) Last() time.Time { return time.Unix(c.Expires, 0).Add(Skew) }

var (
	idForm     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// latest is a time in Unix seconds that every clock and reader can hold.
const latest = 1 << 40

// check refuses claims that no issuer makes.
func (c Claims) check() error {
	switch {
	case c.Issuer == "" || c.Audience == "":
		return invalid("it does not say whose it is, or for whom")
	case !idForm.MatchString(c.ID) || !idForm.MatchString(c.Decision):
		return invalid("it has no id, or one that is malformed")
	case c.Subject == "" || c.Subject != c.Principal.ID:
		return invalid("its subject is not its principal")
	case c.Tool.Name == "" || !digestForm.MatchString(c.Tool.Digest) || !digestForm.MatchString(c.Args):
		return invalid("it is not bound to a tool and arguments")
	case c.IssuedAt < 1 || c.NotBefore < c.IssuedAt || c.Expires <= c.NotBefore || c.Expires > latest:
		return invalid("its times are in no order")
	case c.Expires-c.IssuedAt > int64(MaxLife/time.Second):
		return invalid("it lasts too long")
	case c.Epoch < 0 || c.Log.Index < 0:
		return invalid("a number in it is negative")
	}
	return nil
}

// At refuses a grant that cannot be started at that time.
//
// # Errors
//
// A [*call.Error] with [call.CodeGrantInvalid].
func (c Claims) At(now time.Time) error {
	switch {
	case now.Before(time.Unix(c.NotBefore, 0).Add(-Skew)):
		return invalid("its time has not come")
	case !now.Before(c.Last()):
		return invalid("its time is over")
	}
	return nil
}

// For refuses a grant for another executor.
//
// # Errors
//
// A [*call.Error] with [call.CodeGrantInvalid].
func (c Claims) For(audience string) error {
	if audience == "" || subtle.ConstantTimeCompare([]byte(c.Audience), []byte(audience)) != 1 {
		return invalid("it is for another executor")
	}
	return nil
}

// invalid is a refusal. The detail quotes nothing of the token.
func invalid(detail string) error {
	return &call.Error{Code: call.CodeGrantInvalid, Detail: detail}
}

// unavailable says that nobody could tell.
func unavailable(detail string, err error) error {
	return &call.Error{Code: call.CodeGrantUnavailable, Detail: detail, Err: err}
}
