package statetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// everything mixes all operations in many goroutines and then checks what was
// admitted against what was recorded.
func everything(t *testing.T, s store) {
	const burst, calls, questions = 50, 40, 4
	var mu sync.Mutex
	var (
		admitted int
		consumed = map[string]int{}
		asked    = map[string]call.Approval{}
		yes, no  = map[string]int{}, map[string]int{}
		voided   bool
	)
	carry := func(c call.Change) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range c.Consumed {
			consumed[id]++
		}
		if c.Asked != nil {
			if q, ok := asked[c.Asked.ID]; ok && !cmp.Equal(q, *c.Asked) {
				t.Errorf("%s is asked in two ways", c.Asked.ID)
			}
			asked[c.Asked.ID] = *c.Asked
		}
		if c.Voted != nil && c.Voted.Deny {
			no[c.Voted.Approval]++
		} else if c.Voted != nil {
			yes[c.Voted.Approval]++
		}
	}
	one := func(r *rand.Rand, id string) error {
		ctx := t.Context()
		switch n := r.IntN(100); {
		case n < 60:
			got, err := s.Session(ctx, "s", Start)
			if err != nil {
				return err
			}
			a := asking(id, fmt.Sprint(r.IntN(questions)))
			a.Version, a.Charges = got.Version, []state.Charge{bucket("a", burst), bucket("b", 10*burst)}
			if r.IntN(3) == 0 {
				a.Asks = nil
			}
			if r.IntN(10) == 0 {
				a.Labels, a.LabelsEnd = []string{fmt.Sprint(r.IntN(5))}, Start.Add(time.Hour)
			}
			ans, err := s.Admit(ctx, a)
			if errors.Is(err, state.ErrSessionChanged) {
				return nil
			}
			if err != nil {
				return err
			}
			carry(ans.Change)
			if ans.Change.Asked != nil {
				s.apply(t, ans.Change)
			}
			if ans.Admitted {
				mu.Lock()
				admitted++
				mu.Unlock()
				if (len(a.Asks) > 0) != (len(ans.Change.Consumed) == 1) || len(ans.Change.TATs) != 2 {
					return fmt.Errorf("admitted by %+v", ans.Change)
				}
			} else if ans.Approval == nil && ans.Limited == nil {
				return fmt.Errorf("a refusal without a reason: %+v", ans)
			}
			s.Settle(id, 0)
		case n < 97:
			as, err := s.Approvals(ctx, Start)
			if err != nil || len(as) == 0 {
				return err
			}
			v := call.Vote{Approval: as[r.IntN(len(as))].ID, By: person(fmt.Sprint("lead", r.IntN(3)), "lead"), Deny: r.IntN(20) == 0}
			c, err := s.Vote(ctx, v, Start)
			if errors.Is(err, state.ErrNoApproval) {
				return nil // over by now
			}
			if err != nil {
				return err
			}
			carry(c)
			s.apply(t, c)
		default:
			mu.Lock()
			voided = true
			mu.Unlock()
			c, err := s.Revoke(ctx, call.Revocation{Epoch: 1})
			if err != nil || c.Revoked == nil {
				return fmt.Errorf("revoked by %+v: %w", c, err)
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range calls {
				if err := one(r, fmt.Sprint("C", g, "X", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if admitted != burst {
		t.Errorf("admitted %d, want exactly the burst of %d", admitted, burst)
	}
	for id, n := range consumed {
		if n != 1 || yes[id] == 0 || asked[id].ID == "" {
			t.Errorf("%s: consumed %d times, %d yes, %d no, asked %v", id, n, yes[id], no[id], asked[id].ID != "")
		}
	}
	standing := map[string]bool{}
	as, err := s.Approvals(t.Context(), Start)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range as {
		if consumed[a.ID] > 0 || no[a.ID] > 0 || standing[a.Binding] {
			t.Errorf("%s stands beside another, or is over", a.ID)
		}
		standing[a.Binding] = true
	}
	if !voided || len(asked) == 0 {
		t.Error("the mix left something out")
	}
}

// seen is what an answer says that may not depend on peeks; ids are a store's own.
func seen(ans state.Answer, err error) any {
	standing := state.Standing("")
	if ans.Approval != nil && !(ans.Admitted && ans.Approval.Standing == state.Approved) {
		standing = ans.Approval.Standing
	}
	return []any{ans.Admitted, ans.Revoked, ans.Limited, standing, err != nil, errors.Is(err, state.ErrSessionChanged)}
}

// However often somebody looks between the operations, two stores give the same
// answers; and each call ends as a peek just before it said.
func peekChangesNothing(t *testing.T, alone, watched store) {
	verdicts := map[string]int{}
	alone.revoke(t, call.Revocation{Principal: "p-gone"})
	watched.revoke(t, call.Revocation{Principal: "p-gone"})
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		now := Start.Add(time.Duration(seed) * 24 * time.Hour)
		var ids [2][]string
		admission := func(id string) state.Admission {
			a := asking(id, fmt.Sprint(seed, r.IntN(3)))
			if r.IntN(2) == 0 {
				a.Asks = nil
			}
			a.Now, a.Session, a.LabelsEnd = now, fmt.Sprint("s", seed, r.IntN(2)), now.Add(time.Hour)
			if r.IntN(4) == 0 {
				a.Labels = []string{fmt.Sprint(r.IntN(3))}
			}
			for i := range r.IntN(3) {
				a.Charges = append(a.Charges, bucket(fmt.Sprint("k", i), 2))
			}
			a.Version = watched.session(t, a.Session, now).Version - int64(r.IntN(8)/7)
			if r.IntN(20) == 0 {
				a.Principal = "p-gone"
			}
			return a
		}
		for i := range 150 {
			now = now.Add(time.Duration(r.IntN(4)) * time.Second)
			for n := range r.IntN(4) {
				p := admission(fmt.Sprint("P", seed, "X", i, "X", n))
				p.Peek = true
				if ans, _ := watched.Admit(t.Context(), p); !ans.Change.IsZero() {
					t.Fatalf("a peek changes %+v", ans.Change)
				}
			}
			switch n := r.IntN(20); {
			case n < 12:
				a := admission(fmt.Sprint("C", seed, "X", i))
				p := a
				p.Peek = true
				told, toldErr := watched.Admit(t.Context(), p)
				got, err := watched.Admit(t.Context(), a)
				want, wantErr := alone.Admit(t.Context(), a)
				if diff := cmp.Diff(seen(got, err), seen(told, toldErr)); diff != "" {
					t.Fatalf("a peek said otherwise: %s", diff)
				}
				ignore := cmp.Options{cmpopts.IgnoreFields(call.Approval{}, "ID"), cmpopts.IgnoreFields(call.Change{}, "Consumed"), cmpopts.IgnoreFields(call.Vote{}, "Approval")}
				if diff := cmp.Diff(want, got, ignore); diff != "" || (err == nil) != (wantErr == nil) || len(want.Change.Consumed) != len(got.Change.Consumed) {
					t.Fatalf("peeks changed an answer: %v, %v %s", wantErr, err, diff)
				}
				verdicts[fmt.Sprint(got.Admitted, got.Revoked, got.Limited != nil, got.Approval != nil, len(got.Change.Consumed))]++
				if got.Change.Asked != nil && r.IntN(4) > 0 {
					alone.apply(t, want.Change)
					watched.apply(t, got.Change)
					ids[0], ids[1] = append(ids[0], want.Approval.ID), append(ids[1], got.Approval.ID)
				}
				alone.Settle(a.Call, 0)
				watched.Settle(a.Call, 0)
			case n < 19 && len(ids[0]) > 0:
				at, by, deny := r.IntN(len(ids[0])), person("lena", "lead"), r.IntN(5) == 0
				for j, s := range []store{alone, watched} {
					c, err := s.Vote(t.Context(), call.Vote{Approval: ids[j][at], By: by, Deny: deny}, now)
					if err == nil {
						s.apply(t, c)
					} else if !errors.Is(err, state.ErrNoApproval) {
						t.Fatal(err)
					}
				}
			case n == 19 && r.IntN(4) == 0:
				alone.revoke(t, call.Revocation{Epoch: 1})
				watched.revoke(t, call.Revocation{Epoch: 1})
			}
			for j := range 2 {
				id := fmt.Sprint("s", seed, j)
				if diff := cmp.Diff(alone.session(t, id, now), watched.session(t, id, now)); diff != "" {
					t.Fatalf("peeks changed a session: %s", diff)
				}
			}
			list, err := alone.Approvals(t.Context(), now)
			other, otherErr := watched.Approvals(t.Context(), now)
			if err != nil || otherErr != nil || len(list) != len(other) {
				t.Fatalf("%d approvals, with peeks %d: %v, %v", len(list), len(other), err, otherErr)
			}
		}
	}
	if len(verdicts) < 6 {
		t.Errorf("the mix left something out: %v", verdicts)
	}
}
