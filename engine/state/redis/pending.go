package redis

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/state"
)

// keyBytes is the length of the key that all nodes have.
const keyBytes = 32

// derive makes a key for one purpose of the key that all nodes have.
func derive(key []byte, info string) ([]byte, error) {
	if len(key) != keyBytes {
		return nil, fmt.Errorf("redis: a key of %d bytes, want %d", len(key), keyBytes)
	}
	return hkdf.Key(sha256.New, key, nil, info, keyBytes)
}

type keyRequest struct {
	request
	Key string `json:"key"` // derived, of no other use
}

// CheckKey refuses a node whose key, of 32 random bytes, is not that of the nodes that
// run: it would count limits for itself and see no approvals but its own.
func (s *Store) CheckKey(ctx context.Context, key []byte) error {
	k, err := derive(key, "callgate check v1")
	if err != nil {
		return err
	}
	ans, err := s.run(ctx, checkKey, &keyRequest{Key: hex.EncodeToString(k)})
	if err == nil && ans.status == "other" {
		err = errors.New("redis: the nodes that run have another key than this one")
	}
	return err
}

// Salts give every node the same key for a tenant and day, derived (RFC 5869) from the
// one that all nodes have. They are what engine.Options.StateSalts takes: of what they
// key, limits and approvals, nothing can be erased by deleting the key of one day.
type Salts struct{ key []byte }

// NewSalts returns the keys that are derived from key, of 32 random bytes.
func NewSalts(key []byte) (*Salts, error) {
	k, err := derive(key, "callgate salts v1")
	return &Salts{k}, err
}

// Key returns the key of the tenant for the UTC day of day.
func (s *Salts) Key(tenant string, day time.Time) (out [32]byte, err error) {
	info, err := json.Marshal([]string{tenant, day.UTC().Format(time.DateOnly)}) // no part runs into the next
	if err != nil {
		return out, err
	}
	k, err := derive(s.key, string(info))
	copy(out[:], k)
	return out, err
}

// Pending keeps the arguments of calls that wait for approval where all nodes find
// them, under AES-256-GCM and a key that the server never sees. They are gone when
// nobody can look at them any more: at the latest an hour after the approval expires.
type Pending struct {
	s    *Store
	aead cipher.AEAD
}

// NewPending returns the arguments in s under a key that is derived (RFC 5869) from
// key, of 32 random bytes, which all nodes have.
func NewPending(s *Store, key []byte) (*Pending, error) {
	k, err := derive(key, "callgate pending v1")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	p := &Pending{s: s}
	p.aead, err = cipher.NewGCMWithRandomNonce(block)
	return p, err
}

type pendRequest struct {
	request
	ID     string `json:"id"`
	Sealed []byte `json:"sealed"` // base64
}

// Put keeps the arguments of an approval that the store was asked for. When the server
// keeps what it is told as [Open] demands, that is durable.
func (p *Pending) Put(approval string, args []byte) error {
	ans, err := p.s.run(context.Background(), pend, &pendRequest{ID: approval, Sealed: p.aead.Seal(nil, nil, args, []byte(approval))})
	if err == nil && ans.status == "gone" {
		err = state.ErrNoApproval
	}
	return err
}

// errSealed says that what is kept is not what Put wrote.
var errSealed = errors.New("redis: pending arguments are not what was written, or this node's key is another one")

// Get returns the arguments of a pending approval, or an error when they are gone.
func (p *Pending) Get(approval string) ([]byte, error) {
	ans, err := p.s.run(context.Background(), pend, &pendRequest{ID: approval})
	if err != nil {
		return nil, err
	}
	if ans.status == "gone" {
		return nil, state.ErrNoApproval
	}
	sealed, err := base64.StdEncoding.DecodeString(ans.text(0))
	if err != nil {
		return nil, errSealed
	}
	args, err := p.aead.Open(nil, nil, sealed, []byte(approval))
	if err != nil {
		return nil, errSealed
	}
	return args, nil
}

type dropRequest struct {
	request
	ID string `json:"id"`
}

// Drop removes the arguments; none there is no error.
func (p *Pending) Drop(approval string) error {
	_, err := p.s.run(context.Background(), drop, &dropRequest{ID: approval})
	return err
}

// sweepers is how many approvals a sweep asks about at a time.
const sweepers = 16

// Sweep drops the arguments of every approval that keep does not want. Those of a
// question whose record is not durable yet are another node's business.
func (p *Pending) Sweep(keep func(approval string) bool) error {
	ans, err := p.s.run(context.Background(), swept, &dropRequest{})
	if err != nil {
		return err
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // protects errs
		errs []error
	)
	free := make(chan struct{}, sweepers)
	for _, id := range ans.texts(0) {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if keep(id) {
				return
			}
			if err := p.Drop(id); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
