package hostfx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenRead opens a regular file for reading. The name is
// /<root>/<granted path>/<file>.
func (fx *Effects) OpenRead(name string) (*File, error) {
	return fx.openFile(name, OpenOptions{Read: true}, func(m Modes) bool { return m.Read })
}

// OpenAppend opens a regular file to add to its end, and creates it if it is not
// there. It needs the mode append or write.
func (fx *Effects) OpenAppend(name string) (*File, error) {
	return fx.openFile(name, OpenOptions{Append: true, Create: true}, func(m Modes) bool { return m.Append || m.Write })
}

// OpenWrite opens a regular file for writing, empties it, and creates it if it is not
// there. It needs the mode write. What the file was before is lost even if writing
// fails later: to replace a whole file in one step, write another one and
// [Effects.Rename] it.
func (fx *Effects) OpenWrite(name string) (*File, error) {
	return fx.openFile(name, OpenOptions{Write: true, Create: true, Truncate: true}, func(m Modes) bool { return m.Write })
}

func (fx *Effects) openFile(name string, o OpenOptions, has func(Modes) bool) (*File, error) {
	d, rel, err := fx.find(o.kind(), name, has)
	if err != nil {
		return nil, err
	}
	h, err := d.self.Open(rel, o)
	if err != nil {
		return nil, err
	}
	f, ok := h.(*File)
	if !ok {
		h.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.EISDIR}
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
	d, rel, err := fx.find("fs.list", name, func(m Modes) bool { return m.List })
	if err != nil {
		return nil, err
	}
	h, err := d.self.Open(rel, OpenOptions{Directory: true})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	f, ok := h.(*Folder)
	if !ok {
		return nil, &fs.PathError{Op: "list", Path: name, Err: unix.ENOTDIR}
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
	d, rel, err := fx.find("fs.stat", name, Modes.sees)
	if err != nil {
		return nil, err
	}
	return d.self.StatAt(rel)
}

// Mkdir makes a directory, in one that is there. It needs the mode write.
func (fx *Effects) Mkdir(name string) error {
	d, rel, err := fx.find("fs.write", name, func(m Modes) bool { return m.Write })
	if err != nil {
		return err
	}
	return d.self.Mkdir(rel)
}

// Remove removes a file, a link or an empty directory. It needs the mode remove.
func (fx *Effects) Remove(name string) error {
	d, rel, err := fx.find("fs.remove", name, func(m Modes) bool { return m.Remove })
	if err != nil {
		return err
	}
	return d.self.removeAny(rel)
}

// Rename is [Folder.Rename] by names, within one granted directory or between two.
func (fx *Effects) Rename(name, to string) error {
	d, rel, err := fx.find("fs.remove", name, func(m Modes) bool { return m.Remove })
	if err != nil {
		return err
	}
	toD, toRel, err := fx.find("fs.write", to, func(m Modes) bool { return m.Write })
	if err != nil {
		return err
	}
	return d.self.Rename(rel, toD.self, toRel)
}

// find returns the granted directory that name is below: the deepest one that
// has the mode, or else the deepest one, which will refuse.
func (fx *Effects) find(kind, name string, has func(Modes) bool) (*Dir, string, error) {
	bad := &fs.PathError{Op: strings.TrimPrefix(kind, "fs."), Path: name, Err: ErrNotGranted}
	if len(name) > maxPath || strings.ContainsRune(name, 0) || !strings.HasPrefix(name, "/") {
		bad.Err = fs.ErrInvalid
		return nil, "", bad
	}
	clean := path.Clean(name)
	var best *Dir
	for _, d := range fx.dirs {
		if clean != d.name && !below(d.name, clean) {
			continue
		}
		if best == nil || has(d.modes) && !has(best.modes) || has(d.modes) == has(best.modes) && len(d.name) > len(best.name) {
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
