package hostfx

import (
	"sync"
	"sync/atomic"

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

// kept is how many effects of one code are listed. A guest can cause effects
// without end, and each costs memory here and a line in the record.
func kept(code string) int {
	if code == ok {
		return 500
	}
	return 100
}

// effectLog is what happened so far, in order.
type effectLog struct {
	mu    sync.Mutex // protects the fields below
	list  []*entry
	codes map[string]int // code -> effects listed
	rest  *entry         // all that are not listed, nil while there are none

	lines map[string]*entry // code -> the one effect of all lines logged with it
}

// entry is one effect whose bytes may still grow.
type entry struct {
	effect call.Effect
	bytes  atomic.Int64
}

// add records one effect. Bytes that it moves are added to what it returns.
func (l *effectLog) add(kind, within, target, code string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.codes == nil {
		l.codes = map[string]int{}
	}
	if l.codes[code] >= kept(code) {
		if l.rest == nil {
			l.rest = &entry{effect: call.Effect{Code: more}}
		}
		l.rest.effect.Count++
		return l.rest
	}
	l.codes[code]++
	e := &entry{effect: call.Effect{Kind: kind, Within: within, Target: target, Code: code}}
	l.list = append(l.list, e)
	return e
}

// addLine counts one logged line, so that a chatty tool has few effects.
func (l *effectLog) addLine(within, code string, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.lines[code]
	if e == nil {
		e = &entry{effect: call.Effect{Kind: "log", Within: within, Code: code}}
		if l.lines == nil {
			l.lines = map[string]*entry{}
		}
		l.lines[code] = e
		l.list = append(l.list, e)
	}
	e.effect.Count++
	e.bytes.Add(int64(bytes))
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
		x.Bytes = e.bytes.Load()
		out = append(out, x)
	}
	return out
}
