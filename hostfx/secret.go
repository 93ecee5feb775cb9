package hostfx

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/callgate/callgate/engine/call"
)

// Limits of credentials, in bytes. A shorter one could be guessed, and would be
// found by chance in answers that do not hold it.
const (
	minSecret = 8
	maxSecret = 8 << 10
)

// Secret is a credential of the operator's.
type Secret struct {
	Value  string // 8 bytes to 8 KiB that a header can hold; for the form basic, user:password, which has 8 bytes as well
	Header string // the header's name, for the form header
}

// credential is a secret that the call may use.
type credential struct {
	Secret
	traces [][]byte // what tells it in an answer, in lower case
}

// readSecrets reads each credential that an http entry names.
func (fx *Effects) readSecrets() error {
	for _, e := range fx.caps.HTTP {
		if e.Secret == nil {
			continue
		}
		c, have := fx.secrets[e.Secret.Name]
		if !have {
			s, err := fx.secret(e.Secret.Name)
			if err != nil {
				return noSecret(e.Secret, err)
			}
			c = credential{s, traces(s.Value)}
		}
		if err := c.fits(e.Secret.As); err != nil {
			return noSecret(e.Secret, err)
		}
		if fx.secrets == nil {
			fx.secrets = map[string]credential{}
		}
		fx.secrets[e.Secret.Name] = c
	}
	return nil
}

func noSecret(s *call.Secret, err error) error {
	e := &call.Error{Code: call.CodeSecretUnavailable, Detail: "secret " + s.Name + ": " + err.Error()}
	if why, ok := errors.AsType[*unread](err); ok {
		e.Where = why.where
	}
	return e
}

// unread says that a credential cannot be read, and to the operator why.
type unread struct{ text, where string }

func (u *unread) Error() string { return u.text }

// secret waits for a credential, but not longer than the call may take.
func (fx *Effects) secret(name string) (Secret, error) {
	type answer struct {
		secret Secret
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("it cannot be read")} // what a reader that panics says
		defer func() { _ = recover(); done <- a }()
		a.secret, a.err = fx.host.secret(name)
	}()
	select {
	case a := <-done:
		return a.secret, a.err
	case <-fx.ctx.Done():
		return Secret{}, errors.New("reading it took too long")
	}
}

// secret reads a credential. The errors never wrap the reader's, which may quote
// what it read; only the place of one that is a *call.Error goes on.
func (h *Host) secret(name string) (Secret, error) {
	if h == nil || h.secrets == nil {
		return Secret{}, errors.New("no secrets are configured")
	}
	s, err := h.secrets(name)
	if err != nil {
		u := &unread{text: "it cannot be read"}
		if e, ok := errors.AsType[*call.Error](err); ok {
			u.where = e.Where
		}
		if errors.Is(err, fs.ErrNotExist) {
			u.text = "it does not exist"
		} else if errors.Is(err, fs.ErrPermission) {
			u.text = "it may not be read"
		}
		return Secret{}, u
	}
	switch {
	case len(s.Value) < minSecret || len(s.Value) > maxSecret:
		return Secret{}, fmt.Errorf("it is not of %d to %d bytes", minSecret, maxSecret)
	case !httpguts.ValidHeaderFieldValue(s.Value) || strings.Trim(s.Value, " \t") != s.Value:
		return Secret{}, errors.New("it has bytes that no header can hold")
	}
	return s, nil
}

// fits says why the credential cannot be sent in a form.
func (c credential) fits(as string) error {
	switch as {
	case "bearer":
		return nil
	case "basic":
		_, password, ok := strings.Cut(c.Value, ":") // RFC 7617 section 2
		if !ok {
			return errors.New("it is not user:password")
		}
		if len(password) < minSecret {
			return fmt.Errorf("its password is shorter than %d bytes", minSecret)
		}
		return nil
	case "header":
		if !httpguts.ValidHeaderFieldName(c.Header) || isFraming(c.Header) || isOurs(c.Header) {
			return errors.New("no header that may carry it is configured")
		}
		return nil
	}
	return errors.New("its form is unknown")
}

// attach adds the credential. The tool must not have set its header, in any
// spelling that a server could take for it.
func (c credential) attach(h http.Header, as string) error {
	name, value := "Authorization", ""
	switch as {
	case "bearer":
		value = "Bearer " + c.Value
	case "basic":
		value = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Value))
	case "header":
		name, value = c.Header, c.Value
	default:
		return ErrNotGranted
	}
	for k := range h {
		if folded(k) == folded(name) {
			return fmt.Errorf("%w: the header of the credential is not the tool's to set", ErrBadRequest)
		}
	}
	h.Set(name, value)
	return nil
}

// exposes fails when an answer holds a credential of the call, whether or not the
// request carried it: a server may have kept it from another one.
func (fx *Effects) exposes(h http.Header, body []byte) error {
	if len(fx.secrets) == 0 {
		return nil
	}
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return fmt.Errorf("%w: it is encoded, and cannot be searched for a credential", ErrWithheld)
		}
	}
	var all bytes.Buffer
	_ = h.Write(&all) // a buffer takes everything
	texts := [][]byte{lower(body), lower(all.Bytes())}
	texts = append(texts, unescaped(texts[0]), unescaped(texts[1]))
	for _, c := range fx.secrets {
		for _, t := range c.traces {
			if slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(text, t) }) {
				return fmt.Errorf("%w: it holds a credential", ErrWithheld)
			}
		}
	}
	return nil
}

// unescaped undoes the escapes of JSON, of which encoders use more or fewer; nil
// when there are none.
func unescaped(b []byte) []byte {
	if !bytes.ContainsRune(b, '\\') {
		return nil
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if b[0] != '\\' || len(b) == 1 {
			out, b = append(out, b[0]), b[1:]
			continue
		}
		if r, n := escaped(b); n > 0 {
			out, b = append(out, lower(utf8.AppendRune(nil, r))...), b[n:]
			continue
		}
		out, b = append(out, b[1]), b[2:]
	}
	return out
}

// escaped is the character that b begins with as \u and four digits, or two of these
// for one beyond 16 bits, and how long that is; 0 when it is nothing of the kind.
func escaped(b []byte) (rune, int) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, 0
	}
	u, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0, 0
	}
	r := rune(u)
	if next, n := escaped(b[6:min(len(b), 12)]); n > 0 && utf16.DecodeRune(r, next) != utf8.RuneError {
		return utf16.DecodeRune(r, next), 12
	}
	return r, 6
}

// traces are the forms in which a server may well send a credential back: itself,
// the part after the user or scheme, and what the usual encoders make of them.
func traces(v string) [][]byte {
	parts := []string{v}
	for _, sep := range []string{":", " ", "="} {
		if _, part, _ := strings.Cut(v, sep); len(part) >= minSecret {
			parts = append(parts, part)
		}
	}
	var out [][]byte
	for _, p := range parts {
		forms := []string{p, url.QueryEscape(p), url.PathEscape(p), html.EscapeString(p), hex.EncodeToString([]byte(p))}
		if quoted, err := jsontext.AppendQuote(nil, p); err == nil {
			forms = append(forms, string(quoted[1:len(quoted)-1]))
		}
		for shift := range 3 {
			forms = append(forms, inBase64(p, shift, base64.RawStdEncoding), inBase64(p, shift, base64.RawURLEncoding))
		}
		for _, f := range forms {
			out = append(out, lower([]byte(f)))
		}
	}
	return out
}

// inBase64 is what is sure to be in the encoding of any text that holds s, shift
// bytes after a multiple of three: the characters that depend on s alone.
func inBase64(s string, shift int, e *base64.Encoding) string {
	whole := (shift + len(s)) * 8 / 6
	return e.EncodeToString([]byte(strings.Repeat("x", shift) + s))[(shift*8+5)/6 : whole]
}

// lower folds only ASCII, so what is no text stays as it is.
func lower(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}
