package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/internal/durable"
	"github.com/callgate/callgate/engine/keyfile"
)

// Names below the data directory.
const (
	logDir  = "log"
	keysDir = "keys"
)

func hashesPath(dir string) string { return filepath.Join(dir, logDir, "hashes") }

func segmentPath(dir string, first int64) string {
	return filepath.Join(dir, logDir, fmt.Sprintf("%020d.jsonl", first))
}

var segmentName = regexp.MustCompile(`^[0-9]{20}\.jsonl$`)

// segments lists the log's files in order. A name that is only nearly right is
// an error, since skipping it would hide records.
func segments(dir string) ([]segment, error) {
	if err := checkDir(filepath.Join(dir, logDir)); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, logDir)) // sorted by name
	if err != nil {
		return nil, err
	}
	var segs []segment
	for _, e := range entries {
		path := filepath.Join(dir, logDir, e.Name())
		if filepath.Ext(path) != ".jsonl" {
			continue
		}
		first, err := strconv.ParseInt(e.Name()[:max(0, len(e.Name())-len(".jsonl"))], 10, 64)
		if !segmentName.MatchString(e.Name()) || err != nil {
			return nil, fmt.Errorf("audit: %s: not the name of a segment", path)
		}
		segs = append(segs, segment{first, path})
	}
	return segs, nil
}

// openRegular opens a file of the log. It refuses links and devices, which
// would let whoever planted one choose what is read or overwritten.
func openRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("audit: %s: is a symbolic link", path)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("audit: %s: not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readPrivate reads a small file that only its owner may read.
func readPrivate(path string, limit int64) ([]byte, error) {
	b, err := keyfile.ReadKey(path, limit)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("audit: %s: is a symbolic link", path)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return b, nil
}

func readSmall(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("audit: %s: larger than %d bytes", f.Name(), limit)
	}
	return b, err
}

// makeFile writes a new file so that after a crash it is whole or not there.
// The caller makes sure that nobody else makes the same one.
func makeFile(path string, content []byte) error {
	tmp := path + ".new"
	// Left by a crash, and never used by anyone.
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := openRegular(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// makeDir makes one directory, durably, unless it is there.
func makeDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return checkDir(path)
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return durable.SyncDir(filepath.Dir(path))
}

func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("audit: %s: not a directory", path)
	}
	return nil
}
