package hostfx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// edits are what one call changes, as the journal has it.
type edits struct {
	j       *journal
	session Session
	tops    map[string]*place // roots that lie in no other
	done    <-chan struct{}   // once the call is over

	// Held while something is changed, so that it is what the journal has an image of.
	mu     sync.Mutex     // protects the fields below
	file   *os.File       // of the call in the journal; nil until something is changed
	length int64          // of the file
	was    map[spot]image // what was there before the call changed it
	trees  []spot         // directories in which others change things for the call
	images int64          // bytes
	free   bool           // what undoing needs has no bounds
	err    error          // the journal failed: nothing may be changed any more

	// Protected by the journal's mu.
	kept    map[string]bool // contents that this call needs
	watched []spot          // as trees
	mixed   map[spot]bool   // what other calls changed meanwhile, or whose trees
}

func (e *edits) fileName() string { return "calls/" + e.session.Call + ".jsonl" }

// alive fails when the call is over.
func (e *edits) alive() error {
	select {
	case <-e.done:
		return ErrClosed
	default:
		return nil
	}
}

// errUnlike says that something is neither file, link nor directory, so that nobody
// could put it back.
var errUnlike = fmt.Errorf("%w: it is no file, directory or link, and could not be put back", ErrNotGranted)

// look is what is there now. With keep, the content of a file is stored, unless it is
// that of old.
func (e *edits) look(dir *place, base string, most int64, keep bool, old string) (image, error) {
	i, err := dir.stat(base, false)
	if errors.Is(err, fs.ErrNotExist) {
		return image{Kind: absent}, nil
	}
	if err != nil {
		return image{}, err
	}
	out := image{Mode: uint32(i.Mode().Perm()), Time: i.ModTime().UnixNano()}
	switch i.Mode().Type() {
	case fs.ModeDir:
		out.Kind = aDir
		return out, nil
	case fs.ModeSymlink:
		text, err := dir.readlink(base)
		out.Kind, out.Mode, out.Text = aLink, 0, []byte(text)
		return out, err
	case 0:
	default:
		return image{}, errUnlike
	}
	f, err := dir.open(base, unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return image{}, err
	}
	defer f.Close()
	again, err := statFile(f)
	if err != nil {
		return image{}, err
	}
	if !again.Mode().IsRegular() {
		return image{}, errUnlike
	}
	out.Kind, out.Mode, out.Time = aFile, uint32(again.Mode().Perm()), again.ModTime().UnixNano()
	if !keep || old != "" {
		if out.Digest, out.Size, err = digestOf(f, most, e.alive); err != nil || !keep || out.Digest == old {
			return out, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return image{}, err
		}
	}
	out.Digest, out.Size, err = e.j.keep(e, f, most)
	out.Stored = true
	return out, err
}

// imaged is what was found at a name.
type imaged struct {
	spot spot
	image
}

// first takes the image of what is there now, unless there is one. It must be called
// with mu held, and gate for reading.
func (e *edits) first(list []imaged, dir *place, base string, s spot) ([]imaged, error) {
	if _, known := e.was[s]; known {
		return list, nil
	}
	if !e.free && len(e.was)+len(list) >= maxRecorded {
		return nil, fmt.Errorf("%w: more than %d names in the journal", ErrQuota, maxRecorded)
	}
	if len(s.path) > maxPath {
		return nil, unix.ENAMETOOLONG
	}
	if slices.ContainsFunc(e.trees, s.in) {
		// When the images of that tree were taken it was not there.
		return append(list, imaged{s, image{Kind: absent}}), nil
	}
	most := int64(maxImage)
	if e.free {
		most = 1 << 62
	}
	i, err := e.look(dir, base, most, true, "")
	if err != nil {
		return nil, err
	}
	if e.images += i.Size; !e.free && e.images > maxImages {
		e.images -= i.Size
		return nil, fmt.Errorf("%w: more than %d bytes in the journal", ErrQuota, maxImages)
	}
	return append(list, imaged{s, i}), nil
}

// commit returns once the images last. It must be called with mu held, and gate for
// reading.
func (e *edits) commit(list []imaged) error {
	if e.err != nil {
		return e.err
	}
	if len(list) == 0 {
		return nil
	}
	var lines []journalLine
	for _, i := range list {
		lines = append(lines, journalLine{Root: i.spot.root, Path: []byte(i.spot.path), Before: &i.image})
	}
	if err := e.write(maxCallFile/4, lines...); err != nil {
		return err
	}
	spots := make([]spot, 0, len(list))
	for _, i := range list {
		e.was[i.spot] = i.image
		spots = append(spots, i.spot)
	}
	e.j.claim(e, spots)
	return nil
}

// write adds lines to the call's file, which they may fill up to most bytes.
func (e *edits) write(most int64, lines ...journalLine) error {
	if e.file == nil {
		if err := e.begin(); err != nil {
			e.err = err
			return err
		}
	}
	var b []byte
	for _, l := range lines {
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	if e.length+int64(len(b)) > most {
		return fmt.Errorf("%w: too many names in the journal", ErrQuota)
	}
	if err := e.j.room(int64(len(b))); err != nil {
		return err
	}
	_, err := e.file.Write(b)
	if err = errors.Join(err, e.file.Sync()); err != nil {
		e.err = err // half a line may be there
		return err
	}
	e.length += int64(len(b))
	e.j.mu.Lock()
	defer e.j.mu.Unlock()
	e.j.bytes += int64(len(b))
	return nil
}

// begin makes the call's file.
func (e *edits) begin() (err error) {
	e.file, err = e.j.dir.OpenFile(e.fileName(), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if err := e.j.syncDir("calls"); err != nil {
		return err
	}
	return e.write(maxCallFile, journalLine{
		Version: journalVersion, Call: e.session.Call, Owner: e.session.Owner, Session: e.session.ID, Time: e.j.now().UTC(),
	})
}

// claim says that e changes these, and finds out who else does.
func (j *journal) claim(e *edits, spots []spot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range spots {
		if j.by[s] == nil {
			j.by[s] = map[*edits]struct{}{}
		}
		j.by[s][e] = struct{}{}
		for o := range j.live {
			if _, changes := j.by[s][o]; o != e && (changes || o.watches(s)) {
				o.mixed[s], e.mixed[s] = true, true
			}
		}
	}
}

// watches must be called with the journal's mu held.
func (e *edits) watches(s spot) bool {
	for _, w := range e.watched {
		if s.in(w) {
			return true
		}
	}
	return false
}

// watch says that others change things in a tree for e. What another call changes there
// too, before or later, is nobody's to undo. Two calls with one tree both changed the
// directories in it, by their own word, and so is nothing in these.
func (j *journal) watch(e *edits, tree spot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.watched = append(e.watched, tree)
	for s, who := range j.by {
		if !s.in(tree) {
			continue
		}
		for o := range who {
			if o != e {
				o.mixed[s], e.mixed[s] = true, true
			}
		}
	}
}

// mixedUp reports whether another call changed s meanwhile, or may have.
func (j *journal) mixedUp(e *edits, s spot) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for at := s; ; at.path = path.Dir(at.path) {
		if e.mixed[at] && (at == s || e.watches(at)) {
			return true
		}
		if at.path == "." {
			return false
		}
	}
}

// leave takes e out of those that are live. It must be called with e's mu held.
func (j *journal) leave(e *edits) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.live, e)
	for s := range e.was {
		if delete(j.by[s], e); len(j.by[s]) == 0 {
			delete(j.by, s)
		}
	}
}

// release gives the roots back.
func (e *edits) release() {
	for _, p := range e.tops {
		p.close()
	}
}
