package statetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/state"
)

// RaceForGrant lets 64 callers race so many times for a grant: each time one of them
// spends it.
func RaceForGrant(t *testing.T, open func(t *testing.T) state.Store, times int) {
	s := store{open(t)}
	epoch, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range times {
		g := grant(fmt.Sprint("G", n), epoch)
		spent := race(func(int) bool {
			_, err := s.Spend(t.Context(), g)
			if err != nil && !errors.Is(err, state.ErrSpent) {
				t.Error(err)
			}
			return err == nil
		})
		if spent != 1 {
			t.Fatalf("race %d: spent %d times", n, spent)
		}
	}
}

// RaceForLimit lets 64 callers race so many times for what is left of two limits, one
// of which counts: each time as many of them run as the smaller one lets.
func RaceForLimit(t *testing.T, open func(t *testing.T) state.Store, times int) {
	s := store{open(t)}
	for n := range times {
		burst := int64(1 + n%7)
		end := Start.Add(time.Hour)
		charges := []state.Charge{
			{Name: "refills", Key: fmt.Sprint("r/", n), Burst: burst + int64(n%2), Cost: 1, Per: time.Hour},
			{Name: "counts", Key: fmt.Sprint("c/", n), Burst: burst, Cost: 1, Per: time.Hour, End: end},
		}
		admitted := race(func(g int) bool {
			id := fmt.Sprint("L", n, "X", g)
			ans, err := s.Admit(t.Context(), plain(id, charges...))
			if err != nil || !ans.Admitted && ans.Limited == nil {
				t.Errorf("Admit = %+v, %v", ans, err)
			}
			s.Settle(id, 0)
			return ans.Admitted
		})
		if admitted != burst {
			t.Fatalf("race %d: admitted %d, want exactly %d", n, admitted, burst)
		}
	}
}

// race counts the racers that win.
func race(wins func(racer int) bool) int64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			if wins(g) {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}
