package state

import (
	"errors"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// A clock that was far ahead, and is right again, may have let go of what must be
// remembered. Until the process starts anew every answer that depends on time is an error,
// and none says that something was never used.
func TestClockJumps(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"an hour and more": time.Hour + time.Second, "ten years": 87600 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			l, ctx := NewLocal(), t.Context()
			grant := Spend{ID: "G", Now: start, Expires: start.Add(time.Minute), Principals: []string{"p"}, Tool: "ls"}
			if _, err := l.Spend(ctx, grant); err != nil {
				t.Fatal(err)
			}
			a := Admission{Call: "C", Now: start, Charges: []Charge{{Key: "k", Burst: 1, Cost: 1, Per: time.Minute}}}
			if ans, err := l.Admit(ctx, a); err != nil || !ans.Admitted {
				t.Fatalf("%+v, %v", ans, err)
			}
			l.Forget(start.Add(ahead + time.Hour))
			grant.Now = start
			_, spend := l.Spend(ctx, grant)
			a.Call = "C2"
			ans, admit := l.Admit(ctx, a)
			_, session := l.Session(ctx, "s", start)
			_, approval := l.Approval(ctx, "ap-1", start)
			_, approvals := l.Approvals(ctx, start)
			_, vote := l.Vote(ctx, call.Vote{Approval: "ap-1"}, start)
			for op, err := range map[string]error{"Spend": spend, "Admit": admit, "Session": session, "Approval": approval, "Approvals": approvals, "Vote": vote} {
				if err == nil || errors.Is(err, ErrNoApproval) || errors.Is(err, ErrSpent) || ans.Admitted {
					t.Errorf("%s = %v", op, err)
				}
			}
		})
	}
	// Within the hour that they promise nothing is forgotten.
	l := NewLocal()
	grant := Spend{ID: "G", Now: start, Expires: start.Add(time.Second), Principals: []string{"p"}, Tool: "ls"}
	if _, err := l.Spend(t.Context(), grant); err != nil {
		t.Fatal(err)
	}
	l.Forget(start.Add(time.Hour))
	if _, err := l.Spend(t.Context(), grant); !errors.Is(err, ErrSpent) {
		t.Errorf("an hour back: %v", err)
	}
}
