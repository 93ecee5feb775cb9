package redis_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// plain is a call that takes one unit of ten, of which none comes back for hours.
func plain(id string, now time.Time) state.Admission {
	return state.Admission{
		Call: id, Now: now, Principal: "p-alice", Session: "s", Tool: call.RecordTool{Name: "ls"},
		Charges: []state.Charge{{Name: "l", Key: "l/1", Burst: 10, Cost: 1, Per: 1000 * time.Hour}},
	}
}

// left is how many units of ten there are.
func left(t testing.TB, s state.Store) int64 {
	t.Helper()
	return units(t, s, 0)
}

// units is left when the session has that version.
func units(t testing.TB, s state.Store, version int64) int64 {
	t.Helper()
	a := plain("peek", time.Now())
	a.Peek, a.Version = true, version
	var last error
	for range 100 { // the server may have been away until now
		ans, err := s.Admit(t.Context(), a)
		if err == nil && ans.Limited != nil {
			return 0
		}
		if err == nil {
			return ans.Limits[0].Remaining + 1
		}
		last = err
	}
	t.Fatal(last)
	return 0
}

func admit(t testing.TB, s state.Store, a state.Admission) state.Answer {
	t.Helper()
	ans, err := s.Admit(t.Context(), a)
	if err != nil {
		t.Fatalf("Admit(%s) = %v", a.Call, err)
	}
	return ans
}

// eventually waits until what another process, or the background, does is done.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for range 3000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(what)
}

// A connection that is cut before the server heard of a call, or after it did what was
// asked, changes nothing: the call is admitted once, and the grant is spent once.
func TestConnectionCut(t *testing.T) {
	for name, mode := range map[string]int{"before the commit": cutAsking, "after the commit": cutAnswers} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, server.Address)
			o := options(server)
			o.Address = p.address
			s := open(t, o)
			admit(t, s, plain("warm", time.Now()))
			p.set(mode, true)
			a := plain("C1", time.Now())
			ans := admit(t, s, a)
			if p.cuts() == 0 {
				t.Fatal("nothing was cut")
			}
			if again := admit(t, s, a); !ans.Admitted || again.Change.TATs["l/1"] != ans.Change.TATs["l/1"] {
				t.Errorf("admitted by %+v, then %+v", ans, again)
			}
			if n := left(t, s); n != 8 {
				t.Errorf("%d units are left, want 8", n)
			}
			g := state.Spend{ID: "G", Now: time.Now(), Expires: time.Now().Add(time.Minute), Principals: []string{"p"}, Tool: "ls"}
			if g.Epoch, _ = s.Epoch(t.Context()); g.Epoch == 0 {
				t.Fatal("no epoch")
			}
			p.set(mode, true)
			if c, err := s.Spend(t.Context(), g); err != nil || len(c.Spent) != 1 {
				t.Errorf("Spend = %+v, %v", c, err)
			}
			if _, err := s.Spend(t.Context(), g); !errors.Is(err, state.ErrSpent) {
				t.Errorf("Spend again = %v", err)
			}
		})
	}
}

// When nobody can tell whether a call was admitted, it is refused, and what it may have
// taken comes back.
func TestDoubtIsGivenBack(t *testing.T) {
	for name, mode := range map[string]int{"no answer": cutAnswers, "a slow answer": hold} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, server.Address)
			o := options(server)
			o.Address, o.Timeout = p.address, time.Second
			s := open(t, o)
			o.Address, o.Node, o.Timeout = server.Address, "two", 0
			beside := open(t, o)
			admit(t, s, plain("warm", time.Now()))
			admitted := mode == hold // for what the server may not have been told, the rest holds as well
			for i := range 20 {
				id := "C" + strconv.Itoa(i)
				p.set(mode, false)
				if ans, err := s.Admit(t.Context(), plain(id, time.Now())); err == nil || ans.Admitted {
					t.Errorf("Admit = %+v, %v", ans, err)
				}
				// While connections are cut the server is not told either, and when one was
				// cut before the request, not of that.
				admitted = admitted || left(t, beside) == 8
				p.set(pass, false)
				eventually(t, "it never came back", func() bool { return left(t, beside) == 9 })
				if ans, err := s.Admit(t.Context(), plain(id, time.Now())); err == nil || ans.Admitted {
					t.Errorf("a request that comes late: %+v, %v", ans, err)
				}
				if admitted {
					return
				}
			}
			t.Error("the server admitted none of them")
		})
	}
}

// A caller who goes away does not wait for the server.
func TestCallerGoesAway(t *testing.T) {
	p := newProxy(t, server.Address)
	o := options(server)
	o.Address = p.address
	s := open(t, o)
	p.set(hold, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Session(ctx, "s", time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("Session = %v", err)
	}
	p.set(pass, false)
}

// The server's clock decides; who has another one is refused.
func TestClocksDiffer(t *testing.T) {
	s := open(t, options(server))
	for _, off := range []time.Duration{-time.Hour, -time.Minute, time.Minute, 1000 * time.Hour} {
		now := time.Now().Add(off)
		_, errA := s.Admit(t.Context(), plain("C", now))
		_, errS := s.Session(t.Context(), "s", now)
		_, errP := s.Approval(t.Context(), "ap-1", now)
		_, errG := s.Spend(t.Context(), state.Spend{ID: "G", Now: now, Expires: now.Add(time.Minute), Principals: []string{"p"}})
		for _, err := range []error{errA, errS, errP, errG} {
			if err == nil || errors.Is(err, state.ErrNoApproval) {
				t.Errorf("%v off: %v", off, err)
			}
		}
	}
	if n := left(t, s); n != 10 {
		t.Errorf("%d units are left", n)
	}
}

// What is remembered ends by itself, but for what is revoked and the epoch.
func TestEverythingExpires(t *testing.T) {
	o := options(server)
	s, now := open(t, o), time.Now()
	const month = 31 * 24 * time.Hour
	a := plain("C1", now)
	a.Labels, a.LabelsEnd = []string{"x"}, now.Add(time.Hour)
	a.Charges = append(a.Charges, state.Charge{Name: "w", Key: "w/1", Burst: 5, Cost: 2, Per: month, End: now.Add(month)})
	admit(t, s, a)
	if _, err := s.Refund(t.Context(), "C1", call.Uses{"w/1": {Units: 1}}); err != nil {
		t.Fatal(err)
	}
	approved(t, s, "C2", "x", now)
	asked(t, s, "C3", "y", now)
	q := question("C4", "x", now)
	q.Charges, q.Session = plain("", now).Charges, "other"
	admit(t, s, q)
	s.Settle("C4", 7)
	if err := s.Release(t.Context(), "C5"); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), call.Change{Session: &call.SessionChange{ID: "so-1", Owner: "p"}}); err != nil {
		t.Fatal(err)
	}
	epoch, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Spend(t.Context(), state.Spend{ID: "G", Now: now, Expires: now.Add(time.Minute), Epoch: epoch, Principals: []string{"p"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []call.Revocation{{Tool: "rm"}, {Epoch: 1}} {
		if _, err := s.Revoke(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, prefix := raw(t, server.Address), "{"+o.Prefix+"}:"
	eventually(t, "C4 is never settled", func() bool {
		n, err := c.Do(t.Context(), c.B().Get().Key(prefix+"mark:one").Build()).AsInt64()
		return err == nil && n == 7
	})
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice()
	if err != nil || len(keys) < 20 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		ms, err := c.Do(t.Context(), c.B().Pttl().Key(k).Build()).AsInt64()
		if forever := k == prefix+"meta" || k == prefix+"rev"; err != nil || (ms == -1) != forever || ms > (91*24*time.Hour).Milliseconds() {
			t.Errorf("%s is kept for %d ms, %v", k, ms, err)
		}
		// There is one for each call, so it must not wait for the end of a month.
		for kind, most := range map[string]time.Duration{"refund:": time.Hour, "cnt:": 25 * time.Hour, "call:": 24 * time.Hour, "void:": time.Hour, "s:other": time.Hour} {
			if strings.HasPrefix(k, prefix+kind) && ms > most.Milliseconds() {
				t.Errorf("%s is kept for %d ms", k, ms)
			}
		}
	}
}
