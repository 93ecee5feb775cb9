package sandbox

import (
	"bytes"
	"io"

	"github.com/callgate/callgate/hostfx"
)

// nameIn is the path of a file or directory that a request is for. Of one that
// is too long there is enough for hostfx to see that.
func nameIn(req []byte) string { return string(req[:min(len(req), maxPath+1)]) }

// readFile reads a file that the guest's memory could hold.
func (q *request) readFile(req []byte) (*kept, error) {
	f, err := q.fx.OpenRead(nameIn(req))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	limit := int64(q.room())
	if info.Size() > limit {
		return nil, hostfx.ErrTooLarge
	}
	// The file may grow while it is read; one byte too many tells.
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	_, err = b.ReadFrom(io.LimitReader(checked{q.run, f}, limit+1))
	return &kept{body: b.Bytes()}, err
}

// checked looks at the clock before each read.
type checked struct {
	run *run
	in  io.Reader
}

func (c checked) Read(b []byte) (int, error) {
	c.run.check()
	return c.in.Read(b)
}

func (q *request) list(req []byte) (*kept, error) {
	entries, err := q.fx.List(nameIn(req))
	if err != nil {
		return nil, err
	}
	b, err := listing(entries, q.room(), q.check)
	return &kept{body: b}, err
}

func (q *request) stat(req []byte) (*kept, error) {
	i, err := q.fx.Stat(nameIn(req))
	if err != nil {
		return nil, err
	}
	b, err := described(i)
	return &kept{body: b}, err
}

func (q *request) writeFile(name, body []byte) error { return q.fx.WriteFile(nameIn(name), body) }

func (q *request) appendFile(name, body []byte) error { return q.fx.AppendFile(nameIn(name), body) }

func (q *request) mkdir(name []byte) error { return q.fx.Mkdir(nameIn(name)) }

func (q *request) remove(name []byte) error { return q.fx.Remove(nameIn(name)) }

func (q *request) rename(name, to []byte) error { return q.fx.Rename(nameIn(name), nameIn(to)) }
