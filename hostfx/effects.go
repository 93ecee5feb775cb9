package hostfx

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
)

// Errors a tool may test for with errors.Is. A file that is not there is
// [fs.ErrNotExist].
var (
	// ErrNotGranted says that the grant does not give this: the path is below
	// no granted directory, the directory's modes do not allow it, a link leads
	// out of the directory, or the file is no regular file; it has names that the
	// call did not make and would be changed; no http entry allows
	// the request, or its host has an address in none of the entry's networks;
	// logging is not granted.
	ErrNotGranted = errors.New("not granted")

	// ErrClosed says that the call is over.
	ErrClosed = errors.New("the call is over")

	// ErrTooManyOpen says that the call holds as many files as it may.
	ErrTooManyOpen = errors.New("too many open files")

	// ErrQuota says that the call would write more bytes, or create more entries of
	// directories, than it may. What was refused takes nothing of either.
	ErrQuota = errors.New("more than the call may write")

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

	session Session
	caller  *caller // of processes, nil for none
	host    *Host
	now     func() time.Time // the host's
	caps    call.Caps
	secrets map[string]credential // name -> what the http entries name
	budget  budget
	charges charges
	lines   lines
	quota   quota
	depends preconditions
	edits   *edits // nil if no workspace is granted

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
		g: g, host: h, now: h.clock(), caps: caps, ctx: ctx, cancel: cancel, depends: preconditions{list: g.Preconditions()},
		budget:  budget{calls: or(b.Calls, math.MaxInt64), sends: b.HTTP(), receipt: b.HTTP()},
		lines:   lines{left: or(b.LogBytes, defaultLogBytes)},
		quota:   quota{bytes: or(b.WriteBytes, defaultWriteBytes), entries: maxEntries},
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
// Listed are 500 effects that went well and 100 of each other code, and however many
// they are the first 3 of each kind and code, so that a flood of one cannot hide
// another. The rest are one last entry without a kind and with the code "more", whose
// Count says how many and its other numbers what they come to together. The lines of a
// code that were logged are one effect from the start, with their Count.
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
		fx.caller.leave()
		fx.endJournal()
		for _, d := range fx.dirs {
			d.self.end()
		}
	}
	return fx.log.effects()
}
