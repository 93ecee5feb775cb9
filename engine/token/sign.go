package token

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
	"github.com/go-json-experiment/json"
)

// Signer turns claims into a token. It MUST be safe for concurrent use, and MUST
// NOT return a token that [Parse] refuses.
type Signer interface {
	Sign(ctx context.Context, c Claims) (string, error)
}

// keySigner signs with one key.
type keySigner struct {
	public ed25519.PublicKey
	jose   jose.Signer
}

// NewSigner signs with one key, which may be in a key management service: anything
// whose public key is an ed25519.PublicKey.
func NewSigner(key crypto.Signer) (Signer, error) { return newSigner(key) }

func newSigner(key crypto.Signer) (*keySigner, error) {
	if key == nil {
		return nil, errors.New("token: no key")
	}
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok || len(public) != ed25519.PublicKeySize {
		return nil, errors.New("token: the key is not an Ed25519 key")
	}
	s, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: cryptosigner.Opaque(key)},
		(&jose.SignerOptions{}).WithType(Type).WithHeader("kid", Thumbprint(public)),
	)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return &keySigner{public: public, jose: s}, nil
}

// Sign implements [Signer].
func (s *keySigner) Sign(_ context.Context, c Claims) (string, error) {
	payload, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("token: claims: %w", err)
	}
	jws, err := s.jose.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("token: signing: %w", err)
	}
	raw, err := jws.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	// A service may sign with another key than it says; better found here.
	t, err := Parse(raw)
	if err == nil {
		_, err = t.Verify(s.public)
	}
	if err != nil {
		return "", fmt.Errorf("token: what was signed is no grant: %w", err)
	}
	return raw, nil
}

// Thumbprint names a public key, RFC 7638 with SHA-256 and RFC 8037 section 2.
func Thumbprint(key ed25519.PublicKey) string {
	sum, err := (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "" // no key's name
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}
