package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/statetest"
)

func TestLocal(t *testing.T) {
	statetest.Run(t, func(*testing.T) state.Store { return state.NewLocal() })
}

// Each of the races passes a thousand times.
func TestLocalRaces(t *testing.T) {
	open := func(*testing.T) state.Store { return state.NewLocal() }
	t.Run("approval", func(t *testing.T) { statetest.RaceForApproval(t, open, 1000) })
	t.Run("grant", func(t *testing.T) { statetest.RaceForGrant(t, open, 1000) })
	t.Run("limit", func(t *testing.T) { statetest.RaceForLimit(t, open, 1000) })
}

// What was asked stays as it was asked, whatever becomes of the rules it was asked
// with, or of what somebody was told of it.
func TestQuestionIsACopy(t *testing.T) {
	s, now := state.NewLocal(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rules := func() []call.ApprovalRule {
		return []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}, IDs: []string{"lea"}}}}
	}
	spoil := func(rules []call.ApprovalRule) {
		rules[0].From.Roles[0], rules[0].From.IDs[0], rules[0].Count = "analyst", "alice", 0
	}
	asks := rules()
	ans, err := s.Admit(t.Context(), state.Admission{
		Call: "c", Now: now, Asks: asks, Bind: func(time.Time) (state.Binding, error) { return state.Binding{Exact: "b", About: "b"}, nil },
		Requester: call.RecordPrincipal{ID: "bob", OnBehalfOf: []call.RecordPrincipal{{ID: "eve", Roles: []string{"lead"}}}},
		Caps:      call.Caps{Secrets: []string{"api"}},
	})
	if err != nil || ans.Approval == nil {
		t.Fatalf("Admit = %+v, %v", ans, err)
	}
	spoil(asks)
	s.Fold(ans.Change)
	for range 2 { // the second time after what the first one told was changed
		q, err := s.Approval(t.Context(), ans.Approval.ID, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rules(), q.Rules); diff != "" {
			t.Fatalf("rules (-want +got):\n%s", diff)
		}
		if eve := &q.Requester.OnBehalfOf[0]; eve.ID != "eve" || eve.Roles[0] != "lead" || q.Caps.Secrets[0] != "api" {
			t.Fatalf("asked by %+v for %+v", q.Requester, q.Caps)
		}
		spoil(q.Rules)
		q.Requester.OnBehalfOf[0].Roles[0], q.Requester.OnBehalfOf[0].ID, q.Caps.Secrets[0] = "x", "x", "x"
	}
}
