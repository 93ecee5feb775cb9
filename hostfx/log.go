package hostfx

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// The codes of effects.
const (
	ok       = "ok"
	refused  = "refused"
	notFound = "not_found"
	failed   = "error"
	overCap  = "over_cap"
	redirect = "redirect"  // the answer was one, and was not followed
	noAnswer = "no_answer" // no name, connection, trusted certificate or whole answer
	withheld = "withheld"  // the answer held a credential
	changed  = "changed"   // what the call depends on is not as it was
	stopped  = "stopped"   // a command was, before it ended
	more     = "more"
)

// Structural is the enforcement of effects that the host did, or refused, itself: what
// is not granted has no handle to do it with.
const Structural = "structural"

// kept is how many effects of one code are listed. A guest can cause effects
// without end, and each costs memory here and a line in the record.
func kept(code string) int {
	if code == ok {
		return 500
	}
	return 100
}

// keptOfKind is how many of one kind and code are listed however many others of the code
// there were: who reads a file 500 times hides no request.
const keptOfKind = 3

// maxTarget is how many bytes of a target are kept. What is refused has any name that
// the tool made up.
const maxTarget = 8 << 10

// effectLog is what happened so far, in order.
type effectLog struct {
	mu    sync.Mutex // protects the fields below
	list  []*entry
	codes map[string]int    // code -> effects listed
	kinds map[[2]string]int // kind and code -> likewise
	rest  *entry            // all that are not listed, nil while there are none

	lines map[string]*entry // code -> the one effect of all lines logged with it
}

// entry is one effect whose numbers may still grow.
type entry struct {
	effect call.Effect
	in     atomic.Int64 // bytes that came to the tool
	out    atomic.Int64 // bytes that it sent
	took   atomic.Int64 // nanoseconds
}

// lasted adds how long the effect, or a part of it, took.
func (e *entry) lasted(d time.Duration) { e.took.Add(int64(d)) }

// since is how long ago that was. A clock that was set back meanwhile makes nothing
// take less than no time.
func (fx *Effects) since(began time.Time) time.Duration { return max(fx.now().Sub(began), 0) }

// add records one effect. Bytes that it moves, and time that it takes, are added to
// what it returns.
func (l *effectLog) add(kind, within, target, code string) *entry {
	return l.record(call.Effect{Kind: kind, Within: within, Target: target, Code: code})
}

// record is add for an effect of which more is known: its address, or its enforcement
// if that is not [Structural].
func (l *effectLog) record(effect call.Effect) *entry {
	code := effect.Code
	if effect.Enforcement == "" {
		effect.Enforcement = Structural
	}
	effect.Target = shortened(effect.Target, maxTarget)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.codes == nil {
		l.codes, l.kinds = map[string]int{}, map[[2]string]int{}
	}
	kind := [2]string{effect.Kind, code}
	if l.codes[code] >= kept(code) && l.kinds[kind] >= keptOfKind {
		if l.rest == nil {
			l.rest = &entry{effect: call.Effect{Code: more}}
		}
		l.rest.effect.Count++
		return l.rest
	}
	l.codes[code]++
	l.kinds[kind]++
	e := &entry{effect: effect}
	l.list = append(l.list, e)
	return e
}

// addLine counts one logged line, so that a chatty tool has few effects.
func (l *effectLog) addLine(within, code string, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.lines[code]
	if e == nil {
		e = &entry{effect: call.Effect{Kind: "log", Within: within, Code: code, Enforcement: Structural}}
		if l.lines == nil {
			l.lines = map[string]*entry{}
		}
		l.lines[code] = e
		l.list = append(l.list, e)
	}
	e.effect.Count++
	e.out.Add(int64(bytes))
}

// effects returns a copy of what is recorded.
func (l *effectLog) effects() []call.Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	if l.rest != nil {
		list = append(list[:len(list):len(list)], l.rest)
	}
	out := make([]call.Effect, 0, len(list))
	for _, e := range list {
		x := e.effect
		x.BytesIn, x.BytesOut = e.in.Load(), e.out.Load()
		x.TookUS = e.took.Load() / int64(time.Microsecond)
		out = append(out, x)
	}
	return out
}
