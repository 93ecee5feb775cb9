package engine

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
)

// Refusals of a principal, and how many principals are told apart.
const (
	defaultRefusals = 600     // a minute
	maxProbers      = 1 << 16 // all others share one count
	maxLines        = 100     // of the operator's log, a minute
)

// nobody counts for all whose principal is malformed, and for those who are too many to
// be told apart.
const nobody = ""

// refusals counts, of each principal, the calls that were refused in this minute by the
// clock: whoever asks for many things that they do not get is probing. It is kept in
// memory, for this process alone. A refusal counts when it is known and not when the call
// came: a call that is long under way would begin the count anew.
type refusals struct {
	most int // a minute; negative: any
	log  zerolog.Logger

	mu     sync.Mutex // protects the fields below
	minute int64      // since 1970
	counts map[string]*tally
}

type tally struct {
	refused    int
	told       bool // that they were refused too often is recorded
	unrecorded int  // since then
}

// probing reports whether a refusal tells the caller something that they may be after:
// a no, or that somebody must be asked. Waiting is no probing, and that this engine
// cannot tell says nothing of the call.
func probing(c call.Code) bool {
	class := c.Info().Class
	return class == call.ClassDenied || class == call.ClassPending
}

// wait is how long the principal is to wait, if too many of its calls were refused.
func (r *refusals) wait(who string, now time.Time) (wait time.Duration, tooOften bool) {
	if r.most < 0 {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tally(who, now)
	if t == nil || t.refused < r.most {
		return 0, false
	}
	return r.rest(now), true
}

// add counts a refusal, and reports whether it is to be recorded: any is, but of those
// for being refused too often only the first in a minute.
func (r *refusals) add(who string, c call.Code, now time.Time) (record bool) {
	if r.most < 0 || !probing(c) && c != call.CodeRefusedTooOften {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tally(who, now)
	if t == nil {
		if len(r.counts) >= maxProbers {
			who = nobody
		}
		if t = r.counts[who]; t == nil {
			t = &tally{}
			r.counts[who] = t
		}
	}
	switch {
	case c != call.CodeRefusedTooOften:
		t.refused++
		return true
	case !t.told:
		t.told = true
		return true
	default:
		t.unrecorded++
		return false
	}
}

// tally is the principal's, in the minute of now; nil when there is none. It must be
// called with mu held.
func (r *refusals) tally(who string, now time.Time) *tally {
	if minute := now.Unix() / 60; minute != r.minute || r.counts == nil {
		r.flush()
		r.minute, r.counts = minute, map[string]*tally{nobody: {}}
	}
	if t := r.counts[who]; t != nil || len(r.counts) < maxProbers {
		return t
	}
	return r.counts[nobody]
}

// rest is what is left of the minute.
func (r *refusals) rest(now time.Time) time.Duration {
	return time.Minute - time.Duration(now.UnixNano()-r.minute*int64(time.Minute))
}

// flush tells the operator what was not recorded: of so many principals one by one, of
// the others together. It must be called with mu held.
func (r *refusals) flush() {
	tell := func(who string, calls int) {
		r.log.Warn().Str("principal", who).Int("calls", calls).Time("minute", time.Unix(r.minute*60, 0).UTC()).
			Msg("refused too often, and not recorded one by one")
	}
	lines, others := 0, 0
	for who, t := range r.counts {
		switch {
		case t.unrecorded == 0:
		case lines == maxLines:
			others += t.unrecorded
		default:
			lines++
			tell(who, t.unrecorded)
		}
	}
	if others > 0 {
		tell("others", others)
	}
	r.counts = nil
}

// close tells what is left to tell.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
}

// prober is whom the call's refusal counts for.
func (p *passage) prober() string {
	if p.stranger {
		return nobody
	}
	return p.owner
}

// tooOften refuses the call of a principal that is probing.
func (p *passage) tooOften() error {
	wait, tooOften := p.e.refusals.wait(p.prober(), p.e.o.Now())
	if !tooOften {
		return nil
	}
	p.denial.RetryAfter = wait
	return &call.Error{Code: call.CodeRefusedTooOften}
}

// turnBack refuses without a record and without a line in the operator's log.
func (p *passage) turnBack(code call.Code) *Denial {
	d := p.denial
	d.CallID, d.Tool, d.Code, d.Receipt = p.id, p.shownTool(), code, Receipt{Index: -1}
	return &d
}
