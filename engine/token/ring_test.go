package token_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/token"
)

func makeRing(t *testing.T, dir string, now func() time.Time) *token.Ring {
	t.Helper()
	r, err := token.MakeRing(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ringSet(t *testing.T, r *token.Ring) token.Set {
	t.Helper()
	s, err := r.Set()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRing(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "keys"), &clock{at: issuedAt}
	if _, err := token.OpenRing(dir, c.now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenRing of nothing = %v", err)
	}
	r := makeRing(t, dir, c.now)
	signs, next, err := r.KeyIDs()
	if err != nil || signs == next {
		t.Fatal(signs, next, err)
	}
	before := ringSet(t, r)
	if len(before) != 2 || before[signs] == nil || before[next] == nil {
		t.Errorf("set %v", before)
	}
	if again, _, err := makeRing(t, dir, c.now).KeyIDs(); again != signs || err != nil {
		t.Errorf("made anew: %s, %v", again, err)
	}
	raw, err := r.Sign(t.Context(), claims())
	if err != nil {
		t.Fatal(err)
	}

	c.pass(5*time.Minute - 1)
	if err := r.Rotate(false); !errors.Is(err, token.ErrTooSoon) {
		t.Errorf("Rotate too soon = %v", err)
	}
	c.pass(1)
	second, err := token.OpenRing(dir, c.now) // of another process
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Rotate(false); err != nil {
		t.Fatal(err)
	}
	now, _, err := r.KeyIDs()
	if now != next || err != nil {
		t.Errorf("signs %s, want %s; %v", now, next, err)
	}
	after := ringSet(t, r)
	if len(after) != 3 || after[signs] == nil {
		t.Errorf("the set after a rotation: %v", after)
	}
	if raw2, err := r.Sign(t.Context(), claims()); err != nil || keyOf(t, raw2) != next || keyOf(t, raw) != signs {
		t.Errorf("Sign = %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, signs+".pem")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the key that signed is still there: %v", err)
	}
	c.pass(90*time.Second - 1)
	if s := ringSet(t, r); s[signs] == nil {
		t.Error("gone before grants under it are over")
	}
	c.pass(1)
	if s := ringSet(t, r); s[signs] != nil || len(s) != 2 {
		t.Error("still there when grants under it are over")
	}
	leaked := ringSet(t, r)
	if err := r.Rotate(true); err != nil { // too soon for any but a leak
		t.Fatal(err)
	}
	s := ringSet(t, r)
	for kid := range leaked { // both, for they lay side by side
		if _, err := os.Stat(filepath.Join(dir, kid+".pem")); s[kid] != nil || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the leaked key %s is in the set %v, or there: %v", kid, s, err)
		}
	}
	if raw, err := r.Sign(t.Context(), claims()); err != nil || len(s) != 2 || s[keyOf(t, raw)] == nil {
		t.Errorf("Sign after a leak = %v, with the set %v", err, s)
	}
}

func keyOf(t *testing.T, raw string) string {
	t.Helper()
	p, err := token.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p.KeyID()
}

// Keys rotate under load, and no executor ever refuses a grant: each key was known
// for long before it signs.
func TestRotationUnderLoad(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "keys"), &clock{at: issuedAt}
	r := makeRing(t, dir, c.now)
	p := publish(t, ringSet(t, r))
	v, err := token.NewVerifier(token.Issuer{Name: "decider", Keys: p.keys(t, c.now)})
	if err != nil {
		t.Fatal(err)
	}
	seen := sync.Map{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				cl := claims()
				now := c.now()
				cl.IssuedAt, cl.NotBefore, cl.Expires = now.Unix(), now.Unix(), now.Unix()+60
				raw, err := r.Sign(t.Context(), cl)
				if err != nil {
					t.Errorf("Sign: %v", err)
					return
				}
				_, err = v.Verify(t.Context(), raw, "runner", c.now())
				switch {
				case err == nil:
					seen.Store(keyOf(t, raw), true)
				case c.now().Before(cl.Last()): // or else this was asleep for all of its time
					t.Errorf("Verify: %v", err)
					return
				}
			}
		})
	}
	for range 6 {
		waitFor(t, func() bool { // somebody uses the key whose turn it is
			kid, _, err := r.KeyIDs()
			_, ok := seen.Load(kid)
			return err != nil || ok || t.Failed()
		})
		for range 10 { // until the next key may sign
			c.pass(30 * time.Second)
		}
		if err := r.Rotate(false); err != nil {
			t.Fatal(err)
		}
		p.set(encoded(t, ringSet(t, r)))
	}
	close(stop)
	wg.Wait()
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		if t.Context().Err() != nil {
			t.Fatal("never")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestRingRefuses(t *testing.T) {
	for name, spoil := range map[string]func(dir, kid string) error{
		"a key that others can read": func(dir, kid string) error { return os.Chmod(filepath.Join(dir, kid+".pem"), 0o640) },
		"a key that is a link": func(dir, kid string) error {
			was := filepath.Join(dir, kid+".pem")
			return errors.Join(os.Rename(was, was+".x"), os.Symlink(was+".x", was))
		},
		"a key that is none": func(dir, kid string) error { return os.WriteFile(filepath.Join(dir, kid+".pem"), []byte("key"), 0o600) },
		"another key": func(dir, kid string) error {
			names, err := filepath.Glob(filepath.Join(dir, "*.pem"))
			for _, n := range names {
				b, readErr := os.ReadFile(n)
				if err = errors.Join(err, readErr); !strings.HasSuffix(n, kid+".pem") {
					err = errors.Join(err, os.WriteFile(filepath.Join(dir, kid+".pem"), b, 0o600))
				}
			}
			return err
		},
		"no key": func(dir, kid string) error { return os.Remove(filepath.Join(dir, kid+".pem")) },
		"a broken ring": func(dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, "ring.json"), []byte(`{"current":"../x"}`), 0o600)
		},
		"a directory that others can write": func(dir, _ string) error { return os.Chmod(dir, 0o770) },
		"an open ring":                      func(dir, _ string) error { return os.Chmod(filepath.Join(dir, "ring.json"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "keys")
			kid, _, err := makeRing(t, dir, nil).KeyIDs()
			if err := errors.Join(err, spoil(dir, kid)); err != nil {
				t.Fatal(err)
			}
			if _, err := token.OpenRing(dir, nil); err == nil {
				t.Error("OpenRing is fine")
			}
			if _, err := token.MakeRing(dir, nil); err == nil {
				t.Error("MakeRing is fine")
			}
		})
	}
	info, err := os.Stat(filepath.Join(func() string { d := t.TempDir(); makeRing(t, d, nil); return d }(), "ring.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
