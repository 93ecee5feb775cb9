package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrNoRecord says that the log does not reach so far.
var ErrNoRecord = errors.New("audit: there is no such record")

// ReadUpTo yields the records of the log in dir up to and with the one at index, in
// order, from nothing but its files: it changes nothing and may run while the log is
// in use. Each record is checked against the checkpoint that closes its batch, as by
// [Verify]. rec is valid until yield returns; an error of yield ends the reading.
//
// # Errors
//
// [ErrNoRecord], a [*TamperError], or an error of the files or of yield.
func ReadUpTo(ctx context.Context, dir string, index int64, yield func(index int64, rec []byte) error) error {
	v, err := loadPub(dir)
	if err != nil {
		return err
	}
	segs, err := segments(dir)
	if err != nil {
		return err
	}
	if index < 0 || len(segs) == 0 {
		return ErrNoRecord
	}
	w := &walker{verifier: v, every: true, stop: -1}
	err = w.walk(ctx, segs, func(first int64, recs [][]byte) error {
		for i, rec := range recs {
			at := first + int64(i)
			if at > index {
				return errEnough
			}
			if err := yield(at, rec); err != nil {
				return err
			}
			if at == index {
				return errEnough
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return err
	}
	return ErrNoRecord
}

var errEnough = errors.New("audit: enough")

// FindSalt is the key of a tenant and UTC day as [Salts.Key] made it, and never a new
// one: [fs.ErrNotExist] if there is none, as when it was erased.
func FindSalt(dir, tenant string, day time.Time) ([32]byte, error) {
	h := sha256.Sum256([]byte(tenant))
	name := day.UTC().Format(time.DateOnly) + "-" + hex.EncodeToString(h[:])
	path := filepath.Join(dir, keysDir, "salts", name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return [32]byte{}, fmt.Errorf("audit: the key of that day: %w", fs.ErrNotExist)
	}
	return readSalt(path)
}
