package wasi

import (
	"strings"

	"github.com/callgate/callgate/hostfx"
)

// follow is the flag of a lookup that follows a link in the last component.
const follow = 1

// place is where a path parameter leads.
type place struct {
	dir *hostfx.Folder
	rel string // never empty
}

// at reads a path: the parameters fd, path and length, by their places. The
// descriptor must have the rights. A path that leads out of its directory by its
// text alone is refused here, as the standard has it, and recorded as an attempt
// of this kind; links that lead out are hostfx's business.
func (s *State) at(fd, text int, need rights, kind string) (p place, e errno) {
	d, e := s.fdAt(fd, need)
	if e != success {
		return p, e
	}
	if s.u32(text+1) > maxPath {
		return p, nametoolong
	}
	b := s.param(text, s.u32(text+1))
	if b == nil {
		return p, fault
	}
	p.dir, p.rel = d.dir, string(b)
	switch {
	case p.rel == "":
		return p, noent
	case strings.ContainsRune(p.rel, 0):
		return p, inval
	}
	s.touch()
	if p.rel[0] == '/' || leaves(p.rel) {
		_ = p.dir.Refuse(kind, p.rel)
		return p, perm
	}
	return p, success
}

// leaves reports whether a relative path goes above where it starts, on its way
// or at its end.
func leaves(rel string) bool {
	depth := 0
	for part := range strings.SplitSeq(rel, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// pathCreateDirectory is path_create_directory(fd, path, path_len).
func (s *State) pathCreateDirectory() errno {
	p, e := s.at(0, 1, pathCreateDirectory, "fs.write")
	if e != success {
		return e
	}
	return number(p.dir.Mkdir(p.rel))
}

// pathFilestatGet is path_filestat_get(fd, flags, path, path_len, filestat).
func (s *State) pathFilestatGet() errno {
	p, e := s.at(0, 2, pathFilestatGet, "fs.stat")
	if e != success {
		return e
	}
	out := s.param(4, filestatSize)
	if out == nil {
		return fault
	}
	look := p.dir.LstatAt
	if s.u32(1)&follow != 0 {
		look = p.dir.StatAt
	}
	info, err := look(p.rel)
	if err != nil {
		return number(err)
	}
	s.writeStat(out, info)
	return success
}

// pathFilestatSetTimes is path_filestat_set_times(fd, flags, path, path_len,
// atim, mtim, fst_flags).
func (s *State) pathFilestatSetTimes() errno {
	p, e := s.at(0, 2, pathFilestatSetTimes, "fs.write")
	if e != success {
		return e
	}
	t, e := s.times(4)
	if e != success {
		return e
	}
	return number(p.dir.SetTimes(p.rel, t, s.u32(1)&follow != 0))
}

// pathLink is path_link(old_fd, old_flags, old_path, old_path_len, new_fd,
// new_path, new_path_len). It makes a link to a link, and follows none.
func (s *State) pathLink() errno {
	from, e := s.at(0, 2, pathLinkSource, "fs.write")
	if e != success {
		return e
	}
	to, e := s.at(4, 5, pathLinkTarget, "fs.write")
	if e == success && s.u32(1)&follow != 0 {
		e = inval
	}
	if e != success {
		return e
	}
	return number(from.dir.Link(from.rel, to.dir, to.rel))
}

// pathReadlink is path_readlink(fd, path, path_len, buf, buf_len, bufused). What
// does not fit is cut.
func (s *State) pathReadlink() errno {
	p, e := s.at(0, 1, pathReadlink, "fs.stat")
	if e != success {
		return e
	}
	buf, used := s.param(3, s.u32(4)), s.param(5, 4)
	if buf == nil || used == nil {
		return fault
	}
	target, err := p.dir.Readlink(p.rel)
	if err != nil {
		return number(err)
	}
	put32(used, uint32(copy(buf, target)))
	return success
}

// pathRemoveDirectory is path_remove_directory(fd, path, path_len).
func (s *State) pathRemoveDirectory() errno {
	p, e := s.at(0, 1, pathRemoveDirectory, "fs.remove")
	if e != success {
		return e
	}
	return number(p.dir.RemoveDir(p.rel))
}

// pathUnlinkFile is path_unlink_file(fd, path, path_len).
func (s *State) pathUnlinkFile() errno {
	p, e := s.at(0, 1, pathUnlinkFile, "fs.remove")
	if e != success {
		return e
	}
	return number(p.dir.Remove(p.rel))
}

// pathRename is path_rename(fd, old_path, old_path_len, new_fd, new_path,
// new_path_len).
func (s *State) pathRename() errno {
	from, e := s.at(0, 1, pathRenameSource, "fs.remove")
	if e != success {
		return e
	}
	to, e := s.at(3, 4, pathRenameTarget, "fs.write")
	if e != success {
		return e
	}
	return number(from.dir.Rename(from.rel, to.dir, to.rel))
}

// pathSymlink is path_symlink(old_path, old_path_len, fd, new_path,
// new_path_len).
func (s *State) pathSymlink() errno {
	p, e := s.at(2, 3, pathSymlink, "fs.write")
	if e != success {
		return e
	}
	if s.u32(1) > maxPath {
		return nametoolong
	}
	target := s.param(0, s.u32(1))
	switch {
	case target == nil:
		return fault
	case len(target) == 0:
		return noent
	}
	return number(p.dir.Symlink(string(target), p.rel))
}
