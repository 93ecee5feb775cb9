package statetest

import (
	"testing"
	"time"
)

// A record knows the wall clock alone, so the store counts by nothing else.
func wallClock(t *testing.T, s store) {
	got := s.admit(t, at(asking("C1", "x"), time.Now())).Change.Asked
	if got.Asked != got.Asked.Round(0) || got.Expires != got.Expires.Round(0) || got.Asked.Location() != time.UTC {
		t.Errorf("asked %v until %v", got.Asked, got.Expires)
	}
}

// A consumed approval does not hide the ones asked after the clock stepped back.
func clockStepsBack(t *testing.T, s store) {
	lena := person("lena", "lead")
	s.vote(t, s.asked(t, asking("C1", "x")), lena, false)
	if !s.admit(t, asking("C2", "x")).Admitted {
		t.Fatal("the approved call is not admitted")
	}
	back := Start.Add(-10 * time.Minute)
	id := s.asked(t, at(asking("C3", "x"), back))
	if again := s.asked(t, at(asking("C4", "x"), back)); again != id {
		t.Error("asked twice")
	}
	s.vote(t, id, lena, false)
	if !s.admit(t, at(asking("C5", "x"), back)).Admitted {
		t.Error("the approved call is not admitted")
	}
}
