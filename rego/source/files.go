package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/internal/tarball"
)

// maxWatched is how many files are looked at: more than a bundle may have.
const maxWatched = 20_000

// errMoving is files that somebody is writing: no fault, and nothing new yet.
var errMoving = errors.New("the files are changing")

type fileSource struct {
	path string

	mu   sync.Mutex
	seen string // what the last fetch saw
}

// Files is a bundle in a directory or an archive file. Only what has stood still
// from one fetch to the next, and while it was read, is a new version; the first
// fetch takes what is there.
func Files(path string) Source { return &fileSource{path: path} }

func (s *fileSource) String() string { return s.path }

// last is what the last fetch saw.
func (s *fileSource) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Fetch implements [Source]. The version is a digest of names, sizes, modes and
// times, so that asking costs no reading.
func (s *fileSource) Fetch(_ context.Context, last string) (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(s.path); err != nil {
		return nil, err
	}
	now := stamp(s.path)
	moving := last != "" && now != s.seen
	s.seen = now
	switch {
	case now == last:
		return nil, ErrUnchanged
	case moving:
		return nil, errMoving
	}
	b, fsys, err := s.read()
	if after := stamp(s.path); after != now {
		s.seen = after
		return nil, errMoving
	}
	if err != nil {
		return nil, err
	}
	snap := newSnapshot(b, now)
	snap.FS = fsys
	return snap, nil
}

func (s *fileSource) read() ([]byte, fs.FS, error) {
	info, err := os.Stat(s.path)
	switch {
	case err != nil:
		return nil, nil, err
	case info.Mode().IsRegular():
		f, err := os.Open(s.path)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		b, err := readAll(f)
		return b, nil, err
	case !info.IsDir(): // a pipe would block
		return nil, nil, fmt.Errorf("%s: neither a directory nor a file", s.path)
	}
	fsys, err := rego.Load(s.path)
	if err != nil {
		return nil, nil, err
	}
	files, err := tarball.Of(fsys)
	if err != nil {
		return nil, nil, err
	}
	b, err := tarball.Write(files)
	if err == nil && len(b) > MaxBytes {
		err = errTooLarge
	}
	return b, fsys, err
}

// stamp is another one when the files are: their names, sizes, modes and times of
// change. What cannot be looked at is part of it, so that it is seen when that ends.
func stamp(path string) string {
	h := sha256.New()
	info, err := os.Stat(path)
	note(h, "", info, err)
	if err == nil && info.IsDir() {
		n := 0
		err := fs.WalkDir(os.DirFS(path), ".", func(name string, d fs.DirEntry, err error) error {
			if n++; n > maxWatched {
				return fs.SkipAll
			}
			if err == nil {
				info, err = d.Info()
			}
			note(h, name, info, err)
			return nil
		})
		note(h, "", nil, err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func note(h io.Writer, name string, info fs.FileInfo, err error) {
	switch {
	case err != nil:
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		fmt.Fprintf(h, "%q %v\n", name, err)
	case info == nil:
	case info.IsDir():
		fmt.Fprintf(h, "%q %v\n", name, info.Mode()) // its times and size say what the names do
	default:
		fmt.Fprintf(h, "%q %v %d %d %d\n", name, info.Mode(), info.Size(), info.ModTime().UnixNano(), changed(info))
	}
}
