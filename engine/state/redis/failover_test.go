package redis_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// replicated starts a primary and its replica, which has those settings beside the usual ones.
func replicated(t *testing.T, config ...string) (primary, replica *redistest.Server) {
	t.Helper()
	var port string
	for range 5 { // somebody else may take the port meanwhile
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		l.Close()
		if primary, err = redistest.Launch("port "+port, "bind 127.0.0.1", "repl-diskless-sync-delay 0"); err == nil {
			break
		}
	}
	if primary == nil {
		t.Fatal("there is no port for a primary")
	}
	t.Cleanup(primary.Remove)
	replica = redistest.Start(t, append(config, "replicaof 127.0.0.1 "+port)...)
	follows(t, primary, replica) // the first replica gives its primary another replication id
	return primary, replica
}

// follows waits until the replica has everything that the primary was told.
func follows(t *testing.T, primary, replica *redistest.Server) {
	t.Helper()
	mark := fmt.Sprint(time.Now().UnixNano())
	if _, err := primary.Do("SET mark " + mark); err != nil {
		t.Fatal(err)
	}
	c := raw(t, replica.Address)
	eventually(t, "the replica never follows", func() bool {
		got, err := c.Do(t.Context(), c.B().Get().Key("mark").Build()).ToString()
		return err == nil && got == mark
	})
}

// When a replica takes over, a new epoch begins: what people approved, and what was
// granted, is void, what the replica has of limits and labels counts, and what is revoked
// is, whether the replica had heard of it or not.
func TestReplicaTakesOver(t *testing.T) {
	for name, hears := range map[string]bool{"with everything": true, "without the last of it": false} {
		t.Run(name, func(t *testing.T) {
			primary, replica := replicated(t)
			p := newProxy(t, primary.Address)
			o := options(primary)
			o.Address = p.address
			s := open(t, o)
			st := stand(t, s)
			used := plain("L", time.Now())
			used.Labels, used.LabelsEnd = []string{"untrusted"}, time.Now().Add(time.Hour)
			admit(t, s, used)
			spent := st.grant
			spent.ID = "spent"
			if _, err := s.Spend(t.Context(), spent); err != nil {
				t.Fatal(err)
			}
			before := epochOf(t, s)
			follows(t, primary, replica)
			promote := func() {
				if _, err := replica.Do("REPLICAOF NO ONE"); err != nil {
					t.Fatal(err)
				}
			}
			if !hears {
				promote()
			}
			revoke(t, s)
			if hears {
				follows(t, primary, replica)
			}
			primary.Kill()
			if _, err := s.Admit(t.Context(), plain("M", time.Now())); err == nil {
				t.Error("admitted without a server")
			}
			p.lead(replica.Address)
			if hears {
				// It is still a replica: nothing is told and nothing is done.
				if ans, err := s.Admit(t.Context(), plain("N", time.Now())); err == nil {
					t.Errorf("a replica admits: %+v", ans)
				}
				promote()
			}
			st.void(t, s)
			if after := epochOf(t, s); after <= before {
				t.Errorf("epoch %d, then %d", before, after)
			}
			spent.Now = time.Now()
			if _, err := s.Spend(t.Context(), spent); !errors.Is(err, state.ErrSpent) && !errors.Is(err, state.ErrRevoked) {
				t.Errorf("a grant that was spent: %v", err)
			}
			got, err := s.Session(t.Context(), "s", time.Now())
			if err != nil || !slices.Equal(got.Labels, []string{"untrusted"}) {
				t.Errorf("the session: %+v, %v", got, err)
			}
			if n := units(t, s, got.Version); n != 9 {
				t.Errorf("%d units are left, of 10", n)
			}
		})
	}
}

// The primary that was left comes back, and never failed: it knows nothing of what came
// after it.
func TestOldPrimaryComesBack(t *testing.T) {
	primary, replica := replicated(t)
	p := newProxy(t, primary.Address)
	o := options(primary)
	o.Address = p.address
	s := open(t, o)
	st := stand(t, s)
	follows(t, primary, replica)
	if _, err := replica.Do("REPLICAOF NO ONE"); err != nil {
		t.Fatal(err)
	}
	p.lead(replica.Address)
	var second int64
	eventually(t, "the replica is never ready", func() bool {
		e, err := s.Epoch(t.Context())
		second = e
		return err == nil
	})
	later := stand2(t, s, second)
	revoke(t, s)
	p.lead(primary.Address)
	st.void(t, s)
	if third := epochOf(t, s); third <= second {
		t.Errorf("epoch %d follows %d", third, second)
	}
	later.Now = time.Now()
	if _, err := s.Spend(t.Context(), later); !errors.Is(err, state.ErrRevoked) {
		t.Errorf("a grant of an epoch that this server never had: %v", err)
	}
}

func stand2(t *testing.T, s state.Store, epoch int64) state.Spend {
	t.Helper()
	g := state.Spend{ID: "second", Now: time.Now(), Expires: time.Now().Add(time.Minute), Epoch: epoch, Principals: []string{"p"}, Tool: "ls"}
	if _, err := s.Spend(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return g
}

// The server restored from a copy has an epoch that grants of later ones do not belong to.
func TestGrantOfALaterEpoch(t *testing.T) {
	s := open(t, options(server))
	g := state.Spend{ID: "G", Now: time.Now(), Expires: time.Now().Add(time.Minute), Epoch: epochOf(t, s) + 1, Principals: []string{"p"}, Tool: "ls"}
	if _, err := s.Spend(t.Context(), g); !errors.Is(err, state.ErrRevoked) {
		t.Errorf("Spend = %v", err)
	}
	q := question("Q", "x", time.Now())
	asked, err := q.Ask(epochOf(t, s) + 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), call.Change{Asked: asked}); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Approval(t.Context(), asked.ID, time.Now()); err != nil || a.Standing != state.Expired {
		t.Errorf("a question of a later epoch: %s, %v", a.Standing, err)
	}
}

// A replica that takes over with other settings than the primary's admits nothing, not
// even the first call.
func TestReplicaIsNotFit(t *testing.T) {
	primary, replica := replicated(t, "appendfsync everysec")
	p := newProxy(t, primary.Address)
	o := options(primary)
	o.Address = p.address
	s := open(t, o)
	admit(t, s, plain("A", time.Now()))
	follows(t, primary, replica)
	primary.Kill()
	if _, err := replica.Do("REPLICAOF NO ONE"); err != nil {
		t.Fatal(err)
	}
	p.lead(replica.Address)
	for i := range 3 {
		if ans, err := s.Admit(t.Context(), plain(fmt.Sprint("B", i), time.Now())); err == nil || !strings.Contains(err.Error(), "appendfsync") {
			t.Errorf("Admit = %+v, %v", ans, err)
		}
	}
	if _, err := replica.Do("CONFIG SET appendfsync always"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is never taken", func() bool {
		errR := s.Renew(t.Context()) // as it does every few seconds
		_, errA := s.Admit(t.Context(), plain("C", time.Now()))
		return errors.Join(errR, errA) == nil
	})
}
