package token_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/token"
)

func setOf(keys ...ed25519.PrivateKey) token.Set {
	s := token.Set{}
	for _, k := range keys {
		p := k.Public().(ed25519.PublicKey)
		s[token.Thumbprint(p)] = p
	}
	return s
}

func encoded(t testing.TB, s token.Set) []byte {
	t.Helper()
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseSet(t *testing.T) {
	x := base64.RawURLEncoding.EncodeToString(public)
	one := `{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}`
	for _, tt := range []struct {
		name, give string
		want       token.Set // nil: refused
	}{
		{"what Encode writes", string(encoded(t, setOf(key, other))), setOf(key, other)},
		{"a key without a name", `{"keys":[` + one + `]}`, setOf(key)},
		{"members that are not known", `{"keys":[{"nbf":1,"kty":"OKP","crv":"Ed25519","x":"` + x + `","use":"sig"}],"more":1}`, setOf(key)},
		{"keys for something else", `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"X25519","x":"` + x + `"},` + one + `]}`, setOf(key)},
		{"a key to encrypt with", `{"keys":[{"use":"enc","kty":"OKP","crv":"Ed25519","x":"` + x + `"}]}`, nil},
		{"a secret", `{"keys":[` + one + `,{"kty":"oct","k":"AQAB","d":"x"}]}`, nil},
		{"a private key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","d":"` + x + `"}]}`, nil},
		{"another name", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"mine"}]}`, nil},
		{"a short key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}`, nil},
		{"a member twice", `{"keys":[],"keys":[` + one + `]}`, nil},
		{"no keys", `{"keys":[]}`, nil},
		{"too many", `{"keys":[` + strings.Repeat(one+",", 16) + one + `]}`, nil},
		{"huge", `{"keys":[` + one + `]}` + strings.Repeat(" ", 64<<10), nil},
		{"no JSON", "keys", nil},
	} {
		got, err := token.ParseSet([]byte(tt.give))
		if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.want != nil) {
			t.Errorf("%s: %v\n%s", tt.name, err, diff)
		}
		if err != nil && strings.Contains(err.Error(), x) {
			t.Errorf("%s: the error quotes a key: %v", tt.name, err)
		}
	}
}

// A file that is replaced counts from then on, and one that is gone answers nothing.
func TestFileKeys(t *testing.T) {
	name := filepath.Join(t.TempDir(), "jwks.json")
	kid := token.Thumbprint(public)
	keys := token.FileKeys(name)
	if k, err := keys.Key(t.Context(), kid); k != nil || err == nil {
		t.Errorf("before there is a file: %v, %v", k, err)
	}
	for _, s := range []token.Set{setOf(key), setOf(other), setOf(other, key)} {
		if err := os.WriteFile(name, encoded(t, s), 0o600); err != nil {
			t.Fatal(err)
		}
		if k, err := keys.Key(t.Context(), kid); !k.Equal(s[kid]) || err != nil {
			t.Errorf("%d keys: %v, %v", len(s), k, err)
		}
	}
	if k, err := token.FileKeys(t.TempDir()).Key(t.Context(), kid); k != nil || err == nil {
		t.Errorf("a directory: %v, %v", k, err)
	}
	// Whoever can write the file can write any grant, so nobody else may.
	for mode, want := range map[os.FileMode]bool{0o644: true, 0o440: true, 0o664: false, 0o602: false} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if k, err := keys.Key(t.Context(), kid); (k != nil) != want || (err == nil) != want || err != nil && !strings.Contains(err.Error(), "others may have written it") {
			t.Errorf("mode %#o: %v, %v", mode, k, err)
		}
	}
}

// published is a server of a set of keys.
type published struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(http.ResponseWriter)
	asked  atomic.Int64
}

func publish(t *testing.T, s token.Set) *published {
	t.Helper()
	p := &published{}
	p.set(encoded(t, s))
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		p.mu.Lock()
		answer := p.answer
		p.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *published) set(b []byte) { p.as(func(w http.ResponseWriter) { _, _ = w.Write(b) }) }

func (p *published) as(f func(http.ResponseWriter)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

func (p *published) keys(t *testing.T, now func() time.Time) token.Keys {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	k, err := token.URLKeys{URL: p.URL + "/jwks.json", CA: ca, Now: now}.Keys()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) pass(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

func TestURLKeys(t *testing.T) {
	p, c := publish(t, setOf(key)), &clock{at: issuedAt}
	keys := p.keys(t, c.now)
	mine, theirs := token.Thumbprint(public), token.Thumbprint(other.Public().(ed25519.PublicKey))
	check := func(what, kid string, found, failed bool, asked int64) {
		t.Helper()
		k, err := keys.Key(t.Context(), kid)
		if (k != nil) != found || (err != nil) != failed || p.asked.Load() != asked {
			t.Errorf("%s: %v, %v, asked %d times, want %d", what, k, err, p.asked.Load(), asked)
		}
	}
	check("the first time", mine, true, false, 1)
	check("again", mine, true, false, 1)
	check("unknown, too soon to look again", theirs, false, false, 1)
	c.pass(5 * time.Second)
	check("unknown, looked again", theirs, false, false, 2)
	p.set(encoded(t, setOf(key, other)))
	check("made known, too soon", theirs, false, false, 2)
	c.pass(5 * time.Second)
	check("made known", theirs, true, false, 3)
	p.set(encoded(t, setOf(other)))
	check("withdrawn, not seen yet", mine, true, false, 3)
	c.pass(time.Minute)
	check("withdrawn", mine, false, false, 4)

	p.as(func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
	c.pass(time.Minute)
	check("the server is down, for a little", theirs, true, false, 5)
	check("nobody can tell about another", mine, false, true, 5)
	c.pass(10 * time.Minute)
	check("the server is down, for long", theirs, false, true, 6)
	for what, answer := range map[string]func(http.ResponseWriter){
		"no set": func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"huge": func(w http.ResponseWriter) {
			fmt.Fprint(w, strings.Repeat(" ", 64<<10)+string(encoded(t, setOf(other))))
		},
		"sent elsewhere":  func(w http.ResponseWriter) { w.Header().Set("Location", "/other"); w.WriteHeader(http.StatusFound) },
		"ends in between": func(w http.ResponseWriter) { w.Header().Set("Content-Length", "100"); fmt.Fprint(w, "{") },
	} {
		p.as(answer)
		c.pass(time.Minute)
		check(what, theirs, false, true, p.asked.Load()+1)
	}
	p.set(encoded(t, setOf(other)))
	c.pass(time.Minute)
	check("the server is back", theirs, true, false, p.asked.Load()+1)
	c.pass(-time.Hour)
	check("a clock that goes back", theirs, true, false, p.asked.Load()+1)
}

// However many tokens name keys that nobody has, the server is asked once.
func TestURLKeysUnderAttack(t *testing.T) {
	p, c := publish(t, setOf(key)), &clock{at: issuedAt}
	keys := p.keys(t, c.now)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if k, err := keys.Key(t.Context(), fmt.Sprint("none-", i)); k != nil || err != nil {
				t.Errorf("Key = %v, %v", k, err)
			}
			if k, err := keys.Key(t.Context(), token.Thumbprint(public)); k == nil || err != nil {
				t.Errorf("Key = %v, %v", k, err)
			}
		})
	}
	wg.Wait()
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// Callers who go away do not make the server be asked more often.
func TestURLKeysOfCallersWhoGoAway(t *testing.T) {
	p, c := publish(t, setOf(key)), &clock{at: issuedAt}
	keys := p.keys(t, c.now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 8 {
		if k, err := keys.Key(ctx, fmt.Sprint("none-", i)); k != nil || err != nil {
			t.Errorf("Key = %v, %v", k, err)
		}
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestURLKeysRefused(t *testing.T) {
	for _, u := range []token.URLKeys{
		{URL: "http://127.0.0.1/jwks.json"}, {URL: "https://"}, {URL: "https://u:canary@host/"}, {URL: "::canary"}, {URL: "https://host/", CA: []byte("none")},
	} {
		if _, err := u.Keys(); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", u.URL, err)
		}
	}
	// A server that nobody vouches for.
	p := publish(t, setOf(key))
	k, err := token.URLKeys{URL: p.URL + "/?canary"}.Keys()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Key(t.Context(), token.Thumbprint(public)); got != nil || err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("Key = %v, %v", got, err)
	}
}
