package statetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// under is the call about what under that policy, with that tool and those caps, as
// an engine binds it: about knows none of them.
func under(id, what, policy, tool string, caps call.Caps) state.Admission {
	a := asking(id, what)
	a.Policy, a.Tool.Digest, a.Caps = []call.Revision{{Name: "p", Digest: policy}}, tool, caps
	a.Bind = func(day time.Time) (state.Binding, error) {
		about := day.UTC().Format(time.DateOnly) + " " + what
		return state.Binding{Exact: fmt.Sprint(about, policy, tool, caps.Secrets), About: about}, nil
	}
	return a
}

// What was approved under another policy or with another tool is void as soon as the
// call is made, and the caller is told that it was.
func stale(t *testing.T, s store) {
	lena := person("lena", "lead")
	for name, tt := range map[string]struct {
		policy, tool string
		caps         call.Caps
		vote         string // "" for yes
		want         bool   // stale
	}{
		"another policy":    {policy: "p2", tool: "t1", want: true},
		"another tool":      {policy: "p1", tool: "t2", want: true},
		"both":              {policy: "p2", tool: "t2", want: true},
		"other caps":        {policy: "p1", tool: "t1", caps: call.Caps{Secrets: []string{"x"}}},
		"caps and policy":   {policy: "p2", tool: "t1", caps: call.Caps{Secrets: []string{"x"}}, want: true},
		"never answered":    {policy: "p2", tool: "t1", vote: "none"},
		"denied, and then":  {policy: "p2", tool: "t1", vote: "deny"},
		"other caps denied": {policy: "p1", tool: "t1", caps: call.Caps{Secrets: []string{"x"}}, vote: "deny"},
	} {
		call1 := strings.NewReplacer(" ", "", ",", "").Replace(name)
		id := s.asked(t, under(call1+"1", name, "p1", "t1", call.Caps{}))
		before := state.Approved
		switch tt.vote {
		case "":
			s.vote(t, id, lena, false)
		case "deny":
			before = state.Denied
			s.vote(t, id, lena, true)
		case "none":
			before = state.Open
		}
		now := under(call1+"2", name, tt.policy, tt.tool, tt.caps)
		if peek := s.peek(t, now); peek.Stale != tt.want || peek.Admitted {
			t.Errorf("%s: a peek says %+v", name, peek)
		}
		if st := s.standing(t, id, Start); st != before {
			t.Errorf("%s: after a peek it is %s", name, st)
		}
		ans := s.admit(t, now)
		if ans.Admitted || ans.Stale != tt.want || ans.Approval == nil || ans.Approval.ID == id || ans.Change.Asked == nil {
			t.Errorf("%s: %+v", name, ans)
			continue
		}
		if want := map[bool][]string{true: {id}}[tt.want]; !slices.Equal(ans.Change.Voided, want) {
			t.Errorf("%s: voided %v, want %v", name, ans.Change.Voided, want)
		}
		s.apply(t, ans.Change)
		want := before
		if tt.want {
			want = state.Expired
		}
		if st := s.standing(t, id, Start); st != want {
			t.Errorf("%s: afterwards it is %s, want %s", name, st, want)
		}
		// The way back leads to people again, but where nothing was void.
		back := s.admit(t, under(call1+"3", name, "p1", "t1", call.Caps{}))
		if back.Admitted != (want == state.Approved) || want == state.Denied && back.Approval.Standing != state.Denied {
			t.Errorf("%s: and back again: %+v", name, back)
		}
	}
}

// A question about the call as it would run now does not keep an old yes alive,
// however it is answered.
func staleBesideAnother(t *testing.T, s store) {
	lena := person("lena", "lead")
	for i, answer := range []string{"open", "yes", "no"} {
		what := fmt.Sprint("x", i)
		admission := func(id, policy string) state.Admission {
			return under(fmt.Sprint(id, i), what, policy, "t1", call.Caps{})
		}
		old := s.asked(t, admission("A", "p1"))
		now := s.asked(t, admission("B", "p2"))
		s.vote(t, old, lena, false) // after policy has changed
		if answer != "open" {
			s.vote(t, now, lena, answer == "no")
		}
		ans := s.admit(t, admission("C", "p2"))
		if !slices.Equal(ans.Change.Voided, []string{old}) || ans.Admitted != (answer == "yes") || ans.Stale == (answer == "yes") {
			t.Errorf("%s: %+v", answer, ans)
		}
		if answer == "yes" && !slices.Equal(ans.Change.Consumed, []string{now}) {
			t.Errorf("consumed %v, want %s", ans.Change.Consumed, now)
		}
		if answer != "yes" && ans.Approval.ID != now {
			t.Errorf("%s: told of %s, want %s", answer, ans.Approval.ID, now)
		}
		s.apply(t, ans.Change)
		if back := s.admit(t, admission("D", "p1")); back.Admitted {
			t.Errorf("%s: the void approval counts again", answer)
		}
	}
}

// One principal has so many questions open at most. What is over makes room, and one
// question counts once.
func tooManyPending(t *testing.T, s store) {
	const most = 32
	ids := make([]string, most)
	ask := func(n int) state.Admission { return asking(fmt.Sprint("C", n), fmt.Sprint(n)) }
	for i := range ids {
		ids[i] = s.asked(t, ask(i))
	}
	again := ask(0)
	for i := range 3 {
		again.Call = fmt.Sprint("AGAIN", i)
		if id := s.asked(t, again); id != ids[0] {
			t.Errorf("the same call is asked about again: %s", id)
		}
	}
	refused := func(when string, a state.Admission) {
		t.Helper()
		a.Charges = []state.Charge{bucket("k", 1)}
		for _, peek := range []bool{true, false} {
			a.Peek = peek
			if ans, err := s.Admit(t.Context(), a); !errors.Is(err, state.ErrTooManyPending) || !cmp.Equal(ans, state.Answer{}) {
				t.Fatalf("%s, peek %v: %+v, %v; want %v", when, peek, ans, err, state.ErrTooManyPending)
			}
		}
	}
	refused("one too many", ask(most))
	bob := asking("BOB", "bobs")
	bob.Principal, bob.Requester = "p-bob", person("bob")
	s.asked(t, bob)

	lena, next := person("lena", "lead"), most
	for name, over := range map[string]func(id string){
		"denied":   func(id string) { s.vote(t, id, lena, true) },
		"approved": func(id string) { s.vote(t, id, lena, false) },
	} {
		over(ids[1])
		ids = ids[1:]
		s.asked(t, ask(next))
		next++
		refused("after one was "+name, ask(next))
	}
	later := Start.Add(time.Hour) // all have expired
	for i := range most {
		s.asked(t, at(asking(fmt.Sprint("L", i), fmt.Sprint("late", i)), later))
	}
	refused("an hour later", at(asking("LL", "later"), later))
	if !s.admit(t, at(plain("PLAIN", bucket("k", 1)), later)).Admitted {
		t.Error("a call that nobody must approve is refused, or the refused ones were charged")
	}
	if _, err := s.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	s.asked(t, at(asking("NEW", "new"), later))
}

// However many race, no more than so many are open.
func racersPending(t *testing.T, s store) {
	const most = 32
	var mu sync.Mutex
	pending, refused := 0, 0
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			ans, err := s.Admit(t.Context(), asking(fmt.Sprint("C", g), fmt.Sprint(g)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, state.ErrTooManyPending):
				refused++
			case err != nil || ans.Admitted || ans.Approval == nil:
				t.Errorf("Admit = %+v, %v", ans, err)
			default:
				pending++
			}
		})
	}
	wg.Wait()
	if pending != most || refused != racers-most {
		t.Errorf("%d pending and %d refused, want %d pending", pending, refused, most)
	}
}

// RaceForApproval lets 64 callers race so many times for what was approved once:
// each time one of them runs.
func RaceForApproval(t *testing.T, open func(t *testing.T) state.Store, times int) {
	s := store{open(t)}
	for n := range times {
		a := asking(fmt.Sprint("A", n), fmt.Sprint(n))
		a.Principal = fmt.Sprint("p-", n) // the others ask anew, and nobody may ask too much
		id := s.asked(t, a)
		s.vote(t, id, person("lena", "lead"), false)
		var mu sync.Mutex
		var admitted []state.Answer
		var wg sync.WaitGroup
		for g := range racers {
			wg.Go(func() {
				b := a
				b.Call, b.Session = fmt.Sprint("R", n, "X", g), fmt.Sprint("s", n)
				ans, err := s.Admit(t.Context(), b)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if ans.Admitted {
					admitted = append(admitted, ans)
				} else if ans.Approval == nil || ans.Approval.ID == id {
					t.Errorf("race %d: not admitted, and waits for %+v", n, ans.Approval)
				}
			})
		}
		wg.Wait()
		if len(admitted) != 1 || !slices.Equal(admitted[0].Change.Consumed, []string{id}) {
			t.Fatalf("race %d: %d were admitted, want one, by %s: %+v", n, len(admitted), id, admitted)
		}
	}
}
