package audit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/internal/durable"
)

// maxSalts bounds the keys that are held in memory.
const maxSalts = 1024

// Salts are the keys of the digests in records, one file for each tenant and
// UTC day. Deleting a file erases what the digests of that tenant and day say,
// from the next start of the process on.
type Salts struct {
	dir string

	mu   sync.Mutex // protects keys
	keys map[string][32]byte
}

// OpenSalts returns the keys in dir/keys/salts, which it makes.
func OpenSalts(dir string) (*Salts, error) {
	s := &Salts{dir: filepath.Join(dir, keysDir, "salts"), keys: map[string][32]byte{}}
	for _, d := range []string{filepath.Dir(s.dir), s.dir} {
		if err := makeDir(d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Key returns the key of tenant for the UTC day of day; the first use makes it,
// durably. Processes that share the directory get the same key.
//
// # Errors
//
// A file that is not exactly a key, or that others can read, is an error and
// stays as it is.
func (s *Salts) Key(tenant string, day time.Time) ([32]byte, error) {
	// A tenant's name can be hostile and is nobody's business: only its hash is
	// in the file's name.
	h := sha256.Sum256([]byte(tenant))
	name := day.UTC().Format(time.DateOnly) + "-" + hex.EncodeToString(h[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.keys[name]; ok {
		return k, nil
	}
	k, err := s.load(name)
	if err != nil {
		return [32]byte{}, err
	}
	if len(s.keys) >= maxSalts {
		clear(s.keys) // they are on disk, and few days are in use at a time
	}
	s.keys[name] = k
	return k, nil
}

// load reads the key, or makes it under a lock that other processes respect.
func (s *Salts) load(name string) ([32]byte, error) {
	path := filepath.Join(s.dir, name)
	d, err := os.Open(s.dir)
	if err != nil {
		return [32]byte{}, fmt.Errorf("audit: %w", err)
	}
	defer d.Close() // unlocks
	if err := durable.Lock(d); err != nil {
		return [32]byte{}, fmt.Errorf("audit: locking %s: %w", s.dir, err)
	}
	k, err := readSalt(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	rand.Read(k[:]) // never fails: crypto/rand
	if err := makeFile(path, k[:]); err != nil {
		return [32]byte{}, err
	}
	return k, nil
}

func readSalt(path string) (k [32]byte, err error) {
	b, err := readPrivate(path, int64(len(k)))
	if err != nil {
		return k, err
	}
	if len(b) != len(k) {
		return k, fmt.Errorf("audit: %s: %d bytes, want %d", path, len(b), len(k))
	}
	copy(k[:], b)
	return k, nil
}
