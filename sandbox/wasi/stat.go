package wasi

import (
	"io/fs"
	"math"
	"time"

	"github.com/callgate/callgate/hostfx"
)

// File types of the standard.
const (
	typeUnknown   = 0
	typeBlock     = 1
	typeCharacter = 2
	typeDirectory = 3
	typeRegular   = 4
	typeSocket    = 6
	typeLink      = 7
)

const filestatSize = 64

func filetype(m fs.FileMode) byte {
	switch m.Type() {
	case 0:
		return typeRegular
	case fs.ModeDir:
		return typeDirectory
	case fs.ModeSymlink:
		return typeLink
	case fs.ModeDevice:
		return typeBlock
	case fs.ModeDevice | fs.ModeCharDevice:
		return typeCharacter
	case fs.ModeSocket:
		return typeSocket
	}
	return typeUnknown
}

// writeStat writes a filestat. The times are as coarse as clocks are: a file that
// is written and looked at would be a finer one.
func (s *State) writeStat(out []byte, info fs.FileInfo) {
	var st hostfx.Stat
	if known, ok := info.Sys().(*hostfx.Stat); ok {
		st = *known
	}
	put64(out, st.Dev)
	put64(out[8:], st.Ino)
	put64(out[16:], uint64(filetype(info.Mode())))
	put64(out[24:], st.Links)
	put64(out[32:], uint64(info.Size()))
	put64(out[40:], s.time(st.Access))
	put64(out[48:], s.time(info.ModTime()))
	put64(out[56:], s.time(st.Change))
}

// time is a file's time as a guest may see it. Those before 1970 cannot be told.
func (s *State) time(t time.Time) uint64 {
	if t.Unix() < 0 {
		return 0
	}
	return uint64(s.clock.round(t.UnixNano()))
}

// fdFilestatGet is fd_filestat_get(fd, filestat).
func (s *State) fdFilestatGet() errno {
	d, e := s.fd(fdFilestatGet)
	if e != success {
		return e
	}
	out := s.param(1, filestatSize)
	if out == nil {
		return fault
	}
	if d.kind == file || d.kind == folder {
		s.touch()
	}
	var info fs.FileInfo
	var err error
	switch d.kind {
	case file:
		info, err = d.file.Stat()
	case folder:
		info, err = d.dir.Stat()
	default:
		clear(out)
		out[16] = d.kind.filetype()
		return success
	}
	if err != nil {
		return number(err)
	}
	s.writeStat(out, info)
	return success
}

// Flags of times.
const (
	setAtim    = 1
	setAtimNow = 2
	setMtim    = 4
	setMtimNow = 8
)

// times are parameters (atim, mtim, fst_flags).
func (s *State) times(i int) (t hostfx.Times, e errno) {
	flags := s.u32(i + 2)
	if flags > setAtim|setAtimNow|setMtim|setMtimNow ||
		flags&(setAtim|setAtimNow) == setAtim|setAtimNow || flags&(setMtim|setMtimNow) == setMtim|setMtimNow {
		return t, inval
	}
	t.AccessNow, t.ModifyNow = flags&setAtimNow != 0, flags&setMtimNow != 0
	for _, given := range []struct {
		flag uint32
		ns   uint64
		to   *time.Time
	}{{setAtim, s.u64(i), &t.Access}, {setMtim, s.u64(i + 1), &t.Modify}} {
		if flags&given.flag == 0 {
			continue
		}
		if given.ns > math.MaxInt64 {
			return t, inval
		}
		*given.to = time.Unix(0, int64(given.ns))
	}
	return t, success
}

// fdFilestatSetTimes is fd_filestat_set_times(fd, atim, mtim, fst_flags).
func (s *State) fdFilestatSetTimes() errno {
	d, e := s.fd(fdFilestatSetTimes)
	if e != success {
		return e
	}
	t, e := s.times(1)
	if e != success {
		return e
	}
	s.touch()
	if d.kind == folder {
		return number(d.dir.SetTimes(".", t, false))
	}
	return number(d.file.SetTimes(t))
}
