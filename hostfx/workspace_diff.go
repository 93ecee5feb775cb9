package hostfx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

// maxDiffed is how large a file may be whose lines are compared, in bytes.
const maxDiffed = 1 << 20

// cutMark is the last line of what would be longer than the call's output may be.
const cutMark = "... the rest is left out\n"

// Diff shows what another call of the same session, and so of the same principal,
// changed: for each name what became of it, in the order of names, and for text of at most
// 1 MiB the lines in the unified format. Other contents are shown by SHA-256 and size. It
// shows what that call did, whatever was changed since, and needs the mode read for all
// of it. What is longer than the grant's output_bytes (1 MiB unless it says) is cut at the
// end of a line, and says so in its last line.
//
// It is the effect workspace.diff, with the call's id as its target.
//
// # Errors
//
// [ErrNotGranted] as [Effects.Undo]; [ErrUnfinished]; [ErrClosed]; or one that says that
// the journal is damaged.
func (fx *Effects) Diff(callID string) ([]byte, error) {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return nil, err
	}
	began := fx.now()
	out, err := fx.diff(callID)
	entry := fx.log.add("workspace.diff", "", target(callID), undoCode(err))
	entry.lasted(fx.since(began))
	entry.in.Add(int64(len(out)))
	return out, err
}

func (fx *Effects) diff(id string) ([]byte, error) {
	list, err := fx.past(id, func(m Modes) bool { return m.Read })
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	most := int(min(fx.caps.Bounds.Output(), 1<<30))
	for _, c := range list {
		if err := fx.edits.alive(); err != nil {
			return nil, err
		}
		if err := fx.edits.j.show(&out, c); err != nil {
			return nil, err
		}
		if out.Len() > most {
			return CutDiff(out.Bytes(), most), nil
		}
	}
	return out.Bytes(), nil
}

// CutDiff cuts what [Effects.Diff] returned to at most so many bytes.
func CutDiff(b []byte, most int) []byte {
	if len(b) <= most {
		return b
	}
	b = b[:max(most-len(cutMark), 0)]
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	return append(bytes.Clone(b), cutMark[:min(most, len(cutMark))]...)
}

// show writes what became of one name.
func (j *journal) show(out *bytes.Buffer, c change) error {
	name, was, is := quoted(c.name), c.before, c.after
	if c.mixed {
		fmt.Fprintf(out, "another call changed this meanwhile: %s\n", name)
	}
	switch {
	case was.Kind == absent:
		fmt.Fprintf(out, "created %s %s%s\n", is.Kind, name, is.detail())
	case is.Kind == absent:
		fmt.Fprintf(out, "removed %s %s%s\n", was.Kind, name, was.detail())
	case was.Kind != is.Kind:
		fmt.Fprintf(out, "replaced %s %s%s by %s%s\n", was.Kind, name, was.detail(), is.Kind, is.detail())
	case was.Mode != is.Mode:
		fmt.Fprintf(out, "changed the mode of %s %s: %04o, %04o\n", is.Kind, name, was.Mode, is.Mode)
	case !was.same(is):
		fmt.Fprintf(out, "changed %s %s%s\n", is.Kind, name, is.detail())
	case is.Kind != aDir: // of directories it changes with what is in them
		fmt.Fprintf(out, "changed the time of %s %s: %s, %s\n", is.Kind, name, stamp(was.Time), stamp(is.Time))
	}
	if was.Digest == is.Digest {
		return nil
	}
	before, ok1, err1 := j.text(was)
	after, ok2, err2 := j.text(is)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if ok1 && ok2 {
		from, to := name, name
		if was.Kind != aFile {
			from = "/dev/null"
		}
		if is.Kind != aFile {
			to = "/dev/null"
		}
		d := diff.Diff(from, before, to, after)
		_, d, _ = bytes.Cut(d, []byte{'\n'}) // the command that it would have come from
		out.Write(d)
		return nil
	}
	for _, i := range []struct {
		sign string
		image
	}{{"-", was}, {"+", is}} {
		if i.Kind == aFile {
			fmt.Fprintf(out, "%s %d bytes sha256:%s\n", i.sign, i.Size, i.Digest)
		}
	}
	return nil
}

// detail is what is known of an image besides its content.
func (i image) detail() string {
	switch i.Kind {
	case aFile, aDir:
		return fmt.Sprintf(" (%04o)", i.Mode)
	case aLink:
		return " -> " + quoted(string(i.Text))
	}
	return ""
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// text is the content of a text that is small and kept; of what is no file it is empty.
func (j *journal) text(i image) (b []byte, ok bool, err error) {
	if i.Kind != aFile {
		return nil, true, nil
	}
	if !i.Stored || i.Size > maxDiffed {
		return nil, false, nil
	}
	f, err := j.content(i)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	b, err = io.ReadAll(f)
	return b, err == nil && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0, err
}

// quoted is a name that is one word on a line, and that nothing obeys.
func quoted(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || r == ' ' || r == '"' || !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
