package statetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// grant is one that another process issued in that epoch, for a minute from Start.
func grant(id string, epoch int64) state.Spend {
	return state.Spend{ID: id, Now: Start, Expires: Start.Add(time.Minute), Epoch: epoch, Principals: []string{"p-alice", "p-olga"}, Tool: "echo"}
}

// A grant is used once, within its time, unless what it stands on is revoked.
func spends(t *testing.T, s store) {
	if e, err := s.Epoch(t.Context()); err != nil || e != 0 {
		t.Fatalf("Epoch = %d, %v", e, err)
	}
	want := call.Change{Spent: []call.Spent{{ID: "G1", Expires: Start.Add(time.Minute)}}}
	elsewhere := grant("G1", 0)
	elsewhere.Expires = elsewhere.Expires.In(time.FixedZone("elsewhere", 3600))
	if c, err := s.Spend(t.Context(), elsewhere); err != nil || !cmp.Equal(want, c) {
		t.Errorf("Spend = %+v, %v", c, err)
	}
	refused := func(name string, g state.Spend, want error) {
		t.Helper()
		c, err := s.Spend(t.Context(), g)
		if err == nil || want != nil && !errors.Is(err, want) || !c.IsZero() {
			t.Errorf("%s: %+v, %v; want %v", name, c, err, want)
		}
	}
	refused("a second time", grant("G1", 0), state.ErrSpent)
	last := grant("G1", 0)
	last.Now = last.Expires.Add(-1)
	refused("at the last moment", last, state.ErrSpent)
	last.Now = last.Expires
	refused("too late", last, nil)
	refused("nameless", grant("", 0), nil)
	none := grant("G2", 0)
	none.Principals = nil
	refused("of nobody", none, nil)
	last = grant("G2", 0)
	last.Now = last.Expires.Add(-1)
	if _, err := s.Spend(t.Context(), last); err != nil {
		t.Errorf("at the last moment: %v", err)
	}

	s.revoke(t, call.Revocation{Principal: "p-olga"})
	refused("in the name of somebody who is revoked", grant("G3", 0), state.ErrRevoked)
	g := grant("G3", 0)
	g.Principals = g.Principals[:1]
	s.revoke(t, call.Revocation{Tool: "rm"})
	g.Tool = "rm"
	refused("of a revoked tool", g, state.ErrRevoked)
	g.Tool = "p-olga"
	if _, err := s.Spend(t.Context(), g); err != nil {
		t.Errorf("refused grants are spent: %v", err)
	}
	s.revoke(t, call.Revocation{Epoch: 1})
	if e, err := s.Epoch(t.Context()); err != nil || e != 1 {
		t.Errorf("Epoch = %d, %v; want 1", e, err)
	}
	g.ID = "G4"
	refused("of an epoch that is over", g, state.ErrRevoked)
	g.Epoch = 2
	refused("of an epoch that the store does not know", g, state.ErrRevoked)
	g.Epoch = 1
	if _, err := s.Spend(t.Context(), g); err != nil {
		t.Errorf("of this epoch: %v", err)
	}
}

// Of any number of racers one spends the grant, and nobody after a revocation was
// answered.
func racersSpend(t *testing.T, s store) {
	for round := range 10 {
		var spent, late atomic.Int64
		var revoked atomic.Bool
		var wg sync.WaitGroup
		g := grant(fmt.Sprint("G", round), int64(round))
		for n := range racers {
			wg.Go(func() {
				if n == racers/2 {
					if _, err := s.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil {
						t.Error(err)
					}
					revoked.Store(true)
				}
				over := revoked.Load()
				switch _, err := s.Spend(t.Context(), g); {
				case err == nil && over:
					late.Add(1)
				case err == nil:
					spent.Add(1)
				case !errors.Is(err, state.ErrSpent) && !errors.Is(err, state.ErrRevoked):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if spent.Load()+late.Load() > 1 || late.Load() > 0 {
			t.Fatalf("round %d: spent %d times, and %d times after it was revoked", round, spent.Load(), late.Load())
		}
	}
}

// What a call took that never ran comes back once; its approval and its labels do not.
func releases(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	s.vote(t, id, person("lena", "lead"), false)
	a := asking("C2", "x")
	a.Charges = []state.Charge{bucket("k", 3), bucket("k", 3), bucket("other", 1)}
	a.Labels, a.LabelsEnd = []string{"x"}, Start.Add(time.Hour)
	if !s.admit(t, a).Admitted {
		t.Fatal("not admitted")
	}
	for range 3 {
		if err := s.Release(t.Context(), "C2"); err != nil {
			t.Fatal(err)
		}
	}
	b := plain("C3", bucket("k", 3), bucket("k", 3), bucket("k", 3), bucket("other", 1))
	b.Version = 1
	if !s.admit(t, b).Admitted {
		t.Error("it did not come back")
	}
	b = plain("C4", bucket("k", 3))
	b.Version = 1
	if s.admit(t, b).Admitted {
		t.Error("it came back more than once")
	}
	if st := s.standing(t, id, Start); st != state.Consumed {
		t.Errorf("the approval that it used: %s", st)
	}
	s.Settle("C3", 0)
	if err := s.Release(t.Context(), "never admitted"); err != nil {
		t.Errorf("a call that nobody knows: %v", err)
	}
	if got := s.session(t, "s", Start); got.Version != 1 || !cmp.Equal(got.Labels, []string{"x"}) {
		t.Errorf("the labels that it brought: %+v", got)
	}
}

// What a bucket has refilled of a call by itself does not come back a second time.
func releasesLate(t *testing.T, s store) {
	s.admit(t, plain("C1", bucket("k", 2), bucket("k", 2)))
	later := Start.Add(2 * time.Minute)
	for i := range 2 {
		if !s.admit(t, at(plain(fmt.Sprint("D", i), bucket("k", 2)), later)).Admitted {
			t.Fatal("the bucket is not full")
		}
	}
	if err := s.Release(t.Context(), "C1"); err != nil {
		t.Fatal(err)
	}
	if s.admit(t, at(plain("E", bucket("k", 2)), later)).Admitted {
		t.Error("more came back than was missing")
	}
	if err := s.Release(t.Context(), "D1"); err != nil {
		t.Fatal(err)
	}
	if !s.admit(t, at(plain("F", bucket("k", 2)), later)).Admitted {
		t.Error("what was missing did not come back")
	}
}

// Sixty-four racers give back what one call took, once.
func racersRelease(t *testing.T, s store) {
	s.admit(t, plain("C1", bucket("k", 100)))
	s.admit(t, plain("C2", state.Charge{Name: "k", Key: "k", Burst: 100, Cost: 99, Per: time.Minute}))
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			if err := s.Release(t.Context(), "C1"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !s.admit(t, plain("C3", bucket("k", 100))).Admitted || s.admit(t, plain("C4", bucket("k", 100))).Admitted {
		t.Error("not exactly one unit came back")
	}
}
