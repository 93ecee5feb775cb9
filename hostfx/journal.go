package hostfx

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
)

// Limits of a journal that Options do not state, and of one call in it.
const (
	defaultJournalBytes = 1 << 30
	defaultJournalAge   = 30 * 24 * time.Hour

	maxImage    = 64 << 20  // bytes of one file whose image is taken
	maxImages   = 512 << 20 // bytes of all images that one call takes
	maxRecorded = 10_000    // names that one call changes, or may change
	maxDepth    = 100       // directories within each other in a tree whose image is taken
)

// journal is where the host keeps what files were before calls changed them, by the
// digest of their content, and for each call what it changed. The directory is the
// operator's alone.
//
//	objects/<2 hex>/<sha256>   contents
//	calls/<call id>            lines of JSON, see journalLine
type journal struct {
	dir  *os.Root
	lock *os.File // the directory, locked against other processes
	most int64
	age  time.Duration
	now  func() time.Time
	tops map[string]top // root -> where it is among the roots

	// Held for reading while images are stored and calls begin, so that nothing is
	// pruned that a call is about to need.
	gate sync.RWMutex

	mu     sync.Mutex // protects the fields below, and those of edits that say so
	bytes  int64      // of everything in the directory
	pruned time.Time  // when that was done last
	stuck  time.Time  // when that made too little room
	live   map[*edits]struct{}
	by     map[spot]map[*edits]struct{} // who has changed what, of those that are live
}

// top is a root as the journal knows it: what lies in two roots has one name there.
type top struct {
	root string // the outermost root that it lies in
	path string // below that one
}

// spot is the name of a file, directory or link for the journal.
type spot struct {
	root string // one that lies in no other
	path string // below it, clean; "." for the root itself
}

func (s spot) in(dir spot) bool {
	return s.root == dir.root && (s == dir || dir.path == "." || below(dir.path, s.path))
}

func openJournal(o Options, roots map[string]*place, now func() time.Time) (_ *journal, err error) {
	if !filepath.IsAbs(o.Journal) {
		return nil, errors.New("the path is not absolute")
	}
	if o.JournalBytes < 0 || o.JournalAge < 0 {
		return nil, errors.New("JournalBytes or JournalAge is negative")
	}
	if err := os.MkdirAll(o.Journal, 0o700); err != nil {
		return nil, err
	}
	j := &journal{
		most: or(o.JournalBytes, defaultJournalBytes), age: time.Duration(or(int64(o.JournalAge), int64(defaultJournalAge))), now: now,
		live: map[*edits]struct{}{}, by: map[spot]map[*edits]struct{}{},
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if j.dir, err = os.OpenRoot(o.Journal); err != nil {
		return nil, err
	}
	if j.lock, err = j.dir.Open("."); err != nil {
		return nil, err
	}
	if err := j.own(); err != nil {
		return nil, err
	}
	if err := apart(o); err != nil {
		return nil, err
	}
	if j.tops, err = topsOf(o.Roots, roots); err != nil {
		return nil, err
	}
	for _, name := range []string{"objects", "calls"} {
		if err := j.dir.Mkdir(name, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	return j, j.measure()
}

// own sees to it that nobody else reads, writes or prunes in the directory.
func (j *journal) own() error {
	i, err := statFile(j.lock)
	if err != nil {
		return err
	}
	if i.Mode().Perm()&0o077 != 0 {
		return errors.New("others than its owner can use it, chmod 700")
	}
	err = control(j.lock, func(fd int) error {
		_, err := retried(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		return err
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another process uses it")
	}
	return err
}

// apart sees to it that no grant can reach the journal, and nothing in it is journaled.
func apart(o Options) error {
	at, err := filepath.EvalSymlinks(o.Journal)
	if err != nil {
		return err
	}
	for _, r := range o.Roots {
		root, err := filepath.EvalSymlinks(r.Path)
		if err != nil {
			return err
		}
		if inside(at, root) || inside(root, at) {
			return fmt.Errorf("it and the root %q lie in each other", r.Name)
		}
	}
	return nil
}

// inside reports whether name is dir or in it; both are clean.
func inside(name, dir string) bool { return name == dir || below(strings.TrimRight(dir, "/"), name) }

// topsOf finds out which roots lie in others.
func topsOf(list []Root, roots map[string]*place) (map[string]top, error) {
	tops := map[string]top{}
	for i, r := range list {
		best := top{r.Name, "."}
		for k, o := range list {
			rel, err := roots[r.Name].under(roots[o.Name])
			if errors.Is(err, errOutside) || k == i || rel == "." && k > i { // of two that are one, the first
				continue
			}
			if err != nil {
				return nil, err
			}
			if best.root == r.Name || len(rel) > len(best.path) {
				best = top{o.Name, rel}
			}
		}
		tops[r.Name] = best
	}
	return tops, nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	var errs []error
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	if j.dir != nil {
		errs = append(errs, j.dir.Close())
	}
	return errors.Join(errs...)
}

// callID is what may be the name of a file in calls.
func callID(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// Roots are the names of the roots, in order.
func (h *Host) Roots() []string {
	if h == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(h.roots))
}

// Journaled reports whether there is a journal, so that workspaces can be granted.
func (h *Host) Journaled() bool { return h != nil && h.journal != nil }

// edits are what the call may change from now on. The error is one of Open.
func (h *Host) edits(s Session, dirs []*Dir, done <-chan struct{}) (*edits, error) {
	unavailable := func(why string, err error) error {
		return &call.Error{Code: call.CodeWorkspaceUnavailable, Detail: why, Err: err}
	}
	switch {
	case h == nil || h.journal == nil:
		return nil, unavailable("the host has no journal", nil)
	case !callID(s.Call) || s.Owner == "" || s.ID == "":
		return nil, unavailable("the call is in nobody's session", nil)
	}
	e := &edits{j: h.journal, session: s, done: done, tops: map[string]*place{}, was: map[spot]image{}, mixed: map[spot]bool{}, kept: map[string]bool{}}
	for _, d := range dirs {
		name := d.root()
		t := h.journal.tops[name]
		d.spot = spot{t.root, path.Join(t.path, strings.TrimPrefix(d.name, "/"+name))}
		if e.tops[t.root] != nil {
			continue
		}
		at, err := h.roots[t.root].granted(".")
		if err != nil {
			e.release()
			return nil, unavailable("root "+t.root, err)
		}
		e.tops[t.root] = at
	}
	if err := h.journal.prune(0); err != nil {
		e.release()
		return nil, unavailable("the journal cannot be pruned", err)
	}
	h.journal.mu.Lock()
	defer h.journal.mu.Unlock()
	h.journal.live[e] = struct{}{}
	return e, nil
}
