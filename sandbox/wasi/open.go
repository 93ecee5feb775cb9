package wasi

import "github.com/callgate/callgate/hostfx"

// Flags of path_open.
const (
	openCreate    = 1
	openDirectory = 2
	openExclusive = 4
	openTruncate  = 8

	allOpen = 1<<4 - 1
)

// pathOpen is path_open(fd, dirflags, path, path_len, oflags, base, inheriting,
// fdflags, opened_fd). The new descriptor has the rights that are asked for and
// apply to what is opened; none may be asked for that the directory does not let
// those inherit that are opened by it.
func (s *State) pathOpen() errno {
	oflags, fdflags := s.u32(4), s.u32(7)
	base, inheriting := rights(s.u64(5))&allRights, rights(s.u64(6))&allRights
	if oflags&^allOpen != 0 || fdflags&^allFlags != 0 {
		return inval
	}
	need, inherited := pathOpen, base|inheriting
	if oflags&openCreate != 0 {
		need |= pathCreateFile
	}
	if oflags&openTruncate != 0 {
		need |= pathFilestatSetSize
	}
	if fdflags&flagDsync != 0 {
		inherited |= fdDatasync
	}
	if fdflags&(flagSync|flagRsync) != 0 {
		inherited |= fdSync
	}
	o := hostfx.OpenOptions{
		Read:   base&fdRead != 0,
		Write:  base&fdWrite != 0 && fdflags&flagAppend == 0 || oflags&openTruncate != 0,
		Append: base&fdWrite != 0 && fdflags&flagAppend != 0, Create: oflags&openCreate != 0,
		Exclusive: oflags&openExclusive != 0, Truncate: oflags&openTruncate != 0,
		Directory: oflags&openDirectory != 0, NoFollow: s.u32(1)&follow == 0,
	}
	p, e := s.at(0, 2, need, attempt(o))
	if e != success {
		return e
	}
	if inherited&^s.fds.get(s.u32(0)).inheriting != 0 {
		return notcapable
	}
	out := s.param(8, 4)
	switch {
	case out == nil:
		return fault
	case s.fds.full():
		return mfile
	case o.Directory && o.Create:
		return inval
	}
	h, err := p.dir.Open(p.rel, o)
	if err != nil {
		return number(err)
	}
	d := descriptor{flags: uint16(fdflags)}
	switch h := h.(type) {
	case *hostfx.File:
		d.kind, d.file = file, h
		d.base = base & forFiles
		if base&fdWrite == 0 {
			d.base &^= writes
		}
	case *hostfx.Folder:
		d.kind, d.dir, d.flags = folder, h, 0
		d.base, d.inheriting = base&forDirs, inheriting
	}
	put32(out, s.fds.add(d))
	return success
}

// attempt is the kind of effect that opening so is.
func attempt(o hostfx.OpenOptions) string {
	switch {
	case o.Append && !o.Truncate:
		return "fs.append"
	case o.Write || o.Create || o.Truncate:
		return "fs.write"
	case o.Directory:
		return "fs.list"
	}
	return "fs.read"
}
