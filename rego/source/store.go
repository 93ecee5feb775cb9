package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego/internal/durable"
)

// Store keeps the bundles that have decided, in a directory of one owner: to start
// without network, and so that a record of the log can be decided again.
//
//	sha256-<hex>.tar.gz   an archive, by the digest of its bytes
//	sha256-<hex>.json     which policy it is
//	last-<layer>.json     what a layer was last decided by
type Store struct{ dir string }

// NewStore keeps bundles in dir, which need not be there yet.
func NewStore(dir string) *Store { return &Store{dir} }

// Kept is a bundle in a Store.
type Kept struct {
	Archive   string    `json:"archive"`         // digest of the bytes
	Digest    string    `json:"digest"`          // of the policy, as records name it
	Revision  string    `json:"revision"`        // as its manifest names it
	Activated time.Time `json:"activated"`       // first
	Size      int64     `json:"size"`            // in bytes
	Layers    []string  `json:"layers,omitzero"` // that it decides now
}

// last is what a layer was last decided by.
type last struct {
	Archive string    `json:"archive"`
	From    string    `json:"from"`
	Version string    `json:"version"`
	Fresh   time.Time `json:"fresh"` // when the source last said that there is nothing newer
}

var archiveDigest = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)

const (
	archiveSuffix = ".tar.gz"
	metaSuffix    = ".json"
	lastPrefix    = "last-"
)

func (s *Store) path(digest, suffix string) string {
	return filepath.Join(s.dir, strings.Replace(digest, ":", "-", 1)+suffix)
}

func (s *Store) lastPath(layer string) string {
	return filepath.Join(s.dir, lastPrefix+layer+metaSuffix)
}

// keep stores a bundle before it decides. What it is goes first: an archive of which
// nobody knows that is never removed.
func (s *Store) keep(snap *Snapshot, r call.Revision, now time.Time) error {
	if _, err := s.Read(snap.Digest); err == nil {
		return nil
	}
	if err := write(s.path(snap.Digest, metaSuffix), Kept{Archive: snap.Digest, Digest: r.Digest, Revision: r.Revision, Activated: now.UTC(), Size: int64(len(snap.Bytes))}); err != nil {
		return err
	}
	return durable.Write(s.path(snap.Digest, archiveSuffix), snap.Bytes)
}

func (s *Store) setLast(layer string, l last) error { return write(s.lastPath(layer), l) }

func write(path string, v any) error {
	b, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.Write(path, append(b, '\n'))
}

// last gives what a layer was last decided by, with the bytes, or fs.ErrNotExist.
func (s *Store) last(layer string) (last, *Snapshot, error) {
	var l last
	if err := readJSON(s.lastPath(layer), &l); err != nil {
		return l, nil, err
	}
	b, err := s.Read(l.Archive)
	if err != nil {
		return l, nil, err
	}
	return l, newSnapshot(b, l.Version), nil
}

// Read gives the bytes of an archive by their digest, which it checks.
func (s *Store) Read(archive string) ([]byte, error) {
	if !archiveDigest.MatchString(archive) {
		return nil, fmt.Errorf("%q is no digest of an archive", archive)
	}
	f, err := os.Open(s.path(archive, archiveSuffix))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := readAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if call.Digest(b) != archive {
		return nil, fmt.Errorf("%s: is not what was kept", f.Name())
	}
	return b, nil
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s is damaged", path)
	}
	return nil
}

// List tells what is kept, the oldest first.
func (s *Store) List() ([]Kept, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Kept
	decides := map[string][]string{} // archive -> layers
	for _, e := range entries {
		if layer, ok := strings.CutPrefix(e.Name(), lastPrefix); ok {
			var l last
			if err := readJSON(filepath.Join(s.dir, e.Name()), &l); err != nil {
				return nil, err
			}
			decides[l.Archive] = append(decides[l.Archive], strings.TrimSuffix(layer, metaSuffix))
		}
		name, ok := strings.CutSuffix(e.Name(), archiveSuffix)
		if digest := strings.Replace(name, "-", ":", 1); ok && archiveDigest.MatchString(digest) {
			k := Kept{Archive: digest}
			if err := readJSON(s.path(digest, metaSuffix), &k); err != nil || k.Archive != digest {
				return nil, fmt.Errorf("%s: nothing says which policy it is", filepath.Join(s.dir, e.Name()))
			}
			out = append(out, k)
		}
	}
	for i := range out {
		out[i].Layers = decides[out[i].Archive]
	}
	slices.SortStableFunc(out, func(a, b Kept) int { return a.Activated.Compare(b.Activated) })
	return out, nil
}

// Prune removes the bundles of which no record's digest is among digests, except
// those that decide now, and tells which they were. It must not run while a
// bundle is activated. Where it cannot tell what something is, it removes nothing.
func (s *Store) Prune(digests map[string]bool) ([]Kept, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	var gone []Kept
	for _, k := range all {
		if digests[k.Digest] || len(k.Layers) > 0 {
			continue
		}
		if err := os.Remove(s.path(k.Archive, archiveSuffix)); err != nil {
			return gone, err
		}
		gone = append(gone, k)
	}
	return gone, s.sweep()
}

// sweep removes what crashes have left: half-written files, and notes about archives
// that are not there.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		note := strings.HasPrefix(e.Name(), "sha256-") && strings.HasSuffix(e.Name(), metaSuffix)
		if note {
			_, gone := os.Stat(strings.TrimSuffix(path, metaSuffix) + archiveSuffix)
			note = errors.Is(gone, fs.ErrNotExist)
		}
		if note || durable.IsTemporary(e.Name()) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
