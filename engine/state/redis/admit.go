package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// plans is how often a decision about approvals is taken before it is given up: each
// time somebody else changed what it was about.
const plans = 200

type admitRequest struct {
	request
	ID         string       `json:"id"`
	Peek       bool         `json:"peek,omitzero"`
	Principal  string       `json:"principal"`
	Who        []string     `json:"who"` // names under which a revocation ends it
	Session    string       `json:"session"`
	Version    string       `json:"version"`
	Charges    []charge     `json:"charges"`
	MaxKeys    string       `json:"maxkeys"`
	MaxPending string       `json:"maxpending"`
	Labels     []string     `json:"labels"`
	LabelsEnd  string       `json:"labelsend"`
	Plan       *planRequest `json:"plan,omitzero"`
}

type charge struct {
	Key   string `json:"key"`
	Group string `json:"group"`
	Need  string `json:"need"`
	Whole string `json:"whole"`
	Never bool   `json:"never,omitzero"`
	Cost  string `json:"cost"`
	Burst string `json:"burst"`
	Ends  string `json:"ends"` // "" for a bucket that refills
}

// Admit implements [state.Store]. When it cannot tell, the call is given back as soon
// as the server answers.
func (s *Store) Admit(ctx context.Context, a state.Admission) (state.Answer, error) {
	ans, err := s.admit(ctx, a)
	if r, ok := errors.AsType[refused](err); ok {
		return state.Answer{}, r.error
	}
	if err != nil && !a.Peek {
		s.push(item{id: a.Call, release: true}) // it may be admitted all the same
		s.wake()
	}
	return ans, err
}

// errChanges says that a decision was overtaken too often.
var errChanges = errors.New("redis: the approvals of this call change faster than it is decided")

// refused is an error that is an answer.
type refused struct{ error }

func (s *Store) admit(ctx context.Context, a state.Admission) (state.Answer, error) {
	a.Now = a.Now.UTC()
	if err := errors.Join(within(a.Now), a.Check()); err != nil {
		return state.Answer{}, refused{err}
	}
	if s.o.operationClock && !a.Peek {
		s.mu.Lock()
		if s.latest.Before(a.Now) {
			s.latest = a.Now
		}
		s.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	r := newAdmit(a)
	for range plans {
		var p *plan
		if len(a.Asks) > 0 {
			var err error
			if p, err = s.plan(ctx, a); err != nil {
				return state.Answer{}, err
			}
			if r.Plan, err = p.request(); err != nil {
				return state.Answer{}, refused{err}
			}
		}
		ans, err := s.run(ctx, admit, r)
		if err != nil {
			return state.Answer{}, err
		}
		if ans.status == "moved" {
			continue
		}
		out, err := s.admitted(a, p, ans)
		if out.Change.Asked != nil || len(out.Change.Consumed) > 0 || len(out.Change.Voided) > 0 {
			s.wake()
		}
		return out, err
	}
	return state.Answer{}, refused{errChanges}
}

func newAdmit(a state.Admission) *admitRequest {
	r := &admitRequest{
		request: request{at: a.Now}, ID: a.Call, Peek: a.Peek, Principal: a.Principal, Session: a.Session,
		Who: []string{"t" + a.Tool.Name, "p" + a.Principal}, Version: decimal(a.Version), Labels: a.Labels,
		MaxKeys: strconv.Itoa(state.MaxKeys), MaxPending: strconv.Itoa(question.MaxPending),
	}
	for _, p := range a.ActsFor {
		r.Who = append(r.Who, "p"+p)
	}
	if len(a.Labels) > 0 {
		r.LabelsEnd = nanos(a.LabelsEnd)
	}
	for _, c := range a.Charges {
		need, whole, never := c.Span()
		k := charge{Key: c.Key, Group: c.Group(), Need: fixed(need), Whole: fixed(whole), Never: never, Cost: fixed(c.Cost), Burst: fixed(c.Burst)}
		if !c.End.IsZero() {
			k.Ends = nanos(c.End)
		}
		r.Charges = append(r.Charges, k)
	}
	return r
}

// admitted is what the script's answer means.
func (s *Store) admitted(a state.Admission, p *plan, ans answer) (state.Answer, error) {
	switch ans.status {
	case "foreign":
		return state.Answer{}, refused{state.ErrSessionForeign}
	case "changed":
		return state.Answer{}, refused{state.ErrSessionChanged}
	case "keys":
		return state.Answer{}, refused{state.ErrTooManyKeys}
	case "released":
		return state.Answer{}, refused{errors.New("redis: the call was given back, or is recorded already")}
	case "revoked":
		return state.Answer{Revoked: true}, nil
	case "again", "admitted":
		if a.Peek {
			return state.Answer{Admitted: true}, nil
		}
		out, err := taken(a, ans)
		if out.Change.Session != nil {
			s.recall(*out.Change.Session, ans.now)
		}
		return out, err
	case "limited", "planned":
		return planned(a, p, ans)
	default:
		return state.Answer{}, fmt.Errorf("redis: an answer that is none: %q", ans.status)
	}
}

// planned is the answer when nothing is taken.
func planned(a state.Admission, p *plan, ans answer) (state.Answer, error) {
	held := map[string]state.Held{}
	raw := ans.texts(0)
	for i, c := range a.Charges {
		if i >= len(raw) {
			return state.Answer{}, errors.New("redis: an answer that is too short")
		}
		h, err := hold(raw[i])
		if err != nil {
			return state.Answer{}, err
		}
		held[c.Key] = h
	}
	a.Now = ans.now
	var err error
	_, out := a.Bill(func(key string) state.Held { return held[key] })
	switch {
	case ans.status == "limited" && out.Limited == nil:
		return state.Answer{}, errors.New("redis: a limit refuses that should not")
	case ans.status == "limited":
		out.Change.Voided, err = voids(ans.text(1))
		return out, err
	case out.Limited != nil:
		return state.Answer{}, errors.New("redis: a limit should refuse")
	case p == nil:
		out.Admitted = true
		return out, nil
	}
	return p.answer(a, out)
}

func hold(raw string) (h state.Held, err error) {
	tat, used, _ := strings.Cut(raw, "/")
	for _, n := range []struct {
		text string
		into *int64
	}{{tat, &h.TAT}, {used, &h.Used}} {
		if n.text == "" {
			continue
		}
		if *n.into, err = units(n.text); err != nil {
			return h, err
		}
	}
	return h, nil
}

// kept is what the server remembers of a call that it admitted.
type kept struct {
	Version  string            `json:"v"`
	Owner    string            `json:"o"`
	Until    string            `json:"u"` // of Owner, "" for no end
	Consumed string            `json:"c"`
	Voided   []string          `json:"x"`
	TATs     map[string]string `json:"t"`
}

// taken is the answer to a call that is admitted, now or before.
func taken(a state.Admission, ans answer) (state.Answer, error) {
	var k kept
	if err := json.Unmarshal([]byte(ans.text(0)), &k); err != nil {
		return state.Answer{}, errors.New("redis: an answer that is no JSON")
	}
	out := state.Answer{Admitted: true}
	c := &out.Change
	for key, text := range k.TATs {
		tat, err := units(text)
		if err != nil {
			return state.Answer{}, err
		}
		if c.TATs == nil {
			c.TATs = call.Times{}
		}
		c.TATs[key] = tat
	}
	for _, charge := range a.Charges {
		if charge.End.IsZero() {
			continue
		}
		if c.Used == nil {
			c.Used = call.Uses{}
		}
		c.Used[charge.Key] = call.Use{Units: c.Used[charge.Key].Units + charge.Cost, End: charge.End.UnixNano()}
	}
	if k.Consumed != "" {
		c.Consumed = []string{k.Consumed}
	}
	c.Voided = k.Voided
	if len(a.Labels) == 0 {
		return out, nil
	}
	v, err := units(k.Version)
	c.Session = &call.SessionChange{ID: a.Session, Owner: k.Owner, Version: v, Labels: call.Times{}}
	for _, label := range a.Labels {
		c.Session.Labels[label] = a.LabelsEnd.UnixNano()
	}
	if k.Until != "" {
		until, err2 := units(k.Until)
		c.Session.Until, err = until, errors.Join(err, err2)
	}
	return out, err
}
