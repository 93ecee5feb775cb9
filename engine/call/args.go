package call

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of arguments. Whatever is over one is refused, never cut.
const (
	MaxArgsBytes = 1 << 20
	MaxArgsDepth = 32
	maxExact     = 1<<53 - 1 // the largest integer that every JSON reader keeps, RFC 7493 section 2.2
	maxNumber    = 400       // characters; no exact float64 in plain notation needs more
)

// Args are arguments in canonical form: one JSON object, keys sorted and
// numbers written as RFC 8785 says, every number exact. What is decided on,
// hashed and executed is this and nothing else. The zero value is no arguments
// and is not valid anywhere.
type Args struct{ raw string }

// Canonical reads raw as one JSON object and returns its canonical form.
//
// # Errors
//
// [*Error] with [CodeArgsTooLarge]; [CodeArgsInvalid] for bad syntax, duplicate
// keys, invalid UTF-8, lone surrogates, more than one value, a value that is not
// an object or is nested deeper than [MaxArgsDepth]; [CodeArgsInexact] for a
// number that float64 does not hold exactly, since RFC 8785 would give two such
// numbers one form and a tool or policy may still tell them apart.
func Canonical(raw []byte) (Args, error) {
	if len(raw) > MaxArgsBytes {
		return Args{}, &Error{Code: CodeArgsTooLarge}
	}
	if err := checkTokens(raw); err != nil {
		return Args{}, err
	}
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(); err != nil {
		return Args{}, invalid(err)
	}
	return Args{string(v)}, nil
}

// invalid keeps err away from the caller: its text quotes the input.
func invalid(err error) error {
	e := &Error{Code: CodeArgsInvalid, Detail: "not well-formed JSON", Err: err}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		e.Detail = "a key occurs twice"
	}
	return e
}

// checkTokens walks the one object in raw. The decoder itself refuses
// duplicate keys and invalid UTF-8.
func checkTokens(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if d.PeekKind() != '{' {
		return &Error{Code: CodeArgsInvalid, Detail: "not an object"}
	}
	for done := false; ; {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid(err)
		}
		if done {
			return &Error{Code: CodeArgsInvalid, Detail: "more than one value"}
		}
		done = d.StackDepth() == 0
		if d.StackDepth() > MaxArgsDepth {
			return &Error{Code: CodeArgsInvalid, Detail: "nested too deep"}
		}
		if t.Kind() == '0' && !exact(t.String()) {
			return &Error{Code: CodeArgsInexact}
		}
	}
}

// exact reports whether the shortest float64 form of s is the same number.
func exact(s string) bool {
	if len(s) > maxNumber {
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f > maxExact || f < -maxExact {
		return false
	}
	want, ok := rational(s)
	if !ok {
		return false
	}
	got, ok := rational(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && want.Cmp(got) == 0
}

// rational refuses exponents that would make big.Rat build huge numbers.
func rational(s string) (*big.Rat, bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > maxNumber || e < -maxNumber {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

// Bytes returns a copy of the canonical bytes; nil for the zero value.
func (a Args) Bytes() []byte {
	if a.raw == "" {
		return nil
	}
	return []byte(a.raw)
}

// IsZero reports whether a came from nowhere.
func (a Args) IsZero() bool { return a.raw == "" }

// Digest is sha256:<hex> of the canonical bytes. It stays in memory: a record
// keeps a keyed digest instead, since arguments are often guessable.
func (a Args) Digest() string { return Digest([]byte(a.raw)) }

// MarshalJSONTo writes the canonical bytes.
func (a Args) MarshalJSONTo(e *jsontext.Encoder) error {
	if a.raw == "" {
		return errors.New("call: zero Args have no JSON form")
	}
	return e.WriteValue(jsontext.Value(a.raw))
}

// UnmarshalJSONFrom makes the next value canonical, as [Canonical] does.
func (a *Args) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	*a, err = Canonical(v)
	return err
}

// Digest is sha256:<hex> of b, the form in which tools, bundles and modules are
// pinned.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
