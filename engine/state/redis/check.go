package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Waivers are what [Options.Waive] may name.
//
//   - appendonly: what the server was told is gone when its process ends.
//   - appendfsync: the last second of it is gone when its power fails. Also needed where
//     CONFIG is not allowed, as managed servers have it, since nothing else tells.
//   - maxmemory-policy: it may forget a revocation, or that something was used. When it
//     did, a new epoch begins, but some seconds later.
var Waivers = []string{"appendonly", "appendfsync", "maxmemory-policy"}

// check refuses a server that state is not safe with, and returns what it is asked
// to do without.
func (s *Store) check(ctx context.Context) ([]string, error) {
	errs, lacks, err := s.examine(ctx)
	if err != nil {
		return nil, err
	}
	var waived []string
	for _, l := range lacks {
		if slices.Contains(s.o.Waive, l.waiver) {
			waived = append(waived, l.waiver)
		} else {
			errs = append(errs, l.err)
		}
	}
	return waived, errors.Join(errs...)
}

// examine looks what server this is: what is wrong with it, and what it lacks. An error
// says that nobody knows.
func (s *Store) examine(ctx context.Context) (wrong []error, lacks []lack, err error) {
	info, err := s.client.Do(ctx, s.client.B().Info().Build()).ToString()
	if err != nil {
		return nil, nil, err
	}
	is := func(name string) string {
		_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\r\n")
		return value
	}
	// Valkey says here which version of Redis it speaks like, 7.2.4 in all of its own.
	major, _, _ := strings.Cut(is("redis_version"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		wrong = append(wrong, fmt.Errorf("version %q is older than 7.0", is("redis_version")))
	}
	if is("cluster_enabled") != "0" {
		wrong = append(wrong, errors.New("it is in Cluster mode: use a server without"))
	}
	if is("role") != "master" {
		wrong = append(wrong, errors.New("it is a replica: use the primary"))
	}
	lacks = s.settings(is("maxmemory_policy"), is("aof_enabled"))
	lack, err := s.synced(ctx)
	if lack != nil {
		lacks = append(lacks, *lack)
	}
	return wrong, lacks, err
}

// fit examines the server when a connection is new, for another one may be behind it.
func (s *Store) fit(ctx context.Context) error {
	dials := s.dials.Load()
	s.mu.Lock()
	seen := s.examined == dials
	s.mu.Unlock()
	if seen {
		return nil
	}
	wrong, lacks, err := s.examine(ctx)
	if err != nil {
		return fmt.Errorf("redis: what server this is cannot be asked: %w", err)
	}
	s.mend(wrong, lacks)
	s.mu.Lock()
	s.examined = max(s.examined, dials)
	s.mu.Unlock()
	return nil
}

// lack is a setting that is not as it should be.
type lack struct {
	waiver string
	err    error
}

func (s *Store) settings(policy, aof string) (out []lack) {
	if policy != "noeviction" {
		out = append(out, lack{"maxmemory-policy", fmt.Errorf("maxmemory-policy is %q, not noeviction", policy)})
	}
	if aof != "1" {
		out = append(out, lack{"appendonly", errors.New("appendonly is not yes")})
	}
	return out
}

// synced looks whether the server answers only after a sync. One that does not tell may
// not; of one that does not answer nobody knows.
func (s *Store) synced(ctx context.Context) (*lack, error) {
	const name = "appendfsync"
	got, err := s.client.Do(ctx, s.client.B().ConfigGet().Parameter(name, "no-appendfsync-on-rewrite").Build()).AsStrMap()
	e, answered := rueidis.IsRedisErr(err)
	switch {
	case answered && !busy(e):
		return &lack{name, fmt.Errorf("whether appendfsync is always cannot be asked; waive appendfsync if it is: %w", err)}, nil
	case err != nil:
		return nil, err
	case got[name] != "always":
		return &lack{name, fmt.Errorf("appendfsync is %q, not always", got[name])}, nil
	case got["no-appendfsync-on-rewrite"] != "no":
		return &lack{name, errors.New("no-appendfsync-on-rewrite is not no")}, nil
	}
	return nil, nil
}

// busy reports whether the server will answer later.
func busy(e *rueidis.RedisError) bool {
	return e.IsLoading() || e.IsTryAgain() || strings.HasPrefix(e.Error(), "BUSY") || strings.HasPrefix(e.Error(), "MASTERDOWN")
}

// mend refuses everything while the server is not as it should be, which it was at
// start. What is waived since then is told once.
func (s *Store) mend(wrong []error, lacks []lack) {
	var errs []error
	for _, err := range wrong {
		errs = append(errs, fmt.Errorf("redis: %w", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lacks {
		switch {
		case !slices.Contains(s.o.Waive, l.waiver):
			errs = append(errs, fmt.Errorf("redis: %w", l.err))
		case !slices.Contains(s.waived, l.waiver):
			s.waived = append(s.waived, l.waiver)
			s.o.Logger.Warn().Str("waived", l.waiver).Msg("the state is kept with less than it should be, from now on")
		}
	}
	if !s.final {
		s.refuses = errors.Join(errs...)
	}
}
