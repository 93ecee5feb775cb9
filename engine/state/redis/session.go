package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

type sessionRequest struct {
	request
	Session string `json:"session"`
}

// Session implements [state.Store].
func (s *Store) Session(ctx context.Context, id string, now time.Time) (state.Session, error) {
	is, err := s.read(ctx, id, now)
	if err != nil {
		return state.Session{}, err
	}
	out := state.Session{Version: is.Version, Calls: is.calls}
	switch {
	case is.Ended:
		out.Ended = is.owner()
	case is.owner() != "":
		out.Owner = is.Owner
		if is.Until != 0 {
			out.Until = time.Unix(0, is.Until).UTC()
		}
	}
	if out.Ended == "" {
		out.Plan = is.plan()
	}
	for label, end := range is.Labels {
		if is.now < end {
			out.Labels = append(out.Labels, label)
		}
	}
	slices.Sort(out.Labels)
	return out, nil
}

// known is a session as the server knows it at some time.
type known struct {
	call.SessionChange
	calls int64
	now   int64 // Unix ns
}

// owner is whose it is, or was before they ended it; "" for nobody's.
func (k known) owner() string {
	if k.Until != 0 && k.Until <= k.now {
		return ""
	}
	return k.Owner
}

func (k known) plan() call.Plan {
	if k.PlanUntil <= k.now {
		return nil
	}
	return k.Plan
}

// read reads a session.
func (s *Store) read(ctx context.Context, id string, now time.Time) (known, error) {
	if err := within(now); err != nil {
		return known{}, err
	}
	ans, err := s.run(ctx, session, &sessionRequest{request: request{at: now}, Session: id})
	if err != nil {
		return known{}, err
	}
	out := known{SessionChange: call.SessionChange{ID: id, Labels: call.Times{}}, now: ans.now.UnixNano()}
	fields := ans.texts(0)
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		switch name {
		case "owner":
			out.Owner = value
			continue
		case "plan":
			if err := json.Unmarshal([]byte(value), &out.Plan); err != nil {
				return known{}, errors.New("redis: a plan that is none")
			}
			continue
		}
		n, err := units(value)
		if err != nil {
			return known{}, err
		}
		switch label, isLabel := strings.CutPrefix(name, "l:"); {
		case name == "v":
			out.Version = n
		case name == "until":
			out.Until = n
		case name == "ended":
			out.Ended = true
		case name == "calls":
			out.calls = n
		case name == "pv":
			out.PlanVersion = n
		case name == "pe":
			out.PlanUntil = n
		case isLabel:
			out.Labels[label] = n
		}
	}
	return out, nil
}

type replanRequest struct {
	request
	Session   string `json:"session"`
	Principal string `json:"principal"`
	Nonce     string `json:"nonce"` // of this request, however often it is sent
	Keep      string `json:"keep"`  // for how long it may be sent again, in ms
	Was       string `json:"was"`   // version of the plan that it replaces
	Text      string `json:"text"`
	Ends      string `json:"ends"`
}

// Replan implements [state.Store]. What becomes of the plan is worked out here; the
// script puts it in place if it still replaces the plan that was read.
func (s *Store) Replan(ctx context.Context, r state.Replan) (call.Change, error) {
	if err := errors.Join(within(r.Now), within(r.Ends), r.Check()); err != nil {
		return call.Change{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	for range plans {
		is, err := s.read(ctx, r.Session, r.Now)
		if err != nil {
			return call.Change{}, err
		}
		c := call.SessionChange{ID: r.Session, Owner: is.owner()}
		if c.Owner != "" {
			c.Until = is.Until
		}
		if c.Owner != "" && (c.Owner != r.Principal || is.Ended) {
			return call.Change{}, state.ErrSessionForeign
		}
		if c.Plan, err = is.plan().Change(r.Op); err != nil {
			return call.Change{}, err
		}
		text, err := json.Marshal(c.Plan)
		if err != nil {
			return call.Change{}, err
		}
		c.PlanUntil = r.Until(is.PlanUntil, c.Until)
		ans, err := s.run(ctx, replan, &replanRequest{
			request: request{at: r.Now}, Session: r.Session, Principal: r.Principal, Nonce: rand.Text(),
			Keep: decimal((s.o.Timeout + time.Minute).Milliseconds()),
			Was:  decimal(is.PlanVersion), Text: string(text), Ends: fixed(c.PlanUntil),
		})
		switch {
		case err != nil:
			return call.Change{}, err
		case ans.status == "moved":
			continue
		case ans.status == "foreign":
			return call.Change{}, state.ErrSessionForeign
		}
		if c.Version, err = units(ans.text(0)); err != nil {
			return call.Change{}, err
		}
		c.PlanVersion = c.Version
		s.recall(c, ans.now)
		return call.Change{Session: &c}, nil
	}
	return call.Change{}, errors.New("redis: the plan changes faster than this changes it")
}

type recallRequest struct {
	request
	Sessions []sessionChange `json:"sessions"`
}

// sessionChange is a [call.SessionChange] as the scripts take it.
type sessionChange struct {
	Session string            `json:"session"`
	Owner   string            `json:"owner"`
	Version string            `json:"version"`
	Until   string            `json:"until"`
	Ended   bool              `json:"ended,omitzero"`
	Labels  map[string]string `json:"labels"`
	Grow    bool              `json:"grow,omitzero"` // the version moves when there are more labels then, or a later plan
	Text    string            `json:"text"`          // of the plan
	Made    string            `json:"made"`          // version of the plan
	Ends    string            `json:"ends"`          // when the plan does; "" for none
}

func changeOf(c call.SessionChange) sessionChange {
	out := sessionChange{Session: c.ID, Owner: c.Owner, Version: decimal(c.Version), Ended: c.Ended, Labels: map[string]string{}}
	if c.Until != 0 {
		out.Until = fixed(c.Until)
	}
	if text, err := json.Marshal(c.Plan); err == nil && c.PlanUntil != 0 { // names and statuses always have a JSON form
		out.Text, out.Made, out.Ends = string(text), decimal(c.PlanVersion), fixed(c.PlanUntil)
	}
	for label, end := range c.Labels {
		out.Labels[label] = fixed(end)
	}
	return out
}

// putBack tells the server what this node has made of sessions. When there is no time for
// all, the next one in that epoch tells the rest. It must be called with refreshing held.
func (s *Store) putBack(ctx context.Context, epoch int64) error {
	if s.left == nil || s.leftIn != epoch {
		s.mu.Lock()
		s.left, s.leftIn = s.made.changes(), epoch
		s.mu.Unlock()
	}
	for len(s.left) > 0 {
		n := min(len(s.left), recallBatch)
		once, cancel := context.WithTimeout(ctx, s.o.Timeout)
		_, err := s.once(once, recall, &recallRequest{Sessions: s.left[:n]})
		cancel()
		if err != nil {
			return err
		}
		s.left = s.left[n:]
	}
	s.left = nil
	return nil
}
