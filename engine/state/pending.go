package state

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/callgate/callgate/engine/internal/durable"
	"github.com/callgate/callgate/engine/keyfile"
)

const (
	// pendingSuffix ends the names of files with pending arguments.
	pendingSuffix = ".aes"

	keyBytes = 32
)

// approvalID is what an approval's id looks like, and so what may be a file name.
var approvalID = regexp.MustCompile(`^ap-[A-Z0-9]{1,64}$`)

// Pending keeps the arguments of calls that wait for approval, each in a file of
// its own under AES-256-GCM, since they are the only arguments that Callgate ever
// writes down.
type Pending struct {
	dir  string
	aead cipher.AEAD
}

// OpenPending returns the arguments kept in data/pending, under the key in
// data/keys/pending.key, both of which it makes. Processes that share the
// directory get the same key.
//
// # Errors
//
// A file that is not exactly a key, or that others can read, is an error and stays
// as it is.
func OpenPending(data string) (*Pending, error) {
	p := &Pending{dir: filepath.Join(data, "pending")}
	keys := filepath.Join(data, "keys")
	for _, d := range []string{p.dir, keys} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := durable.SyncDir(data); err != nil {
		return nil, err
	}
	key, err := OpenKey(filepath.Join(keys, "pending.key"))
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	p.aead, err = cipher.NewGCMWithRandomNonce(block)
	return p, err
}

// OpenKey reads a key as [ReadKey] does, or makes it, durably, when it has never been
// there. It does so under a lock that other processes respect: what was written
// under a key that lost a race would be unreadable for ever.
func OpenKey(name string) (key []byte, err error) {
	dir := filepath.Dir(name)
	err = durable.Locked(dir, func() error {
		k, err := ReadKey(name)
		if key = k; !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := sweep(dir, durable.IsTemporary); err != nil {
			return err
		}
		key = make([]byte, keyBytes)
		rand.Read(key) // never fails: crypto/rand
		return durable.Write(name, key)
	})
	return key, err
}

// ReadKey reads a file that is a key of 32 bytes, as pending arguments have one.
//
// # Errors
//
// A file that is not exactly that, is a link, or that others can read, is an error.
func ReadKey(name string) ([]byte, error) {
	key, err := keyfile.ReadKey(name, 1<<10)
	if err != nil {
		return nil, err
	}
	if len(key) != keyBytes {
		return nil, fmt.Errorf("%s: is not a key of %d bytes", name, keyBytes)
	}
	return key, nil
}

// Put keeps the arguments durably.
func (p *Pending) Put(approval string, args []byte) error {
	name, err := p.file(approval)
	if err != nil {
		return err
	}
	return durable.Write(name, p.aead.Seal(nil, nil, args, []byte(approval)))
}

// Get returns the arguments of a pending approval. An error says that they are
// gone or that the file is not what Put wrote.
func (p *Pending) Get(approval string) ([]byte, error) {
	name, err := p.file(approval)
	if err != nil {
		return nil, err
	}
	sealed, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	args, err := p.aead.Open(nil, nil, sealed, []byte(approval))
	if err != nil {
		return nil, fmt.Errorf("%s: is not what was written: %w", name, err)
	}
	return args, nil
}

// Drop removes the arguments; none there is no error.
func (p *Pending) Drop(approval string) error {
	name, err := p.file(approval)
	if err != nil {
		return err
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sweep drops the arguments of every approval that keep does not want, and what a
// crash left half written. Nothing else may use the directory meanwhile.
func (p *Pending) Sweep(keep func(approval string) bool) error {
	return sweep(p.dir, func(name string) bool {
		id, ours := strings.CutSuffix(name, pendingSuffix)
		return durable.IsTemporary(name) || ours && approvalID.MatchString(id) && !keep(id)
	})
}

// sweep removes the files of a directory that drop names.
func sweep(dir string, drop func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !drop(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *Pending) file(approval string) (string, error) {
	if !approvalID.MatchString(approval) {
		return "", fmt.Errorf("%q is no approval's id", approval)
	}
	return filepath.Join(p.dir, approval+pendingSuffix), nil
}
