package token

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/internal/durable"
)

const (
	ringName  = "ring.json"
	keySuffix = ".pem"

	// settle is how long a key is to be known before it signs: by then every
	// executor has looked at the set again.
	settle = 5 * time.Minute

	// keepFor is how long the key that signed before is published: until the last
	// grant under it is over.
	keepFor = MaxLife + 6*Skew
)

// ErrTooSoon says that the next key may not be known to every executor yet.
var ErrTooSoon = errors.New("the next key was made less than 5 minutes ago, so executors may not know it yet")

// Ring is the keys of an issuer in a directory: one that signs, and the one after
// it, which is published but does not sign yet. Nobody is refused when they change
// places, since every executor knows the new one by then. It is safe for concurrent
// use, and follows what other processes do to the directory.
type Ring struct {
	dir string
	now func() time.Time

	mu     sync.Mutex // protects signer
	signer *keySigner
}

// ring is the file that says which key does what. It is replaced whole.
type ring struct {
	Current  string    `json:"current"`   // thumbprint, as the names of the files are
	Next     string    `json:"next"`      //
	NextFrom time.Time `json:"next_from"` // when Next was made
	Previous []retired `json:"previous,omitzero"`
}

// retired is a key that signs no more. Of it only the public half is left.
type retired struct {
	X     string    `json:"x"`
	Until time.Time `json:"until"` // is published
}

// OpenRing opens the keys in dir. A nil clock is time.Now.
//
// # Errors
//
// [fs.ErrNotExist] when [MakeRing] made none there yet; keys that others can read, or a
// directory that they can write.
func OpenRing(dir string, now func() time.Time) (*Ring, error) {
	if now == nil {
		now = time.Now
	}
	r := &Ring{dir: dir, now: now}
	if _, err := r.current(); err != nil {
		if _, none := os.Lstat(filepath.Join(dir, ringName)); errors.Is(none, fs.ErrNotExist) {
			return nil, fmt.Errorf("no keys were made yet: %w", none) // says where
		}
		return nil, err
	}
	return r, nil
}

// MakeRing makes two keys in dir unless there are keys already, and opens them.
func MakeRing(dir string, now func() time.Time) (*Ring, error) {
	if now == nil {
		now = time.Now
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	err := durable.Locked(dir, func() error {
		_, err := readRing(dir)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made := ring{NextFrom: now().UTC()}
		if made.Current, err = makeKey(dir); err != nil {
			return err
		}
		if made.Next, err = makeKey(dir); err != nil {
			return err
		}
		return writeRing(dir, made)
	})
	if err != nil {
		return nil, err
	}
	return OpenRing(dir, now)
}

// Sign implements [Signer] with the key whose turn it is.
func (r *Ring) Sign(ctx context.Context, c Claims) (string, error) {
	s, err := r.current()
	if err != nil {
		return "", err
	}
	return s.Sign(ctx, c)
}

// current is the signer whose turn it is. A file tells, for another process may have
// rotated the keys.
func (r *Ring) current() (*keySigner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for tries := 0; ; tries++ {
		now, err := readRing(r.dir)
		if err != nil {
			return nil, err
		}
		if r.signer != nil && Thumbprint(r.signer.public) == now.Current {
			return r.signer, nil
		}
		key, err := readKey(r.dir, now.Current)
		if errors.Is(err, fs.ErrNotExist) && tries < 3 {
			continue // its file went with the rotation that happened in between
		}
		if err != nil {
			return nil, err
		}
		r.signer, err = newSigner(key)
		return r.signer, err
	}
}

// KeyIDs names the key that signs and the one after it.
func (r *Ring) KeyIDs() (current, next string, err error) {
	now, err := readRing(r.dir)
	return now.Current, now.Next, err
}

// Set is what executors should know now: the key that signs, the next one, and the
// one before for as long as grants under it last.
func (r *Ring) Set() (Set, error) {
	var err error
	for range 3 { // a rotation in between removes a file
		var s Set
		if s, err = r.set(); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return nil, err
}

func (r *Ring) set() (Set, error) {
	now, err := readRing(r.dir)
	if err != nil {
		return nil, err
	}
	s := Set{}
	for _, kid := range []string{now.Current, now.Next} {
		key, err := readKey(r.dir, kid)
		if err != nil {
			return nil, err
		}
		s[kid] = key.Public().(ed25519.PublicKey)
	}
	for _, p := range now.Previous {
		x, err := base64.RawURLEncoding.DecodeString(p.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%s: a previous key is none", filepath.Join(r.dir, ringName))
		}
		if r.now().Before(p.Until) {
			s[Thumbprint(x)] = x
		}
	}
	return s, nil
}

// Rotate lets the next key sign, makes another one to follow it, and forgets the
// one that signed: of that, the public half stays in the set until grants under it
// are over. Publish [Ring.Set] afterwards.
//
// With leaked, both keys are withdrawn at once, since whoever read the one could read
// the other beside it, and nothing waits: two new keys take their places. Executors
// refuse new grants until they know the set, and old ones from then on.
//
// # Errors
//
// [ErrTooSoon] without leaked.
func (r *Ring) Rotate(leaked bool) error {
	return durable.Locked(r.dir, func() error {
		was, err := readRing(r.dir)
		if err != nil {
			return err
		}
		now := r.now().UTC()
		if !leaked && now.Sub(was.NextFrom) < settle {
			return ErrTooSoon
		}
		is := ring{Current: was.Next, NextFrom: now}
		if leaked {
			if is.Current, err = makeKey(r.dir); err != nil {
				return err
			}
		}
		if is.Next, err = makeKey(r.dir); err != nil {
			return err
		}
		if !leaked {
			old, err := readKey(r.dir, was.Current)
			if err != nil {
				return err
			}
			x := base64.RawURLEncoding.EncodeToString(old.Public().(ed25519.PublicKey))
			is.Previous = []retired{{X: x, Until: now.Add(keepFor)}}
			for _, p := range was.Previous {
				if now.Before(p.Until) {
					is.Previous = append(is.Previous, p)
				}
			}
		}
		if err := writeRing(r.dir, is); err != nil {
			return err
		}
		return sweep(r.dir, is)
	})
}

// sweep removes the private keys that have no turn any more.
func sweep(dir string, is ring) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		kid, isKey := strings.CutSuffix(e.Name(), keySuffix)
		isKey = isKey && kidForm.MatchString(kid) && kid != is.Current && kid != is.Next
		if isKey || durable.IsTemporary(e.Name()) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func readRing(dir string) (ring, error) {
	b, err := readPrivate(dir, ringName)
	if err != nil {
		return ring{}, err
	}
	var r ring
	if err := json.Unmarshal(b, &r, json.RejectUnknownMembers(true)); err != nil || !kidForm.MatchString(r.Current) || !kidForm.MatchString(r.Next) {
		return ring{}, fmt.Errorf("%s: does not say which keys there are", filepath.Join(dir, ringName))
	}
	return r, nil
}

func writeRing(dir string, r ring) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(dir, ringName), append(b, '\n'))
}

// makeKey makes a key in a file that its thumbprint names.
func makeKey(dir string) (kid string, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", err
	}
	kid = Thumbprint(public)
	return kid, durable.Write(filepath.Join(dir, kid+keySuffix), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func readKey(dir, kid string) (ed25519.PrivateKey, error) {
	name := filepath.Join(dir, kid+keySuffix)
	b, err := readPrivate(dir, kid+keySuffix)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fmt.Errorf("%s: is not one private key in PEM form", name)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s: is not an Ed25519 key in PKCS#8", name)
	}
	if Thumbprint(key.Public().(ed25519.PublicKey)) != kid {
		return nil, fmt.Errorf("%s: is another key than its name says", name)
	}
	return key, nil
}
