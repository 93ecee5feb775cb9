package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Anchor is what a witness remembers of a log: its newest cosigned checkpoint.
type Anchor struct {
	Witness    string // for people; "" means the key's name
	Key        string // the witness's verifier key, from somewhere else than the log
	Checkpoint []byte // a signed note with the signatures of the log and of the witness
}

// AnchorReport is an [Anchor] from which a log goes on.
type AnchorReport struct {
	Witness   string    `json:"witness"`
	Size      int64     `json:"size"`      // records that it vouches for
	At        time.Time `json:"at"`        // when it saw them, by its own clock
	Uncovered int64     `json:"uncovered"` // records after them, which could be cut off unseen
}

// firstSegment is where a log begins.
var firstSegment = filepath.Base(segmentPath("", 0))

// openedAnchor is an anchor that the log and the witness signed.
type openedAnchor struct {
	cosignedCheckpoint
	name string
}

// opened believes the anchors or says why not. One that is of another key of the log
// is the log's fault: that the witness saw it is beyond doubt.
func opened(anchors []Anchor, log note.Verifier) ([]openedAnchor, error) {
	var out []openedAnchor
	for _, a := range anchors {
		key, err := parseCosigner(a.Key)
		if err != nil {
			return nil, err
		}
		name := a.name(key)
		c, err := openCosigned(a.Checkpoint, log, key)
		if err == nil {
			out = append(out, openedAnchor{c, name})
			continue
		}
		size, theirs := vouched(a.Checkpoint, key)
		if !theirs {
			return nil, fmt.Errorf("audit: witness %s: the checkpoint is not cosigned by its key", name)
		}
		return nil, &TamperError{Last: max(0, size-1), Segment: firstSegment, Reason: "witness " + name + " cosigned a log of another name or key"}
	}
	return out, nil
}

func (a Anchor) name(key *cosigner) string {
	if a.Witness != "" {
		return a.Witness
	}
	return key.name
}

// vouched reports whether the witness cosigned the checkpoint, of whatever log, and how
// many records it is of.
func vouched(msg []byte, key *cosigner) (size int64, ok bool) {
	n, err := note.Open(msg, note.VerifierList(key))
	if err != nil {
		return 0, false
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 2 {
		return 0, false
	}
	size, err = parseSize(lines[1])
	return size, err == nil
}

// meet holds the log against the anchors, once it is walked.
func (w *walker) meet(known []openedAnchor, segs []segment) ([]AnchorReport, error) {
	last := segs[len(segs)-1].name()
	var out []AnchorReport
	for _, a := range known {
		switch {
		case a.size > w.tree.n:
			return out, &TamperError{Record: w.tree.n, Last: a.size - 1, Segment: last,
				Reason: fmt.Sprintf("records are missing at the end: witness %s cosigned %d on %s", a.name, a.size, a.at.Format(time.RFC3339))}
		case w.roots[a.size] != a.root:
			return out, &TamperError{Last: a.size - 1, Segment: segs[0].name(),
				Reason: fmt.Sprintf("not the %d records that witness %s cosigned on %s", a.size, a.name, a.at.Format(time.RFC3339))}
		}
		out = append(out, AnchorReport{a.name, a.size, a.at, w.tree.n - a.size})
	}
	return out, nil
}

// goneFor turns the error for a log that is not there into the finding that it is gone,
// if a witness saw it.
func goneFor(err error, anchors []Anchor) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, a := range anchors {
		key, keyErr := parseCosigner(a.Key)
		if keyErr != nil {
			return keyErr
		}
		if size, ok := vouched(a.Checkpoint, key); ok && size > 0 {
			return &TamperError{Last: size - 1, Segment: firstSegment, Reason: fmt.Sprintf("the log or its public key is gone: witness %s cosigned %d records", a.name(key), size)}
		}
	}
	return err
}

// AskWitness shows w the newest checkpoint of the log in dir, which may be in use, and
// returns w's cosignature of it. It is for witnesses that can be asked and not read:
// one that remembers another log, or more of this one, does not cosign. What w
// remembers moves on to the checkpoint, as if the log's owner had asked. Public is as
// for [Verify]; now is the time that w's clock should have.
//
// # Errors
//
// A [*TamperError] when w remembers more of the log, or another one. Anything else means
// that nobody can tell, also when w does not know the log or its key.
func AskWitness(ctx context.Context, dir, public string, w Witness, now time.Time) (Anchor, error) {
	id, err := newIdentity(w.Name(), w.Key())
	if err != nil {
		return Anchor{}, err
	}
	key, err := parseCosigner(id.key)
	if err != nil {
		return Anchor{}, err
	}
	v, _, err := walkOf(dir, public)
	if err != nil {
		return Anchor{}, err
	}
	q := &question{dir: dir, public: public, asked: asked{Witness: w, key: key, busy: make(chan struct{}, 1)}, log: v, sync: syncFile}
	for range 8 { // whoever owns the log may ask at the same time
		c, err := q.ask(ctx, now)
		if err == nil {
			return Anchor{Witness: id.name, Key: id.key, Checkpoint: c.note}, nil
		}
		refused, ok := errors.AsType[*RefusedError](err)
		switch {
		case errors.Is(err, ErrForked), ok && refused.Status == http.StatusConflict && refused.Size == q.old && q.old > 0:
			return Anchor{}, &TamperError{Last: max(0, q.old-1), Segment: firstSegment, Reason: fmt.Sprintf("not the %d records that witness %s saw", q.old, id.name)}
		case !ok || refused.Status != http.StatusConflict || refused.Size < 0:
			return Anchor{}, err
		}
		q.old = refused.Size
	}
	return Anchor{}, fmt.Errorf("audit: witness %s keeps changing its mind", id.name)
}

// question is what a witness is asked about a log on disk.
type question struct {
	dir, public string
	asked
	log  *walker // as far as the log was read
	sync func(path string) error
}

// syncFile makes durable what a file holds, whoever wrote it.
func syncFile(path string) error {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// grow reads what the log has become. What was read before is read again from the start
// of its last segment.
func (q *question) grow(ctx context.Context) error {
	w, segs, err := walkOf(q.dir, q.public)
	if err != nil {
		return err
	}
	if n := len(q.log.starts); n > 0 {
		w.tree = q.log.starts[n-1]
		segs = slices.DeleteFunc(segs, func(s segment) bool { return s.first < w.tree.n })
	}
	if err := w.walk(ctx, segs, ignore); err != nil {
		return err
	}
	if w.checkpoints == 0 {
		w.last, w.lastSegment = q.log.last, q.log.lastSegment // the last segment is still empty
	}
	q.log = w
	return nil
}

// ask shows the log as it is now.
func (q *question) ask(ctx context.Context, now time.Time) (c cosignedCheckpoint, err error) {
	if err := q.grow(ctx); err != nil {
		return c, err
	}
	n := q.log.tree.n
	switch {
	case n < q.old:
		return c, &TamperError{Record: n, Last: q.old - 1, Segment: q.log.lastSegment.name(),
			Reason: fmt.Sprintf("records are missing at the end: witness %s saw %d", q.Name(), q.old)}
	case n == 0:
		return c, errors.New("audit: the log has no record that a witness could be shown")
	}
	var proof tlog.TreeProof
	if q.old > 0 {
		if proof, err = q.proof(ctx, n); err != nil {
			return c, err
		}
	}
	// Whoever writes the log may still wait for its disk. A witness that saw what a crash
	// then takes back would remember another log for ever.
	if err := q.sync(q.log.lastSegment.path); err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	return cosign(ctx, &q.asked, q.log.last, proof, q.log.verifier, now)
}

func (q *question) proof(ctx context.Context, n int64) (tlog.TreeProof, error) {
	sources := []tlog.HashReader{fromRecords(func(stored func(int64, []tlog.Hash) error) error {
		segs, err := segments(q.dir)
		if err != nil {
			return err
		}
		w := &walker{verifier: q.log.verifier, stop: n, stored: stored}
		return w.walk(ctx, segs, ignore)
	})}
	if f, err := openRegular(hashesPath(q.dir), os.O_RDONLY); err == nil {
		defer f.Close()
		sources = slices.Insert(sources, 0, tlog.HashReader(&hashFile{f}))
	}
	proof, _, err := consistency(n, q.log.tree.root(), q.old, sources...)
	return proof, err
}
