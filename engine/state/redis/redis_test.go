package redis_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/state/redis/redistest"
	"github.com/callgate/callgate/engine/state/statetest"
)

var (
	server   *redistest.Server // that tests share which do it no harm
	prefixes atomic.Int64
)

func TestMain(m *testing.M) {
	if config := os.Getenv(nodeEnv); config != "" {
		if err := runNode(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var err error
	if server, err = redistest.Launch(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Remove()
	os.Exit(code)
}

// options are those of a node that nobody else shares the state with yet.
func options(s *redistest.Server) redis.Options {
	return redis.Options{Address: s.Address, Prefix: fmt.Sprint("t", prefixes.Add(1)), Node: "one"}
}

// open opens a store of a node whose log is empty.
func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests end the server first
	begin(t, s, state.Recovery{})
	return s
}

// begin does what an engine does with a log that says r.
func begin(t testing.TB, s *redis.Store, r state.Recovery) (state.Mark, []string) {
	t.Helper()
	m, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	released, err := s.Recover(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return m, released
}

// empty opens a store that tests tell the time.
func empty(t *testing.T) state.Store {
	o := options(server)
	o.UseOperationClock()
	o.Timeout = time.Minute // on a machine with much else to do
	return open(t, o)
}

func TestStore(t *testing.T) { statetest.Run(t, empty) }

// Each of the races passes a thousand times.
func TestRaces(t *testing.T) {
	times := 1000
	if raceEnabled {
		times = 50
	}
	t.Run("approval", func(t *testing.T) { statetest.RaceForApproval(t, empty, times) })
	t.Run("grant", func(t *testing.T) { statetest.RaceForGrant(t, empty, times) })
	t.Run("limit", func(t *testing.T) { statetest.RaceForLimit(t, empty, times) })
}
