package token_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/token"
)

var (
	key      = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32)))
	other    = ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", 32)))
	public   = key.Public().(ed25519.PublicKey)
	issuedAt = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
)

func claims() token.Claims {
	return token.Claims{
		Issuer: "decider", Audience: "runner", Subject: "agent-7", ID: "gr-1",
		IssuedAt: issuedAt.Unix(), NotBefore: issuedAt.Unix(), Expires: issuedAt.Unix() + 30,
		Principal: call.RecordPrincipal{
			ID: "agent-7", Kind: "agent", Auth: call.Auth{Method: "mtls", Issuer: "internal"},
			OnBehalfOf: []call.RecordPrincipal{{ID: "alice", Kind: "user", Auth: call.Auth{Method: "jwt", Issuer: "idp"}}},
		},
		Tool: token.Tool{Name: "echo", Digest: call.Digest([]byte("tool"))}, Args: call.Digest([]byte("{}")),
		Caps:   call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}}},
		Policy: []call.Revision{{Name: "policy", Digest: call.Digest(nil)}}, Approvals: []string{"ap-1"},
		Decision: "CALL", Log: token.Place{Origin: "example.com/log", Index: 7}, Epoch: 3,
		Preconditions: []call.Precondition{{File: "/docs/a", Digest: call.Absent}, {ETag: `"v"`}},
	}
}

func mustSign(t testing.TB, k crypto.Signer, c token.Claims) string {
	t.Helper()
	s, err := token.NewSigner(k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.Sign(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func verifier(t testing.TB) *token.Verifier {
	t.Helper()
	v, err := token.NewVerifier(
		token.Issuer{Name: "decider", Keys: token.Set{token.Thumbprint(public): public}, SharesState: true},
		token.Issuer{Name: "another", Keys: token.Set{token.Thumbprint(other.Public().(ed25519.PublicKey)): other.Public().(ed25519.PublicKey)}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func codeOf(err error) call.Code { return call.CodeOf(err, "") }

func TestSignAndVerify(t *testing.T) {
	raw := mustSign(t, key, claims())
	got, err := verifier(t).Verify(t.Context(), raw, "runner", issuedAt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(token.Verified{Claims: claims(), SharesState: true}, got); diff != "" {
		t.Error(diff)
	}
	header, err := base64.RawURLEncoding.DecodeString(raw[:strings.IndexByte(raw, '.')])
	if want := `{"alg":"EdDSA","kid":"` + token.Thumbprint(public) + `","typ":"grant+jwt"}`; err != nil || string(header) != want {
		t.Errorf("header %s, %v, want %s", header, err, want)
	}
}

// RFC 8037, appendix A.3.
func TestThumbprint(t *testing.T) {
	x, err := base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	if err != nil {
		t.Fatal(err)
	}
	if got := token.Thumbprint(x); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("Thumbprint = %s", got)
	}
}

// A grant can be started from five seconds before its time to five seconds after,
// for clocks differ, and at no other time.
func TestTimes(t *testing.T) {
	v, raw := verifier(t), mustSign(t, key, claims())
	for _, tt := range []struct {
		at   time.Duration
		want call.Code
	}{
		{-5*time.Second - 1, call.CodeGrantInvalid}, {-5 * time.Second, ""}, {0, ""}, {30 * time.Second, ""},
		{35*time.Second - 1, ""}, {35 * time.Second, call.CodeGrantInvalid}, {time.Hour, call.CodeGrantInvalid},
	} {
		if _, err := v.Verify(t.Context(), raw, "runner", issuedAt.Add(tt.at)); codeOf(err) != tt.want {
			t.Errorf("at %v: %v, want %q", tt.at, err, tt.want)
		}
	}
	if want := issuedAt.Add(35 * time.Second); !claims().Last().Equal(want) {
		t.Errorf("Last = %v, want %v", claims().Last(), want)
	}
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// signed is a token of exactly this header and payload, with a good signature.
func signed(k ed25519.PrivateKey, header, payload string) string {
	in := b64(header) + "." + b64(payload)
	return in + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k, []byte(in)))
}

func payloadOf(t testing.TB, c token.Claims) string {
	t.Helper()
	b, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Everything but the one token that was signed is refused, before anything of it is
// believed.
func TestTampered(t *testing.T) {
	kid := token.Thumbprint(public)
	header := func(alg, typ, kid string) string {
		return `{"alg":"` + alg + `","kid":"` + kid + `","typ":"` + typ + `"}`
	}
	good := header("EdDSA", token.Type, kid)
	payload := payloadOf(t, claims())
	raw := signed(key, good, payload)
	parts := strings.Split(raw, ".")
	edited := func(from, to string) string {
		if !strings.Contains(payload, from) {
			t.Fatalf("no %q in %s", from, payload)
		}
		return strings.Replace(payload, from, to, 1)
	}
	with := func(change func(*token.Claims)) string {
		c := claims()
		change(&c)
		return signed(key, good, payloadOf(t, c))
	}
	mac := hmac.New(sha256.New, public)
	hs := b64(header("HS256", token.Type, kid)) + "." + parts[1]
	mac.Write([]byte(hs))

	if _, err := verifier(t).Verify(t.Context(), raw, "runner", issuedAt); err != nil {
		t.Fatalf("the token itself is refused: %v", err)
	}
	for name, bad := range map[string]string{
		"nothing":                      "",
		"alg none":                     b64(header("none", token.Type, kid)) + "." + parts[1] + ".",
		"alg none with the signature":  b64(header("none", token.Type, kid)) + "." + parts[1] + "." + parts[2],
		"HS256 with the public key":    hs + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		"alg Ed25519":                  signed(key, header("Ed25519", token.Type, kid), payload),
		"alg in capitals":              signed(key, header("EDDSA", token.Type, kid), payload),
		"typ JWT":                      signed(key, header("EdDSA", "JWT", kid), payload),
		"typ of another case":          signed(key, header("EdDSA", "Grant+JWT", kid), payload),
		"no typ":                       signed(key, `{"alg":"EdDSA","kid":"`+kid+`"}`, payload),
		"no kid":                       signed(key, `{"alg":"EdDSA","typ":"grant+jwt"}`, payload),
		"kid of another key":           signed(key, header("EdDSA", token.Type, token.Thumbprint(other.Public().(ed25519.PublicKey))), payload),
		"signed by another key":        signed(other, good, payload),
		"signed by another issuer":     signed(other, header("EdDSA", token.Type, token.Thumbprint(other.Public().(ed25519.PublicKey))), payload),
		"kid that is a path":           signed(key, header("EdDSA", token.Type, "../../../../../../../../../../dev/null....."), payload),
		"a key in the header":          signed(key, `{"alg":"EdDSA","kid":"`+kid+`","typ":"grant+jwt","jwk":{"kty":"OKP","crv":"Ed25519","x":"`+b64(string(public))+`"}}`, payload),
		"a critical extension":         signed(key, `{"alg":"EdDSA","crit":["b64"],"b64":false,"kid":"`+kid+`","typ":"grant+jwt"}`, payload),
		"a header member twice":        signed(key, `{"alg":"none","alg":"EdDSA","kid":"`+kid+`","typ":"grant+jwt"}`, payload),
		"a header that is no object":   signed(key, `[]`, payload),
		"the payload changed":          parts[0] + "." + b64(edited("agent-7", "agent-8")) + "." + parts[2],
		"caps widened":                 parts[0] + "." + b64(edited(`"read"`, `"write"`)) + "." + parts[2],
		"the signature of another":     parts[0] + "." + parts[1] + "." + strings.Split(mustSign(t, key, token.Claims(claimsFor("gr-2"))), ".")[2],
		"the signature cut":            parts[0] + "." + parts[1] + "." + parts[2][:40],
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"truncated":                    raw[:len(raw)-1],
		"two parts":                    parts[0] + "." + parts[1],
		"four parts":                   raw + ".x",
		"several signatures":           raw + "." + parts[2],
		"a space before":               " " + raw,
		"a line break after":           raw + "\n",
		"a line break within":          raw[:10] + "\n" + raw[10:],
		"a space within":               parts[0] + " ." + parts[1] + "." + parts[2],
		"padding":                      parts[0] + "=." + parts[1] + "." + parts[2],
		"standard base64":              parts[0] + "+." + parts[1] + "." + parts[2],
		"stray bits":                   strayBits(t, parts),
		"JSON serialization":           `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"general JSON serialization":   `{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
		"huge":                         strings.Repeat("a", token.MaxBytes+1),
		"huge, and signed":             signed(key, good, edited("agent-7", strings.Repeat("a", token.MaxBytes))),
		"a claim twice":                signed(key, good, edited(`"sub":"agent-7"`, `"sub":"agent-8","sub":"agent-7"`)),
		"a nested claim twice":         signed(key, good, edited(`"kind":"agent"`, `"kind":"agent","kind":"agent"`)),
		"an unknown claim":             signed(key, good, edited(`"sub":`, `"cnf":{},"sub":`)),
		"an unknown capability":        signed(key, good, edited(`"caps":{`, `"caps":{"root":true,`)),
		"a claim of another case":      signed(key, good, edited(`"sub"`, `"Sub"`)),
		"claims that are not UTF-8":    signed(key, good, edited("internal", "\xff")),
		"two values":                   signed(key, good, payload+"{}"),
		"no claims":                    signed(key, good, "{}"),
		"null":                         signed(key, good, "null"),
		"a time that is a string":      signed(key, good, edited(`"iat":`, `"iat":"1","x":`)),
		"a time with a fraction":       signed(key, good, edited(`"nbf":17`, `"nbf":0.17`)),
		"another audience":             with(func(c *token.Claims) { c.Audience = "runner2" }),
		"no audience":                  with(func(c *token.Claims) { c.Audience = "" }),
		"an unknown issuer":            with(func(c *token.Claims) { c.Issuer = "nobody" }),
		"another known issuer's name":  with(func(c *token.Claims) { c.Issuer = "another" }),
		"expired":                      with(func(c *token.Claims) { c.IssuedAt -= 60; c.NotBefore -= 60; c.Expires -= 60 }),
		"not yet valid":                with(func(c *token.Claims) { c.IssuedAt += 60; c.NotBefore += 60; c.Expires += 60 }),
		"lasts too long":               with(func(c *token.Claims) { c.Expires = c.IssuedAt + 61 }),
		"lasts for ever":               with(func(c *token.Claims) { c.Expires = 1<<63 - 1 }),
		"issued before time":           with(func(c *token.Claims) { c.IssuedAt = -1 << 63 }),
		"begins before it is issued":   with(func(c *token.Claims) { c.NotBefore-- }),
		"ends before it begins":        with(func(c *token.Claims) { c.Expires = c.NotBefore }),
		"no id":                        with(func(c *token.Claims) { c.ID = "" }),
		"an id of control characters":  with(func(c *token.Claims) { c.ID = "gr\n" }),
		"a subject that is not theirs": with(func(c *token.Claims) { c.Subject = "bob" }),
		"no subject":                   with(func(c *token.Claims) { c.Subject, c.Principal.ID = "", "" }),
		"no tool":                      with(func(c *token.Claims) { c.Tool.Name = "" }),
		"no digest of the tool":        with(func(c *token.Claims) { c.Tool.Digest = "sha256:" }),
		"no digest of the arguments":   with(func(c *token.Claims) { c.Args = "" }),
		"a negative epoch":             with(func(c *token.Claims) { c.Epoch = -1 }),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := verifier(t).Verify(t.Context(), bad, "runner", issuedAt)
			if codeOf(err) != call.CodeGrantInvalid {
				t.Fatalf("Verify = %+v, %v", got, err)
			}
			for _, secret := range []string{"agent-", "gr-", "runner", kid, "internal"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error quotes the token: %v", err)
				}
			}
		})
	}
}

func claimsFor(id string) token.Claims { c := claims(); c.ID = id; return c }

// strayBits is the token with another spelling of its signature: 64 bytes leave four
// bits of the last character unused.
func strayBits(t *testing.T, parts []string) string {
	t.Helper()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	sig := parts[2]
	last := strings.IndexByte(alphabet, sig[len(sig)-1])
	again := sig[:len(sig)-1] + string(alphabet[last^1])
	was, err := base64.RawURLEncoding.DecodeString(sig)
	is, err2 := base64.RawURLEncoding.DecodeString(again)
	if err != nil || err2 != nil || string(was) != string(is) {
		t.Fatal("not another spelling of one signature")
	}
	return parts[0] + "." + parts[1] + "." + again
}

// An issuer whose keys cannot be read is no reason to believe, nor to say no.
func TestKeysUnavailable(t *testing.T) {
	v, err := token.NewVerifier(token.Issuer{Name: "decider", Keys: token.FileKeys("nowhere.json")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), mustSign(t, key, claims()), "runner", issuedAt); codeOf(err) != call.CodeGrantUnavailable {
		t.Errorf("Verify = %v", err)
	}
	for _, bad := range [][]token.Issuer{{{Keys: token.Set{}}}, {{Name: "a"}}, {{Name: "a", Keys: token.Set{}}, {Name: "a", Keys: token.Set{}}}} {
		if _, err := token.NewVerifier(bad...); err == nil {
			t.Errorf("NewVerifier(%+v) is fine", bad)
		}
	}
}

// service is a key management service.
type service struct {
	crypto.Signer
	says   ed25519.PublicKey
	broken error
}

func (s service) Public() crypto.PublicKey { return s.says }

func (s service) Sign(r io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	return s.Signer.Sign(r, digest, o)
}

func TestSigner(t *testing.T) {
	t.Run("a service", func(t *testing.T) {
		raw := mustSign(t, service{Signer: key, says: public}, claims())
		if _, err := verifier(t).Verify(t.Context(), raw, "runner", issuedAt); err != nil {
			t.Error(err)
		}
	})
	down := errors.New("down")
	for name, s := range map[string]service{
		"a service that is down":                     {Signer: key, says: public, broken: down},
		"a service that signs with another key":      {Signer: other, says: public},
		"a service that signs under another's claim": {Signer: key, says: other.Public().(ed25519.PublicKey)},
	} {
		t.Run(name, func(t *testing.T) {
			signer, err := token.NewSigner(s)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := signer.Sign(context.Background(), claims()); err == nil || raw != "" || s.broken != nil && !errors.Is(err, down) {
				t.Errorf("Sign = %q, %v", raw, err)
			}
		})
	}
	t.Run("claims of no grant", func(t *testing.T) {
		signer, err := token.NewSigner(key)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := signer.Sign(t.Context(), token.Claims{}); err == nil {
			t.Errorf("Sign = %q", raw)
		}
	})
	t.Run("no Ed25519 key", func(t *testing.T) {
		for _, none := range []crypto.Signer{nil, service{Signer: key, says: nil}} {
			if _, err := token.NewSigner(none); err == nil {
				t.Errorf("NewSigner(%v) is fine", none)
			}
		}
	})
}
