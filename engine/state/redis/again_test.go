package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
)

// through opens a store that reaches the server through a proxy, and has asked for
// everything before, so that the server knows all scripts.
func through(t *testing.T) (*redis.Store, *proxy, redis.Options) {
	t.Helper()
	p := newProxy(t, server.Address)
	o := options(server)
	o.Address = p.address
	s := open(t, o)
	now := time.Now()
	admit(t, s, plain("warm", now))
	approved(t, s, "warm2", "warm", now)
	if _, err := s.Refund(t.Context(), "warm", call.Uses{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), "nothing"); err != nil {
		t.Fatal(err)
	}
	revokes := call.Revocation{Principal: "p-nobody"}
	if _, err := s.Revoke(t.Context(), revokes); err != nil {
		t.Fatal(err)
	}
	return s, p, o
}

// An admission that voids an approval says so again when its answer was lost after the
// server had done it.
func TestStaleAnswerIsLost(t *testing.T) {
	for name, mode := range map[string]int{"before the commit": cutAsking, "after the commit": cutAnswers} {
		t.Run(name, func(t *testing.T) {
			s, p, _ := through(t)
			old := approved(t, s, "A", "x", time.Now())
			a := question("B", "x", time.Now())
			a.Policy = []call.Revision{{Name: "policy", Digest: "another"}}
			a.Bind = func(day time.Time) (state.Binding, error) {
				b := day.Format(time.DateOnly) + "x"
				return state.Binding{Exact: b + " under another policy", About: b}, nil
			}
			was := p.cuts()
			p.cut(mode, true, `"id":"B"`)
			ans := admit(t, s, a)
			if p.cuts() == was {
				t.Fatal("nothing was cut")
			}
			if !ans.Stale || ans.Admitted || ans.Approval == nil || ans.Approval.ID != "ap-B" || ans.Change.Asked == nil {
				t.Errorf("the answer to the second try: %+v", ans)
			}
			if diff := cmp.Diff([]string{old}, ans.Change.Voided); diff != "" {
				t.Error(diff)
			}
			again := admit(t, s, a)
			if diff := cmp.Diff(ans, again); diff != "" {
				t.Errorf("asked again (-first +second):\n%s", diff)
			}
			peek := a
			peek.Peek = true
			if ans := admit(t, s, peek); ans.Stale || len(ans.Change.Voided) > 0 {
				t.Errorf("a peek says what is over: %+v", ans)
			}
		})
	}
}

// A connection that is cut before or after the server did something changes nothing of
// what it answers and of what it did.
func TestEveryOperationIsCut(t *testing.T) {
	for name, mode := range map[string]int{"before the commit": cutAsking, "after the commit": cutAnswers} {
		t.Run(name, func(t *testing.T) {
			s, p, _ := through(t)
			cut := func(about string, do func()) {
				t.Helper()
				was := p.cuts()
				p.cut(mode, true, about)
				do()
				if p.cuts() == was {
					t.Errorf("%s: nothing was cut", about)
				}
				p.set(pass, false)
			}
			now := time.Now()
			a := plain("C1", now)
			a.Charges = []state.Charge{{Name: "w", Key: "w/1", Burst: 10, Cost: 4, Per: time.Hour, End: now.Add(time.Hour)}}
			cut(`"id":"C1"`, func() {
				if ans := admit(t, s, a); !ans.Admitted || ans.Change.Used["w/1"].Units != 4 {
					t.Errorf("Admit = %+v", ans)
				}
			})
			cut(`"units":[`, func() {
				c, err := s.Refund(t.Context(), "C1", call.Uses{"w/1": {Units: 3}})
				if err != nil || c.Used["w/1"].Units != -3 {
					t.Errorf("Refund = %+v, %v", c, err)
				}
			})
			admit(t, s, func() state.Admission { b := a; b.Call = "C2"; return b }())
			cut(`"id":"C2"`, func() {
				if err := s.Release(t.Context(), "C2"); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
			b := a
			b.Call, b.Peek = "peek", true
			if ans := admit(t, s, b); ans.Limits[0].Remaining != 5 { // of 10, one used, four more now
				t.Errorf("left: %+v", ans)
			}
			var id string
			cut(`"id":"C3"`, func() {
				ans := admit(t, s, question("C3", "x", now))
				if ans.Approval == nil || ans.Change.Asked == nil {
					t.Fatalf("Admit = %+v", ans)
				}
				id = ans.Approval.ID
			})
			asked := admit(t, s, question("C3", "x", now)).Change
			cut(`"question":`, func() {
				if err := s.Apply(t.Context(), asked); err != nil {
					t.Errorf("Apply = %v", err)
				}
			})
			cut(`"vote":`, func() {
				yes := call.Vote{Approval: id, By: call.RecordPrincipal{ID: "lena", Kind: "user", Roles: []string{"lead"}}, Principal: "p-lena", At: now}
				if err := s.Apply(t.Context(), call.Change{Voted: &yes}); err != nil {
					t.Errorf("Apply = %v", err)
				}
			})
			cut(`"id":"C4"`, func() {
				ans := admit(t, s, question("C4", "x", now))
				if !ans.Admitted || !slices.Equal(ans.Change.Consumed, []string{id}) {
					t.Errorf("the approved call: %+v", ans)
				}
			})
			if ans := admit(t, s, question("C5", "x", now)); ans.Admitted {
				t.Error("one approval let two calls run")
			}
			before := epochOf(t, s)
			cut(`"next":true`, func() {
				c, err := s.Revoke(t.Context(), call.Revocation{Epoch: 1})
				if err != nil || c.Revoked.Epoch <= before || c.Revoked.Epoch != epochOf(t, s) {
					t.Errorf("Revoke = %+v, %v, after epoch %d", c, err, before)
				}
			})
			cut(`"session":{`, func() {
				if err := s.Apply(t.Context(), call.Change{Session: &call.SessionChange{ID: "so", Owner: "p-alice"}}); err != nil {
					t.Errorf("Apply = %v", err)
				}
			})
			if got, err := s.Session(t.Context(), "so", now); err != nil || got.Owner != "p-alice" {
				t.Errorf("Session = %+v, %v", got, err)
			}
			s.Settle("C1", 7)
			eventually(t, "never settled", func() bool { m, err := s.Begin(t.Context()); return err == nil && m.Index == 7 })
		})
	}
}

// A request that was lost on the way, and comes when its call is recorded, takes nothing.
func TestRequestComesAfterItsRecord(t *testing.T) {
	s := open(t, options(server))
	a := plain("A", time.Now())
	admit(t, s, a)
	s.Settle("A", 3)
	eventually(t, "never settled", func() bool { m, err := s.Begin(t.Context()); return err == nil && m.Index == 3 })
	if ans, err := s.Admit(t.Context(), a); err == nil {
		t.Errorf("admitted again: %+v", ans)
	}
	if n := left(t, s); n != 9 {
		t.Errorf("%d units are left, of 10", n)
	}
	if m, err := s.Begin(t.Context()); err != nil || len(m.Open) > 0 {
		t.Errorf("open: %+v, %v", m, err)
	}
}

// So it does when a limit is used up by the time that it is asked again.
func TestStaleAnswerIsLostAndLimited(t *testing.T) {
	s := open(t, options(server))
	now := time.Now()
	old := approved(t, s, "A", "x", now)
	charges := []state.Charge{{Name: "l", Key: "l/1", Burst: 1, Cost: 1, Per: time.Hour}}
	a := question("B", "x", now)
	a.Charges, a.Policy = charges, []call.Revision{{Name: "policy", Digest: "another"}}
	a.Bind = func(day time.Time) (state.Binding, error) {
		b := day.Format(time.DateOnly) + "x"
		return state.Binding{Exact: b + " under another policy", About: b}, nil
	}
	if ans := admit(t, s, a); !ans.Stale {
		t.Fatalf("Admit = %+v", ans)
	}
	other := plain("C", now)
	other.Charges = charges
	admit(t, s, other)
	if ans := admit(t, s, a); ans.Limited == nil || !slices.Equal(ans.Change.Voided, []string{old}) {
		t.Errorf("asked again: %+v", ans)
	}
}
