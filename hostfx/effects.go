package hostfx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
)

// Errors a tool may test for with errors.Is. A file that is not there is
// [fs.ErrNotExist].
var (
	// ErrNotGranted says that the grant does not give this: the path is below
	// no granted directory, the directory's modes do not allow it, a link leads
	// out of the directory, or the file is no regular file; no http entry allows
	// the request, or its host has an address in none of the entry's networks;
	// logging is not granted.
	ErrNotGranted = errors.New("not granted")

	// ErrClosed says that the call is over.
	ErrClosed = errors.New("the call is over")

	// ErrTooManyOpen says that the call holds as many files as it may.
	ErrTooManyOpen = errors.New("too many open files")

	// ErrTooLarge says that the call would move more bytes than it may. Nothing
	// of what was too large is returned.
	ErrTooLarge = errors.New("too large")

	// ErrRedirect says that the answer leads to another URL. It is not followed,
	// since the other URL may not be granted.
	ErrRedirect = errors.New("the answer is a redirect")

	// ErrBadRequest says that a request is malformed, or sets a header that is
	// not the tool's to set.
	ErrBadRequest = errors.New("bad request")

	// ErrNoAnswer says that a request got no whole, well-formed answer.
	ErrNoAnswer = errors.New("no answer")

	// ErrWithheld says that there is an answer, and that the tool may not see it
	// because it holds a credential.
	ErrWithheld = errors.New("the answer is withheld")
)

// Limits of one call.
const (
	defaultOpenFiles = 64
	maxPath          = 4096     // bytes, as PATH_MAX
	maxList          = 100_000  // entries that List returns
	maxReadFile      = 64 << 20 // bytes that ReadFile returns
)

// Effects are the handles of one call. Everything asked of them is checked
// against the grant and recorded. All methods are safe for concurrent use, and
// fail with [ErrClosed] once the grant is dead or Close was called.
type Effects struct {
	g    grant.Grant
	dirs []*Dir
	log  effectLog

	host    *Host
	caps    call.Caps
	secrets map[string]credential // name -> what the http entries name
	budget  budget
	charges charges
	lines   lines
	depends preconditions

	ctx    context.Context // the call's: ends requests, whatever context the tool gives them
	cancel context.CancelFunc

	// Held for reading during each operation, so Close waits for those under
	// way and none starts after it. Operations must not nest.
	life   sync.RWMutex
	closed bool

	mu      sync.Mutex // protects the fields below
	handles map[io.Closer]struct{}
	free    int64 // handles that may still be opened
}

func newEffects(ctx context.Context, h *Host, g grant.Grant, caps call.Caps) *Effects {
	b := caps.Bounds
	ctx, cancel := context.WithTimeout(ctx, b.Timeout())
	return &Effects{
		g: g, host: h, caps: caps, ctx: ctx, cancel: cancel, depends: preconditions{list: g.Preconditions()},
		budget:  budget{calls: or(b.Calls, math.MaxInt64), sends: b.HTTP(), receipt: b.HTTP()},
		lines:   lines{left: or(b.LogBytes, defaultLogBytes)},
		free:    or(b.OpenFiles, defaultOpenFiles),
		handles: map[io.Closer]struct{}{},
	}
}

// or is a bound, or what holds when nobody states it.
func or(bound, otherwise int64) int64 {
	if bound <= 0 {
		return otherwise
	}
	return bound
}

// Grant is the grant that the handles were opened under.
func (fx *Effects) Grant() grant.Grant { return fx.g }

// Dirs are the granted directories, for the sandbox to give to a guest.
func (fx *Effects) Dirs() []*Dir { return slices.Clone(fx.dirs) }

// OpenRead opens a regular file for reading. The name is
// /<root>/<granted path>/<file>.
func (fx *Effects) OpenRead(name string) (*File, error) {
	h, err := fx.openAt("fs.read", name, OpenOptions{}, func(d *Dir) bool { return d.read })
	if err != nil {
		return nil, err
	}
	f, ok := h.(*File)
	if !ok {
		h.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return f, nil
}

// ReadFile returns the content of a regular file of at most 64 MiB.
func (fx *Effects) ReadFile(name string) ([]byte, error) {
	f, err := fx.OpenRead(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReadFile+1))
	if err == nil && len(b) > maxReadFile {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("larger than 64 MiB")}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// List returns the entries of a directory, sorted by name. It needs the mode
// list, and fails for a directory of more than 100,000 entries.
func (fx *Effects) List(name string) ([]fs.DirEntry, error) {
	h, err := fx.openAt("fs.list", name, OpenOptions{Directory: true}, func(d *Dir) bool { return d.list })
	if err != nil {
		return nil, err
	}
	defer h.Close()
	f, ok := h.(*Folder)
	if !ok {
		return nil, &fs.PathError{Op: "list", Path: name, Err: syscall.ENOTDIR}
	}
	entries, err := f.Next(maxList + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > maxList {
		return nil, &fs.PathError{Op: "list", Path: name, Err: fmt.Errorf("more than %d entries", maxList)}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Stat describes a file or directory, following links. It needs the mode read
// or list, and is an effect only when it is refused.
func (fx *Effects) Stat(name string) (fs.FileInfo, error) {
	d, rel, err := fx.find("fs.stat", name, (*Dir).any)
	if err != nil {
		return nil, err
	}
	return d.Stat(rel)
}

func (fx *Effects) openAt(kind, name string, o OpenOptions, has func(*Dir) bool) (Handle, error) {
	d, rel, err := fx.find(kind, name, has)
	if err != nil {
		return nil, err
	}
	return d.open(kind, rel, o)
}

// find returns the granted directory that name is below: the deepest one that
// has the mode, or else the deepest one, which will refuse.
func (fx *Effects) find(kind, name string, has func(*Dir) bool) (*Dir, string, error) {
	bad := &fs.PathError{Op: strings.TrimPrefix(kind, "fs."), Path: name, Err: ErrNotGranted}
	if len(name) > maxPath || strings.ContainsRune(name, 0) || !strings.HasPrefix(name, "/") {
		bad.Err = fs.ErrInvalid
		return nil, "", bad
	}
	clean := path.Clean(name)
	var best *Dir
	for _, d := range fx.dirs {
		if clean != d.name && !strings.HasPrefix(clean, d.name+"/") {
			continue
		}
		if best == nil || has(d) && !has(best) || has(d) == has(best) && len(d.name) > len(best.name) {
			best = d
		}
	}
	if best != nil {
		return best, relative(strings.TrimPrefix(clean, best.name)), nil
	}
	fx.life.RLock()
	defer fx.life.RUnlock()
	if bad.Err = fx.gone(); bad.Err == nil {
		bad.Err = ErrNotGranted
		fx.log.add(kind, "", clean, refused)
	}
	return nil, "", bad
}

func (fx *Effects) dir(name string) *Dir {
	for _, d := range fx.dirs {
		if d.name == name {
			return d
		}
	}
	return nil
}

// gone must be called with life held.
func (fx *Effects) gone() error {
	if fx.closed || !fx.g.Live() {
		return ErrClosed
	}
	return nil
}

// keep registers a handle, so that Close ends it.
func (fx *Effects) keep(h io.Closer) bool {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.free == 0 {
		return false
	}
	fx.free--
	fx.handles[h] = struct{}{}
	return true
}

// drop must be called once the handle is closed.
func (fx *Effects) drop(h io.Closer) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if _, ok := fx.handles[h]; ok {
		delete(fx.handles, h)
		fx.free++
	}
}

// Close ends the call's effects: it ends the requests and waits for the other
// operations under way, closes every handle that is still open, and returns what
// happened in order. No effect is possible afterwards. Further calls return the
// same.
//
// At most 1,000 effects are listed (500 that went well and 100 of each other
// code, so that a flood of one cannot hide another). The rest are one last
// entry without a kind and with the code "more", whose Count says how many and
// Bytes what they moved together. The lines of a code that were logged are one
// effect from the start, with their Count.
func (fx *Effects) Close() []call.Effect {
	fx.cancel()
	fx.life.Lock()
	defer fx.life.Unlock()
	if !fx.closed {
		fx.closed = true
		for h := range fx.handles {
			h.(interface{ end() error }).end()
		}
		fx.handles, fx.secrets = nil, nil
		for _, d := range fx.dirs {
			d.self.end()
			d.root.Close()
		}
	}
	return fx.log.effects()
}
