package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// algorithms is all that the parser is ever given: what the token says of itself
// chooses nothing.
var algorithms = []jose.SignatureAlgorithm{jose.EdDSA}

// kidForm is a SHA-256 in base64url, RFC 7638 section 3.
var kidForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// Token is a token that was read, and that nobody vouches for until Verify.
type Token struct {
	jws    *jose.JSONWebSignature
	kid    string
	claims Claims
}

// header is the whole protected header. Another member, such as crit, jwk or b64,
// is refused rather than understood.
type header struct {
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	Typ string `json:"typ"`
}

// Parse reads a token, strictly: one spelling of base64url without white space, one
// signature, no member twice and none that is not known.
//
// # Errors
//
// A [*call.Error] with [call.CodeGrantInvalid], which quotes nothing of raw.
func Parse(raw string) (*Token, error) {
	if len(raw) > MaxBytes {
		return nil, invalid("it is longer than 1 MiB")
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil, invalid("it is not a compact JWS")
	}
	var h header
	if decodePart(parts[0], &h) != nil {
		return nil, invalid("its header is none of a grant")
	}
	switch {
	case h.Alg != string(jose.EdDSA):
		return nil, invalid("it is not signed with EdDSA")
	case h.Typ != Type:
		return nil, invalid("its type is not grant+jwt")
	case !kidForm.MatchString(h.Kid):
		return nil, invalid("it does not name its key")
	}
	t := &Token{kid: h.Kid}
	if decodePart(parts[1], &t.claims) != nil {
		return nil, invalid("its claims are none of a grant")
	}
	if err := t.claims.check(); err != nil {
		return nil, err
	}
	// Whoever signs has one way to write it, so nothing can be written in two.
	jws, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil {
		return nil, invalid("it is not a compact JWS")
	}
	if again, err := jws.CompactSerialize(); err != nil || again != raw {
		return nil, invalid("it is not a compact JWS")
	}
	t.jws = jws
	return t, nil
}

// decodePart reads one part of a token. Names match exactly and once.
func decodePart(part string, into any) error {
	// Strict: no line breaks, which the decoder would skip, and no stray bits.
	if strings.ContainsAny(part, "\r\n") {
		return base64.CorruptInputError(0)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into, json.RejectUnknownMembers(true))
}

// KeyID is the thumbprint of the key that is said to have signed.
func (t *Token) KeyID() string { return t.kid }

// Unverified are the claims, for whoever wants to look without believing.
func (t *Token) Unverified() Claims { return t.claims }

// Verify returns the claims if that key signed them.
//
// # Errors
//
// A [*call.Error] with [call.CodeGrantInvalid].
func (t *Token) Verify(key ed25519.PublicKey) (Claims, error) {
	if len(key) != ed25519.PublicKeySize || Thumbprint(key) != t.kid {
		return Claims{}, invalid("it is signed with an unknown key")
	}
	if _, err := t.jws.Verify(key); err != nil {
		return Claims{}, invalid("its signature is wrong")
	}
	return t.claims, nil
}
