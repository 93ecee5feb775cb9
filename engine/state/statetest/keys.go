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

// crowd uses n keys of the limit "crowd", in few calls.
func (s store) crowd(t *testing.T, n int, charge func(key string) state.Charge) {
	t.Helper()
	const each = 2048
	for i := 0; i < n; i += each {
		a := plain(fmt.Sprint("crowd", i))
		for k := i; k < min(n, i+each); k++ {
			a.Charges = append(a.Charges, charge(fmt.Sprint("crowd/", k)))
		}
		if !s.admit(t, a).Admitted {
			t.Fatalf("the first %d keys are refused", i+each)
		}
		s.Settle(a.Call, int64(i))
	}
}

func (s store) tooManyKeys(t *testing.T, a state.Admission) {
	t.Helper()
	if ans, err := s.Admit(t.Context(), a); !errors.Is(err, state.ErrTooManyKeys) || ans.Admitted || !ans.Change.IsZero() {
		t.Errorf("%s: Admit = %+v, %v, want %v", a.Call, ans, err, state.ErrTooManyKeys)
	}
}

// Keys of one limit, which callers may make up, are bounded; what is in use stays in
// use, and other limits are none the worse.
func keysAreCapped(t *testing.T, s store) {
	few := func(key string) state.Charge { return bucket(key, 2) }
	s.crowd(t, state.MaxKeys-1, few)
	s.tooManyKeys(t, plain("two new ones", bucket("x", 1), few("crowd/a"), few("crowd/b")))
	if !s.admit(t, plain("the last one", few("crowd/a"), bucket("x", 1))).Admitted {
		t.Error("a refused call took a key, or of a limit")
	}
	s.tooManyKeys(t, plain("one too many", few("crowd/b")))
	s.tooManyKeys(t, plain("counted", quota("crowd/c", 2, 1)))
	peek := plain("looked at", few("crowd/b"))
	peek.Peek = true
	s.tooManyKeys(t, peek)
	if !s.admit(t, plain("in use", few("crowd/7"))).Admitted {
		t.Error("a key that is in use is refused")
	}
	if s.admit(t, plain("used up", few("crowd/7"))).Admitted {
		t.Error("the key in use was forgotten")
	}
	if !s.admit(t, plain("another limit", few("crowded/b"), few("b"))).Admitted {
		t.Error("another limit has no keys left")
	}
	// When the buckets are full again, and an hour has passed, there is room.
	later := Start.Add(2 * time.Hour)
	if !s.admit(t, at(plain("later", few("crowd/b")), later)).Admitted {
		t.Error("keys that are not in use are never free")
	}
}

// Keys of windows become free when those are over.
func windowsFreeTheirKeys(t *testing.T, s store) {
	s.crowd(t, state.MaxKeys, func(key string) state.Charge { return quota(key, 2, 1) })
	s.tooManyKeys(t, at(plain("before the end", quota("crowd/b", 2, 1)), noon.Add(-1)))
	next := quota("crowd/b", 2, 1)
	next.End = noon.Add(3 * time.Hour)
	if !s.admit(t, at(plain("later", next), noon.Add(time.Hour+time.Minute))).Admitted {
		t.Error("keys of a window that is over are never free")
	}
}

// Racers with keys of their own get those that are left, and no more.
func racersForKeys(t *testing.T, s store) {
	const left = 10
	s.crowd(t, state.MaxKeys-left, func(key string) state.Charge { return bucket(key, 2) })
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			ans, err := s.Admit(t.Context(), plain(fmt.Sprint("C", g), bucket(fmt.Sprint("crowd/racer", g), 2)))
			switch {
			case ans.Admitted:
				admitted.Add(1)
			case !errors.Is(err, state.ErrTooManyKeys):
				t.Errorf("Admit = %+v, %v", ans, err)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != left {
		t.Errorf("%d keys were taken, of %d", n, left)
	}
}
