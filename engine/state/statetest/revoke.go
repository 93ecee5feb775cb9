package statetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

func (s store) revoke(t *testing.T, r call.Revocation) call.Revocation {
	t.Helper()
	c, err := s.Revoke(t.Context(), r)
	if err != nil || c.Revoked == nil {
		t.Fatalf("Revoke(%+v) = %+v, %v", r, c, err)
	}
	return *c.Revoked
}

func revocation(t *testing.T, s store) {
	refused := func(name string, a state.Admission) {
		t.Helper()
		a.Charges = []state.Charge{bucket("k", 1)}
		a.Labels, a.LabelsEnd = []string{"x"}, Start.Add(time.Hour)
		if ans := s.admit(t, a); !ans.Revoked || ans.Admitted || ans.Approval != nil || !ans.Change.IsZero() {
			t.Errorf("%s: %+v, want revoked", name, ans)
		}
	}
	id := s.asked(t, asking("C1", "x"))
	s.vote(t, id, person("lena", "lead"), false)
	r := call.Revocation{Principal: "p-alice"}
	if diff := cmp.Diff(r, s.revoke(t, r)); diff != "" {
		t.Error(diff)
	}
	refused("a revoked principal", plain("C2"))
	refused("an approved call of a revoked principal", asking("C3", "x"))
	bob := plain("C4")
	bob.Principal, bob.Session = "p-bob", "s-bob"
	for name, want := range map[string]bool{"p-alice": true, "p-bob": false, "": false, "echo": false} {
		if got, err := s.Revoked(t.Context(), name); err != nil || got != want {
			t.Errorf("Revoked(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
	inName := bob
	inName.Call, inName.ActsFor = "C5", []string{"p-carol", "p-alice"}
	refused("in the name of a revoked principal", inName)
	bob.Charges = []state.Charge{bucket("k", 1)}
	if !s.admit(t, bob).Admitted {
		t.Error("somebody else is refused, or has paid for the revoked")
	}
	s.revoke(t, call.Revocation{Tool: "echo"})
	bob.Call = "C6"
	refused("a revoked tool", bob)
	bob.Call, bob.Tool.Name, bob.Charges = "C7", "p-alice", nil
	if !s.admit(t, bob).Admitted {
		t.Error("a tool that is named like a revoked principal is refused")
	}
}

// An epoch voids what was asked and what was given, and each one does so anew.
func epoch(t *testing.T, s store) {
	for i := range 3 {
		open := s.asked(t, asking(fmt.Sprint("A", i), "open"))
		given := s.asked(t, asking(fmt.Sprint("B", i), "given"))
		s.vote(t, given, person("lena", "lead"), false)
		late, err := s.Vote(t.Context(), call.Vote{Approval: open, By: person("lena", "lead")}, Start)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.revoke(t, call.Revocation{Epoch: 1}); got.Epoch != int64(i)+1 {
			t.Errorf("epoch %d, want %d", got.Epoch, i+1)
		}
		s.apply(t, late)
		for _, id := range []string{open, given} {
			if st := s.standing(t, id, Start); st != state.Expired {
				t.Errorf("%s of an epoch that is over: %s", id, st)
			}
			if _, err := s.Vote(t.Context(), call.Vote{Approval: id, By: person("lars", "lead")}, Start); !errors.Is(err, state.ErrNoApproval) {
				t.Errorf("a vote on it: %v, want %v", err, state.ErrNoApproval)
			}
		}
		if again := s.asked(t, asking(fmt.Sprint("C", i), "given")); again == given {
			t.Error("a void approval is asked for again")
		}
	}
	id := s.asked(t, asking("D1", "given"))
	s.apply(t, call.Change{Revoked: &call.Revocation{Epoch: 2}}) // an old record
	s.vote(t, id, person("lena", "lead"), false)
	if !s.admit(t, asking("D2", "given")).Admitted {
		t.Error("the newest epoch is over")
	}
}

// Whoever waits is woken by whatever may have changed an approval.
func changed(t *testing.T, s store) {
	var id string
	var vote call.Change
	for _, tt := range []struct {
		name string
		do   func()
	}{
		{"asked", func() { id = s.asked(t, asking("C1", "x")) }},
		{"a yes", func() {
			var err error
			if vote, err = s.Vote(t.Context(), call.Vote{Approval: id, By: person("lena", "lead")}, Start); err != nil {
				t.Fatal(err)
			}
			s.apply(t, vote)
		}},
		{"consumed", func() { s.admit(t, asking("C2", "x")) }},
		{"asked again", func() { id = s.asked(t, asking("C3", "x")) }},
		{"a no", func() { s.vote(t, id, person("lena", "lead"), true) }},
		{"an epoch", func() { s.revoke(t, call.Revocation{Epoch: 1}) }},
	} {
		before := s.Changed()
		select {
		case <-before:
			t.Fatalf("before %s: changed already", tt.name)
		default:
		}
		tt.do()
		select {
		case <-before:
		case <-time.After(10 * time.Second): // a shared store may need a moment
			t.Errorf("%s: nobody is woken", tt.name)
		}
	}
}
