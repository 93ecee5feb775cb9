package rego

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// minRSABits is the least that NIST SP 800-131A lets an RSA key have.
const minRSABits = 2048

// Key is a public key.
type Key struct {
	// PEM is the key: PUBLIC KEY or RSA PUBLIC KEY.
	PEM string

	// Algorithm is how the key signs: RS256, RS384, RS512, PS256, PS384, PS512,
	// ES256, ES384, ES512 or EdDSA (RFC 7518, section 3.1; RFC 8037). Empty means
	// RS256 of RSA keys, and of others the only one that there is.
	//
	// OPA has no EdDSA in the keys of its configuration, only in its commands.
	Algorithm string
}

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// keyConfigs are the keys in OPA's form.
func (v *Verification) keyConfigs() (map[string]*bundle.KeyConfig, error) {
	out := map[string]*bundle.KeyConfig{}
	var errs []error
	if len(v.Keys) == 0 {
		errs = append(errs, errors.New("there is no key to verify bundles with"))
	}
	for _, id := range slices.Sorted(mapKeys(v.Keys)) {
		k := v.Keys[id]
		alg, err := k.algorithm()
		if err == nil && id == "" {
			err = errors.New("it has no id")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("key %q: %w", id, err))
			continue
		}
		out[id] = &bundle.KeyConfig{Key: k.PEM, Algorithm: alg}
	}
	if _, ok := v.Keys[v.KeyID]; v.KeyID != "" && !ok {
		errs = append(errs, fmt.Errorf("there is no key %q, which is to be that of signatures without one", v.KeyID))
	}
	return out, errors.Join(errs...)
}

// algorithm checks a key, and tells how it signs.
func (k Key) algorithm() (string, error) {
	if strings.HasPrefix(k.Algorithm, "HS") {
		return "", errors.New("whoever has a secret to verify bundles with can sign them; use a key pair")
	}
	block, rest := pem.Decode([]byte(k.PEM))
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return "", errors.New("it is not one key in PEM form")
	}
	var public any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return "", fmt.Errorf("it is a %s, not a PUBLIC KEY", block.Type)
	}
	if err != nil {
		return "", errors.New("it is not one key in PEM form")
	}
	return Algorithm(public, k.Algorithm)
}

// Algorithm is how a public key signs, as [Key] says: want, if it can, or its own
// if want is empty.
func Algorithm(public crypto.PublicKey, want string) (string, error) {
	var can []string
	switch p := public.(type) {
	case *rsa.PublicKey:
		if p.N.BitLen() < minRSABits {
			return "", fmt.Errorf("it has %d bits; RSA keys need %d", p.N.BitLen(), minRSABits)
		}
		can = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	case *ecdsa.PublicKey:
		switch p.Curve.Params().Name {
		case "P-256":
			can = []string{"ES256"}
		case "P-384":
			can = []string{"ES384"}
		case "P-521":
			can = []string{"ES512"}
		}
	case ed25519.PublicKey:
		can = []string{"EdDSA"}
	}
	switch {
	case len(can) == 0:
		return "", errors.New("bundles are not signed with keys of its kind")
	case want == "":
		return can[0], nil
	case !slices.Contains(can, want):
		return "", fmt.Errorf("it cannot sign with %q, but with %s", want, strings.Join(can, ", "))
	}
	return want, nil
}
