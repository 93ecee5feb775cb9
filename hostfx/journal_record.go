package hostfx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// journaled runs op on what rel names in at, which d grants, once the journal has an
// image of what is there now. In a call that has no journal it only runs op. With
// follow, op changes what a link leads to.
//
// Every change of a file system by name passes here or in journaledPair, and every one
// of an open file has passed when it was opened. It must be called with life held.
func (fx *Effects) journaled(d *Dir, at *place, rel string, follow bool, op func(at *place, rel string) error) error {
	e := fx.edits
	if e == nil {
		return op(at, rel)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err := e.locate(d, at, rel, follow)
	if err != nil {
		return err
	}
	defer n.dir.close()
	if err := e.record(n); err != nil {
		return err
	}
	return op(n.dir, n.base+slashes(rel))
}

// journaledPair is journaled for what changes two names, of which the first may be a
// directory that is moved.
func (fx *Effects) journaledPair(d *Dir, at *place, rel string, to *Dir, toAt *place, toRel string, op func(at *place, rel string, to *place, toRel string) error) error {
	e := fx.edits
	if e == nil {
		return op(at, rel, toAt, toRel)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	from, err := e.locate(d, at, rel, false)
	if err != nil {
		return err
	}
	defer from.dir.close()
	dest, err := e.locate(to, toAt, toRel, false)
	if err != nil {
		return err
	}
	defer dest.dir.close()
	if err := e.recordMove(from, dest); err != nil {
		return err
	}
	return op(from.dir, from.base+slashes(rel), dest.dir, dest.base+slashes(toRel))
}

// journaledFile is journaled for an open file, of which i was found. One that was opened
// for reading alone and has another name by now is refused.
func (fx *Effects) journaledFile(f *File, i *info, op func() error) error {
	e := fx.edits
	if e == nil || f.mode.writes() || f.mode.Truncate {
		return op()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err := e.locate(f.d, f.d.self.at, relative(strings.TrimPrefix(f.name, f.d.name)), true)
	if err != nil {
		return errGone
	}
	defer n.dir.close()
	if is, err := n.dir.stat(n.base, false); err != nil || is.id() != i.id() {
		return errGone
	}
	if err := e.record(n); err != nil {
		return err
	}
	return op()
}

func slashes(rel string) string { return rel[len(strings.TrimRight(rel, "/")):] }

// record takes images of what is there now, of the names that have none yet.
func (e *edits) record(names ...named) error {
	e.j.gate.RLock()
	defer e.j.gate.RUnlock()
	var list []imaged
	for _, n := range names {
		var err error
		if list, err = e.first(list, n.dir, n.base, n.spot); err != nil {
			return err
		}
	}
	return e.commit(list)
}

// recordMove takes images for a rename: of both names, and when it is a directory of all
// that is in it, under both.
func (e *edits) recordMove(from, to named) error {
	e.j.gate.RLock()
	defer e.j.gate.RUnlock()
	list, err := e.first(nil, from.dir, from.base, from.spot)
	if err == nil && from.spot != to.spot {
		list, err = e.first(list, to.dir, to.base, to.spot)
	}
	if err == nil {
		err = movesTo(from, to)
	}
	if err != nil {
		return err
	}
	if from.spot == to.spot { // which changes nothing
		return e.commit(list)
	}
	err = tree(from.dir, from.base, from.spot, e.alive, func(dir *place, base string, s spot) (err error) {
		if list, err = e.first(list, dir, base, s); err != nil {
			return err
		}
		s.root, s.path = to.spot.root, path.Join(to.spot.path, s.path[len(from.spot.path):])
		if _, known := e.was[s]; !known {
			list = append(list, imaged{s, image{Kind: absent}})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e.commit(list)
}

// movesTo fails for what a directory cannot be moved to, so that under its other name
// there is nothing yet.
func movesTo(from, to named) error {
	i, err := from.dir.stat(from.base, false)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && (!i.IsDir() || from.spot == to.spot):
		return nil
	case err != nil:
		return err
	case to.spot.in(from.spot):
		return unix.EINVAL
	}
	return tree(to.dir, to.base, to.spot, func() error { return nil }, func(*place, string, spot) error { return unix.ENOTEMPTY })
}

// recordTree takes images of all that is in a tree, and has what is there at the end of
// the call found.
func (e *edits) recordTree(n named) error {
	e.j.gate.RLock()
	defer e.j.gate.RUnlock()
	list, err := e.first(nil, n.dir, n.base, n.spot)
	if err != nil {
		return err
	}
	// First, so that whatever another call does from now on is known.
	e.j.watch(e, n.spot)
	err = tree(n.dir, n.base, n.spot, e.alive, func(dir *place, base string, s spot) (err error) {
		list, err = e.first(list, dir, base, s)
		return err
	})
	if err != nil {
		return err
	}
	if err := e.commit(list); err != nil {
		return err
	}
	e.trees = append(e.trees, n.spot)
	return nil
}

// tree visits all that is in a directory, but not itself, and of other things nothing.
// What is mounted in it is refused.
func tree(in *place, base string, s spot, alive func() error, visit func(dir *place, base string, s spot) error) error {
	i, err := in.stat(base, false)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !i.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	return branch(in, base, s, i.stat.Dev, maxDepth, alive, visit)
}

func branch(in *place, base string, s spot, dev uint64, depth int, alive func() error, visit func(dir *place, base string, s spot) error) error {
	if depth == 0 {
		return fmt.Errorf("%w: more than %d directories in each other", ErrQuota, maxDepth)
	}
	dir, err := in.granted(base)
	if err != nil {
		return err
	}
	defer dir.close()
	list, err := dir.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer list.Close()
	if i, err := statFile(list); err != nil || i.stat.Dev != dev {
		return errors.Join(err, errOutside)
	}
	for {
		if err := alive(); err != nil {
			return err
		}
		part, err := nextPart(list)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, entry := range part {
			at := spot{s.root, path.Join(s.path, entry.name)}
			if err := visit(dir, entry.name, at); err != nil {
				return err
			}
			if entry.IsDir() {
				if err := branch(dir, entry.name, at, dev, depth-1, alive, visit); err != nil {
					return err
				}
			}
		}
	}
}

// find opens the directory that s is in. It must be closed.
func (e *edits) find(s spot) (named, error) {
	top := e.tops[s.root]
	if top == nil {
		return named{}, errOutside
	}
	if s.path == "." {
		in, err := top.granted(".")
		return named{in, ".", s}, err
	}
	in, err := top.granted(path.Dir(s.path))
	return named{in, path.Base(s.path), s}, err
}

// now is what is at s, which no link leads to. Where its directory should be and is not,
// it is absent.
func (e *edits) now(s spot, keep bool, old string) (image, error) {
	n, err := e.find(s)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errLink), errors.Is(err, unix.ENOTDIR):
		return image{Kind: absent}, nil
	case err != nil:
		return image{}, err
	}
	defer n.dir.close()
	i, err := e.look(n.dir, n.base, 1<<62, false, "")
	room := e.free || i.Size <= maxImage && e.images+i.Size <= maxImages
	if err != nil || !keep || i.Kind != aFile || i.Digest == old || !room {
		return i, err
	}
	stored, err := e.look(n.dir, n.base, max(i.Size, maxImage), true, "")
	if errors.Is(err, ErrQuota) {
		return i, nil // only its content will not be shown
	}
	e.images += stored.Size
	return stored, err
}

// end says in the journal what the call left. Nothing is changed any more by then.
func (e *edits) end() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.j.gate.RLock()
	defer e.j.gate.RUnlock()
	defer e.release()
	defer e.j.leave(e)
	if e.file == nil {
		return nil
	}
	// The call is over, and this goes on.
	e.done = nil
	lines, err := e.left()
	if err == nil {
		err = e.err
	}
	end := journalLine{End: endWhole}
	if err != nil {
		lines, end.End = nil, endLost
	}
	if err == nil && len(lines) == 0 {
		err := errors.Join(e.file.Close(), e.j.forget(e.fileName(), e.length))
		return err
	}
	if e.err == nil {
		err = errors.Join(err, e.write(maxCallFile, append(lines, end)...))
	}
	return errors.Join(err, e.file.Close())
}

// left is what is otherwise now.
func (e *edits) left() (lines []journalLine, err error) {
	found, err := e.found()
	if err != nil {
		return nil, err
	}
	for _, s := range slices.SortedFunc(maps.Keys(e.was), spot.compare) {
		was := e.was[s]
		is, err := e.now(s, true, was.Digest)
		if err != nil {
			return nil, err
		}
		is.Stored = is.Stored || was.Stored && is.Digest == was.Digest
		change := edited{before: was, after: is}
		if !change.changed() {
			continue
		}
		l := journalLine{Root: s.root, Path: []byte(s.path), After: &is, Mixed: e.j.mixedUp(e, s)}
		if found[s] {
			l.Before = &was
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// found adds to was what the trees have now and had not before.
func (e *edits) found() (map[spot]bool, error) {
	found := map[spot]bool{}
	for _, s := range e.trees {
		n, err := e.find(s)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLink) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = tree(n.dir, n.base, s, e.alive, func(_ *place, _ string, s spot) error {
			if _, known := e.was[s]; !known {
				e.was[s], found[s] = image{Kind: absent}, true
			}
			if len(e.was) > 2*maxRecorded {
				return ErrQuota
			}
			return nil
		})
		n.dir.close()
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s spot) compare(o spot) int {
	if c := strings.Compare(s.root, o.root); c != 0 {
		return c
	}
	// As if the slash came before all else, so that what is in a directory follows it.
	return slices.Compare(strings.Split(s.path, "/"), strings.Split(o.path, "/"))
}
