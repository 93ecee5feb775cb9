package statetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"time"

	"github.com/google/go-cmp/cmp"

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
				s.Apply(ans.Change)
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
			s.Settle(id)
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
			s.Apply(c)
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
