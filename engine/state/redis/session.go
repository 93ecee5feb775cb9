package redis

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

type sessionRequest struct {
	request
	Session string `json:"session"`
}

// Session implements [state.Store].
func (s *Store) Session(ctx context.Context, id string, now time.Time) (state.Session, error) {
	if err := within(now); err != nil {
		return state.Session{}, err
	}
	ans, err := s.run(ctx, session, &sessionRequest{request: request{at: now}, Session: id})
	if err != nil {
		return state.Session{}, err
	}
	var (
		out   state.Session
		owner string
		until int64
	)
	fields := ans.texts(0)
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		label, isLabel := strings.CutPrefix(name, "l:")
		if name == "owner" {
			owner = value
			continue
		}
		n, err := units(value)
		switch {
		case err != nil:
			return state.Session{}, err
		case name == "v":
			out.Version = n
		case name == "until":
			until = n
		case name == "calls":
			out.Calls = n
		case isLabel && ans.now.UnixNano() < n:
			out.Labels = append(out.Labels, label)
		}
	}
	slices.Sort(out.Labels)
	if until == 0 || ans.now.UnixNano() < until {
		out.Owner = owner
	}
	return out, nil
}

const (
	// recalled bounds the sessions whose labels a node remembers, to put them back. Of
	// more than that it remembers some.
	recalled = 1 << 16

	// recallBatch is how many sessions are put back by one script.
	recallBatch = 256
)

// recall remembers labels that this node has given a session.
func (s *Store) recall(c call.SessionChange, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok := s.sessions[c.ID]
	if !ok && len(s.sessions) >= recalled {
		maps.DeleteFunc(s.sessions, func(_ string, c call.SessionChange) bool { return over(c, now) })
		if len(s.sessions) >= recalled {
			return
		}
	}
	if !ok {
		is = call.SessionChange{ID: c.ID, Labels: call.Times{}}
	}
	is.Owner, is.Version, is.Until = max(is.Owner, c.Owner), max(is.Version, c.Version), max(is.Until, c.Until)
	for label, end := range c.Labels {
		is.Labels[label] = max(is.Labels[label], end)
	}
	s.sessions[c.ID] = is
}

// over reports whether all labels have left the session by then.
func over(c call.SessionChange, now time.Time) bool {
	for _, end := range c.Labels {
		if now.UnixNano() < end {
			return false
		}
	}
	return true
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
	Labels  map[string]string `json:"labels"`
	Grow    bool              `json:"grow,omitzero"` // the version moves when there are more labels then
}

func changeOf(c call.SessionChange) sessionChange {
	out := sessionChange{Session: c.ID, Owner: c.Owner, Version: decimal(c.Version), Labels: map[string]string{}}
	if c.Until != 0 {
		out.Until = fixed(c.Until)
	}
	for label, end := range c.Labels {
		out.Labels[label] = fixed(end)
	}
	return out
}

// putBack tells the server which labels this node has given sessions.
func (s *Store) putBack(ctx context.Context) error {
	s.mu.Lock()
	list := make([]sessionChange, 0, len(s.sessions))
	for _, c := range s.sessions {
		change := changeOf(c)
		change.Grow = true
		list = append(list, change)
	}
	s.mu.Unlock()
	for batch := range slices.Chunk(list, recallBatch) {
		if _, err := s.once(ctx, recall, &recallRequest{Sessions: batch}); err != nil {
			return err
		}
	}
	return nil
}
