package source

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

const (
	defaultEvery = 30 * time.Second
	minBackoff   = 500 * time.Millisecond
	maxBackoff   = time.Minute
	// minAgain is the least time between two requests to a server that says it
	// holds them, and does not.
	minAgain = time.Second
	// noteFresh is how often it is written down that the source was reached.
	noteFresh = time.Minute
)

// Follower keeps one layer up to date.
type Follower struct {
	o    Options
	log  zerolog.Logger
	live atomic.Pointer[live] // nil: nothing decides

	mu     sync.Mutex // protects the field below
	status Status

	// Owned by whoever polls.
	version  string // of what decides: that of a bundle that was refused is not kept, so that it is tried again
	wait     bool   // the source holds the next fetch
	failures int
	after    time.Duration // for how long the source would not be asked again
	noted    time.Time     // the freshness that is written down
	told     string        // the failure that was logged last

	// Files that were refused for what stands in them are looked at again when they
	// change, and now and then.
	files     *fileSource // the source if it is files: asking costs nothing
	refused   string
	refusedAt time.Time
}

// live is what decides.
type live struct {
	archive string
	expires time.Time
	fresh   time.Time // when the source was asked that said there is nothing newer
}

var layerName = regexp.MustCompile(`\A[a-z][a-z0-9_.:-]{0,63}\z`)

// New returns a Follower, or an error that names everything wrong with o.
func New(o Options) (*Follower, error) {
	var errs []error
	if !layerName.MatchString(o.Layer) {
		errs = append(errs, fmt.Errorf("%q is no name for a layer", o.Layer))
	}
	if o.Source == nil || o.Activate == nil {
		errs = append(errs, errors.New("Options.Source or Options.Activate is nil"))
	}
	if o.Every < 0 || o.MaxAge < 0 {
		errs = append(errs, errors.New("a time is negative"))
	}
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	round := o.Every
	if h, ok := o.Source.(interface{ Hold() time.Duration }); ok {
		round += h.Hold()
	}
	// Else calls would be refused between two polls of a source that answers well.
	if o.MaxAge > 0 && o.MaxAge < 2*round {
		errs = append(errs, fmt.Errorf("max_age %v is less than twice the time between two polls, %v", o.MaxAge, round))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	f := &Follower{o: o, log: o.Logger.With().Str("layer", o.Layer).Stringer("from", o.Source).Logger()}
	f.status = Status{Layer: o.Layer, From: o.Source.String()}
	f.files, _ = o.Source.(*fileSource)
	return f, nil
}

// Start brings in the first bundle: from the source or, if that fails, the one that
// decided last. That one may be too old by now; then [Follower.Check] refuses until
// the source is reached. Of files there is no such second way: who starts with files
// that are broken is there to mend them.
//
// # Errors
//
// An [*Error] about the source, and one about the kept bundle. They are not logged.
func (f *Follower) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			f.hangUp()
		}
	}()
	err = f.poll(ctx)
	if err == nil || f.files != nil || f.o.Store == nil || ctx.Err() != nil {
		return err
	}
	l, snap, kept := f.o.Store.last(f.o.Layer)
	if errors.Is(kept, fs.ErrNotExist) {
		return err
	}
	if kept != nil {
		return errors.Join(err, f.fail(StageKeep, kept))
	}
	if l.From != f.o.Source.String() {
		return errors.Join(err, f.fail(StageKeep, errors.New("the kept bundle is from another source")))
	}
	// A clock that was put back must not make an old bundle fresh.
	if l.Fresh.After(f.o.Now()) {
		l.Fresh = time.Time{}
	}
	f.noted = l.Fresh
	if stage, kept := f.bringIn(ctx, snap, l.Fresh); kept != nil {
		return errors.Join(err, f.fail(stage, kept))
	}
	f.tell(ctx, err)
	f.log.Warn().Time("fresh", l.Fresh).Msg("the source gives no bundle, the one that decided last does")
	return nil
}

// hangUp gives up the connections that are kept for the next poll.
func (f *Follower) hangUp() {
	if s, ok := f.o.Source.(interface{ hangUp() }); ok {
		s.hangUp()
	}
}

// Run polls until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	defer f.hangUp()
	t := time.NewTimer(f.pause())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			_ = f.Poll(ctx) // is logged, and in the status
			t.Reset(f.pause())
		}
	}
}

// pause is the time to the next poll. It varies, so that many engines do not ask at
// once.
func (f *Follower) pause() time.Duration {
	d := f.o.Every
	switch {
	case f.failures > 0 && f.files == nil:
		// What a server asks for counts, but it cannot keep us from coming back.
		most := max(maxBackoff, d)
		d = min(max(minBackoff<<min(f.failures-1, 16), f.after), most)
	case f.wait:
		d = minAgain
	}
	var b [2]byte
	_, _ = rand.Read(b[:])
	return d - d/10 + time.Duration(float64(d/5)*float64(binary.BigEndian.Uint16(b[:]))/65536)
}

// Poll asks the source once, and brings in what is new. It logs what fails. It must
// not be called by two goroutines at once.
func (f *Follower) Poll(ctx context.Context) error {
	err := f.poll(ctx)
	f.tell(ctx, err)
	return err
}

func (f *Follower) poll(ctx context.Context) error {
	asked := f.o.Now() // before, for the answer is as old as the question
	snap, err := f.fetch(ctx)
	f.after = 0
	if e, ok := errors.AsType[*later](err); ok {
		f.after = e.after
	}
	decides := f.live.Load()
	switch {
	case errors.Is(err, errMoving), errors.Is(err, ErrUnchanged) && f.refused != "":
		return err
	case errors.Is(err, ErrUnchanged) && decides != nil:
		f.fresh(decides, asked)
		return nil
	case err != nil:
		if _, ours := errors.AsType[*credentialError](err); ours {
			return f.failed(ctx, StageCredential, err)
		}
		return f.failed(ctx, StageFetch, err)
	}
	f.refused = ""
	if decides != nil && snap.Digest == decides.archive {
		f.version, f.wait = snap.Version, snap.Wait
		f.fresh(decides, asked)
		return nil
	}
	if stage, err := f.bringIn(ctx, snap, asked); err != nil {
		if f.files != nil && hopeless(stage, err) {
			f.refused, f.refusedAt = snap.Version, asked
		}
		return f.failed(ctx, stage, err)
	}
	f.well()
	return nil
}

func (f *Follower) fetch(ctx context.Context) (s *Snapshot, err error) {
	defer recovered(&err)
	last := f.version
	if f.refused != "" && age(f.refusedAt, f.o.Now()) < maxBackoff {
		last = f.refused
	}
	return f.o.Source.Fetch(ctx, last)
}

func (f *Follower) activate(ctx context.Context, s *Snapshot) (p *Prepared, err error) {
	defer recovered(&err)
	return f.o.Activate(ctx, s)
}

// recovered makes an error of a panic: no bundle may end the process.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

// bringIn checks a snapshot, keeps it and puts it into force. The order is for
// crashes: the epoch's mark, which Commit raises, must not be higher than that of the
// bundle from which we would start again.
func (f *Follower) bringIn(ctx context.Context, s *Snapshot, fresh time.Time) (Stage, error) {
	if s.FS == nil {
		fsys, err := rego.Archive(bytes.NewReader(s.Bytes))
		if err != nil {
			return StageRead, err
		}
		s.FS = fsys
	}
	p, err := f.activate(ctx, s)
	if err != nil {
		return StageActivate, err
	}
	if f.o.Store != nil {
		if err := f.o.Store.keep(s, p.Revision, f.o.Now()); err != nil {
			return StageKeep, err
		}
		if err := f.o.Store.setLast(f.o.Layer, last{s.Digest, f.o.Source.String(), s.Version, fresh.UTC()}); err != nil {
			return StageKeep, err
		}
		f.noted = fresh
	}
	if err := f.commit(p); err != nil {
		return StageCommit, err
	}
	f.version, f.wait = s.Version, s.Wait
	f.live.Store(&live{s.Digest, p.Expires, fresh})
	f.mu.Lock()
	f.status.Revision, f.status.Archive, f.status.Expires = p.Revision, s.Digest, p.Expires
	f.mu.Unlock()
	f.log.Info().Str("revision", p.Revision.Revision).Str("digest", p.Revision.Digest).Msg("the new bundle is taken up")
	return "", nil
}

func (f *Follower) commit(p *Prepared) (err error) {
	defer recovered(&err)
	return p.Commit()
}

// fresh notes that what decides is the newest.
func (f *Follower) fresh(l *live, asked time.Time) {
	if f.failures > 0 {
		f.log.Info().Msg("the source has the bundle that decides again")
	}
	f.well()
	f.live.Store(&live{l.archive, l.expires, asked})
	if f.o.Store == nil || f.o.MaxAge == 0 || asked.Sub(f.noted) < min(noteFresh, f.o.MaxAge/8) {
		return
	}
	// If this fails, a start without network counts from an earlier time.
	if err := f.o.Store.setLast(f.o.Layer, last{l.archive, f.o.Source.String(), f.version, asked.UTC()}); err != nil {
		f.log.Warn().Err(err).Msg("cannot write down that the source was reached")
		return
	}
	f.noted = asked
}

// well ends a row of failures.
func (f *Follower) well() {
	f.failures, f.told = 0, ""
	f.mu.Lock()
	f.status.Failed, f.status.Failures = "", 0
	f.mu.Unlock()
}

func (f *Follower) fail(s Stage, err error) *Error {
	return &Error{f.o.Layer, f.o.Source.String(), s, err}
}

// hopeless reports whether the bundle itself is wrong, so that the same bytes will be
// refused again, at least for a while: a signature may become valid. All else, such
// as a lack of descriptors or of time, may be over at the next poll.
func hopeless(s Stage, err error) bool {
	return s == StageRead || s == StageActivate && len(rego.Places(err)) > 0 && call.CodeOf(err, "") != call.CodePolicyTimeout
}

// failed notes a failure.
func (f *Follower) failed(ctx context.Context, s Stage, err error) error {
	e := f.fail(s, err)
	if ctx.Err() != nil {
		return e // we were told to stop
	}
	f.failures++
	f.mu.Lock()
	f.status.Failed, f.status.Failures = s, f.failures
	f.mu.Unlock()
	return e
}

// tell logs a failure, once: the same again says nothing, and neither does another
// one of the same kind with the same files.
func (f *Follower) tell(ctx context.Context, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || ctx.Err() != nil {
		return
	}
	what := e.Error()
	if f.files != nil {
		what = fmt.Sprint(e.Stage, hopeless(e.Stage, e.Err), f.files.last())
	}
	if f.told == what {
		return
	}
	f.told = what
	msg := f.log.Error().Str("stage", string(e.Stage))
	if places := rego.Places(e.Err); len(places) > 0 {
		msg = msg.Strs("mend", places[:min(len(places), 8)])
	} else if e.Stage != StageActivate {
		msg = msg.Err(e.Err) // what the compiler says would quote the policy
	}
	if f.live.Load() == nil {
		msg.Msg("no bundle, and none before it")
		return
	}
	msg.Msg("no new bundle, the last good one stays")
}

// Check says whether the bundle may still decide. It is cheap: ask it before every
// decision.
//
// # Errors
//
// A [*call.Error] with [call.CodePolicyStale].
func (f *Follower) Check() error {
	l, now := f.live.Load(), f.o.Now()
	switch {
	case l == nil:
		return &call.Error{Code: call.CodePolicyStale, Detail: "there is no policy yet", Where: f.o.Layer}
	case !l.expires.IsZero() && !now.Before(l.expires):
		return &call.Error{Code: call.CodePolicyStale, Detail: "its signature has expired", Where: f.o.Layer}
	case f.o.MaxAge > 0 && age(l.fresh, now) > f.o.MaxAge:
		return &call.Error{Code: call.CodePolicyStale, Detail: "its source has not been reached for too long", Where: f.o.Layer}
	}
	return nil
}

// age is the time since then, by whichever clock has run further: the one that
// counts stands still while a machine sleeps, and the one on the wall is put back.
func age(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// Status tells how the layer is.
func (f *Follower) Status() Status {
	f.mu.Lock()
	s := f.status
	f.mu.Unlock()
	if l := f.live.Load(); l != nil {
		s.Fresh = l.fresh
	}
	s.Stale = f.Check() != nil
	return s
}
