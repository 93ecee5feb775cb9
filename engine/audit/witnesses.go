package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	witnessDir = "witness" // below the data directory: what each witness cosigned last

	witnessTime  = 5 * time.Second  // for one answer of a witness
	closeTime    = 5 * time.Second  // for the last ones, when the log is closed
	firstBackOff = time.Second / 10 // after a witness did not cosign; doubles
	mostBackOff  = time.Minute
	strictMost   = time.Second // since calls wait, unless the witness remembers another log

	// clockDrift is how far a witness's clock may be from ours: its cosignature is
	// evidence of when it saw the log.
	clockDrift = 10 * time.Minute
)

func cosignedPath(dir, name string) string { return filepath.Join(dir, witnessDir, name) }

// WitnessStatus is what a [Log] knows of one of its witnesses.
type WitnessStatus struct {
	Name string
	Size int64     // records that it has cosigned; 0: none
	At   time.Time // when it did, by its own clock
	Err  error     // why the last attempt came to nothing; an [ErrForked] is an alarm
}

// witnesses are those of an open log. Each is asked by a goroutine of its own.
type witnesses struct {
	l    *Log
	all  []*asked
	stop chan struct{} // closed when the log has its last record
	wg   sync.WaitGroup

	mu      sync.Mutex    // protects the fields below, and status of each
	size    int64         // what enough of them have cosigned
	changed chan struct{} // closed with the next size, and when waiting may be of no use
	over    bool
}

// asked is one witness.
type asked struct {
	Witness
	key  *cosigner
	kick chan struct{} // somebody waits
	busy chan struct{} // holds one while it is asked

	// Owned by its goroutine once that runs.
	last  cosignedCheckpoint // that it signed last; size 0: none
	old   int64              // what it saw last, as far as we know
	fails int                // in a row
	kept  int64              // size of last that is kept beside the log
	at    time.Time          // when it was

	status WitnessStatus // protected by witnesses.mu
}

// check is what [Open] says about options.
func (o *Options) check() error {
	names, keys := map[string]bool{}, map[string]string{}
	for _, w := range o.Witnesses {
		if _, err := newIdentity(w.Name(), w.Key()); err != nil {
			return err
		}
		key, err := parseCosigner(w.Key())
		if err != nil {
			return err
		}
		other, twice := keys[string(key.key)] // under whatever name of the key
		switch {
		case names[w.Name()]:
			return fmt.Errorf("audit: two witnesses are named %s", w.Name())
		case twice:
			return fmt.Errorf("audit: witnesses %s and %s have one key, and would count twice", other, w.Name())
		}
		names[w.Name()], keys[string(key.key)] = true, w.Name()
	}
	switch {
	case o.Quorum < 0 || o.Quorum > len(o.Witnesses):
		return fmt.Errorf("audit: a quorum of %d witnesses, of %d", o.Quorum, len(o.Witnesses))
	case o.Strict && len(o.Witnesses) == 0:
		return errors.New("audit: strict, and without a witness")
	case o.Every < 0 || o.StrictTimeout < 0:
		return errors.New("audit: Options.Every or StrictTimeout is negative")
	}
	return nil
}

// openWitnesses takes up what each witness cosigned before. A log that does not go on
// from that is not the one that it was. The records are checked, and so are the hashes.
func (l *Log) openWitnesses() error {
	if len(l.o.Witnesses) == 0 {
		return nil
	}
	if err := makeDir(filepath.Join(l.dir, witnessDir)); err != nil {
		return err
	}
	ws := &witnesses{l: l, stop: make(chan struct{}), changed: make(chan struct{})}
	for _, w := range l.o.Witnesses {
		key, err := parseCosigner(w.Key())
		if err != nil {
			return err
		}
		a := &asked{Witness: w, key: key, kick: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
		if a.last, err = l.readCosigned(a); err != nil {
			return err
		}
		a.old, a.kept = a.last.size, a.last.size
		a.status = WitnessStatus{Name: w.Name(), Size: a.last.size, At: a.last.at}
		ws.all = append(ws.all, a)
	}
	ws.size = ws.anchored()
	l.witnesses = ws
	if l.o.Alive > 0 {
		l.alive = newAlive(l)
	}
	return nil
}

// readCosigned is what w cosigned last, as the file beside the log has it. What nobody
// vouches for counts for nothing: w itself will say what it saw.
func (l *Log) readCosigned(w *asked) (cosignedCheckpoint, error) {
	b, err := readFile(cosignedPath(l.dir, w.Name()), maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return cosignedCheckpoint{}, nil
	}
	if err != nil {
		return cosignedCheckpoint{}, err
	}
	c, err := openCosigned(b, l.verifier, w.key)
	if err != nil {
		l.o.Logger.Warn().Str("witness", w.Name()).AnErr("cause", err).Msg("kept cosignature not used")
		return cosignedCheckpoint{}, nil
	}
	now := l.durable
	_, root, err := consistency(now.n, now.root, min(c.size, now.n), l.hashes)
	switch {
	case c.size > now.n:
		return c, &TamperError{Record: now.n, Last: c.size - 1, Segment: l.lastSegment(), Reason: "records are missing at the end that witness " + w.Name() + " cosigned"}
	case err != nil:
		return c, err
	case root != c.root:
		return c, &TamperError{Last: c.size - 1, Segment: l.lastSegment(), Reason: "not the records that witness " + w.Name() + " cosigned"}
	}
	return c, nil
}

func (l *Log) lastSegment() string {
	return filepath.Base(segmentPath("", l.starts[len(l.starts)-1].n))
}

// start begins to ask.
func (ws *witnesses) start() {
	for _, w := range ws.all {
		ws.wg.Go(func() { ws.run(w) })
	}
}

// close asks each witness once more if the log has grown, and ends.
func (ws *witnesses) close() {
	close(ws.stop)
	ws.wg.Wait()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.over = true
	close(ws.changed)
}

// anchored is what enough witnesses have cosigned. The caller holds mu, or is alone.
func (ws *witnesses) anchored() int64 {
	sizes := make([]int64, 0, len(ws.all))
	for _, w := range ws.all {
		sizes = append(sizes, w.status.Size)
	}
	slices.Sort(sizes)
	return sizes[len(sizes)-ws.l.o.Quorum]
}

// run asks w from time to time, or as soon as somebody waits for it.
func (ws *witnesses) run(w *asked) {
	for {
		kick, wait := w.kick, ws.l.o.Every
		if w.fails > 0 {
			kick, wait = nil, ws.backOff(w)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ws.stop:
			timer.Stop()
			ws.ask(w, closeTime)
			ws.keep(w)
			return
		case <-kick:
		case <-timer.C:
		}
		timer.Stop()
		ws.ask(w, witnessTime)
	}
}

func (ws *witnesses) backOff(w *asked) time.Duration {
	most := mostBackOff
	if ws.l.o.Strict && !errors.Is(w.status.Err, ErrForked) { // only this goroutine sets it
		most = strictMost
	}
	return min(firstBackOff<<min(w.fails-1, 16), most)
}

// ask has w cosign the newest checkpoint, unless it has. Whoever waits does not wait
// for the copy beside the log.
func (ws *witnesses) ask(w *asked, limit time.Duration) {
	defer ws.keepSome(w)
	if ws.l.newestCheckpoint().size <= w.last.size {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := ws.update(ctx, w)
	was := w.status.Err
	ws.mu.Lock()
	if w.status.Err = err; err == nil {
		w.last, w.old, w.fails = c, c.size, 0
		w.status.Size, w.status.At = c.size, c.at
	} else {
		w.fails++
	}
	if size := ws.anchored(); size > ws.size || errors.Is(err, ErrForked) {
		ws.size = size
		close(ws.changed)
		ws.changed = make(chan struct{})
	}
	ws.mu.Unlock()
	switch {
	case errors.Is(err, ErrForked):
		ws.l.o.Logger.Error().Str("witness", w.Name()).AnErr("cause", err).Msg("ALARM: a witness remembers another log than this one")
	case err != nil && was == nil:
		ws.l.o.Logger.Warn().Str("witness", w.Name()).AnErr("cause", err).Msg("witness does not cosign")
	case err == nil && was != nil:
		ws.l.o.Logger.Info().Str("witness", w.Name()).Int64("size", c.size).Msg("witness cosigns again")
	}
}

// keepSome is keep, but not with each cosignature: it takes a sync.
func (ws *witnesses) keepSome(w *asked) {
	if since := ws.l.o.Now().Sub(w.at); since < 0 || since >= ws.l.o.Every { // the clock may be put back
		ws.keep(w)
	}
}

// keep writes down what w cosigned last, unless it is. If that is lost, w still knows.
func (ws *witnesses) keep(w *asked) {
	if w.kept == w.last.size {
		return
	}
	if err := makeFile(cosignedPath(ws.l.dir, w.Name()), w.last.note); err != nil {
		ws.l.o.Logger.Warn().Str("witness", w.Name()).AnErr("cause", err).Msg("cosignature not kept")
		return
	}
	w.kept, w.at = w.last.size, ws.l.o.Now()
}

// update shows w the newest checkpoint. A witness that is not where we think says where
// it is: an answer of its was lost, or it was set up anew.
func (ws *witnesses) update(ctx context.Context, w *asked) (c cosignedCheckpoint, err error) {
	for range 3 {
		cp := ws.l.newestCheckpoint()
		var proof tlog.TreeProof
		if w.old > 0 {
			if proof, err = ws.l.proof(ctx, cp, w.old); err != nil {
				return c, err
			}
		}
		c, err = cosign(ctx, w, cp, proof, ws.l.verifier, ws.l.o.Now())
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || refused.Status != http.StatusConflict || refused.Size < 0 {
			return c, err
		}
		switch newest, written := ws.l.progress(); {
		case refused.Size == w.old && w.old > 0, refused.Size > written:
			return c, fmt.Errorf("audit: %w: %w", ErrForked, err)
		case refused.Size == w.old, refused.Size > newest:
			return c, err // the latter: somebody who verifies was faster; the next attempt is soon
		}
		if refused.Size < w.last.size {
			ws.l.o.Logger.Error().Str("witness", w.Name()).Int64("cosigned", w.last.size).Int64("remembers", refused.Size).Msg("witness has forgotten what it cosigned")
		}
		w.old = refused.Size
	}
	return c, fmt.Errorf("audit: the witness keeps changing its mind: %w", err)
}

// cosign shows one checkpoint to w, and believes its answer only if the signature is
// there, right, and of now.
func cosign(ctx context.Context, w *asked, cp checkpoint, proof tlog.TreeProof, log note.Verifier, now time.Time) (c cosignedCheckpoint, err error) {
	lines, err := w.show(ctx, cp.note, proof)
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Status == http.StatusUnprocessableEntity && w.old > 0 {
		// The proof is right, so what it goes on from is not what the witness saw.
		return c, fmt.Errorf("audit: %w: %w", ErrForked, err)
	}
	if err != nil {
		return c, err
	}
	c, err = openCosigned(slices.Concat(cp.note, lines), log, w.key)
	switch {
	case err != nil:
		return c, err
	case c.text != cp.text:
		return c, errors.New("audit: the witness cosigned another checkpoint")
	case c.at.Before(now.Add(-clockDrift)) || c.at.After(now.Add(clockDrift)):
		return c, fmt.Errorf("audit: the witness's clock says %s", c.at.Format(time.RFC3339))
	}
	return c, nil
}

// show asks w, and does not wait for it longer than ctx allows even if it does not
// look at ctx: a file system may hang. Until then it is asked nothing else.
func (w *asked) show(ctx context.Context, checkpoint []byte, proof tlog.TreeProof) ([]byte, error) {
	select {
	case w.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("audit: the witness still has not answered: %w", ctx.Err())
	}
	hashes := make([][32]byte, 0, len(proof))
	for _, h := range proof {
		hashes = append(hashes, h)
	}
	type answer struct {
		lines []byte
		err   error
	}
	got, old := make(chan answer, 1), w.old
	go func() {
		defer func() { <-w.busy }()
		lines, err := w.Update(ctx, old, checkpoint, hashes)
		got <- answer{lines, err}
	}()
	select {
	case a := <-got:
		if len(a.lines) > maxAnswer {
			return nil, fmt.Errorf("audit: the witness's answer is larger than %d bytes", maxAnswer)
		}
		return a.lines, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("audit: the witness does not answer: %w", ctx.Err())
	}
}
