package wasi

import "github.com/callgate/callgate/hostfx"

// maxDescriptors is how many a guest may have, besides stdio and preopened
// directories. The grant bounds how many of them are open files; numbers are
// dense, so no guest makes the table grow by naming a large one.
const maxDescriptors = 4096

// descriptor is one entry of the table.
type descriptor struct {
	kind             kind
	flags            uint16 // fdflags
	base, inheriting rights

	file    *hostfx.File   // of kind file
	dir     *hostfx.Folder // of kind folder
	preopen *hostfx.Dir    // of a folder that the guest began with
}

// close ends what the descriptor is open on. A preopened folder is the call's:
// hostfx keeps it open.
func (d *descriptor) close() error {
	switch d.kind {
	case file:
		return d.file.Close()
	case folder:
		return d.dir.Close()
	}
	return nil
}

// table maps numbers to descriptors. The lowest free number is given first.
type table struct {
	slots []descriptor
	some  [8]descriptor // what slots are at first
	most  int
	low   int // all numbers below are in use
}

// start fills a table with what every guest has.
func (t *table) start(dirs []*hostfx.Dir) {
	t.slots, t.most = t.some[:0], 3+len(dirs)+maxDescriptors
	for k := stdin; k <= stderr; k++ {
		t.slots = append(t.slots, descriptor{kind: k, base: k.can()})
	}
	for _, d := range dirs {
		t.slots = append(t.slots, descriptor{kind: folder, base: forDirs, inheriting: allRights, dir: d.Folder(), preopen: d})
	}
	t.low = len(t.slots)
}

// get is an open descriptor, or nil. It is valid until the table changes.
func (t *table) get(fd uint32) *descriptor {
	if uint64(fd) >= uint64(len(t.slots)) || t.slots[fd].kind == closed {
		return nil
	}
	return &t.slots[fd]
}

// free is the lowest number that is not in use.
func (t *table) free() int {
	for t.low < len(t.slots) && t.slots[t.low].kind != closed {
		t.low++
	}
	return t.low
}

// full reports whether no descriptor can be added.
func (t *table) full() bool { return t.free() == t.most }

// add gives a descriptor the lowest number that is free. The table must not be
// full.
func (t *table) add(d descriptor) uint32 {
	n := t.free()
	if n == len(t.slots) {
		t.slots = append(t.slots, d)
	} else {
		t.slots[n] = d
	}
	return uint32(n)
}

// drop frees a number.
func (t *table) drop(fd uint32) {
	t.slots[fd] = descriptor{}
	t.low = min(t.low, int(fd))
}

// fd is the descriptor that the first parameter names, if it may be used for all
// of need.
func (s *State) fd(need rights) (*descriptor, errno) { return s.fdAt(0, need) }

func (s *State) fdAt(i int, need rights) (*descriptor, errno) {
	d := s.fds.get(s.u32(i))
	switch {
	case d == nil:
		return nil, badf
	case need&^d.kind.can() != 0:
		return nil, d.kind.cannot(need &^ d.kind.can())
	case need&^d.base != 0:
		return nil, notcapable
	}
	return d, success
}

// fdClose is fd_close(fd).
func (s *State) fdClose() errno {
	d, e := s.fd(0)
	if e != success {
		return e
	}
	s.touch()
	err := d.close()
	s.fds.drop(s.u32(0))
	return number(err)
}

// fdRenumber is fd_renumber(from, to): from gets the number of to, which is
// closed. Both must be open.
func (s *State) fdRenumber() errno {
	from, e := s.fd(0)
	if e != success {
		return e
	}
	to, e := s.fdAt(1, 0)
	if e != success {
		return e
	}
	if from == to {
		return success
	}
	s.touch()
	_ = to.close()
	*to = *from
	s.fds.drop(s.u32(0))
	return success
}

// fdFdstatGet is fd_fdstat_get(fd, stat).
func (s *State) fdFdstatGet() errno {
	d, e := s.fd(0)
	if e != success {
		return e
	}
	out := s.param(1, 24)
	if out == nil {
		return fault
	}
	clear(out)
	out[0] = d.kind.filetype()
	put16(out[2:], d.flags)
	put64(out[8:], uint64(d.base))
	put64(out[16:], uint64(d.inheriting))
	return success
}

// fdFdstatSetRights is fd_fdstat_set_rights(fd, base, inheriting): rights can be
// given up and never won.
func (s *State) fdFdstatSetRights() errno {
	d, e := s.fd(0)
	if e != success {
		return e
	}
	base, inheriting := rights(s.u64(1)), rights(s.u64(2))
	if base&^d.base != 0 || inheriting&^d.inheriting != 0 {
		return notcapable
	}
	s.touch()
	d.base, d.inheriting = base, inheriting
	return success
}

// fdFdstatSetFlags is fd_fdstat_set_flags(fd, flags).
func (s *State) fdFdstatSetFlags() errno {
	d, e := s.fd(fdFdstatSetFlags)
	if e != success {
		return e
	}
	flags := uint16(s.u32(1))
	if s.u32(1)&^allFlags != 0 {
		return inval
	}
	if d.kind == file || d.kind == folder {
		s.touch() // of stdio they are in State.Stdio
	}
	if d.kind == file && (flags^d.flags)&flagAppend != 0 {
		if err := d.file.SetAppend(flags&flagAppend != 0); err != nil {
			return number(err)
		}
	}
	d.flags = flags
	return success
}

// fdPrestatGet is fd_prestat_get(fd, prestat).
func (s *State) fdPrestatGet() errno {
	d, e := s.fd(0)
	if e == success && d.preopen == nil {
		e = badf
	}
	if e != success {
		return e
	}
	out := s.param(1, 8)
	if out == nil {
		return fault
	}
	put32(out, 0) // a directory
	put32(out[4:], uint32(len(s.world.Name(d.preopen))))
	return success
}

// fdPrestatDirName is fd_prestat_dir_name(fd, path, path_len).
func (s *State) fdPrestatDirName() errno {
	d, e := s.fd(0)
	if e == success && d.preopen == nil {
		e = badf
	}
	if e != success {
		return e
	}
	name := s.world.Name(d.preopen)
	if uint64(s.u32(2)) < uint64(len(name)) {
		return nametoolong
	}
	out := s.param(1, uint32(len(name)))
	if out == nil {
		return fault
	}
	copy(out, name)
	return success
}
