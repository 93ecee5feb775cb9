package hostfx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// journalVersion is that of the lines below.
const journalVersion = 1

// maxCallFile is how large the lines of one call may be together, in bytes.
const maxCallFile = 64 << 20

// journalLine is one line of a call's file: first who it was, then what was at each
// name before the call changed it, each durable before the change; at the call's end
// what it left where that is something else, and then how it ended. Without an end
// nobody knows what the call left.
type journalLine struct {
	Version int       `json:"callgate_journal,omitzero"`
	Call    string    `json:"call,omitzero"`
	Owner   string    `json:"owner,omitzero"`
	Session string    `json:"session,omitzero"`
	Time    time.Time `json:"time,omitzero"`

	Root   string `json:"root,omitzero"`
	Path   []byte `json:"path,omitzero"` // not always UTF-8
	Before *image `json:"before,omitzero"`
	After  *image `json:"after,omitzero"`
	Mixed  bool   `json:"mixed,omitzero"` // another call changed it meanwhile

	End string `json:"end,omitzero"` // endWhole or endLost
}

const (
	endWhole = "whole"
	endLost  = "lost" // what the call left could not be told
)

// The kinds of images.
const (
	absent  = "absent"
	aFile   = "file"
	aDir    = "dir"
	aLink   = "link"
	maxMode = 0o777
)

// image is what is at a name at one time.
type image struct {
	Kind   string `json:"kind"`
	Mode   uint32 `json:"mode,omitzero"`        // of files and directories
	Time   int64  `json:"time,string,omitzero"` // when it was modified, Unix ns
	Size   int64  `json:"size,omitzero"`        // of files
	Digest string `json:"digest,omitzero"`      // of files: SHA-256 in hex
	Stored bool   `json:"stored,omitzero"`      // the content is among the objects
	Text   []byte `json:"text,omitzero"`        // of links
}

// same reports whether both are the same thing, whenever it was modified.
func (i image) same(o image) bool {
	return i.Kind == o.Kind && i.Mode == o.Mode && i.Digest == o.Digest && bytes.Equal(i.Text, o.Text)
}

func (i image) check() error {
	file, link := i.Kind == aFile, i.Kind == aLink
	switch {
	case i.Kind != absent && i.Kind != aDir && !file && !link:
		return errors.New("an unknown kind")
	case i.Mode > maxMode || i.Mode != 0 && !file && i.Kind != aDir:
		return errors.New("a malformed mode")
	case file != (i.Digest != "") || file && !isDigest(i.Digest):
		return errors.New("a malformed digest")
	case i.Size < 0 || i.Size != 0 && !file || i.Stored && !file || i.Time != 0 && i.Kind == absent:
		return errors.New("a size, time or content of what has none")
	case link != (len(i.Text) > 0) || len(i.Text) > maxPath || bytes.IndexByte(i.Text, 0) >= 0:
		return errors.New("a malformed link")
	}
	return nil
}

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// isPath reports whether p is a clean path below a root. Unlike [fs.ValidPath] it
// need not be UTF-8.
func isPath(p string) bool {
	if p == "." {
		return true
	}
	if p == "" || len(p) > maxPath || strings.ContainsRune(p, 0) {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}

// journaled is what a call's file says.
type journaled struct {
	call, owner, session string
	time                 time.Time
	end                  string
	names                map[spot]*edited
}

// edited is what the call did to one name.
type edited struct {
	before image
	after  image // as before unless the call's file has another
	mixed  bool
}

// changed reports whether the call left something else than it found.
func (e *edited) changed() bool { return !e.before.same(e.after) || e.before.Time != e.after.Time }

// readJournaled reads a call's file, which somebody may have meddled with. A last line
// without an end was never acknowledged, so nothing was done after it.
func readJournaled(r io.Reader) (*journaled, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxCallFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxCallFile {
		return nil, errors.New("the file is too large")
	}
	c := &journaled{names: map[spot]*edited{}}
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			break
		}
		var l journalLine
		err := json.Unmarshal(line, &l, json.RejectUnknownMembers(true))
		if err == nil {
			err = c.add(n, &l)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		b = rest
	}
	if c.call == "" {
		return nil, errors.New("the file has no first line")
	}
	return c, nil
}

func (c *journaled) add(n int, l *journalLine) error {
	head := l.Version != 0 || l.Call != "" || l.Owner != "" || l.Session != "" || !l.Time.IsZero()
	name := l.Root != "" || len(l.Path) > 0 || l.Before != nil || l.After != nil || l.Mixed
	switch {
	case c.end != "":
		return errors.New("a line after the end")
	case (n == 1) != head || head && (name || l.End != ""):
		return errors.New("a head in the wrong place")
	case head:
		if l.Version != journalVersion || !callID(l.Call) || l.Owner == "" || l.Session == "" {
			return errors.New("a malformed head")
		}
		c.call, c.owner, c.session, c.time = l.Call, l.Owner, l.Session, l.Time
		return nil
	case l.End != "":
		if name || l.End != endWhole && l.End != endLost {
			return errors.New("a malformed end")
		}
		c.end = l.End
		return nil
	}
	return c.change(l)
}

func (c *journaled) change(l *journalLine) error {
	s := spot{l.Root, string(l.Path)}
	if !rootName.MatchString(s.root) || !isPath(s.path) {
		return errors.New("a malformed name")
	}
	for _, i := range []*image{l.Before, l.After} {
		if i == nil {
			continue
		}
		if err := i.check(); err != nil {
			return err
		}
	}
	e := c.names[s]
	switch {
	case (l.Before == nil) != (e != nil), l.Before == nil && l.After == nil, l.Mixed && l.After == nil:
		return errors.New("a name twice, or without what was there before")
	case e == nil:
		e = &edited{before: *l.Before, after: *l.Before}
		c.names[s] = e
	}
	if l.After != nil {
		e.after, e.mixed = *l.After, l.Mixed
	}
	return nil
}
