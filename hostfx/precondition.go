package hostfx

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
)

// ErrChanged says that nothing may be changed any more, because a file that the call
// depends on is not as it was when the call was decided, or nobody can tell.
var ErrChanged = errors.New("changed since the decision")

// maxContent is how large a file may be on which a call depends, in bytes.
const maxContent = 16 << 20

// Content returns the digest of a regular file that caps let the call read, by the
// name that tools have for it: sha256:<hex>, or [call.Absent] when nothing is there.
// It is for the engine, which looks at what a call depends on before it is granted.
//
// # Errors
//
// Those of [Host.Open] about directories; [*call.Error] with
// [call.CodePreconditionUnavailable] when no entry of caps gives the file to read, or
// it is larger than 16 MiB, no regular file or cannot be read; the error of ctx.
func (h *Host) Content(ctx context.Context, caps call.Caps, name string) (string, error) {
	var best *call.FS
	for _, f := range caps.FS {
		if slices.Contains(f.Modes, call.ModeRead) && below(dirName(f), name) && (best == nil || len(f.Path) > len(best.Path)) {
			best = &f
		}
	}
	if best == nil {
		return "", &call.Error{Code: call.CodePreconditionUnavailable, Detail: "the call may not read a file that it depends on"}
	}
	at, err := h.descend(*best)
	if err != nil {
		return "", err
	}
	defer at.close()
	d, err := content(ctx, at, relative(strings.TrimPrefix(name, dirName(*best))))
	if err != nil && ctx.Err() == nil {
		err = &call.Error{Code: call.CodePreconditionUnavailable, Err: err}
	}
	return d, err
}

func dirName(f call.FS) string { return path.Join("/", f.Root, f.Path) }

// below reports whether name is in the directory, by the text of both.
func below(dir, name string) bool { return strings.HasPrefix(name, dir+"/") }

// content is the digest of a regular file.
func content(ctx context.Context, at *place, rel string) (string, error) {
	info, err := at.peek(rel, true)
	if errors.Is(err, fs.ErrNotExist) {
		return call.Absent, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return "", err
	}
	// As in openRegular: it may have been replaced since.
	f, err := at.open(rel, unix.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err = statFile(f); err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxContent {
		return "", errors.New("not a regular file of at most 16 MiB")
	}
	h, buf, size := sha256.New(), make([]byte, 64<<10), 0
	for {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if size += n; size > maxContent {
			return "", errors.New("larger than 16 MiB")
		}
		if errors.Is(err, io.EOF) {
			return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// preconditions are what the call depends on.
type preconditions struct {
	list []call.Precondition

	mu     sync.Mutex // held while files are looked at
	looked bool
	err    error // what is found then
}

// unchanged looks at what the call depends on, the first time that it is asked, and
// says the same from then on: what the call itself changes later is its own doing. It
// must be called before each effect that changes something, with life held.
func (fx *Effects) unchanged() error {
	p := &fx.depends
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.looked {
		p.looked, p.err = true, fx.look()
	}
	return p.err
}

// look takes doubt for a change.
func (fx *Effects) look() error {
	for _, p := range fx.depends.list {
		if p.File == "" {
			continue
		}
		var best *Dir
		for _, d := range fx.dirs {
			if d.modes.Read && below(d.name, p.File) && (best == nil || len(d.name) > len(best.name)) {
				best = d
			}
		}
		if best == nil {
			return ErrChanged
		}
		now, err := content(fx.ctx, best.self.at, relative(strings.TrimPrefix(p.File, best.name)))
		if err != nil || now != p.Digest {
			return ErrChanged
		}
	}
	return nil
}

// changes reports whether a request can change something on the server, or is taken
// to.
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

// conditional makes a request that changes something depend on what the call does.
func (fx *Effects) conditional(method string, header http.Header) error {
	if !changes(method) {
		return nil
	}
	if err := fx.unchanged(); err != nil {
		return err
	}
	i := slices.IndexFunc(fx.depends.list, func(p call.Precondition) bool { return p.ETag != "" })
	if i < 0 {
		return nil
	}
	for name := range header {
		if folded(name) == "if-match" { // a second one, in any spelling, could be the one that counts
			return fmt.Errorf("%w: the header if-match is not the tool's to set in this call", ErrBadRequest)
		}
	}
	header.Set("If-Match", fx.depends.list[i].ETag)
	return nil
}
