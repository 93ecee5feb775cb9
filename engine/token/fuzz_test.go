package token_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/token"
)

// Whatever is read: no panic; a refusal with its code that quotes nothing; and what
// is believed is the very string that the key's holder signed.
func FuzzParse(f *testing.F) {
	good := mustSign(f, key, claims())
	parts := strings.Split(good, ".")
	for _, seed := range []string{
		good, mustSign(f, other, claims()), "", "..", good + ".", " " + good, parts[0] + ".." + parts[2], parts[0] + "." + b64("{}") + "." + parts[2],
		b64(`{"alg":"none","kid":"`+token.Thumbprint(public)+`","typ":"grant+jwt"}`) + "." + parts[1] + ".",
		`{"payload":"","signatures":[]}`, parts[0] + "." + b64(`{"iat":1e400}`) + "." + parts[2],
		parts[0] + "." + b64(strings.Repeat("[", 20000)) + ".", parts[0] + "." + b64(strings.Repeat(`{"on_behalf_of":[`, 5000)) + ".",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := token.Parse(raw)
		if err != nil {
			if p != nil || codeOf(err) != call.CodeGrantInvalid || len(err.Error()) > 100 {
				t.Fatalf("Parse = %v, %v", p, err)
			}
			return
		}
		if len(raw) > token.MaxBytes || strings.Count(raw, ".") != 2 || strings.ContainsAny(raw, " \t\r\n=+/{") {
			t.Fatalf("read: %q", raw)
		}
		got, err := p.Verify(public)
		if raw == good {
			if diff := cmp.Diff(claims(), got); diff != "" || err != nil {
				t.Fatal(diff, err)
			}
			return
		}
		if err == nil {
			t.Fatalf("believed: %q", raw)
		}
	})
}

// Whatever is published: no panic, no private key kept, and what is read is what is
// written again.
func FuzzParseSet(f *testing.F) {
	set := token.Set{token.Thumbprint(public): public}
	good, err := set.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"keys":[]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := token.ParseSet(b)
		if err != nil {
			return // refusing is always allowed
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := token.ParseSet(again)
		if diff := cmp.Diff(s, back); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		for kid, k := range s {
			if token.Thumbprint(k) != kid {
				t.Fatalf("%s is not the name of its key", kid)
			}
		}
	})
}
