package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	info, err := s.client.Do(ctx, s.client.B().Info().Build()).ToString()
	if err != nil {
		return nil, err
	}
	is := func(name string) string {
		_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\r\n")
		return value
	}
	var errs []error
	major, _, _ := strings.Cut(is("redis_version"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		errs = append(errs, fmt.Errorf("version %q is older than 7.0", is("redis_version")))
	}
	if is("cluster_enabled") != "0" {
		errs = append(errs, errors.New("it is in Cluster mode: use a server without"))
	}
	if is("role") != "master" {
		errs = append(errs, errors.New("it is a replica: use the primary"))
	}
	lacks := s.settings(is("maxmemory_policy"), is("aof_enabled"))
	if lack := s.synced(ctx); lack != nil {
		lacks = append(lacks, *lack)
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

// synced looks whether the server answers only after a sync.
func (s *Store) synced(ctx context.Context) *lack {
	const name = "appendfsync"
	got, err := s.client.Do(ctx, s.client.B().ConfigGet().Parameter(name, "no-appendfsync-on-rewrite").Build()).AsStrMap()
	switch {
	case err != nil:
		return &lack{name, fmt.Errorf("whether appendfsync is always cannot be asked; waive appendfsync if it is: %w", err)}
	case got[name] != "always":
		return &lack{name, fmt.Errorf("appendfsync is %q, not always", got[name])}
	case got["no-appendfsync-on-rewrite"] != "no":
		return &lack{name, errors.New("no-appendfsync-on-rewrite is not no")}
	}
	return nil
}

// mend refuses everything while a setting is not as it should be, which it was at
// start. What is waived since then is told once.
func (s *Store) mend(lacks []lack) {
	var errs []error
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
