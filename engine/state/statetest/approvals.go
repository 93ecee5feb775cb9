package statetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Any number of identical calls ask once, and one record carries the question.
func askedOnce(t *testing.T, s store) {
	var mu sync.Mutex
	ids, carried := map[string]int{}, 0
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			a := asking(fmt.Sprint("C", g), "x")
			a.Charges = []state.Charge{bucket("k", 1)}
			a.Labels, a.LabelsEnd = []string{"x"}, Start.Add(time.Hour)
			ans, err := s.Admit(t.Context(), a)
			if err != nil || ans.Admitted || ans.Approval == nil {
				t.Errorf("Admit = %+v, %v", ans, err)
				return
			}
			c := ans.Change
			if len(c.TATs) > 0 || c.Session != nil || len(c.Consumed) > 0 {
				t.Errorf("a pending call took something: %+v", c)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[ans.Approval.ID]++
			if c.Asked != nil {
				carried++
				want := &call.Approval{
					ID: ans.Approval.ID, Binding: "2026-03-01 x", About: "2026-03-01 x", Principal: "p-alice", Asked: Start, Expires: Start.Add(time.Hour),
					Rules: []call.ApprovalRule{lead}, Requester: a.Requester, Tool: a.Tool,
				}
				want.Rules[0].Reason = ""
				if diff := cmp.Diff(want, c.Asked); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	wg.Wait()
	// None of their records is durable yet, so each carries the one question.
	if len(ids) != 1 || carried != racers {
		t.Errorf("%d approvals in %d records, want one in all: %v", len(ids), carried, ids)
	}
	if !s.admit(t, plain("D", bucket("k", 1))).Admitted {
		t.Error("a pending call was charged")
	}
}

// An approval is for one call: what is bound, who asks, and for whom.
func binding(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	s.vote(t, id, person("lena", "lead"), false)
	for name, change := range map[string]func(*state.Admission){
		"another binding":   func(a *state.Admission) { a.Bind = bindTo("y") },
		"another requester": func(a *state.Admission) { a.Requester.ID = "bob" },
		"another tenant":    func(a *state.Admission) { a.Requester.Tenant = "other" },
		// Lena may not approve what is done in her name.
		"in somebody's name": func(a *state.Admission) { a.Requester.OnBehalfOf = []call.RecordPrincipal{person("lena")} },
	} {
		a := asking("S"+strings.ReplaceAll(name, " ", ""), "x")
		change(&a)
		if other := s.asked(t, a); other == id {
			t.Errorf("%s shares the approval", name)
		}
	}
	if !s.admit(t, asking("C3", "x")).Admitted {
		t.Error("the approved call is not admitted")
	}
}

// It is bound under the key of the day on which it was asked.
func acrossMidnight(t *testing.T, s store) {
	ask := func(id string, now time.Time) state.Admission {
		return at(asking(id, "x", call.ApprovalRule{Name: "lead", Count: 1, From: lead.From, TTL: 3 * 86400}), now)
	}
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	id := s.asked(t, ask("C1", midnight.Add(-1)))
	for i, now := range []time.Time{midnight, midnight.Add(time.Hour), midnight.Add(50 * time.Hour)} {
		if got := s.asked(t, ask(fmt.Sprint("D", i), now)); got != id {
			t.Errorf("asked again at %s", now)
		}
	}
	zone := time.FixedZone("elsewhere", -9*3600)
	if got := s.asked(t, ask("E", midnight.Add(time.Minute).In(zone))); got != id {
		t.Error("asked again in another time zone")
	}
	s.vote(t, id, person("lena", "lead"), false)
	if !s.admit(t, ask("F", midnight.Add(time.Minute))).Admitted {
		t.Error("yesterday's approval does not count")
	}
}

func cannotTell(t *testing.T, s store) {
	a := asking("C1", "x")
	a.Bind = func(time.Time) (state.Binding, error) { return state.Binding{}, errors.New("no key") }
	for _, name := range []string{"first", "with another open"} {
		ans, err := s.Admit(t.Context(), a)
		if err == nil || ans.Admitted || ans.Approval != nil || !ans.Change.IsZero() {
			t.Errorf("%s: %+v, %v; want an error", name, ans, err)
		}
		s.asked(t, asking("D1", "y"))
	}
}

func whoMayVote(t *testing.T, s store) {
	a := asking("C1", "x", call.ApprovalRule{Name: "r", Count: 1, From: call.From{Roles: []string{"lead"}, IDs: []string{"boss"}}})
	a.Requester = person("alice", "lead")
	a.Requester.OnBehalfOf = []call.RecordPrincipal{person("olga", "lead")}
	id := s.asked(t, a)

	elsewhere := person("lena", "lead")
	elsewhere.Tenant = "other"
	service := person("alice", "lead")
	service.Kind = "service"
	inName := person("lena", "lead")
	inName.OnBehalfOf = []call.RecordPrincipal{person("alice")}
	for _, tt := range []struct {
		name string
		by   call.RecordPrincipal
		id   string
		want error
	}{
		{"the requester", person("alice", "lead"), id, state.ErrMayNotVote},
		{"the requester as another kind", service, id, state.ErrMayNotVote},
		{"whom they act for", person("olga", "lead"), id, state.ErrMayNotVote},
		{"of another tenant", elsewhere, id, state.ErrMayNotVote},
		{"without a role", person("eve"), id, state.ErrMayNotVote},
		{"with another role", person("eve", "leader"), id, state.ErrMayNotVote},
		{"with the role as an id", person("lead"), id, state.ErrMayNotVote},
		{"with the id as a role", person("eve", "boss"), id, state.ErrMayNotVote},
		{"in somebody's name", inName, id, state.ErrMayNotVote},
		{"an unknown approval", person("lena", "lead"), "ap-NONE", state.ErrNoApproval},
		{"no approval", person("lena", "lead"), "", state.ErrNoApproval},
	} {
		for _, deny := range []bool{false, true} {
			c, err := s.Vote(t.Context(), call.Vote{Approval: tt.id, By: tt.by, Deny: deny}, Start)
			if !errors.Is(err, tt.want) || !c.IsZero() {
				t.Errorf("%s, deny %v: %+v, %v; want %v", tt.name, deny, c, err, tt.want)
			}
		}
	}
	if st := s.standing(t, id, Start); st != state.Open {
		t.Errorf("votes that do not count: %s", st)
	}
	s.vote(t, id, person("boss"), false)
	if st := s.standing(t, id, Start); st != state.Approved {
		t.Errorf("one who is named: %s", st)
	}
}

// A question from the log that asks nobody is answered by nobody.
func askedOfNobody(t *testing.T, s store) {
	s.apply(t, call.Change{Asked: &call.Approval{ID: "ap-A", Binding: "2026-03-01 x", About: "2026-03-01 x", Asked: Start, Expires: Start.Add(time.Hour), Requester: person("alice")}})
	if st := s.standing(t, "ap-A", Start); st != state.Open {
		t.Errorf("standing: %s", st)
	}
	s.asked(t, asking("C1", "x"))
}

// A yes permits, so it waits for its record. A no does not.
func actsWhenDurable(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	lena := person("lena", "lead")
	yes, err := s.Vote(t.Context(), call.Vote{Approval: id, By: lena}, Start)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(call.Change{Voted: &call.Vote{Approval: id, By: lena}}, yes); diff != "" {
		t.Error(diff)
	}
	if st := s.standing(t, id, Start); st != state.Open {
		t.Errorf("a vote that is not durable: %s", st)
	}
	if s.admit(t, asking("C2", "x")).Admitted {
		t.Error("admitted by a vote that is not durable")
	}
	s.apply(t, yes)
	if st := s.standing(t, id, Start); st != state.Approved {
		t.Errorf("a durable vote: %s", st)
	}
	if c, err := s.Vote(t.Context(), call.Vote{Approval: id, By: lena}, Start); err != nil || !c.IsZero() {
		t.Errorf("the same vote again: %+v, %v; want nothing to record", c, err)
	}
	if _, err := s.Vote(t.Context(), call.Vote{Approval: id, By: person("lars", "lead"), Deny: true}, Start); err != nil {
		t.Fatal(err)
	}
	if st := s.standing(t, id, Start); st != state.Denied {
		t.Errorf("a no that is not durable: %s", st)
	}
	s.apply(t, yes) // as a slow log would
	if st := s.standing(t, id, Start); st != state.Denied {
		t.Errorf("a yes after a no: %s", st)
	}
}

// A no stands until the approval expires, however often the call is made and
// whatever else it is asked by then.
func denied(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	lena := person("lena", "lead")
	s.vote(t, id, lena, false)
	s.vote(t, id, lena, true) // second thoughts
	if _, err := s.Vote(t.Context(), call.Vote{Approval: id, By: person("lars", "lead")}, Start); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("a yes after a no: %v, want %v", err, state.ErrNoApproval)
	}
	last := Start.Add(time.Hour - 1)
	for i, a := range []state.Admission{asking("C2", "x"), at(asking("C3", "x"), last), asking("C4", "x", call.ApprovalRule{Name: "milder", Count: 1, From: lead.From})} {
		ans := s.admit(t, a)
		if ans.Admitted || ans.Approval == nil || ans.Approval.ID != id || ans.Approval.Standing != state.Denied || !ans.Change.IsZero() {
			t.Errorf("call %d after the no: %+v", i, ans)
		}
	}
	if again := s.asked(t, at(asking("C5", "x"), last.Add(1))); again == id {
		t.Error("a no stands for ever")
	}
}

func expires(t *testing.T, s store) {
	rule := func(ttl int64) call.ApprovalRule {
		return call.ApprovalRule{Name: fmt.Sprint("r", ttl), Count: 1, From: lead.From, TTL: ttl}
	}
	for i, tt := range []struct {
		rules []call.ApprovalRule
		want  time.Duration
	}{
		{[]call.ApprovalRule{rule(0)}, time.Hour},
		{[]call.ApprovalRule{rule(60)}, time.Minute},
		{[]call.ApprovalRule{rule(7200)}, 2 * time.Hour},
		{[]call.ApprovalRule{rule(7200), rule(60), rule(0)}, time.Minute},
		{[]call.ApprovalRule{rule(7200), rule(0)}, time.Hour},
		{[]call.ApprovalRule{rule(-60)}, time.Hour},
		{[]call.ApprovalRule{rule(1<<63 - 1)}, 366 * 24 * time.Hour},
	} {
		what := fmt.Sprint("x", i)
		ans := s.admit(t, asking(fmt.Sprint("C", i), what, tt.rules...))
		if got := ans.Approval.Expires.Sub(Start); got != tt.want {
			t.Errorf("%v expires after %v, want %v", tt.rules, got, tt.want)
		}
		s.apply(t, ans.Change)
		for n := range tt.rules { // one for each of them
			s.vote(t, ans.Approval.ID, person(fmt.Sprint("lead", n), "lead"), false)
		}
		if st := s.standing(t, ans.Approval.ID, Start.Add(tt.want-1)); st != state.Approved {
			t.Errorf("just before: %s", st)
		}
		if st := s.standing(t, ans.Approval.ID, Start.Add(tt.want)); st != state.Expired {
			t.Errorf("just then: %s", st)
		}
		if _, err := s.Vote(t.Context(), call.Vote{Approval: ans.Approval.ID, By: person("lars", "lead"), Deny: true}, Start.Add(tt.want)); !errors.Is(err, state.ErrNoApproval) {
			t.Errorf("a vote just then: %v, want %v", err, state.ErrNoApproval)
		}
		if again := s.asked(t, at(asking(fmt.Sprint("D", i), what, tt.rules...), Start.Add(tt.want))); again == ans.Approval.ID {
			t.Error("it outlived its time")
		}
	}
}

// What policy asks for can depend on the session, the time or the arguments of
// others. A yes to less is none.
func stricterRules(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	s.vote(t, id, person("lena", "lead"), false)
	changed := func(change func(*call.ApprovalRule)) []call.ApprovalRule {
		r := lead
		change(&r)
		return []call.ApprovalRule{r}
	}
	for name, rules := range map[string][]call.ApprovalRule{
		"one more":      {lead, {Name: "sec", Count: 1, From: call.From{Roles: []string{"security"}}}},
		"two people":    changed(func(r *call.ApprovalRule) { r.Count = 2 }),
		"other people":  changed(func(r *call.ApprovalRule) { r.From = call.From{Roles: []string{"security"}} }),
		"named people":  changed(func(r *call.ApprovalRule) { r.From = call.From{Roles: []string{"lead"}, IDs: []string{"boss"}} }),
		"less time":     changed(func(r *call.ApprovalRule) { r.TTL = 1 }),
		"another name":  changed(func(r *call.ApprovalRule) { r.Name = "other" }),
		"another layer": changed(func(r *call.ApprovalRule) { r.Layer = "other" }),
		"nobody at all": changed(func(r *call.ApprovalRule) { r.From = call.From{} }),
	} {
		if other := s.asked(t, asking("S"+strings.ReplaceAll(name, " ", ""), "x", rules...)); other == id {
			t.Errorf("%s: the old approval counts", name)
		}
	}
	milder := changed(func(r *call.ApprovalRule) { r.Reason = "in other words" })
	if !s.admit(t, asking("C3", "x", milder...)).Admitted {
		t.Error("another reason is another rule")
	}
}

// One of any number of racers consumes the approval. The others ask anew, once.
func consumedOnce(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	s.vote(t, id, person("lena", "lead"), false)
	var mu sync.Mutex
	admitted, again := 0, map[string]bool{}
	var wg sync.WaitGroup
	for g := range racers {
		wg.Go(func() {
			ans, err := s.Admit(t.Context(), asking(fmt.Sprint("D", g), "x"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case ans.Admitted:
				admitted++
				if !cmp.Equal(ans.Change.Consumed, []string{id}) || ans.Approval != nil {
					t.Errorf("admitted by %+v", ans)
				}
			default:
				again[ans.Approval.ID] = true
			}
		})
	}
	wg.Wait()
	if admitted != 1 {
		t.Errorf("%d racers were admitted, want exactly one", admitted)
	}
	if len(again) != 1 || again[id] {
		t.Errorf("the others wait for %v, want one new approval", again)
	}
	if st := s.standing(t, id, Start); st != state.Consumed {
		t.Errorf("afterwards: %s", st)
	}
	if _, err := s.Vote(t.Context(), call.Vote{Approval: id, By: person("lars", "lead")}, Start); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("a vote on a consumed one: %v, want %v", err, state.ErrNoApproval)
	}
}

// A call that a limit refuses keeps its approval.
func limitRefuses(t *testing.T, s store) {
	id := s.asked(t, asking("C1", "x"))
	s.vote(t, id, person("lena", "lead"), false)
	s.admit(t, plain("C2", bucket("k", 1)))
	a := asking("C3", "x")
	a.Charges = []state.Charge{bucket("k", 1)}
	if ans := s.admit(t, a); ans.Admitted || ans.Limited == nil || !ans.Change.IsZero() {
		t.Fatalf("over the limit: %+v", ans)
	}
	if st := s.standing(t, id, Start); st != state.Approved {
		t.Errorf("the approval of a call that did not run: %s", st)
	}
	a.Call, a.Version = "C4", 7
	if _, err := s.Admit(t.Context(), a); !errors.Is(err, state.ErrSessionChanged) {
		t.Errorf("Admit = %v", err)
	}
	a = at(a, Start.Add(time.Minute))
	a.Call, a.Version = "C5", 0
	if ans := s.admit(t, a); !ans.Admitted || !cmp.Equal(ans.Change.Consumed, []string{id}) {
		t.Errorf("within the limit: %+v", ans)
	}
}

func listed(t *testing.T, s store) {
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = s.asked(t, at(asking(fmt.Sprint("C", 9-i), fmt.Sprint(i)), Start.Add(time.Duration(i)*time.Second)))
	}
	s.vote(t, ids[1], person("zoe", "lead"), false)
	s.vote(t, ids[2], person("lena", "lead"), true)
	s.vote(t, ids[3], person("lena", "lead"), false)
	s.admit(t, at(asking("D", "3"), Start.Add(time.Minute)))
	list := func(now time.Time) (got []string) {
		as, err := s.Approvals(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range as {
			got = append(got, a.ID)
		}
		return got
	}
	if diff := cmp.Diff([]string{ids[0], ids[1], ids[4]}, list(Start.Add(time.Minute))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(ids[4:], list(Start.Add(time.Hour+2*time.Second))); diff != "" {
		t.Errorf("later: %s", diff)
	}
	if _, err := s.Approval(t.Context(), "ap-NONE", Start); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("an unknown one: %v", err)
	}
	if _, err := s.Approval(t.Context(), ids[0], Start.Add(100*time.Hour)); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("one that ended days ago: %v, want %v", err, state.ErrNoApproval)
	}
	got, err := s.Approval(t.Context(), ids[1], Start)
	want := []call.Vote{{Approval: ids[1], By: person("zoe", "lead")}}
	if diff := cmp.Diff(want, got.Votes); err != nil || diff != "" {
		t.Errorf("votes: %v %s", err, diff)
	}
}
