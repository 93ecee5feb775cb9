package audit

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/mod/sumdb/tlog"
)

// Report is what [Verify] found to be true.
type Report struct {
	Origin      string `json:"origin"`
	Records     int64  `json:"records"`
	Segments    int    `json:"segments"`
	Checkpoints int64  `json:"checkpoints"`
	Root        string `json:"root"`       // of the tree over all records, base64
	Checkpoint  string `json:"checkpoint"` // the last one: a signed note, "" without records

	// Unfinished are bytes after the last checkpoint that look like the beginning
	// of a write. Either the log is in use, or a crash left them.
	Unfinished int64 `json:"unfinished_bytes"`

	// Anchors are the checkpoints of witnesses from which the log goes on.
	Anchors []AnchorReport `json:"anchors,omitzero"`
}

// Verify checks the log in dir, without changing it, from nothing but its files
// and public, a verifier key as in keys/log.pub. It checks what [Open] checks and
// also every signature, some 75 microseconds for each checkpoint. It may run
// while the log is in use.
//
// An empty public means keys/log.pub itself. That shows damage and clumsy edits,
// but not the work of someone who exchanged the key too: keep a copy elsewhere.
// Neither shows that the log was cut back to one of its older checkpoints; that
// takes the memory of somebody else. The report's Records and Root are what to
// compare; or give the anchors that witnesses remember, from which the log must go
// on, and which must be signed by the same key.
//
// # Errors
//
// A [*TamperError] that names the first record that is wrong. Anything else means
// that Verify could not tell. The report covers what comes before the error.
func Verify(dir, public string, anchors ...Anchor) (Report, error) {
	w, segs, err := walkOf(dir, public)
	if err != nil {
		return Report{}, goneFor(err, anchors)
	}
	known, bad := opened(anchors, w.verifier)
	w.roots = map[int64]tlog.Hash{}
	for _, a := range known {
		w.roots[a.size] = tlog.Hash{}
	}
	f, err := openRegular(hashesPath(dir), os.O_RDONLY)
	switch {
	case err == nil:
		defer f.Close()
		w.hashes = &hashFile{f}
	case !errors.Is(err, fs.ErrNotExist): // without it, only batches can be named
		return Report{}, err
	}
	err = w.walk(context.Background(), segs, ignore)
	r := Report{
		Origin: w.verifier.Name(), Records: w.tree.n, Segments: len(segs), Checkpoints: w.checkpoints,
		Root: w.tree.root().String(), Checkpoint: string(w.last.note), Unfinished: w.torn,
	}
	if err == nil { // what the files themselves show comes first, and names the record
		err = bad
	}
	if err == nil {
		r.Anchors, err = w.meet(known, segs)
	}
	return r, err
}

// walkOf is what it takes to check the log in dir.
func walkOf(dir, public string) (*walker, []segment, error) {
	v, err := loadPub(dir)
	if public != "" {
		v, err = parsePub(public)
	}
	if err != nil {
		return nil, nil, err
	}
	segs, err := segments(dir)
	if err != nil {
		return nil, nil, err
	}
	if len(segs) == 0 {
		return nil, nil, noSegments()
	}
	return &walker{verifier: v, every: true, stop: -1}, segs, nil
}
