package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/callgate/callgate/engine/internal/durable"
)

// Files of a witness that is a directory.
const (
	witnessKeyFile  = "witness.key" // its private key
	witnessPubFile  = "witness.pub" // its verifier key
	witnessLogFile  = "log.pub"     // verifier keys of the log, one a line
	witnessSeenFile = "checkpoint"  // the newest that it cosigned: a signed note
)

const maxNote = 16 << 10 // bytes of a checkpoint with its signatures

// fileWitness is a witness that is a directory.
type fileWitness struct {
	identity
	dir string
	now func() time.Time
}

// MakeFileWitness makes a witness for one log out of dir, which is on another disk or
// another machine, or another user's: it must exist and be empty. LogKey is the log's
// verifier key, as in keys/log.pub. It returns the witness's own.
func MakeFileWitness(dir, logKey string) (key string, err error) {
	v, err := parsePub(logKey)
	if err != nil {
		return "", err
	}
	if err := checkDir(dir); err != nil {
		return "", err
	}
	err = durable.Locked(dir, func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("audit: %s: not empty", dir)
		}
		k, err := makeCosigningKey("witness.local/" + strings.ToLower(rand.Text()[:16]))
		if err != nil {
			return err
		}
		key = k.String()
		// The private key comes last: a witness that has it is complete.
		for _, f := range []struct {
			name    string
			content []byte
		}{
			{witnessLogFile, []byte(strings.TrimSpace(logKey) + "\n")}, {witnessPubFile, []byte(key + "\n")}, {witnessKeyFile, k.encode()},
		} {
			if err := makeFile(filepath.Join(dir, f.name), f.content); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("audit: making a witness of log %s: %w", v.Name(), err)
	}
	return key, nil
}

// FileWitness is the witness that [MakeFileWitness] made of dir. It checks, remembers
// and signs as one behind a network does, but no better than its directory is kept from
// those who can write the log. Now is its clock; nil means time.Now.
func FileWitness(name, dir, key string, now func() time.Time) (Witness, error) {
	id, err := newIdentity(name, key)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &fileWitness{id, dir, now}, nil
}

// ReadFileWitness returns the verifier key of the witness in dir and the newest
// checkpoint that it cosigned, nil when it saw none.
func ReadFileWitness(dir string) (key string, checkpoint []byte, err error) {
	b, err := readFile(filepath.Join(dir, witnessPubFile), maxKeyBytes)
	if err != nil {
		return "", nil, err
	}
	checkpoint, err = readFile(filepath.Join(dir, witnessSeenFile), maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.TrimSpace(string(b)), checkpoint, err
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSmall(f, limit)
}

// Update checks the checkpoint, remembers it and cosigns it.
func (w *fileWitness) Update(_ context.Context, old int64, checkpoint []byte, proof [][32]byte) (cosignature []byte, err error) {
	// A disk that is not there must not be taken for an empty one.
	if err := checkDir(w.dir); err != nil {
		return nil, err
	}
	err = durable.Locked(w.dir, func() error {
		cosignature, err = w.update(old, checkpoint, proof)
		return err
	})
	return cosignature, err
}

func (w *fileWitness) update(old int64, msg []byte, proof [][32]byte) ([]byte, error) {
	private, err := readPrivate(filepath.Join(w.dir, witnessKeyFile), maxKeyBytes)
	if err != nil {
		return nil, err
	}
	key, err := parseCosigningKey(private)
	if err != nil {
		return nil, err
	}
	trusted, err := w.trusted()
	if err != nil {
		return nil, err
	}
	text, sigs, err := believed(msg, trusted)
	if err != nil {
		return nil, err
	}
	origin, _, _ := strings.Cut(text, "\n")
	size, root, err := parseCheckpointText(text, origin)
	if err != nil || old > size || size < 1 || size > maxTree || len(proof) > maxProof {
		return nil, &RefusedError{http.StatusBadRequest, -1}
	}
	seen, seenRoot, err := w.seen(trusted, key)
	if err != nil {
		return nil, err
	}
	switch {
	case seen != old:
		return nil, &RefusedError{http.StatusConflict, seen}
	case seen == size && root != seenRoot:
		return nil, &RefusedError{http.StatusConflict, seen}
	case seen == 0 && len(proof) > 0,
		seen > 0 && tlog.CheckTree(hashesOf(proof), size, root, seen, seenRoot) != nil:
		return nil, &RefusedError{http.StatusUnprocessableEntity, -1}
	}
	line := key.cosign(text, w.now())
	if err := makeFile(filepath.Join(w.dir, witnessSeenFile), []byte(text+"\n"+sigs+line)); err != nil {
		return nil, fmt.Errorf("audit: witness: %w", err)
	}
	return []byte(line), nil
}

// trusted are the log's keys, one of which must have signed. All have the log's name.
func (w *fileWitness) trusted() ([]note.Verifier, error) {
	b, err := readFile(filepath.Join(w.dir, witnessLogFile), maxKeyBytes)
	if err != nil {
		return nil, err
	}
	var out []note.Verifier
	for line := range bytes.Lines(b) {
		v, err := parsePub(string(line))
		if err != nil || len(out) > 0 && v.Name() != out[0].Name() {
			return nil, fmt.Errorf("audit: %s: not the verifier keys of one log", filepath.Join(w.dir, witnessLogFile))
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("audit: %s: no verifier key of a log", filepath.Join(w.dir, witnessLogFile))
	}
	return out, nil
}

// believed is the text of a checkpoint that the log signed, with its signature lines.
func believed(msg []byte, trusted []note.Verifier) (text, sigs string, err error) {
	origin, _, _ := strings.Cut(string(msg), "\n")
	if origin != trusted[0].Name() {
		return "", "", &RefusedError{http.StatusNotFound, -1}
	}
	n, err := note.Open(msg, note.VerifierList(trusted...))
	if err != nil {
		return "", "", &RefusedError{http.StatusForbidden, -1}
	}
	for _, s := range n.Sigs {
		sigs += sigLine(s.Name, s.Base64)
	}
	return n.Text, sigs, nil
}

// seen is what the witness remembers; its own signature says that nobody changed it.
func (w *fileWitness) seen(trusted []note.Verifier, key cosigningKey) (size int64, root tlog.Hash, err error) {
	path := filepath.Join(w.dir, witnessSeenFile)
	b, err := readFile(path, maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, root, nil
	}
	if err != nil {
		return 0, root, err
	}
	n, err := note.Open(b, note.VerifierList(key))
	if err == nil {
		size, root, err = parseCheckpointText(n.Text, trusted[0].Name())
	}
	if err != nil || size < 1 || size > maxTree {
		return 0, root, fmt.Errorf("audit: %s: not a checkpoint of the log that this witness cosigned", path)
	}
	return size, root, nil
}
