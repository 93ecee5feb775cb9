package hostfx

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Entry is one name in a directory. It is an [fs.DirEntry] whose Info is
// [Folder.LstatAt].
type Entry struct {
	name string
	mode fs.FileMode
	ino  uint64
	in   *Folder
}

// Name is the last component of its path, as the file system has it: not always UTF-8.
func (e *Entry) Name() string { return e.name }

// IsDir reports whether it is a directory, and no link to one.
func (e *Entry) IsDir() bool { return e.mode.IsDir() }

// Type is the type alone.
func (e *Entry) Type() fs.FileMode { return e.mode.Type() }

// Ino is its number in the file system.
func (e *Entry) Ino() uint64 { return e.ino }

// Info describes it as it is now.
func (e *Entry) Info() (fs.FileInfo, error) { return e.in.LstatAt(e.name) }

// listing is how far a directory was read.
type listing struct {
	file   *os.File // nil until the first
	effect *entry   // nil until there is one
	next   uint64   // of Next

	first uint64 // the number of window[0]
	part  []Entry
	done  bool // there are none after part
}

func (l *listing) end() {
	if l.file != nil {
		l.file.Close()
	}
	*l = listing{effect: l.effect}
}

// Next returns up to n further entries, in no order, and io.EOF when there are none.
// The first call is the effect fs.list and needs the mode list.
func (f *Folder) Next(n int) ([]fs.DirEntry, error) {
	entries, err := f.entries(nil, n)
	if err == nil && len(entries) == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(entries))
	for i := range entries {
		out[i] = &entries[i]
	}
	return out, nil
}

// Rewind makes Next start from the first entry again.
func (f *Folder) Rewind() error {
	return f.do(func(*place) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.list.end()
		return nil
	})
}

// EntriesAt returns up to n entries from the one with the number at, which counts from
// 0, and none when there are no more. The entries have consecutive numbers. Going on
// where the last call ended, or a little before, costs nothing; going back further
// reads the directory from its start again. It has nothing to do with Next, and is the
// same effect.
func (f *Folder) EntriesAt(at uint64, n int) ([]Entry, error) { return f.entries(&at, n) }

// entries is EntriesAt, or Next without at.
func (f *Folder) entries(at *uint64, n int) (out []Entry, err error) {
	if n <= 0 {
		return nil, fs.ErrInvalid
	}
	err = f.do(func(p *place) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closed {
			return fs.ErrClosed
		}
		began := f.d.fx.now()
		if err := f.start(p); err != nil {
			return f.noteSince(began, "fs.list", ".", err)
		}
		defer func() { f.list.effect.lasted(f.d.fx.since(began)) }()
		from := f.list.next
		if at != nil {
			from = *at
		}
		if out, err = f.read(from, n); err != nil && err != ErrClosed {
			err = f.note("fs.list", ".", err)
		}
		if err != nil {
			return err
		}
		if at == nil {
			f.list.next += uint64(len(out))
		}
		return nil
	})
	return out, err
}

// start opens the directory for listing. Again after Rewind it is the same effect.
func (f *Folder) start(p *place) error {
	if !f.d.modes.List {
		return ErrNotGranted
	}
	if f.list.file != nil {
		return nil
	}
	file, err := p.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	if f.list.effect == nil {
		f.list.effect = f.d.fx.log.add("fs.list", f.d.name, f.name, ok)
	}
	f.list.file = file
	return nil
}

// read must be called with mu held. It keeps one part of the directory, however large
// that is.
func (f *Folder) read(at uint64, n int) (out []Entry, err error) {
	l := &f.list
	if at < l.first {
		if _, err := l.file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		l.first, l.part, l.done = 0, nil, false
	}
	for {
		if skip := at - l.first; skip < uint64(len(l.part)) {
			some := l.part[skip:]
			some = some[:min(len(some), n-len(out))]
			out = append(out, some...)
			at += uint64(len(some))
		}
		if len(out) == n || l.done {
			return out, nil
		}
		if f.d.fx.ctx.Err() != nil || !f.d.fx.g.Live() {
			return nil, ErrClosed
		}
		part, err := nextPart(l.file)
		if errors.Is(err, io.EOF) {
			l.done = true
			continue
		}
		if err != nil {
			return nil, err
		}
		l.first += uint64(len(l.part))
		l.part = part
		for i := range part {
			part[i].in = f
		}
	}
}
