package statetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Until the question's record is durable nobody is told about it and nobody can
// answer it; a second identical call carries it too.
func hiddenUntilDurable(t *testing.T, s store) {
	first := s.admit(t, asking("C1", "x"))
	id := first.Approval.ID
	if _, err := s.Approval(t.Context(), id, Start); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("shown before it is durable: %v", err)
	}
	if list, err := s.Approvals(t.Context(), Start); err != nil || len(list) > 0 {
		t.Errorf("listed before it is durable: %+v, %v", list, err)
	}
	if _, err := s.Vote(t.Context(), call.Vote{Approval: id, By: person("lena", "lead")}, Start); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("answered before it is durable: %v", err)
	}
	second := s.admit(t, asking("C2", "x"))
	if second.Approval.ID != id || !cmp.Equal(second.Change.Asked, first.Change.Asked) {
		t.Errorf("a second identical call: %+v", second)
	}
	s.Apply(second.Change)
	s.vote(t, id, person("lena", "lead"), false)
	if third := s.admit(t, asking("C3", "x")); !third.Admitted {
		t.Errorf("the approved call: %+v", third)
	}
}

// A yes of somebody who was revoked since is none.
func revokedVoter(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	c, err := s.Vote(t.Context(), call.Vote{Approval: id, By: person("lena", "lead"), Principal: "p-lena"}, Start)
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(c)
	if st := s.standing(t, id, Start); st != state.Approved {
		t.Fatalf("standing: %s", st)
	}
	if _, err := s.Revoke(t.Context(), call.Revocation{Principal: "p-lena"}); err != nil {
		t.Fatal(err)
	}
	if ans := s.admit(t, asking("C2", "x")); ans.Admitted {
		t.Error("a revoked approver's yes still counts")
	}
}

// However somebody spells themselves, and whoever asserted the requester.
func oneself(t *testing.T, s store) {
	a := asking("C1", "x")
	a.Requester = person("Lena", "lead")
	a.Requester.Auth = call.Auth{Method: "asserted", Issuer: "uid:7"}
	a.Asks = []call.ApprovalRule{{Name: "two", Count: 2, From: call.From{Roles: []string{"lead"}, IDs: []string{"uid:7"}}}}
	id := s.asked(t, a)
	for _, by := range []call.RecordPrincipal{person("lena", "lead"), person("LENA", "lead"), person("uid:7")} {
		if _, err := s.Vote(t.Context(), call.Vote{Approval: id, By: by}, Start); !errors.Is(err, state.ErrMayNotVote) {
			t.Errorf("%s votes on her own call: %v", by.ID, err)
		}
	}
	s.vote(t, id, person("lars", "lead"), false)
	s.vote(t, id, person("LARS", "lead"), false)
	if st := s.standing(t, id, Start); st != state.Open {
		t.Errorf("one person in two spellings: %s", st)
	}
}
