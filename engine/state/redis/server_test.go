package redis_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// standing is what is at stake when a server is replaced.
type standing struct {
	given, open string // approvals
	grant       state.Spend
}

func stand(t *testing.T, s *redis.Store) standing {
	t.Helper()
	now := time.Now()
	st := standing{given: approved(t, s, "A", "given", now), open: asked(t, s, "B", "open", now)}
	epoch, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st.grant = state.Spend{ID: "G", Now: now, Expires: now.Add(time.Minute), Epoch: epoch, Principals: []string{"p"}, Tool: "ls"}
	return st
}

// void checks that nothing of it counts any more, and that who is revoked stays it.
func (st standing) void(t *testing.T, s *redis.Store) {
	t.Helper()
	eventually(t, "the server is never ready", func() bool {
		_, err := s.Epoch(t.Context())
		return err == nil
	})
	now := time.Now()
	for _, id := range []string{st.given, st.open} {
		a, err := s.Approval(t.Context(), id, now)
		if !errors.Is(err, state.ErrNoApproval) && (err != nil || a.Standing != state.Expired) {
			t.Errorf("%s: %s, %v", id, a.Standing, err)
		}
	}
	st.grant.Now = now
	if _, err := s.Spend(t.Context(), st.grant); !errors.Is(err, state.ErrRevoked) {
		t.Errorf("a grant of before: %v", err)
	}
	if ans := admit(t, s, question("C", "given", now)); ans.Admitted || ans.Approval.ID == st.given {
		t.Errorf("an approval of before: %+v", ans)
	}
	gone := plain("D", now)
	gone.Tool.Name, gone.Session = "rm", "other"
	if ans := admit(t, s, gone); !ans.Revoked {
		t.Errorf("a revoked tool: %+v", ans)
	}
}

func revoke(t *testing.T, s state.Store) {
	t.Helper()
	if _, err := s.Revoke(t.Context(), call.Revocation{Tool: "rm"}); err != nil {
		t.Fatal(err)
	}
}

// copied keeps a copy of the server's files, as a backup does.
func copied(t *testing.T, s *redistest.Server) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func restored(t *testing.T, s *redistest.Server, from string) {
	t.Helper()
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(s.Dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// However a server comes back, what people were asked or what was granted before does
// not count, and what was revoked is.
func TestServerComesBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		back func(t *testing.T, s *redistest.Server, copy string)
		kept bool // what limits hold
	}{
		{"with its files", func(*testing.T, *redistest.Server, string) {}, true},
		{"without its files", func(t *testing.T, s *redistest.Server, _ string) { restored(t, s, t.TempDir()) }, false},
		{"with an older copy", func(t *testing.T, s *redistest.Server, copy string) { restored(t, s, copy) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := redistest.Start(t)
			s := open(t, options(srv))
			st := stand(t, s)
			older := copied(t, srv)
			revoke(t, s)
			labelled := plain("L", time.Now())
			labelled.Labels, labelled.LabelsEnd = []string{"untrusted"}, time.Now().Add(time.Hour)
			admit(t, s, labelled)
			waits := s.Changed()
			srv.Kill()
			if _, err := s.Admit(t.Context(), plain("M", time.Now())); err == nil {
				t.Error("admitted without a server")
			}
			tt.back(t, srv, older)
			srv.Run(t)
			st.void(t, s)
			got, err := s.Session(t.Context(), "s", time.Now())
			if err != nil || !slices.Equal(got.Labels, []string{"untrusted"}) || got.Version != 1 {
				t.Errorf("the session that read something: %+v, %v", got, err)
			}
			if n := units(t, s, got.Version); tt.kept && n != 9 {
				t.Errorf("%d units are left", n)
			}
			select {
			case <-waits:
			case <-time.After(time.Minute):
				t.Error("whoever waits is not woken")
			}
		})
	}
}

// All keys are deleted under the running nodes.
func TestServerIsEmptied(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, options(srv))
	st := stand(t, s)
	revoke(t, s)
	if _, err := srv.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	st.void(t, s)
}

// Nothing is admitted before the nodes that were there have put back what they know. Of
// one that nobody can reach they wait for half a minute.
func TestNodesPutRevocationsBack(t *testing.T) {
	srv := redistest.Start(t)
	p := newProxy(t, srv.Address)
	o := options(srv)
	o.Timeout = time.Second
	two := o
	two.Node, two.Address = "two", p.address
	a, b := open(t, o), open(t, two)
	older := copied(t, srv)
	admit(t, a, plain("W", time.Now()))
	p.set(cutAsking, false) // b can say nothing from here on
	srv.Kill()
	restored(t, srv, older)
	srv.Run(t)
	for i := range 3 {
		if ans, err := a.Admit(t.Context(), plain(fmt.Sprint("C", i), time.Now())); err == nil {
			t.Errorf("admitted before the other node answered: %+v", ans)
		}
	}
	t.Run("the node answers", func(t *testing.T) {
		p.set(pass, false)
		eventually(t, "never ready", func() bool {
			_, err := a.Admit(t.Context(), plain("D", time.Now()))
			return err == nil
		})
		if _, err := b.Epoch(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("the node never answers", func(t *testing.T) {
		p.set(cutAsking, false)
		srv.Kill()
		srv.Run(t)
		if _, err := a.Epoch(t.Context()); err == nil {
			t.Error("ready before the other node answered")
		}
		c := raw(t, srv.Address)
		meta := "{" + o.Prefix + "}:meta"
		if err := c.Do(t.Context(), c.B().Hincrby().Key(meta).Field("fenced").Increment(-31).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "never ready", func() bool {
			_, err := a.Epoch(t.Context())
			return err == nil
		})
	})
}

// What is revoked on one node is known to the others, should the server forget it.
func TestOtherNodesKnowRevocations(t *testing.T) {
	srv := redistest.Start(t)
	o := options(srv)
	a := open(t, o)
	o.Node = "two"
	b := open(t, o)
	older := copied(t, srv)
	changed := b.Changed()
	revoke(t, a)
	<-changed
	if ok, err := b.Revoked(t.Context(), "nobody"); ok || err != nil { // has read what is revoked
		t.Fatal(ok, err)
	}
	a.Crash()
	srv.Kill()
	restored(t, srv, older)
	srv.Run(t)
	c := raw(t, srv.Address)
	// a is gone for good.
	if err := c.Do(t.Context(), c.B().Hdel().Key("{"+o.Prefix+"}:nodes").Field("one").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	gone := plain("D", time.Now())
	gone.Tool.Name = "rm"
	eventually(t, "never ready", func() bool {
		gone.Now = time.Now()
		ans, err := b.Admit(t.Context(), gone)
		if ans.Admitted {
			t.Fatal("admitted with a revoked tool")
		}
		return err == nil && ans.Revoked
	})
}

// A server that no longer keeps what it is told is told nothing, until it does again.
func TestSettingsChangeLater(t *testing.T) {
	srv := redistest.Start(t, "maxmemory 100mb")
	s := open(t, options(srv))
	for _, tt := range []struct{ set, back string }{
		{"maxmemory-policy allkeys-lru", "maxmemory-policy noeviction"},
		{"appendfsync everysec", "appendfsync always"},
		{"appendonly no", "appendonly yes"},
		{"no-appendfsync-on-rewrite yes", "no-appendfsync-on-rewrite no"},
	} {
		do := func(command string) {
			t.Helper()
			if _, err := srv.Do("CONFIG SET " + command); err != nil {
				t.Fatal(err)
			}
			if err := s.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		do(tt.set)
		name, _, _ := strings.Cut(tt.set, " ")
		if _, err := s.Admit(t.Context(), plain("C", time.Now())); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Admit = %v", tt.set, err)
		}
		revoke(t, s)
		do(tt.back)
		if _, err := s.Session(t.Context(), "s", time.Now()); err != nil {
			t.Errorf("%s: %v", tt.back, err)
		}
	}
}

// A server that speaks of an older epoch than it did was restored, though it is the same
// server.
func TestEpochNeverFalls(t *testing.T) {
	o := options(server)
	s := open(t, o)
	st := stand(t, s)
	revoke(t, s)
	c := raw(t, server.Address)
	meta := "{" + o.Prefix + "}:meta"
	if err := c.Do(t.Context(), c.B().Hincrby().Key(meta).Field("epoch").Increment(-5).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	st.void(t, s)
}

// When the server threw something away, nobody knows what: a new epoch begins.
func TestEviction(t *testing.T) {
	srv := redistest.Start(t, "maxmemory 4mb")
	s := open(t, options(srv))
	st := stand(t, s)
	revoke(t, s)
	if _, err := srv.Do("CONFIG SET maxmemory-policy volatile-ttl"); err != nil {
		t.Fatal(err)
	}
	c := raw(t, srv.Address)
	junk := strings.Repeat("x", 10_000)
	for i := range 1000 {
		if err := c.Do(t.Context(), c.B().Set().Key(fmt.Sprint("junk", i)).Value(junk).ExSeconds(5).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"CONFIG SET maxmemory 100mb", "CONFIG SET maxmemory-policy noeviction"} {
		if _, err := srv.Do(command); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	st.void(t, s)
}

// A full server admits nothing, takes no half measures, and still lets revoke and give
// back.
func TestServerIsFull(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, options(srv))
	admit(t, s, plain("C1", time.Now()))
	if _, err := srv.Do("CONFIG SET maxmemory 1"); err != nil {
		t.Fatal(err)
	}
	if ans, err := s.Admit(t.Context(), plain("C2", time.Now())); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Admit = %+v, %v", ans, err)
	}
	if err := s.Release(t.Context(), "C1"); err != nil {
		t.Error(err)
	}
	revoke(t, s)
	if _, err := srv.Do("CONFIG SET maxmemory 0"); err != nil {
		t.Fatal(err)
	}
	if n := left(t, s); n != 10 {
		t.Errorf("%d units are left", n)
	}
	gone := plain("C3", time.Now())
	gone.Tool.Name = "rm"
	if ans := admit(t, s, gone); !ans.Revoked {
		t.Errorf("a tool revoked meanwhile: %+v", ans)
	}
}
