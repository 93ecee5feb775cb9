package audit

import (
	"context"
	"errors"
	"io/fs"
	"os"
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
// compare.
//
// # Errors
//
// A [*TamperError] that names the first record that is wrong. Anything else means
// that Verify could not tell. The report covers what comes before the error.
func Verify(dir, public string) (Report, error) {
	v, err := loadPub(dir)
	if public != "" {
		v, err = parsePub(public)
	}
	if err != nil {
		return Report{}, err
	}
	segs, err := segments(dir)
	if err != nil {
		return Report{}, err
	}
	if len(segs) == 0 {
		return Report{}, noSegments()
	}
	w := &walker{verifier: v, every: true, stop: -1}
	f, err := openRegular(hashesPath(dir), os.O_RDONLY)
	switch {
	case err == nil:
		defer f.Close()
		w.hashes = &hashFile{f}
	case !errors.Is(err, fs.ErrNotExist): // without it, only batches can be named
		return Report{}, err
	}
	err = w.walk(context.Background(), segs, func(int64, [][]byte) error { return nil })
	return Report{
		Origin: v.Name(), Records: w.tree.n, Segments: len(segs), Checkpoints: w.checkpoints,
		Root: w.tree.root().String(), Checkpoint: string(w.last.note), Unfinished: w.torn,
	}, err
}
