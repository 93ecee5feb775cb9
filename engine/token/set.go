package token

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of sets of keys.
const (
	maxSetBytes = 64 << 10
	maxSetKeys  = 16
)

// Set is the public keys of one issuer, by thumbprint.
type Set map[string]ed25519.PublicKey

// jwk is a key as RFC 8037 section 2 writes it. D is only looked for.
type jwk struct {
	Kty string `json:"kty"`
	Crv string `json:"crv,omitzero"`
	X   string `json:"x,omitzero"`
	Kid string `json:"kid,omitzero"`
	Alg string `json:"alg,omitzero"`
	Use string `json:"use,omitzero"`
	D   string `json:"d,omitzero"`
}

// Encode writes the set as a JSON Web Key Set, RFC 7517 section 5.
func (s Set) Encode() ([]byte, error) {
	keys := []jwk{}
	for _, kid := range slices.Sorted(maps.Keys(s)) {
		keys = append(keys, jwk{
			Kty: "OKP", Crv: "Ed25519", X: base64.RawURLEncoding.EncodeToString(s[kid]), Kid: kid, Alg: "EdDSA", Use: "sig",
		})
	}
	b, err := json.Marshal(struct {
		Keys []jwk `json:"keys"`
	}{keys}, jsontext.WithIndent("  "))
	return append(b, '\n'), err
}

// ParseSet reads a JSON Web Key Set. Keys for something else are left out, RFC 7517
// section 5.
//
// # Errors
//
// A set that is malformed, holds a private key, names a key otherwise than by its
// thumbprint, or has no key for grants.
func ParseSet(b []byte) (Set, error) {
	if len(b) > maxSetBytes {
		return nil, fmt.Errorf("the set of keys is larger than %d bytes", maxSetBytes)
	}
	var doc struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, errors.New("not a JSON Web Key Set") // the cause could quote a private key
	}
	if len(doc.Keys) > maxSetKeys {
		return nil, fmt.Errorf("more than %d keys", maxSetKeys)
	}
	s := Set{}
	for i, k := range doc.Keys {
		if k.D != "" {
			return nil, fmt.Errorf("keys[%d] is a private key, which must not be published", i)
		}
		if k.Kty != "OKP" || k.Crv != "Ed25519" || k.Use != "" && k.Use != "sig" || k.Alg != "" && k.Alg != "EdDSA" && k.Alg != "Ed25519" {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("keys[%d] is no Ed25519 key", i)
		}
		kid := Thumbprint(x)
		if k.Kid != "" && k.Kid != kid {
			return nil, fmt.Errorf("keys[%d] is not called by its thumbprint", i)
		}
		s[kid] = x
	}
	if len(s) == 0 {
		return nil, errors.New("no Ed25519 key in the set")
	}
	return s, nil
}

// Key implements [Keys] for a set that never changes.
func (s Set) Key(_ context.Context, kid string) (ed25519.PublicKey, error) { return s[kid], nil }
