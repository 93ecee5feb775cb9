package guest

import (
	"bytes"
	"io/fs"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Entry is one entry of a directory.
type Entry struct {
	Name string // bytes that are no UTF-8 are U+FFFD
	Dir  bool   // false for links, wherever they lead
}

// Types of what a path leads to.
const (
	TypeFile      = "file" // a regular one
	TypeDirectory = "directory"
	TypeOther     = "other"
)

// Info is what a path leads to.
type Info struct {
	Type     string    // TypeFile, TypeDirectory or TypeOther
	Size     int64     // bytes of a regular file, 0 for others
	Modified time.Time // to the millisecond
}

// ReadFile reads a regular file, /<root>/<granted path>/... The error is an
// [*fs.PathError] with an [Errno] in it, or with [errors.ErrUnsupported].
func ReadFile(name string) ([]byte, error) {
	b, err := ask(hostReadFile, []byte(name))
	return b, of("read", name, err)
}

// List lists a directory, sorted by name. The errors are those of [ReadFile].
func List(name string) ([]Entry, error) {
	b, err := ask(hostList, []byte(name))
	var entries []Entry
	if err == nil {
		entries, err = decodeEntries(b)
	}
	return entries, of("list", name, err)
}

// Stat says what a path leads to, links followed. The errors are those of [ReadFile].
func Stat(name string) (Info, error) {
	b, err := ask(hostStat, []byte(name))
	var i Info
	if err == nil {
		i, err = decodeInfo(b)
	}
	return i, of("stat", name, err)
}

// WriteFile makes b the content of a regular file, and creates it if it is not there.
// Unlike [os.WriteFile] it leaves a file as it was that may not be written, or not that
// much ([ErrQuota]). Who reads the file meanwhile can find a part of b: to replace one in
// one step, write another and [Rename] it. The errors are those of [ReadFile].
func WriteFile(name string, b []byte) error {
	return of("write", name, hostWriteFile([]byte(name), b))
}

// AppendFile adds b to the end of a regular file, and creates it if it is not there.
// The errors are those of [ReadFile].
func AppendFile(name string, b []byte) error {
	return of("append", name, hostAppendFile([]byte(name), b))
}

// Mkdir makes a directory in one that is there. The errors are those of [ReadFile].
func Mkdir(name string) error { return of("mkdir", name, hostMkdir([]byte(name))) }

// Remove removes a file, a link or an empty directory. The errors are those of
// [ReadFile].
func Remove(name string) error { return of("remove", name, hostRemove([]byte(name))) }

// Rename gives a file, link or directory another name, in place of the file, link or
// empty directory that has it. The errors are those of [ReadFile], for the old name.
func Rename(name, to string) error {
	return of("rename", name, hostRename([]byte(name), []byte(to)))
}

// of says which file an error is about.
func of(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func decodeInfo(b []byte) (Info, error) {
	var i Info
	d := jsontext.NewDecoder(bytes.NewReader(b))
	ok := object(d, func(name string) (ok bool) {
		switch name {
		case "type":
			i.Type, ok = text(d)
		case "size":
			i.Size, ok = number(d)
		case "modified_ms":
			var ms int64
			ms, ok = number(d)
			i.Modified = time.UnixMilli(ms)
		default:
			ok = d.SkipValue() == nil
		}
		return ok
	})
	if !ok || i.Type == "" {
		return Info{}, ErrFailed
	}
	return i, nil
}

func decodeEntries(b []byte) ([]Entry, error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	entries := []Entry{}
	ok := array(d, func() bool {
		var e Entry
		ok := object(d, func(name string) (ok bool) {
			switch name {
			case "name":
				e.Name, ok = text(d)
				return ok
			case "dir":
				t, err := d.ReadToken()
				e.Dir = err == nil && t.Kind() == 't'
				return err == nil && (t.Kind() == 't' || t.Kind() == 'f')
			default:
				return d.SkipValue() == nil
			}
		})
		entries = append(entries, e)
		return ok
	})
	if !ok {
		return nil, ErrFailed
	}
	return entries, nil
}
