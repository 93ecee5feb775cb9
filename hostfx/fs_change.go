package hostfx

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// change runs op, which changes what rel names, if the modes have it.
func (f *Folder) change(kind, rel string, has bool, op func(at *place, rel string) error) error {
	return f.changeAt(kind, rel, has, false, op)
}

// changeAt is change, with follow for what changes what a link leads to.
func (f *Folder) changeAt(kind, rel string, has, follow bool, op func(at *place, rel string) error) error {
	return f.path(kind, rel, func(at *place) error {
		began, err := f.d.fx.now(), ErrNotGranted
		if has {
			err = f.d.fx.unchanged()
		}
		if err == nil {
			err = f.d.fx.journaled(f.d, at, rel, follow, op)
		}
		if err != nil {
			return f.noteSince(began, kind, rel, err)
		}
		f.d.fx.log.add(kind, f.d.name, within(f.name, rel), ok).lasted(f.d.fx.since(began))
		return nil
	})
}

// enter is change for what makes a new entry.
func (f *Folder) enter(rel string, has bool, op func(at *place, rel string) error) error {
	return f.change("fs.write", rel, has, func(at *place, rel string) error {
		if !f.d.fx.quota.enter() {
			return ErrQuota
		}
		err := op(at, rel)
		if err != nil {
			f.d.fx.quota.leave()
		}
		return err
	})
}

// Mkdir makes a directory. It needs the mode write, and is the effect fs.write.
func (f *Folder) Mkdir(rel string) error {
	return f.enter(rel, f.d.modes.Write, func(at *place, rel string) error { return at.mkdir(rel) })
}

// Remove removes a file or link, not what it leads to. It needs the mode remove, and
// is the effect fs.remove.
func (f *Folder) Remove(rel string) error {
	return f.change("fs.remove", rel, f.d.modes.Remove, func(at *place, rel string) error {
		return f.d.fx.quota.unlinking(at, rel, func() error { return at.unlink(rel) })
	})
}

// RemoveDir removes an empty directory. It needs the mode remove, and is the effect
// fs.remove.
func (f *Folder) RemoveDir(rel string) error {
	return f.change("fs.remove", rel, f.d.modes.Remove, func(at *place, rel string) error { return at.rmdir(rel) })
}

// removeAny removes a file, link or empty directory.
func (f *Folder) removeAny(rel string) error {
	return f.change("fs.remove", rel, f.d.modes.Remove, func(at *place, rel string) error {
		i, err := at.stat(rel, false)
		switch {
		case err != nil:
			return err
		case i.IsDir():
			return at.rmdir(rel)
		}
		return f.d.fx.quota.unlinking(at, rel, func() error { return at.unlink(rel) })
	})
}

// Symlink makes the link rel with the text target. It needs the mode write, and is
// the effect fs.write. The text must lead to something below the directory that the
// link is in, by its own words and without "..": then it does so wherever the
// directories around it are moved, also for programs of the host that follow it.
func (f *Folder) Symlink(target, rel string) error {
	return f.enter(rel, f.d.modes.Write, func(at *place, rel string) error {
		switch {
		case strings.ContainsRune(target, 0):
			return fs.ErrInvalid
		case len(target) > maxPath:
			return unix.ENAMETOOLONG
		case target == "":
			return unix.ENOENT
		case !inner(target):
			return ErrNotGranted
		}
		return at.symlink(target, rel)
	})
}

// inner reports whether the text of a link stays below the directory that it is in.
func inner(text string) bool {
	if path.IsAbs(text) {
		return false
	}
	for name := range strings.SplitSeq(text, "/") {
		if name == ".." {
			return false
		}
	}
	return true
}

// movable fails for a link whose text would lead elsewhere from another place. What
// is not there is no link.
func movable(at *place, rel string) error {
	i, err := at.stat(strings.TrimRight(rel, "/"), false)
	if err != nil || i.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	text, err := at.readlink(rel)
	if err == nil && !inner(text) {
		err = ErrNotGranted
	}
	return err
}

// Rename gives rel another name, in the same directory or in another one of this call,
// in place of the file, link or empty directory that has it. It needs the mode remove,
// and write where it goes; and what the granted directory there, or one granted below
// it, lets the call read or list, the one where it is must as well. A link is only moved if its
// text has no "..". It is the effects fs.remove and fs.write.
func (f *Folder) Rename(rel string, to *Folder, toRel string) error {
	m, n := f.d.modes, to.d.inAll()
	return f.pair("fs.remove", rel, to, toRel, m.Remove, to.d.modes.Write && (!n.Read || m.Read) && (!n.List || m.List),
		func(at *place, rel string, toAt *place, toRel string) error {
			if err := movable(at, rel); err != nil {
				return err
			}
			return f.d.fx.quota.unlinking(toAt, toRel, func() error { return at.rename(rel, toAt, toRel) })
		})
}

// Link makes a second name of a file, or of a link itself. It needs the mode write for
// both, and read for the first if the second may be read, there or by a directory
// granted below. What already has a name
// that is not of this call's making is refused, and so is a link whose text has "..".
// It is the effect fs.write.
func (f *Folder) Link(rel string, to *Folder, toRel string) error {
	m, n := f.d.modes, to.d.inAll()
	return f.pair("", rel, to, toRel, m.Write, to.d.modes.Write && (!n.Read || m.Read), func(at *place, rel string, toAt *place, toRel string) error {
		if err := movable(at, rel); err != nil {
			return err
		}
		return f.d.fx.quota.linking(at, rel, func() error { return at.link(rel, toAt, toRel) })
	})
}

// pair runs op on two names. The first is an effect of its own unless kind is "".
func (f *Folder) pair(kind, rel string, to *Folder, toRel string, has, toHas bool, op func(at *place, rel string, to *place, toRel string) error) error {
	first := kind
	if first == "" {
		first = "fs.write"
	}
	if to.d.fx != f.d.fx { // the other call's log is not this one's to write
		return f.Refuse(first, rel)
	}
	if err := checked(toRel); err != nil {
		return bad("fs.write", within(to.name, toRel), err)
	}
	return f.path(first, rel, func(at *place) error {
		to.mu.Lock()
		toAt, closed := to.at, to.closed
		to.mu.Unlock()
		switch {
		case closed:
			return fs.ErrClosed
		case path.IsAbs(toRel) || !toHas:
			return to.note("fs.write", toRel, ErrNotGranted)
		case !has:
			return f.note(first, rel, ErrNotGranted)
		}
		began, err := f.d.fx.now(), f.d.fx.unchanged()
		if err == nil {
			err = f.d.fx.journaledPair(f.d, at, rel, to.d, toAt, toRel, op)
		}
		if err != nil {
			if _, is := at.stat(strings.TrimRight(rel, "/"), false); is != nil && errors.Is(err, is) { // the first of the two
				return f.noteSince(began, first, rel, err)
			}
			return to.noteSince(began, "fs.write", toRel, err)
		}
		took := f.d.fx.since(began)
		if kind != "" {
			f.d.fx.log.add(kind, f.d.name, within(f.name, rel), ok).lasted(took)
		}
		f.d.fx.log.add("fs.write", to.d.name, within(to.name, toRel), ok).lasted(took)
		return nil
	})
}

// SetTimes sets the times of what rel leads to, or with !follow of a link itself. It
// needs the mode write, and is the effect fs.write. A file that has names besides
// those that this call made is refused, as when it is opened for writing, and so is
// what is neither file, directory nor link.
func (f *Folder) SetTimes(rel string, t Times, follow bool) error {
	// With a slash at its end a link is followed in any case.
	return f.changeAt("fs.write", rel, f.d.modes.Write, follow || strings.HasSuffix(rel, "/"), func(at *place, rel string) error {
		return at.setTimes(rel, t, follow, f.d.fx.host.now(), func(i *info) error {
			if m := i.Mode().Type(); m&^(fs.ModeDir|fs.ModeSymlink) != 0 || !f.d.fx.quota.ours(i) {
				return ErrNotGranted
			}
			return nil
		})
	})
}
