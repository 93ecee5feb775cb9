package redis

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"github.com/callgate/callgate/engine/call"
)

type revokeRequest struct {
	request
	Who  []string `json:"who"`
	Next bool     `json:"next,omitzero"`
}

// Revoke implements [state.Store].
func (s *Store) Revoke(ctx context.Context, r call.Revocation) (call.Change, error) {
	r2 := &revokeRequest{Who: revokes(r), Next: r.Epoch != 0}
	ans, err := s.run(ctx, revoke, r2)
	s.wake() // also when nobody knows whether it acts
	if err != nil {
		return call.Change{}, err
	}
	if r.Epoch != 0 {
		r.Epoch = ans.of.epoch
	}
	s.mu.Lock()
	for _, who := range r2.Who {
		s.revoked[who] = true
	}
	s.mu.Unlock()
	return call.Change{Revoked: &r}, nil
}

// revokes are the names under which a revocation is kept.
func revokes(r call.Revocation) []string {
	out := []string{}
	if r.Principal != "" {
		out = append(out, "p"+r.Principal)
	}
	if r.Tool != "" {
		out = append(out, "t"+r.Tool)
	}
	return out
}

// Revoked implements [state.Store].
func (s *Store) Revoked(ctx context.Context, principal string) (bool, error) {
	q, err := s.look(ctx, &lookRequest{})
	if err != nil {
		return false, err
	}
	return q.revoked(principal), nil
}

// Epoch implements [state.Store].
func (s *Store) Epoch(ctx context.Context) (int64, error) {
	q, err := s.look(ctx, &lookRequest{})
	return q.of.epoch, err
}

type restoreRequest struct {
	request
	Who     []string `json:"who"`
	Confirm string   `json:"confirm"` // the epoch in which this is all that the node knows
}

// refresh learns what is revoked, and puts back what the server has forgotten of it.
func (s *Store) refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	return s.relearn(ctx)
}

// learnUntil is refresh, unless somebody else has just learnt enough.
func (s *Store) learnUntil(ctx context.Context, v version) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	if _, ok := s.revokedAt(v); ok {
		return nil
	}
	return s.relearn(ctx)
}

func (s *Store) relearn(ctx context.Context) error {
	missing := []string{}
	confirm := int64(-1)
	for range tries {
		ans, err := s.once(ctx, restore, &restoreRequest{Who: missing, Confirm: decimal(confirm)})
		if err != nil {
			return err
		}
		missing = s.compare(ans)
		if len(missing) == 0 && (ans.status == "ok" && !s.behind(ans.of.epoch) || confirm == ans.of.epoch || !s.begun()) {
			s.mu.Lock()
			s.confirmed = max(s.confirmed, confirm)
			s.mu.Unlock()
			return nil
		}
		if s.begun() && (ans.status != "ok" || s.behind(ans.of.epoch)) {
			if err := s.putBack(ctx, ans.of.epoch); err != nil {
				return err
			}
			confirm = ans.of.epoch
		}
	}
	return errors.New("redis: the server loses what it is told")
}

// restore is refresh for a server that asks for it, once in each epoch.
func (s *Store) restore(ctx context.Context, v version) error {
	s.mu.Lock()
	confirmed := s.confirmed
	s.mu.Unlock()
	if confirmed >= v.epoch {
		return nil // others have not
	}
	return s.refresh(ctx)
}

// behind reports whether what this node knows may be missing in that epoch, even if the
// server waits for nobody any more.
func (s *Store) behind(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recovered && s.confirmed < epoch
}

func (s *Store) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recovered
}

// compare takes over what the server says is revoked, and returns what it does not
// say.
func (s *Store) compare(ans answer) (missing []string) {
	missing, there := []string{}, map[string]bool{}
	for _, who := range ans.texts(0) {
		there[who] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for who := range s.revoked {
		if !there[who] {
			missing = append(missing, who)
		}
	}
	maps.Copy(s.revoked, there)
	s.known = max(s.known, ans.of.epoch)
	if len(missing) == 0 {
		s.asOf = ans.of
	}
	return missing
}

// notice learns what is revoked when an answer says that it is not as it was.
func (s *Store) notice(ctx context.Context, ans answer) {
	s.mu.Lock()
	s.known = max(s.known, ans.of.epoch)
	same := s.asOf.since(ans.of)
	s.mu.Unlock()
	if !same {
		_ = s.learnUntil(ctx, ans.of) // whoever depends on it looks again
	} else if s.behind(ans.of.epoch) {
		_ = s.restore(ctx, ans.of)
	}
}

// revokedAt returns who is revoked, if all that was revoked by that version is known.
func (s *Store) revokedAt(v version) (revoked func(principal string) bool, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asOf.since(v) {
		return nil, false
	}
	return func(principal string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.revoked["p"+principal]
	}, true
}

// remember takes in what a log revokes.
func (s *Store) remember(rs []call.Revocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rs {
		for _, who := range revokes(r) {
			s.revoked[who] = true
		}
		s.known = max(s.known, r.Epoch)
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
