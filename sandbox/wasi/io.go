package wasi

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/callgate/callgate/hostfx"
)

// Flags of descriptors.
const (
	flagAppend   = 1 << 0
	flagDsync    = 1 << 1
	flagNonblock = 1 << 2 // nothing ever blocks
	flagRsync    = 1 << 3
	flagSync     = 1 << 4

	allFlags = 1<<5 - 1
)

// buffers are the pieces of memory that a list of them names. It refuses a list
// that is longer than any honest one, or that adds up to more than the memory: a
// megabyte of it can name a terabyte.
func (s *State) buffers(at, n uint32) ([][]byte, errno) {
	if n > maxVectors {
		return nil, inval
	}
	list := s.bytes(at, n*8)
	if list == nil {
		return nil, fault
	}
	// All are looked up before any is written to, for that may change the list.
	s.vectors = s.vectors[:0]
	var sum uint64
	for ; len(list) > 0; list = list[8:] {
		at, n := binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:])
		if n == 0 {
			continue
		}
		b := s.bytes(at, n)
		if b == nil {
			return nil, fault
		}
		sum += uint64(n)
		s.vectors = append(s.vectors, b)
	}
	if pages, _ := s.mem.Grow(0); sum > uint64(pages)<<16 { // Size is 0 for all that there can be
		return nil, inval
	}
	return s.vectors, success
}

// moving reads the parameters (fd, iovs, iovs_len, ..., result); result is the last one.
func (s *State) moving(need rights, last int) (d *descriptor, bufs [][]byte, result []byte, e errno) {
	if d, e = s.fd(need); e != success {
		return nil, nil, nil, e
	}
	if bufs, e = s.buffers(s.u32(1), s.u32(2)); e != success {
		return nil, nil, nil, e
	}
	if result = s.param(last, 4); result == nil {
		return nil, nil, nil, fault
	}
	return d, bufs, result, success
}

// move calls op for all of the buffers, in pieces, until it moves less than it
// could, and writes how much that was.
func (s *State) move(bufs [][]byte, result []byte, op func([]byte) (int, error)) errno {
	total := 0
	for _, b := range bufs {
		for len(b) > 0 {
			piece := b[:min(len(b), chunk)]
			n, err := op(piece)
			total += n
			if err != nil && total == 0 && !errors.Is(err, io.EOF) {
				return number(err)
			}
			if err != nil || n < len(piece) {
				put32(result, uint32(total))
				return success
			}
			b = b[n:]
			s.run.Check()
		}
	}
	put32(result, uint32(total))
	return success
}

// fdRead is fd_read(fd, iovs, iovs_len, nread).
func (s *State) fdRead() errno {
	d, bufs, result, e := s.moving(fdRead, 3)
	if e != success {
		return e
	}
	s.touch()
	if d.kind == file {
		return s.move(bufs, result, d.file.Read)
	}
	return s.move(bufs, result, s.readStdin)
}

func (s *State) readStdin(b []byte) (int, error) {
	n := copy(b, s.in)
	s.in = s.in[n:]
	return n, nil
}

// fdPread is fd_pread(fd, iovs, iovs_len, offset, nread).
func (s *State) fdPread() errno {
	d, bufs, result, e := s.moving(fdRead|fdSeek, 4)
	if e != success {
		return e
	}
	at := s.u64(3)
	if at > math.MaxInt64-1<<32 {
		return inval
	}
	s.touch()
	return s.move(bufs, result, func(b []byte) (int, error) {
		n, err := d.file.ReadAt(b, int64(at))
		at += uint64(n)
		return n, err
	})
}

// fdWrite is fd_write(fd, iovs, iovs_len, nwritten).
func (s *State) fdWrite() errno {
	d, bufs, result, e := s.moving(fdWrite, 3)
	if e != success {
		return e
	}
	s.touch()
	switch d.kind {
	case stdout:
		return s.move(bufs, result, s.writeStdout)
	case stderr:
		return s.move(bufs, result, s.writeStderr)
	}
	return s.synced(d, s.move(bufs, result, d.file.Write))
}

// writeStdout ends the guest at one byte too many.
func (s *State) writeStdout(b []byte) (int, error) {
	if int64(len(b)) > s.out.left() {
		s.run.OutputExceeded()
	}
	s.out.add(b)
	return len(b), nil
}

// writeStderr drops what is too much.
func (s *State) writeStderr(b []byte) (int, error) {
	s.log.add(b[:min(int64(len(b)), s.log.left())])
	return len(b), nil
}

// fdPwrite is fd_pwrite(fd, iovs, iovs_len, offset, nwritten). It writes where it
// is told to, also where fd_write would append.
func (s *State) fdPwrite() errno {
	d, bufs, result, e := s.moving(fdWrite|fdSeek, 4)
	if e != success {
		return e
	}
	at := s.u64(3)
	if at > math.MaxInt64-1<<32 {
		return inval
	}
	s.touch()
	if d.flags&flagAppend != 0 {
		if err := d.file.SetAppend(false); err != nil {
			return number(err)
		}
		defer d.file.SetAppend(true)
	}
	return s.synced(d, s.move(bufs, result, func(b []byte) (int, error) {
		n, err := d.file.WriteAt(b, int64(at))
		at += uint64(n)
		return n, err
	}))
}

// synced makes what was written durable if the descriptor asks for that.
func (s *State) synced(d *descriptor, e errno) errno {
	switch {
	case e != success:
		return e
	case d.flags&(flagSync|flagRsync) != 0:
		return number(d.file.Sync())
	case d.flags&flagDsync != 0:
		return number(d.file.DataSync())
	}
	return success
}

// fdSeek is fd_seek(fd, offset, whence, newoffset).
func (s *State) fdSeek() errno {
	off, whence := int64(s.u64(1)), s.u32(2)
	if whence == io.SeekCurrent && off == 0 {
		return s.tell(s.param(3, 8))
	}
	d, e := s.fd(fdSeek)
	if e != success {
		return e
	}
	return s.seek(d, off, int(whence), s.param(3, 8))
}

// fdTell is fd_tell(fd, offset).
func (s *State) fdTell() errno { return s.tell(s.param(1, 8)) }

// tell needs no more than the right to learn the offset, which the one to change
// it implies.
func (s *State) tell(out []byte) errno {
	d, e := s.fd(fdTell)
	if e == notcapable {
		d, e = s.fd(fdSeek)
	}
	if e != success {
		return e
	}
	return s.seek(d, 0, io.SeekCurrent, out)
}

func (s *State) seek(d *descriptor, off int64, whence int, out []byte) errno {
	if out == nil {
		return fault
	}
	if whence < io.SeekStart || whence > io.SeekEnd {
		return inval
	}
	s.touch()
	at, err := d.file.Seek(off, whence)
	if err != nil {
		return number(err)
	}
	put64(out, uint64(at))
	return success
}

// fdSync is fd_sync(fd).
func (s *State) fdSync() errno { return s.flush(fdSync, (*hostfx.File).Sync) }

// fdDatasync is fd_datasync(fd).
func (s *State) fdDatasync() errno { return s.flush(fdDatasync, (*hostfx.File).DataSync) }

// flush does op to a file; of what is none there is nothing to make durable.
func (s *State) flush(need rights, op func(*hostfx.File) error) errno {
	d, e := s.fd(need)
	if e != success || d.kind != file {
		return e
	}
	s.touch()
	return number(op(d.file))
}

// fdAdvise is fd_advise(fd, offset, len, advice). No advice is taken.
func (s *State) fdAdvise() errno {
	_, e := s.fd(fdAdvise)
	if e == success && (s.u32(3) > 5 || s.u64(1) > math.MaxInt64 || s.u64(2) > math.MaxInt64) {
		e = inval
	}
	return e
}

// fdAllocate is fd_allocate(fd, offset, len).
func (s *State) fdAllocate() errno {
	d, e := s.fd(fdAllocate)
	if e != success {
		return e
	}
	off, n := s.u64(1), s.u64(2)
	if n == 0 {
		return inval
	}
	if off > math.MaxInt64 || n > math.MaxInt64-off {
		return fbig
	}
	s.touch()
	return number(d.file.Allocate(int64(off), int64(n)))
}

// fdFilestatSetSize is fd_filestat_set_size(fd, size).
func (s *State) fdFilestatSetSize() errno {
	d, e := s.fd(fdFilestatSetSize)
	if e != success {
		return e
	}
	if s.u64(1) > math.MaxInt64 {
		return fbig
	}
	s.touch()
	return number(d.file.Truncate(int64(s.u64(1))))
}
