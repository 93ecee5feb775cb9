package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// However many sessions were ended, labels are remembered; and the other way round.
func TestEndedSessionsCrowdNothingOut(t *testing.T) {
	r, now := newRemembered(), time.Unix(1<<30, 0)
	soon := now.Add(time.Hour).UnixNano()
	for i := range recalled + 1 {
		r.add(call.SessionChange{ID: fmt.Sprint("so-", i), Owner: "p", Until: soon, Ended: true}, now)
	}
	for i := range recalled + 1 {
		r.add(call.SessionChange{ID: fmt.Sprint("s-", i), Labels: call.Times{"x": soon}}, now)
	}
	if len(r.open) != recalled || len(r.ended) != recalled || len(r.changes()) != 2*recalled {
		t.Errorf("%d with labels and %d ended are remembered", len(r.open), len(r.ended))
	}
	later := now.Add(2 * time.Hour)
	r.add(call.SessionChange{ID: "s", Labels: call.Times{"x": later.UnixNano() + 1}}, later)
	if len(r.open) != 1 || len(r.ended) != 0 {
		t.Errorf("afterwards %d with labels and %d ended are remembered", len(r.open), len(r.ended))
	}
}

// What is remembered of plans is bounded, and of one that does not fit it is known that
// it was the later one.
func TestRememberedPlansAreBounded(t *testing.T) {
	r, now := newRemembered(), time.Unix(1<<30, 0)
	tools := make([]string, 400)
	for i := range tools {
		tools[i] = fmt.Sprintf("t%063d", i)
	}
	large := call.Plan{{ID: "a", Tools: tools}}
	change := func(i int, version int64, now time.Time) call.SessionChange {
		return call.SessionChange{
			ID: fmt.Sprint("s", i), Version: version, Labels: call.Times{"x": now.Add(time.Hour).UnixNano()},
			Plan: large, PlanVersion: version, PlanUntil: now.Add(time.Hour).UnixNano(),
		}
	}
	n := 2 * recalledPlans / bytesOf(large)
	for version := range int64(2) {
		for i := range n {
			r.add(change(i, version+1, now), now)
		}
		whole, bytes := 0, 0
		for id, c := range r.open {
			if bytes += bytesOf(c.Plan); len(c.Plan) > 0 {
				whole++
			}
			if c.PlanVersion != version+1 || c.PlanUntil == 0 || len(c.Labels) != 1 {
				t.Errorf("%s: %+v", id, c)
			}
		}
		if len(r.open) != n || whole < n/3 || bytes != r.plans || bytes > recalledPlans {
			t.Errorf("%d of %d plans in %d sessions, %d bytes, counted as %d", whole, n, len(r.open), bytes, r.plans)
		}
	}
	later := now.Add(2 * time.Hour)
	for i := range n / 4 {
		if r.add(change(n+i, 1, later), later); len(r.open[fmt.Sprint("s", n+i)].Plan) == 0 {
			t.Fatal("what is over takes room")
		}
	}
}

// Who had no time to put everything back goes on where it stopped, in that epoch: else it
// would never come to an end.
func TestPutBackGoesOn(t *testing.T) {
	srv := redistest.Start(t)
	s, err := Open(t.Context(), Options{Address: srv.Address, Prefix: "p", Node: "n", Waive: Waivers})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 2*recallBatch + 1
	for i := range n {
		s.recall(call.SessionChange{ID: fmt.Sprint("so-", i), Owner: "o", Until: time.Now().Add(time.Hour).UnixNano(), Ended: true}, time.Now())
	}
	s.left, s.leftIn = s.made.changes()[n-recallBatch-1:], 7
	for _, tt := range []struct{ epoch, there int64 }{{7, recallBatch + 1}, {8, n}, {8, n}} {
		if err := s.putBack(t.Context(), tt.epoch); err != nil {
			t.Fatal(err)
		}
		there := int64(0)
		for i := range n {
			has, err := s.client.Do(t.Context(), s.client.B().Exists().Key("{p}:s:so-"+fmt.Sprint(i)).Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			there += has
		}
		if there != tt.there || s.left != nil {
			t.Errorf("in epoch %d: %d of %d are there, %d are left", tt.epoch, there, tt.there, len(s.left))
		}
	}
}
