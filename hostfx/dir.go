package hostfx

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
)

// Modes are what a grant lets a call do in a directory. None implies another.
type Modes struct {
	Read   bool // open files for reading; describe them
	Append bool // open or create files to add at their end, and nothing else
	Write  bool // create, overwrite, truncate; make directories and links; set times; be what a rename leads to
	List   bool // read the names of entries; describe them
	Remove bool // remove files, links and empty directories; be what is renamed
}

func modesOf(modes []string) Modes {
	has := func(m string) bool { return slices.Contains(modes, m) }
	return Modes{has(call.ModeRead), has(call.ModeAppend), has(call.ModeWrite), has(call.ModeList), has(call.ModeRemove)}
}

func (m Modes) union(o Modes) Modes {
	return Modes{m.Read || o.Read, m.Append || o.Append, m.Write || o.Write, m.List || o.List, m.Remove || o.Remove}
}

// sees reports whether files may be described.
func (m Modes) sees() bool { return m.Read || m.List }

// Dir is one granted directory.
type Dir struct {
	fx    *Effects
	name  string
	modes Modes
	self  *Folder
	spot  spot // where it is for the journal; zero in a call that has none
}

// Handle is an open [*File] or [*Folder].
type Handle interface {
	Stat() (fs.FileInfo, error)
	Close() error
}

// Name is the path by which tools and guests know the directory:
// /<root>/<granted path>.
func (d *Dir) Name() string { return d.name }

// root is the name of the root that it is in.
func (d *Dir) root() string {
	root, _, _ := strings.Cut(d.name[len("/"):], "/")
	return root
}

// Modes are what the grant lets the call do in it.
func (d *Dir) Modes() Modes { return d.modes }

// inAll are the modes that something in it may have: its own, and those of directories
// granted below it, to which a link may lead as well.
func (d *Dir) inAll() Modes {
	m := d.modes
	for _, o := range d.fx.dirs {
		if below(d.name, o.name) {
			m = m.union(o.modes)
		}
	}
	return m
}

// Folder is the directory itself, open with the call. It does not count as an
// open file.
func (d *Dir) Folder() *Folder { return d.self }

// note records an effect that did not happen, and returns why. It must be
// called with life held.
func (d *Dir) note(kind, target string, err error) error {
	return d.noteSince(d.fx.now(), kind, target, err)
}

// noteSince is note for what was tried, and not only refused.
func (d *Dir) noteSince(began time.Time, kind, target string, err error) error {
	code := failed
	switch {
	case errors.Is(err, errOutside):
		code, err = refused, ErrNotGranted
	case errors.Is(err, ErrNotGranted):
		code = refused
	case errors.Is(err, ErrChanged):
		code = changed
	case errors.Is(err, ErrQuota):
		code = overCap
	case errors.Is(err, fs.ErrNotExist):
		code = notFound
	}
	d.fx.log.add(kind, d.name, target, code).lasted(d.fx.since(began))
	return bad(kind, target, err)
}

func bad(kind, target string, err error) error {
	// The cause without its own path, which would be one of the host's.
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &fs.PathError{Op: strings.TrimPrefix(kind, "fs."), Path: target, Err: err}
}

// within is the name of what rel means, relative to a directory of that name or
// absolute. A ".." after another component stays: if that is a link, it does not lead
// back to where the link is.
func within(name, rel string) string {
	if path.IsAbs(rel) {
		return path.Clean(rel)
	}
	down := false
	for part := range strings.SplitSeq(rel, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && !down: // refused
			name = path.Dir(name)
		default:
			name, down = strings.TrimSuffix(name, "/")+"/"+part, true
		}
	}
	return name
}

// checked says why no file can be called rel. Nothing was asked of the file
// system then, so it is no effect.
func checked(rel string) error {
	switch {
	case strings.ContainsRune(rel, 0):
		return fs.ErrInvalid
	case len(rel) > maxPath:
		return unix.ENAMETOOLONG
	case rel == "":
		return fs.ErrNotExist
	}
	return nil
}

func relative(p string) string {
	if p = strings.TrimLeft(p, "/"); p == "" {
		return "."
	}
	return p
}
