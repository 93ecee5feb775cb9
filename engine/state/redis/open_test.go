package redis_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// A server that would forget is refused, and what it would forget is named. The
// operator may go on without some of that, by name, and is told so.
func TestServersThatAreRefused(t *testing.T) {
	primary := redistest.Start(t, "port 0")
	for _, tt := range []struct {
		name   string
		config []string
		want   string // in the error
		waiver string // "" for none
	}{
		{"no file", []string{"appendonly no"}, "appendonly is not yes", "appendonly"},
		{"a second late", []string{"appendfsync everysec"}, `appendfsync is "everysec"`, "appendfsync"},
		{"late while rewriting", []string{"no-appendfsync-on-rewrite yes"}, "no-appendfsync-on-rewrite", "appendfsync"},
		{"does not tell", []string{`rename-command CONFIG ""`}, "waive appendfsync", "appendfsync"},
		{"evicts", []string{"maxmemory-policy volatile-ttl"}, `maxmemory-policy is "volatile-ttl"`, "maxmemory-policy"},
		{"cluster", []string{"cluster-enabled yes"}, "Cluster mode", ""},
		{"replica", []string{"replicaof 127.0.0.1 1"}, "replica", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options(redistest.Start(t, tt.config...))
			for _, waive := range [][]string{nil, without(tt.waiver)} {
				o.Waive = waive
				if s, err := redis.Open(t.Context(), o); err == nil {
					s.Close()
					t.Errorf("waiving %v: opened", waive)
				} else if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("waiving %v: %v", waive, err)
				}
			}
			if tt.waiver == "" {
				return
			}
			o.Waive = redis.Waivers
			s := open(t, o)
			if diff := cmp.Diff([]string{tt.waiver}, s.Waived()); diff != "" {
				t.Error(diff)
			}
			if err := s.Renew(t.Context()); err != nil {
				t.Error(err)
			}
			admit(t, s, plain("C", time.Now()))
		})
	}
	o := options(primary)
	o.Waive = []string{"fsync"}
	if _, err := redis.Open(t.Context(), o); err == nil {
		t.Error("an unknown waiver is taken")
	}
	o.Waive = redis.Waivers
	if s := open(t, o); len(s.Waived()) > 0 {
		t.Errorf("nothing had to be waived, and %v was", s.Waived())
	}
}

func without(waiver string) []string {
	return slices.DeleteFunc(slices.Clone(redis.Waivers), func(w string) bool { return w == waiver })
}

// What cannot work is said at once, all of it.
func TestOptionsThatAreRefused(t *testing.T) {
	for name, o := range map[string]redis.Options{
		"nothing":         {},
		"no node":         {Address: server.Address, Prefix: "p"},
		"another slot":    {Address: server.Address, Prefix: "a}b", Node: "n"},
		"a negative time": {Address: server.Address, Prefix: "p", Node: "n", Timeout: -1},
		"no server":       {Address: "/nowhere", Prefix: "p", Node: "n"},
	} {
		if s, err := redis.Open(t.Context(), o); err == nil {
			s.Close()
			t.Errorf("%s: opened", name)
		}
	}
}

// The password is asked for on each connection, and nobody else is told.
func TestLogin(t *testing.T) {
	const secret = "canary-4711"
	srv := redistest.Start(t, "user node on >"+secret+" ~* &* +@all")
	if _, err := srv.Do("ACL SETUSER default off"); err != nil {
		t.Fatal(err)
	}
	o := options(srv)
	var password atomic.Value
	var asked atomic.Int64
	password.Store("wrong-" + secret)
	o.Login = func() (string, string, error) { asked.Add(1); return "node", password.Load().(string), nil }
	if _, err := redis.Open(t.Context(), o); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("Open = %v", err)
	}
	password.Store(secret)
	s := open(t, o)
	admit(t, s, plain("C", time.Now()))
	if n := asked.Load(); n < 2 {
		t.Errorf("asked for the password %d times", n)
	}
	o.Node, o.Login = "two", func() (string, string, error) { return "", "", errors.New("no file") }
	if _, err := redis.Open(t.Context(), o); err == nil {
		t.Error("opened without a password")
	}
}

// No two processes are one node.
func TestNodeNames(t *testing.T) {
	o := options(server)
	s := open(t, o)
	second := func() (*redis.Store, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return redis.Open(ctx, o)
	}
	if _, err := second(); err == nil || !strings.Contains(err.Error(), "node one: another process") {
		t.Errorf("a second process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(t.Context(), plain("C", time.Now())); err == nil {
		t.Error("a closed store admits")
	}
	s = open(t, o) // the name is free
	s.Crash()
	if _, err := second(); err == nil {
		t.Error("the name of a node that crashed just now is free")
	}
	c := raw(t, server.Address)
	lease := "{" + o.Prefix + "}:lease:one"
	if ms, err := c.Do(t.Context(), c.B().Pttl().Key(lease).Build()).AsInt64(); err != nil || ms <= 0 || ms > redis.LeaseTime.Milliseconds() {
		t.Errorf("taken for %d ms, %v", ms, err)
	}
	if err := c.Do(t.Context(), c.B().Del().Key(lease).Build()).Error(); err != nil { // as time does
		t.Fatal(err)
	}
	s = open(t, o)
	// It was away for so long that its name ended, and nobody else took it.
	if err := c.Do(t.Context(), c.B().Del().Key(lease).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	admit(t, s, plain("D", time.Now()))
	// And now somebody did.
	if err := c.Do(t.Context(), c.B().Set().Key(lease).Value("somebody").ExSeconds(60).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Admit(t.Context(), plain("E", time.Now())); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("Admit = %v", err)
		}
	}
	if err := c.Do(t.Context(), c.B().Del().Key(lease).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(t.Context(), plain("F", time.Now())); err == nil {
		t.Error("a node that lost its name goes on")
	}
}

// What a crash left open is told on the next start, and what the log says of it counts.
func TestRecover(t *testing.T) {
	o := options(server)
	restart := func(s *redis.Store) *redis.Store {
		s.Crash()
		c := raw(t, server.Address)
		if err := c.Do(t.Context(), c.B().Del().Key("{"+o.Prefix+"}:lease:one").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		s, err := redis.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open(t, o)
	for _, id := range []string{"A", "B", "C"} {
		admit(t, s, plain(id, time.Now()))
	}
	s.Settle("A", 4)
	eventually(t, "A is never settled", func() bool {
		m, err := s.Begin(t.Context())
		return err == nil && m.Index == 4
	})
	s = restart(s)
	m, released := begin(t, s, state.Recovery{Size: 9, Recorded: map[string]int64{"B": 7}, Revoked: []call.Revocation{{Tool: "rm"}}, Sessions: []call.SessionChange{
		{ID: "labelled", Version: 3, Labels: call.Times{"x": time.Now().Add(time.Hour).UnixNano(), "over": 1}},
	}})
	slices.Sort(m.Open)
	if diff := cmp.Diff(state.Mark{Index: 4, Open: []string{"B", "C"}}, m); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"C"}, released); diff != "" {
		t.Error(diff)
	}
	if n := left(t, s); n != 8 {
		t.Errorf("%d units are left", n)
	}
	if got, err := s.Session(t.Context(), "labelled", time.Now()); err != nil || got.Version != 3 || !slices.Equal(got.Labels, []string{"x"}) {
		t.Errorf("labels that the log says: %+v, %v", got, err)
	}
	gone := plain("D", time.Now())
	gone.Tool.Name = "rm"
	if ans := admit(t, s, gone); !ans.Revoked {
		t.Errorf("what the log revokes: %+v", ans)
	}
	if ans, err := s.Admit(t.Context(), plain("C", time.Now())); err == nil {
		t.Errorf("a call that was given back: %+v", ans)
	}
	given := approved(t, s, "E", "x", time.Now())

	s = restart(s)
	if m, released := begin(t, s, state.Recovery{Size: 9}); m.Index != 7 || len(m.Open) > 0 || len(released) > 0 {
		t.Errorf("a start after nothing: %+v, %v", m, released)
	}
	if a, err := s.Approval(t.Context(), given, time.Now()); err != nil || a.Standing != state.Approved {
		t.Errorf("an approval over a restart of the node: %s, %v", a.Standing, err)
	}

	s = restart(s)
	if _, err := s.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recover(t.Context(), state.Recovery{Size: 7}); !errors.Is(err, state.ErrLogBehind) {
		t.Errorf("a log of 7 records, of which the store knows the eighth: %v", err)
	}

	s = restart(s)
	before := epochOf(t, s)
	begin(t, s, state.Recovery{Size: 20, Lost: true})
	if after := epochOf(t, s); after <= before {
		t.Errorf("the store lost something, and epoch %d follows %d", after, before)
	}
	if a, err := s.Approval(t.Context(), given, time.Now()); err != nil || a.Standing != state.Expired {
		t.Errorf("an approval of before: %s, %v", a.Standing, err)
	}
}

func epochOf(t *testing.T, s *redis.Store) int64 {
	t.Helper()
	e, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}
