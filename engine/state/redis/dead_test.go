package redis_test

import (
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
)

// What a node reserved of a counted limit before it died comes back with its next start if
// no record says that the call was admitted, once, and else stays until it is settled.
func TestReservationOfADeadNode(t *testing.T) {
	for name, recorded := range map[string]map[string]int64{"unrecorded": nil, "recorded": {"A": 0}} {
		t.Run(name, func(t *testing.T) {
			o := options(server)
			s := open(t, o)
			two := o
			two.Node = "two"
			beside := open(t, two)
			end := time.Now().Add(time.Hour)
			reserve := func(id string, units int64) state.Admission {
				a := plain(id, time.Now())
				a.Charges = []state.Charge{{Name: "w", Key: "w/1", Burst: 10, Cost: units, Per: time.Hour, End: end}}
				return a
			}
			admit(t, s, reserve("A", 7))
			s.Crash()
			if ans := admit(t, beside, reserve("B", 4)); ans.Admitted {
				t.Error("what the dead node reserved is given away")
			}
			c := raw(t, server.Address)
			if err := c.Do(t.Context(), c.B().Del().Key("{"+o.Prefix+"}:lease:one").Build()).Error(); err != nil { // as time does
				t.Fatal(err)
			}
			again, err := redis.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = again.Close() })
			for range 2 {
				begin(t, again, state.Recovery{Size: 1, Recorded: recorded})
			}
			left := map[bool]int64{true: 3, false: 10}[recorded != nil]
			if ans := admit(t, beside, reserve("C", left+1)); ans.Admitted || ans.Limited.Remaining != left {
				t.Errorf("after the next start: %+v", ans.Limited)
			}
			back, err := again.Refund(t.Context(), "A", call.Uses{"w/1": {Units: 5}})
			if err != nil || (len(back.Used) > 0) != (recorded != nil) {
				t.Errorf("Refund = %+v, %v", back, err)
			}
			if recorded != nil {
				left += 5
			}
			if ans := admit(t, beside, reserve("D", left)); !ans.Admitted {
				t.Errorf("what is left cannot be had: %+v", ans)
			}
		})
	}
}
