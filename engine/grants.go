package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/token"
)

// Grants let calls be decided by one engine and run by another: see [Engine.Issue]
// and [Engine.Execute]. An engine can be either or both.
type Grants struct {
	// Signer signs what is issued. Nil issues nothing. Its key MUST be used for
	// nothing else.
	Signer token.Signer

	// Issuer names this engine to executors. Required with a Signer.
	Issuer string

	// Origin names the log in which the decisions stand.
	Origin string

	// TTL is how long a grant can be started. Zero means the longest there is,
	// [token.MaxLife].
	TTL time.Duration

	// Issuers are those whose grants are run here. Nil runs none.
	Issuers *token.Verifier

	// Audience names this engine to issuers. Required with Issuers. Executors of one
	// name MUST share one State, or a grant can run once on each.
	Audience string
}

func (g *Grants) check() error {
	if g == nil {
		return nil
	}
	var errs []error
	if g.Signer != nil && (g.Issuer == "" || !printable(g.Issuer)) {
		errs = append(errs, errors.New("engine: Options.Grants.Issuer is missing, or not plain text of at most 256 bytes"))
	}
	if g.Issuers != nil && (g.Audience == "" || !printable(g.Audience)) {
		errs = append(errs, errors.New("engine: Options.Grants.Audience is missing, or not plain text of at most 256 bytes"))
	}
	if !printable(g.Origin) {
		errs = append(errs, errors.New("engine: Options.Grants.Origin is not plain text of at most 256 bytes"))
	}
	if g.TTL != 0 && (g.TTL < time.Second || g.TTL > token.MaxLife) {
		errs = append(errs, errors.New("engine: Options.Grants.TTL is not between 1 s and 1 min"))
	}
	return errors.Join(errs...)
}

// ttl is in whole seconds, as tokens are.
func (g *Grants) ttl() time.Duration {
	if g.TTL == 0 {
		return token.MaxLife
	}
	return g.TTL.Truncate(time.Second)
}

// epochSeen is the newest epoch of the state that this engine knows of, and since
// when.
type epochSeen struct {
	mu     sync.Mutex
	number int64
	since  time.Time // zero: no epoch ever began
}

// begin notes an epoch that began at that time at the latest.
func (s *epochSeen) begin(number int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number > s.number {
		s.number, s.since = number, at
	}
}

func (s *epochSeen) last() (number int64, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number, s.since
}

func (s *epochSeen) at(number int64) (since time.Time, seen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, number <= s.number
}

// epochOf is the epoch of the state here to which the grant belongs.
//
// An issuer with another store counts epochs of its own, which say nothing here. So
// its grants belong to the epoch that is, provided that they were issued after it
// had begun: whoever revokes everything at the executor revokes those too.
func (e *Engine) epochOf(ctx context.Context, g token.Verified) (int64, error) {
	if g.SharesState {
		return g.Epoch, nil
	}
	number, err := e.o.State.Epoch(ctx)
	if err != nil {
		return 0, &call.Error{Code: call.CodeStateUnavailable, Err: err}
	}
	since, seen := e.epochs.at(number)
	if !seen {
		// Another process began it. When is unknown, so it was just now, and the log
		// remembers that.
		since = e.o.Now().UTC()
		change := call.Change{Revoked: &call.Revocation{Epoch: number}}
		if err := e.appendRecord(call.Record{Type: call.TypeRevoke, Time: since, Node: e.o.Node, Change: &change}); err != nil {
			return 0, &call.Error{Code: call.CodeLogUnavailable, Err: err}
		}
		e.epochs.begin(number, since)
	}
	// The issuer's clock may be ahead of ours.
	if !since.IsZero() && !time.Unix(g.IssuedAt, 0).After(since.Add(token.Skew)) {
		return 0, &call.Error{Code: call.CodeRevoked}
	}
	return number, nil
}
