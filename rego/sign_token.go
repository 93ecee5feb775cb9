package rego

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// token is a signature as it stands in .signatures.json, not yet verified.
type token struct {
	Signature
	raw string
}

// numericDate is seconds since 1970 (RFC 7519, section 2).
type numericDate float64

// lastDate is the end of the year 9999.
const lastDate = 253402300799

func (n *numericDate) time() (time.Time, error) {
	switch {
	case n == nil:
		return time.Time{}, nil
	case !(*n >= 1 && *n <= lastDate):
		return time.Time{}, fmt.Errorf("a time is not between 1970 and 9999")
	}
	return time.Unix(int64(*n), 0).UTC(), nil
}

// readToken reads .signatures.json. OPA's own reader takes names in any case and
// the last of two equal ones; what it would read otherwise is refused here.
func readToken(b []byte) (*token, error) {
	bad := func(detail string, err error) error {
		return &BundleError{CodeSignatureMalformed, signaturesFile, detail, err}
	}
	var file struct {
		Signatures []string `json:"signatures"`
		Plugin     string   `json:"plugin"`
	}
	switch err := json.Unmarshal(b, &file, json.RejectUnknownMembers(true)); {
	case err != nil:
		return nil, bad("is not a list of signatures", nil) // the error would quote it
	case len(file.Signatures) != 1:
		return nil, bad(fmt.Sprintf("has %d signatures, and must have one", len(file.Signatures)), nil)
	case file.Plugin != "" && file.Plugin != "_default":
		return nil, bad("is not for OPA's own verifier", nil)
	}
	t := &token{raw: file.Signatures[0]}
	parts := strings.Split(t.raw, ".")
	if len(parts) != 3 {
		return nil, bad("is not a JWT in compact form", nil)
	}
	var header struct {
		Algorithm string         `json:"alg"`
		KeyID     string         `json:"kid"`
		Critical  jsontext.Value `json:"crit"`
	}
	var claims struct {
		KeyID     string       `json:"keyid"`
		Scope     string       `json:"scope"`
		Issuer    string       `json:"iss"`
		Issued    *numericDate `json:"iat"`
		NotBefore *numericDate `json:"nbf"`
		Expires   *numericDate `json:"exp"`
	}
	for i, into := range []any{&header, &claims} {
		part, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return nil, bad("is not a JWT in compact form", nil)
		}
		if err := json.Unmarshal(part, into); err != nil {
			return nil, bad("has a header or claims that are none", nil)
		}
	}
	// RFC 7515, section 4.1.11: who does not know an extension must not go on.
	if header.Critical != nil {
		return nil, bad("has a critical extension, and we know none", nil)
	}
	t.Algorithm, t.KeyID, t.Scope, t.Issuer = header.Algorithm, header.KeyID, claims.Scope, claims.Issuer
	if t.KeyID == "" {
		t.KeyID = claims.KeyID
	}
	var err1, err2, err3 error
	t.Issued, err1 = claims.Issued.time()
	t.NotBefore, err2 = claims.NotBefore.time()
	t.Expires, err3 = claims.Expires.time()
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return nil, bad("has a time that is none", err)
		}
	}
	return t, nil
}
