package wasi

import (
	"io/fs"

	"github.com/callgate/callgate/hostfx"
)

const (
	direntSize = 24
	batch      = 256 // entries read at a time
	dots       = 2   // entries that every directory has: itself and the one above
)

// fdReaddir is fd_readdir(fd, buf, buf_len, cookie, bufused). The cookie of an
// entry is its number: the two dots, then the others in the order in which they
// are read.
func (s *State) fdReaddir() errno {
	d, e := s.fd(fdReaddir)
	if e != success {
		return e
	}
	// A buffer that is not filled says that there are no more entries, so one that
	// is too large is not just filled in part.
	if s.u32(2) > maxDirents {
		return inval
	}
	buf, used := s.param(1, s.u32(2)), s.param(4, 4)
	if buf == nil || used == nil {
		return fault
	}
	s.touch()
	w := direntWriter{left: buf, next: s.u64(3)}
	if w.next == 0 {
		if err := d.dir.Rewind(); err != nil {
			return number(err)
		}
		var ino uint64
		if info, err := d.dir.Stat(); err == nil {
			ino = inode(info)
		}
		w.write(".", ino, fs.ModeDir)
	}
	if w.next == 1 {
		w.write("..", 0, fs.ModeDir)
	}
	for w.next >= dots && len(w.left) > 0 {
		entries, err := d.dir.EntriesAt(w.next-dots, min(batch, 1+len(w.left)/direntSize))
		if err != nil {
			return number(err)
		}
		if len(entries) == 0 {
			break
		}
		for i := range entries {
			w.write(entries[i].Name(), entries[i].Ino(), entries[i].Type())
		}
		s.run.Check()
	}
	put32(used, uint32(len(buf)-len(w.left)))
	return success
}

// direntWriter fills a buffer with entries; the last one may be cut.
type direntWriter struct {
	left []byte
	next uint64 // cookie
}

func (w *direntWriter) write(name string, ino uint64, mode fs.FileMode) {
	if len(w.left) == 0 {
		return
	}
	w.next++
	var head [direntSize]byte
	put64(head[:], w.next)
	put64(head[8:], ino)
	put32(head[16:], uint32(len(name)))
	head[20] = filetype(mode)
	w.left = w.left[copy(w.left, head[:]):]
	w.left = w.left[copy(w.left, name):]
}

// inode is 0 where it is not known.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*hostfx.Stat); ok {
		return st.Ino
	}
	return 0
}
