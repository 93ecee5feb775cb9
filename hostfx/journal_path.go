package hostfx

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// under is where p is below top, or errOutside: its one name in which no component is a
// link, whatever led to it, and wherever it has been moved to.
func (p *place) under(top *place) (string, error) {
	rel, err := "", errors.ErrUnsupported
	if p.root == nil {
		rel, err = p.kernelName(top)
	}
	if err != nil && err != errOutside {
		rel, err = p.climb(top)
	}
	if err != nil {
		return "", err
	}
	if !isPath(rel) {
		return "", unix.ENAMETOOLONG
	}
	// What has been moved or removed since has another name, or none.
	again, err := top.granted(rel)
	if err != nil {
		return "", unix.ENOENT
	}
	defer again.close()
	is, err := sameFile(p.dir, again.dir)
	if err == nil && !is {
		err = unix.ENOENT
	}
	return rel, err
}

func sameFile(a, b *os.File) (bool, error) {
	i, err := statFile(a)
	if err != nil {
		return false, err
	}
	k, err := statFile(b)
	return err == nil && i.id() == k.id(), err
}

// kernelName asks the kernel for both names.
func (p *place) kernelName(top *place) (string, error) {
	from, err := nameOf(top.dir)
	if err != nil {
		return "", err
	}
	to, err := nameOf(p.dir)
	switch {
	case err != nil:
		return "", err
	case to == from:
		return ".", nil
	case !inside(to, from):
		return "", errOutside
	}
	return strings.TrimPrefix(to[len(strings.TrimRight(from, "/")):], "/"), nil
}

// climb looks for p in its parent, and so on up to top.
func (p *place) climb(top *place) (string, error) {
	end, err := statFile(top.dir)
	if err != nil {
		return "", err
	}
	at, err := p.holder(".")
	if err != nil {
		return "", err
	}
	defer func() { at.Close() }()
	var names []string
	for range maxPath {
		i, err := statFile(at)
		if err != nil {
			return "", err
		}
		if i.id() == end.id() {
			slices.Reverse(names)
			return path.Join(".", strings.Join(names, "/")), nil
		}
		up, err := parent(at)
		if err != nil {
			return "", err
		}
		above, err := statFile(up)
		if err == nil && above.id() == i.id() {
			err = errOutside // it is the system's root
		}
		var name string
		if err == nil {
			name, err = nameIn(up, i.id())
		}
		at.Close()
		if at = up; err != nil {
			return "", err
		}
		names = append(names, name)
	}
	return "", unix.ENAMETOOLONG
}

func parent(dir *os.File) (up *os.File, err error) {
	err = control(dir, func(fd int) error {
		n, err := retried(func() (int, error) { return unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
		if err == nil {
			up = os.NewFile(uintptr(n), "")
		}
		return err
	})
	return up, err
}

// nameIn is the name of a directory in the one that it is in.
func nameIn(dir *os.File, id fileID) (name string, err error) {
	for {
		part, err := nextPart(dir)
		if errors.Is(err, io.EOF) {
			return "", unix.ENOENT
		}
		if err != nil {
			return "", err
		}
		for _, e := range part {
			if !e.IsDir() {
				continue
			}
			is := false
			err := control(dir, func(fd int) error { i, err := statAt(fd, e.name); is = err == nil && i.id() == id; return err })
			if is && err == nil {
				return e.name, nil
			}
		}
	}
}

// named is a name that an operation means, and where it really is.
type named struct {
	dir  *place // to be closed
	base string // in dir, a link if that is what is meant; "." for dir itself
	spot spot
}

// locate finds what rel means in at, which d grants. With follow that is what a link
// leads to, there or not.
func (e *edits) locate(d *Dir, at *place, rel string, follow bool) (named, error) {
	for range 40 { // links, as Linux has it
		dir, base := path.Split(strings.TrimRight(rel, "/"))
		if base == "." || base == ".." {
			dir, base = rel, "."
		}
		if dir == "" {
			dir = "."
		}
		in, err := at.sub(dir)
		if err != nil {
			return named{}, err
		}
		if follow && base != "." {
			text, err := in.readlink(base)
			if err == nil && path.IsAbs(text) {
				err = errOutside
			}
			if err == nil {
				in.close()
				rel = dir + "/" + text
				continue
			}
			if err != unix.EINVAL && err != unix.ENOENT {
				in.close()
				return named{}, err
			}
		}
		at, err := e.spotOf(in, d.spot.root)
		if err != nil {
			in.close()
			return named{}, err
		}
		return named{dir: in, base: base, spot: spot{at.root, path.Join(at.path, base)}}, nil
	}
	return named{}, unix.ELOOP
}

// spotOf is what the journal calls a directory, which is in that root unless it was moved
// into another one.
func (e *edits) spotOf(dir *place, root string) (spot, error) {
	rel, err := dir.under(e.tops[root])
	if err != errOutside {
		return spot{root, rel}, err
	}
	for name, top := range e.tops {
		if name == root {
			continue
		}
		if rel, err := dir.under(top); err != errOutside {
			return spot{name, rel}, err
		}
	}
	return spot{}, errOutside
}
