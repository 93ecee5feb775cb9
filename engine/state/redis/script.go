package redis

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/rueidis"
)

//go:embed lua
var sources embed.FS

// The scripts, one for each operation. Those that restrict or give back run even when
// the server is out of memory.
var (
	admit      = script("", "question", "admit")
	look       = script("", "question", "look")
	apply      = script("", "question", "keepsession", "apply")
	recall     = script("flags=allow-oom", "keepsession", "recall")
	session    = script("", "session")
	replan     = script("", "replan")
	refund     = script("", "giveback", "refund")
	spend      = script("", "spend")
	pend       = script("", "pend")
	swept      = script("", "sweep")
	drop       = script("flags=allow-oom", "drop")
	settled    = script("flags=allow-oom", "settle")
	release    = script("flags=allow-oom", "giveback", "release")
	revoke     = script("flags=allow-oom", "revoke")
	restore    = script("flags=allow-oom", "restore")
	lease      = script("flags=allow-oom", "lease")
	leave      = script("flags=allow-oom", "leave")
	checkKey   = script("flags=allow-oom", "key")
	begin      = script("flags=allow-oom", "begin")
	recovering = script("flags=allow-oom", "giveback", "recover")
)

func script(flags string, names ...string) *rueidis.Lua {
	var b strings.Builder
	b.WriteString("#!lua " + flags + "\n")
	for _, name := range append([]string{"prelude"}, names...) {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // embedded
		}
		b.Write(text)
	}
	return rueidis.NewLuaScript(b.String())
}

// request is what every script is told. Those that need more embed it.
type request struct {
	Node     string `json:"node"`
	Me       string `json:"me"`
	Known    string `json:"known"`
	Clock    string `json:"clock"` // in place of the server's, for tests
	FromZero bool   `json:"fromzero,omitzero"`
	Now      string `json:"now,omitzero"` // the caller's
	Skew     string `json:"skew"`

	at time.Time // zero: the operation has no time of its own
}

func (r *request) head() *request { return r }

// requests are pointers to structs that embed a request.
type requests interface{ head() *request }

// answer is what a script says.
type answer struct {
	status string
	of     version
	now    time.Time
	rest   []rueidis.RedisMessage
}

// text is the i-th part of the answer.
func (a answer) text(i int) string {
	if i >= len(a.rest) {
		return ""
	}
	v, _ := a.rest[i].ToString() // what is no text is as good as none
	return v
}

func (a answer) texts(i int) []string {
	if i >= len(a.rest) {
		return nil
	}
	v, _ := a.rest[i].AsStrSlice()
	return v
}

const (
	tries    = 3 // of what a connection was lost for
	minPause = 5 * time.Millisecond
	maxPause = 100 * time.Millisecond
)

// errClosed says that the store is closed.
var errClosed = errors.New("redis: the store is closed")

// run asks the server until it answers, if it makes sense, for as long as one operation
// may take. Asked twice, every script does its work once, see there.
func (s *Store) run(ctx context.Context, script *rueidis.Lua, r requests) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	lost := 0
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if err := s.refusal(script); err != nil {
			return answer{}, sure(err, lost)
		}
		ans, err := s.attempt(ctx, script, r)
		switch {
		case err != nil && again(err) && lost+1 < tries:
			lost++
		case err != nil:
			return answer{}, err
		case ans.status == "fenced":
			err = errors.New("redis: the server is another one, or was restored, and not all nodes have answered yet")
			if e := s.restore(ctx, ans.of); e != nil {
				err = e
			}
		case ans.status == "lease":
			if err := s.renew(ctx); err != nil {
				return answer{}, sure(err, lost)
			}
			err = errors.New("redis: the node's name was lost")
		case ans.status == "skew":
			return answer{}, sure(fmt.Errorf("redis: the clock is %v off the server's", r.head().at.Sub(ans.now)), lost)
		default:
			s.notice(ctx, ans)
			return ans, nil
		}
		select {
		case <-ctx.Done():
			return answer{}, errors.Join(ctx.Err(), err)
		case <-s.done.Done():
			return answer{}, errClosed
		case <-time.After(pause):
		}
	}
}

// attempt asks once, a server that is known to be fit for it. To revoke is better than not
// to, wherever.
func (s *Store) attempt(ctx context.Context, script *rueidis.Lua, r requests) (answer, error) {
	if script == revoke {
		return s.once(ctx, script, r)
	}
	if err := s.fit(ctx); err != nil {
		return answer{}, err
	}
	if err := s.refusal(script); err != nil {
		return answer{}, err
	}
	ans, err := s.once(ctx, script, r)
	if err == nil {
		// The connection may have been another one by then.
		err = s.fit(ctx)
	}
	if err == nil {
		err = s.refusal(script)
	}
	return ans, err
}

// sure is the error when the server has done nothing, if it was never lost on the way.
func sure(err error, lost int) error {
	if lost > 0 {
		return err
	}
	return refused{err}
}

// again reports whether the server may answer the same question next time.
func again(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, rueidis.ErrClosing) {
		return false
	}
	e, ok := rueidis.IsRedisErr(err)
	return !ok || e.IsLoading()
}

// once asks the server once.
func (s *Store) once(ctx context.Context, script *rueidis.Lua, r requests) (answer, error) {
	h := r.head()
	h.Node, h.Me, h.Skew = s.o.Node, s.me, strconv.FormatInt(int64(s.o.MaxSkew), 10)
	s.mu.Lock()
	h.Known = strconv.FormatInt(s.known, 10)
	s.mu.Unlock()
	h.FromZero = s.o.operationClock
	if !h.at.IsZero() {
		h.Now = nanos(h.at)
	}
	if s.o.operationClock {
		h.Clock = h.Now
	}
	text, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	parts, err := script.Exec(ctx, s.client, s.prefix, []string{string(text)}).ToArray()
	if err != nil {
		return answer{}, fmt.Errorf("redis: %w", err)
	}
	return read(parts)
}

func read(parts []rueidis.RedisMessage) (ans answer, err error) {
	if len(parts) < 4 {
		return answer{}, errors.New("redis: an answer that is too short")
	}
	head := answer{rest: parts[:4]}
	epoch, err := units(head.text(1))
	revs, err2 := units(head.text(2))
	ns, err3 := units(head.text(3))
	ans = answer{status: head.text(0), of: version{epoch, revs}, now: time.Unix(0, ns).UTC(), rest: parts[4:]}
	return ans, errors.Join(err, err2, err3)
}

// refusal is why that may not be asked, or nil. To revoke is better than not to, however
// long the server remembers it.
func (s *Store) refusal(script *rueidis.Lua) error {
	if s.done.Err() != nil {
		return errClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if script == revoke && !s.final {
		return nil
	}
	return s.refuses
}

// nanos is an instant, or a number of units, in the form that compares as text.
func nanos(t time.Time) string { return fixed(t.UnixNano()) }

func fixed(n int64) string { return fmt.Sprintf("%019d", max(0, n)) }

func units(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.New("redis: a number that is none")
	}
	return n, nil
}

// within refuses instants that have no Unix time in ns, or a negative one.
func within(now time.Time) error {
	if now.Before(time.Unix(0, 0)) || now.After(time.Unix(0, math.MaxInt64)) {
		return fmt.Errorf("redis: the clock says %s", now)
	}
	return nil
}
