package statetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Nobody counts for two places, of one rule or of two.
func howMany(t *testing.T, s store) {
	two := call.ApprovalRule{Name: "two", Count: 2, From: call.From{Roles: []string{"lead"}}}
	sec := call.ApprovalRule{Name: "sec", Count: 1, From: call.From{Roles: []string{"security"}}}
	again := call.ApprovalRule{Name: "again", Count: 1, From: lead.From}
	named := call.ApprovalRule{Name: "named", Count: 1, From: call.From{IDs: []string{"lena", "sam"}}}
	lena, lars, luis, sam := person("lena", "lead"), person("lars", "lead"), person("luis", "lead"), person("sam", "security")
	both := person("lena", "lead", "security") // the same person, with one more role
	tests := []struct {
		name  string
		rules []call.ApprovalRule
		votes []call.RecordPrincipal
		want  state.Standing
	}{
		{"none", []call.ApprovalRule{two}, nil, state.Open},
		{"one of two", []call.ApprovalRule{two}, []call.RecordPrincipal{lena}, state.Open},
		{"one twice", []call.ApprovalRule{two}, []call.RecordPrincipal{lena, lena}, state.Open},
		{"one with another role", []call.ApprovalRule{two}, []call.RecordPrincipal{lena, both}, state.Open},
		{"two", []call.ApprovalRule{two}, []call.RecordPrincipal{lena, lars}, state.Approved},
		{"each rule needs its own", []call.ApprovalRule{two, sec}, []call.RecordPrincipal{lena, lars}, state.Open},
		{"the other rule alone", []call.ApprovalRule{two, sec}, []call.RecordPrincipal{sam}, state.Open},
		{"all rules", []call.ApprovalRule{two, sec}, []call.RecordPrincipal{lena, sam, lars}, state.Approved},
		{"one person for two rules", []call.ApprovalRule{two, sec}, []call.RecordPrincipal{both, lars}, state.Open},
		{"a role that came later", []call.ApprovalRule{two, sec}, []call.RecordPrincipal{lena, lars, both}, state.Open},
		{"one person for either rule", []call.ApprovalRule{two, sec}, []call.RecordPrincipal{both, lars, luis}, state.Approved},
		{"whoever came first makes room", []call.ApprovalRule{lead, sec}, []call.RecordPrincipal{both, lars}, state.Approved},
		{"... in a chain", []call.ApprovalRule{named, lead, sec}, []call.RecordPrincipal{both, lars, sam}, state.Approved},
		{"two rules for the same people", []call.ApprovalRule{lead, again}, []call.RecordPrincipal{lena}, state.Open},
		{"two of them", []call.ApprovalRule{lead, again}, []call.RecordPrincipal{lena, lars}, state.Approved},
		{"one in another spelling", []call.ApprovalRule{two}, []call.RecordPrincipal{lena, person("LENA", "lead")}, state.Open},
		{"one in wide letters", []call.ApprovalRule{two}, []call.RecordPrincipal{lena, person("ｌｅｎａ", "lead")}, state.Open},
		{"one with what nobody sees", []call.ApprovalRule{two}, []call.RecordPrincipal{lena, person("lena\ufe0f", "lead")}, state.Open},
		{"a count of nothing is one", []call.ApprovalRule{{Name: "n", From: lead.From}}, nil, state.Open},
		{"from nobody", []call.ApprovalRule{lead, {Name: "nobody", Count: 1}}, []call.RecordPrincipal{lena, lars}, state.Open},
	}
	for i, tt := range tests {
		id := s.asked(t, asking(fmt.Sprint("C", i), tt.name, tt.rules...))
		for _, by := range tt.votes {
			s.vote(t, id, by, false)
		}
		if got := s.standing(t, id, Start); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if got := s.admit(t, asking(fmt.Sprint("D", i), tt.name, tt.rules...)).Admitted; got != (tt.want == state.Approved) {
			t.Errorf("%s: admitted %v", tt.name, got)
		}
	}
}

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
	s.apply(t, second.Change)
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
	s.apply(t, c)
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
	for _, by := range []call.RecordPrincipal{
		person("lena", "lead"), person("LENA", "lead"), person("ｌena", "lead"), person("le\u034fna", "lead"), person("uid:7"), person("UID:7", "lead"),
	} {
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
