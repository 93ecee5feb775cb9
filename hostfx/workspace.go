package hostfx

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ErrConflict says that nothing was put back, because something that the call changed is
// not as the call left it, or another call changed it at the same time.
var ErrConflict = errors.New("not as the call left it")

// ErrUnfinished says that nobody knows what a call left: it is still under way, or ended
// with the process, or the journal failed.
var ErrUnfinished = errors.New("nobody knows what the call left")

// Workspace is the granted directories of a call whose changes are undone on demand.
//
// What the call is about to change in them, by whatever operation of this package, is
// stored in the host's journal before it changes: content, permissions and time of
// files, texts of links, and directories. Then [Effects.Undo] can put it back, and
// [Effects.Diff] show it, in another call of the same session. What cannot be stored is
// not changed: [ErrQuota] for a file of more than 64 MiB, for more than 512 MiB or
// 10,000 names in a call, and for a journal that is full of calls under way;
// [ErrNotGranted] for what is no file, link or directory. A call whose grant has no
// workspace leaves no trace in the journal.
type Workspace struct{ fx *Effects }

// Workspace gives the call's, which the grant must name.
//
// # Errors
//
// [ErrNotGranted], which is the effect workspace; [ErrClosed].
func (fx *Effects) Workspace() (*Workspace, error) {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return nil, err
	}
	if fx.edits == nil {
		fx.log.add("workspace", "", "", refused)
		return nil, ErrNotGranted
	}
	return &Workspace{fx}, nil
}

// Dir is where relative names are meant to be: the one granted directory that the call
// may write in, or else the first one granted; "" if there is none.
func (w *Workspace) Dir() string {
	var writable []*Dir
	for _, d := range w.fx.dirs {
		if d.modes.Write {
			writable = append(writable, d)
		}
	}
	switch {
	case len(writable) == 1:
		return writable[0].name
	case len(w.fx.dirs) > 0:
		return w.fx.dirs[0].name
	}
	return ""
}

// ResolvePath makes a name of this package's methods of one that a tool was given or
// made up: relative to Dir, or absolute as /<root>/<granted path>/x. Nothing need be
// there, and nothing is opened.
//
// # Errors
//
// [ErrNotGranted] for a name that is in no granted directory, has a component "..", or
// leads out of its directory by a link, which is the effect fs.stat; [fs.ErrInvalid]
// for one that is empty, too long or has a NUL; [ErrClosed].
func (w *Workspace) ResolvePath(name string) (string, error) {
	bad := &fs.PathError{Op: "resolve", Path: name, Err: fs.ErrInvalid}
	if name == "" || len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", bad
	}
	full := name
	if !path.IsAbs(name) {
		full = path.Join("/", w.Dir(), name)
	}
	full = path.Clean(full)
	dotted := slices.Contains(strings.Split(name, "/"), "..")
	d, rel, err := w.fx.find("fs.stat", full, func(Modes) bool { return true })
	if err != nil {
		return "", err
	}
	err = d.self.path("fs.stat", rel, func(at *place) error {
		_, err := at.stat(rel, true)
		if dotted || errors.Is(err, errOutside) {
			return d.note("fs.stat", full, ErrNotGranted)
		}
		return nil // what else is wrong is for those to find out who use the name
	})
	if err != nil {
		return "", err
	}
	return full, nil
}

// RecordEdit stores what is there now, a file or link or all that is in a directory,
// because something other than this package is going to change it: what is there when
// the call ends is then taken for the call's change. Before a command runs this is done
// for all directories that it may change. It is the effect workspace.record.
//
// # Errors
//
// [ErrNotGranted], also where the call may change nothing; [ErrQuota], see [Workspace];
// [ErrChanged]; [ErrClosed]; those of the system.
func (w *Workspace) RecordEdit(name string) error {
	d, rel, err := w.fx.find("workspace.record", name, Modes.changes)
	if err != nil {
		return err
	}
	return d.self.path("workspace.record", rel, func(at *place) error { return d.recordTree(at, rel) })
}

// changes reports whether anything may be changed.
func (m Modes) changes() bool { return m.Write || m.Append || m.Remove }

// recordTree must be called with life held.
func (d *Dir) recordTree(at *place, rel string) error {
	fx, name, began := d.fx, within(d.name, rel), d.fx.now()
	err := fx.unchanged()
	if !d.modes.changes() {
		err = ErrNotGranted
	}
	if err == nil {
		err = fx.edits.tree(d, at, rel)
	}
	if err != nil {
		return d.noteSince(began, "workspace.record", name, err)
	}
	fx.log.add("workspace.record", d.name, name, ok).lasted(fx.since(began))
	return nil
}

func (e *edits) tree(d *Dir, at *place, rel string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err := e.locate(d, at, rel, true)
	if err != nil {
		return err
	}
	defer n.dir.close()
	return e.recordTree(n)
}

// journalTrees stores what a command may change. It must be called with life held, each
// time before something is started that this package does not see working.
func (fx *Effects) journalTrees() error {
	if fx.edits == nil {
		return nil
	}
	for _, d := range fx.dirs {
		if !d.modes.Write && !d.modes.Remove || fx.edits.covers(d.spot) {
			continue
		}
		if err := d.recordTree(d.self.at, "."); err != nil {
			return err
		}
	}
	return nil
}

// covers reports whether what others change there is found at the end.
func (e *edits) covers(s spot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.trees, s.in)
}

// endJournal must be called when nothing changes any more.
func (fx *Effects) endJournal() {
	if fx.edits == nil {
		return
	}
	if err := fx.edits.end(); err != nil {
		fx.log.add("workspace.record", "", "", failed)
	}
}
