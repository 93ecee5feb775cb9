package hostfx

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Undo puts back what another call of the same session, and so of the same principal,
// changed, all of it or nothing: files with their content, permissions and time,
// directories, links. A file that is put back is a new one: it belongs to this process's
// user, and has no second names, attributes or lists of access that the old one had.
//
// Everything that the call changed must be in granted directories with the modes write
// and remove, and be as the call left it. What is put back counts as written. It is itself
// in the journal, whatever its size, so that it can be undone like any call.
//
// It is the effect workspace.undo with the call's id as its target, and an effect
// fs.write or fs.remove for each name. While it works, the granted directories have files
// whose names begin with ".callgate-"; a crash leaves them there.
//
// # Errors
//
// [ErrNotGranted], also for a call that there is not, that changed nothing, that is no
// longer kept, or that is of another principal or session; [ErrConflict];
// [ErrUnfinished]; [ErrQuota]; [ErrChanged]; [ErrClosed]. Nothing was changed then. Any
// other error may leave a part undone, which undoing this call takes back.
func (fx *Effects) Undo(callID string) error {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return err
	}
	began := fx.now()
	err := fx.undo(callID)
	fx.log.add("workspace.undo", "", target(callID), undoCode(err)).lasted(fx.since(began))
	return err
}

// target is an id that may stand in a list of effects.
func target(id string) string {
	if !callID(id) {
		return ""
	}
	return id
}

func undoCode(err error) string {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, ErrNotGranted):
		return refused
	case errors.Is(err, ErrConflict), errors.Is(err, ErrChanged):
		return changed
	case errors.Is(err, ErrQuota):
		return overCap
	}
	return failed
}

func (fx *Effects) undo(id string) error {
	list, err := fx.past(id, func(m Modes) bool { return m.Write && m.Remove })
	if err == nil {
		err = fx.unchanged()
	}
	if err != nil {
		return err
	}
	e := fx.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	e.free = true
	defer func() { e.free = false }()
	u := &undoing{fx: fx, e: e, list: list, by: map[spot]*change{}}
	for i := range list {
		u.by[list[i].spot] = &list[i]
	}
	defer u.clean()
	for _, step := range []func() error{u.check, u.stage, u.record} {
		if err := step(); err != nil {
			return err
		}
	}
	return u.apply()
}

// undoing is one undo under way.
type undoing struct {
	fx   *Effects
	e    *edits
	list []change // in the order of names
	by   map[spot]*change

	staged []staged
}

// staged is a file that waits to get its name.
type staged struct {
	in   *place
	name string
	spot spot
}

// check sees to it that all is as the call left it, and that nothing is in the way.
func (u *undoing) check() error {
	for _, c := range u.list {
		if c.mixed {
			return fmt.Errorf("%w: another call changed %s meanwhile", ErrConflict, shown(c.name))
		}
		is, err := u.e.now(c.spot, false, "")
		if errors.Is(err, errUnlike) {
			err = ErrConflict
		}
		if err != nil {
			return err
		}
		alike := c.before.same(c.after) && c.after.Kind != aDir // only its time was changed
		if !is.same(c.after) || alike && is.Time != c.after.Time {
			return fmt.Errorf("%w: %s", ErrConflict, shown(c.name))
		}
		if err := u.unobstructed(c); err != nil {
			return err
		}
		if c.before.Kind == aFile && !c.before.Stored {
			return errCorrupt
		}
	}
	return nil
}

// unobstructed sees to it that a directory that has to go has only what goes as well,
// and that there will be one for what comes back.
func (u *undoing) unobstructed(c change) error {
	if c.after.Kind == aDir && c.before.Kind != aDir {
		n, err := u.e.find(c.spot)
		if err != nil {
			return err
		}
		defer n.dir.close()
		return tree(n.dir, n.base, c.spot, u.e.alive, func(_ *place, _ string, s spot) error {
			if o := u.by[s]; o == nil || o.after.Kind == absent {
				return fmt.Errorf("%w: something else is in %s", ErrConflict, shown(c.name))
			}
			return nil
		})
	}
	if c.before.Kind == absent || c.spot.path == "." {
		return nil
	}
	up := spot{c.spot.root, path.Dir(c.spot.path)}
	kind := absent
	if o := u.by[up]; o != nil {
		kind = o.before.Kind
	} else if is, err := u.e.now(up, false, ""); err == nil {
		kind = is.Kind
	}
	if kind != aDir {
		return fmt.Errorf("%w: %s has no directory any more", ErrConflict, shown(c.name))
	}
	return nil
}

// stage writes the files that come back, under other names: this is what can fail for
// want of space.
func (u *undoing) stage() error {
	for _, c := range u.list {
		if c.before.Kind != aFile {
			continue
		}
		if err := u.write(c); err != nil {
			return err
		}
	}
	return nil
}

func (u *undoing) write(c change) error {
	from, err := u.e.j.content(c.before)
	if err != nil {
		return err
	}
	defer from.Close()
	n, err := u.e.find(c.dir.spot)
	if err != nil {
		return err
	}
	in := n.dir
	if c.dir.spot.path != "." {
		in, err = n.dir.granted(n.base)
		n.dir.close()
		if err != nil {
			return err
		}
	}
	q := &u.fx.quota
	if !q.take(c.before.Size) {
		in.close()
		return ErrQuota
	}
	s := staged{in, ".callgate-" + rand.Text(), c.spot}
	to, err := in.open(s.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		in.close()
		q.back(c.before.Size)
		return err
	}
	u.staged = append(u.staged, s)
	defer to.Close()
	if _, err := pour(to, from, c.before.Size, u.e.alive); err != nil {
		return err
	}
	if err := errors.Join(to.Chmod(fs.FileMode(c.before.Mode)), to.Sync()); err != nil {
		return plain(err)
	}
	return control(to, func(fd int) error { return touchFD(fd, Times{Modify: time.Unix(0, c.before.Time)}, u.fx.now()) })
}

// clean takes away what did not get its name.
func (u *undoing) clean() {
	for _, s := range u.staged {
		if s.name != "" {
			s.in.unlink(s.name)
		}
		s.in.close()
	}
}

// record puts what is there now into this call's part of the journal.
func (u *undoing) record() error {
	u.e.j.gate.RLock()
	defer u.e.j.gate.RUnlock()
	var list []imaged
	for _, c := range u.list {
		if _, known := u.e.was[c.spot]; known {
			continue
		}
		is, err := u.e.now(c.spot, true, "")
		if err != nil {
			return err
		}
		if !is.same(c.after) {
			return fmt.Errorf("%w: %s", ErrConflict, shown(c.name))
		}
		if slices.ContainsFunc(u.e.trees, c.spot.in) {
			is = image{Kind: absent} // as in first
		}
		list = append(list, imaged{c.spot, is})
	}
	return u.e.commit(list)
}

// apply changes names. What goes, goes from the deepest up, and what comes, from the
// top down; permissions and times of directories are last, since they are in the way.
func (u *undoing) apply() error {
	for _, c := range slices.Backward(u.list) {
		if goes := c.after.Kind != absent && (c.before.Kind != c.after.Kind || c.before.Kind == aLink && !c.before.same(c.after)); !goes {
			continue
		}
		err := u.at(c, "fs.remove", func(dir *place, base string) error {
			if c.after.Kind == aDir {
				return dir.rmdir(base)
			}
			return u.fx.quota.unlinking(dir, base, func() error { return dir.unlink(base) })
		})
		if err != nil {
			return err
		}
	}
	for _, c := range u.list {
		if err := u.comes(c); err != nil {
			return err
		}
	}
	for _, c := range slices.Backward(u.list) {
		if err := u.finish(c); err != nil {
			return err
		}
	}
	return nil
}

// comes puts one name back.
func (u *undoing) comes(c change) error {
	kind := c.before.Kind
	if kind == absent || kind == c.after.Kind && (kind == aDir || c.before.same(c.after) && kind == aLink) {
		return nil
	}
	return u.at(c, "fs.write", func(dir *place, base string) error {
		switch kind {
		case aDir:
			return dir.mkdir(base)
		case aLink:
			return dir.symlink(string(c.before.Text), base)
		}
		i := slices.IndexFunc(u.staged, func(s staged) bool { return s.spot == c.spot })
		s := &u.staged[i]
		err := u.fx.quota.unlinking(dir, base, func() error { return s.in.rename(s.name, dir, base) })
		if err == nil {
			s.name = ""
		}
		return err
	})
}

// at runs op where c is, and records the effect.
func (u *undoing) at(c change, kind string, op func(dir *place, base string) error) error {
	began := u.fx.now()
	n, err := u.e.find(c.spot)
	if err == nil {
		err = op(n.dir, n.base)
		n.dir.close()
	}
	if err != nil {
		return c.dir.noteSince(began, kind, c.name, err)
	}
	entry := u.fx.log.add(kind, c.dir.name, c.name, ok)
	entry.lasted(u.fx.since(began))
	if kind == "fs.write" && c.before.Kind == aFile {
		entry.out.Add(c.before.Size)
	}
	return nil
}

// finish sets what a directory or link has besides its name.
func (u *undoing) finish(c change) error {
	if c.before.Kind != aDir && c.before.Kind != aLink {
		return nil
	}
	n, err := u.e.find(c.spot)
	if err != nil {
		return err
	}
	defer n.dir.close()
	if c.before.Kind == aDir && !c.before.same(c.after) {
		dir, err := n.dir.open(n.base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		err = dir.Chmod(fs.FileMode(c.before.Mode))
		if err = errors.Join(err, dir.Close()); err != nil {
			return plain(err)
		}
	}
	return n.dir.setTimes(n.base, Times{Modify: time.Unix(0, c.before.Time)}, false, u.fx.now(), func(*info) error { return nil })
}

// shown is a name as an error may have it.
func shown(name string) string { return fmt.Sprintf("%.200q", name) }
