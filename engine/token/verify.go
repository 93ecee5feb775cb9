package token

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"
)

// Keys finds the public keys of one issuer by thumbprint. Nil without an error says
// that the issuer has no such key; an error, that nobody could tell.
type Keys interface {
	Key(ctx context.Context, kid string) (ed25519.PublicKey, error)
}

// Issuer is one whose grants an executor takes.
type Issuer struct {
	Name string // as in its grants
	Keys Keys

	// SharesState says that the issuer and the executor use one store, so that the
	// epochs of both are of one count.
	SharesState bool
}

// Verifier knows the issuers that an executor trusts.
type Verifier struct{ issuers map[string]Issuer }

// NewVerifier trusts these issuers, each for grants in its own name.
func NewVerifier(issuers ...Issuer) (*Verifier, error) {
	v := &Verifier{map[string]Issuer{}}
	for _, i := range issuers {
		if _, twice := v.issuers[i.Name]; twice || i.Name == "" || i.Keys == nil {
			return nil, fmt.Errorf("token: issuer %q has no name or keys, or stands there twice", i.Name)
		}
		v.issuers[i.Name] = i
	}
	return v, nil
}

// Verified are claims that an issuer vouches for.
type Verified struct {
	Claims
	SharesState bool // see [Issuer]
}

// Verify reads a token and says whether it may be started at that time by that
// executor. It does not say whether it was before.
//
// # Errors
//
// A [*call.Error] with [call.CodeGrantInvalid], or with [call.CodeGrantUnavailable]
// when the issuer's keys cannot be read.
func (v *Verifier) Verify(ctx context.Context, raw, audience string, now time.Time) (Verified, error) {
	t, err := Parse(raw)
	if err != nil {
		return Verified{}, err
	}
	issuer, ok := v.issuers[t.claims.Issuer]
	if !ok {
		return Verified{}, invalid("its issuer is unknown here")
	}
	key, err := issuer.Keys.Key(ctx, t.kid)
	if err != nil {
		return Verified{}, unavailable("the issuer's keys cannot be read", err)
	}
	c, err := t.Verify(key)
	if err != nil {
		return Verified{}, err
	}
	if err := c.For(audience); err != nil {
		return Verified{}, err
	}
	return Verified{Claims: c, SharesState: issuer.SharesState}, c.At(now)
}
