package hostfx

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// objectName is where a content is.
func objectName(digest string) string { return "objects/" + digest[:2] + "/" + digest }

// digestOf reads f to its end, unless that is further than most.
func digestOf(f io.Reader, most int64, alive func() error) (digest string, size int64, err error) {
	h := sha256.New()
	size, err = pour(h, f, most, alive)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// pour copies at most so many bytes, and fails with ErrQuota for more.
func pour(to io.Writer, from io.Reader, most int64, alive func() error) (size int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		if err := alive(); err != nil {
			return size, err
		}
		n, err := from.Read(buf)
		if size += int64(n); size > most {
			return size, fmt.Errorf("%w: the journal takes no more than that of one file", ErrQuota)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return size, err
		}
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
}

// keep stores what f has, from its start to its end, so that it lasts, and says what
// that is. It must be called with gate held for reading.
func (j *journal) keep(e *edits, f io.ReadSeeker, most int64) (digest string, size int64, err error) {
	if digest, size, err = digestOf(f, most, e.alive); err != nil {
		return "", 0, err
	}
	j.mu.Lock()
	e.kept[digest] = true
	j.mu.Unlock()
	if _, err := j.dir.Lstat(objectName(digest)); err == nil {
		return digest, size, nil // it is whole: only whole ones have such a name
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", 0, err
	}
	if err := j.room(size); err != nil {
		return "", 0, err
	}
	temp := "objects/new-" + rand.Text()
	to, err := j.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = pour(io.MultiWriter(to, h), f, most, e.alive)
	if err = errors.Join(err, to.Sync(), to.Close()); err == nil {
		digest = hex.EncodeToString(h.Sum(nil)) // it may be another by now
		err = j.place(temp, digest)
	}
	if err != nil {
		return "", 0, errors.Join(err, j.dir.Remove(temp))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bytes += size
	e.kept[digest] = true
	return digest, size, nil
}

// place gives a whole object its name.
func (j *journal) place(temp, digest string) error {
	name := objectName(digest)
	dir := name[:len("objects/")+2]
	err := j.dir.Mkdir(dir, 0o700)
	made := err == nil
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err == nil {
		err = j.dir.Rename(temp, name)
	}
	if err == nil && made {
		err = j.syncDir("objects")
	}
	if err != nil {
		return err
	}
	return j.syncDir(dir)
}

// syncDir makes the names in a directory last.
func (j *journal) syncDir(name string) error {
	d, err := j.dir.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// errCorrupt says that the journal is not as it was written.
var errCorrupt = errors.New("the journal is damaged")

// content opens a stored content. What is read from it is checked at its end.
func (j *journal) content(i image) (io.ReadCloser, error) {
	if !i.Stored || !isDigest(i.Digest) {
		return nil, errCorrupt
	}
	name := objectName(i.Digest)
	if s, err := j.dir.Lstat(name); err != nil || !s.Mode().IsRegular() { // opening a pipe would wait
		return nil, errCorrupt
	}
	f, err := j.dir.Open(name)
	if err != nil {
		return nil, errors.Join(errCorrupt, err)
	}
	return &object{f: f, sum: sha256.New(), left: i.Size, want: i.Digest}, nil
}

// object is a content that is being read.
type object struct {
	f    *os.File
	sum  hash.Hash
	left int64
	want string
}

// Read implements [io.Reader]. It ends well only if all was what was stored.
func (o *object) Read(b []byte) (int, error) {
	n, err := o.f.Read(b)
	o.left -= int64(n)
	o.sum.Write(b[:n])
	if o.left < 0 || errors.Is(err, io.EOF) && (o.left != 0 || hex.EncodeToString(o.sum.Sum(nil)) != o.want) {
		return 0, errCorrupt
	}
	return n, err
}

// Close implements [io.Closer].
func (o *object) Close() error { return o.f.Close() }
