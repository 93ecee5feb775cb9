package statetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

func registering(id string, after ...string) state.Replan {
	return state.Replan{
		Now: Start, Principal: "p-alice", Session: "s", Ends: Start.Add(time.Hour),
		Op: call.PlanOp{By: []call.Task{{ID: id, After: after}}},
	}
}

func advancing(id string, to call.TaskStatus) state.Replan {
	r := registering("")
	r.Op = call.PlanOp{Task: id, To: to}
	return r
}

func (s store) replan(t *testing.T, r state.Replan) *call.SessionChange {
	t.Helper()
	c, err := s.Replan(t.Context(), r)
	if err != nil {
		t.Fatalf("Replan(%+v) = %v", r.Op, err)
	}
	return c.Session
}

// shown is a plan in short.
func shown(p call.Plan) string {
	var out []string
	for _, t := range p {
		out = append(out, strings.Join(append([]string{t.ID, string(t.Status)}, t.After...), ":"))
	}
	return strings.Join(out, " ")
}

// Each change gives the whole plan, for the record, and moves the version: whoever
// decided on the plan before is decided again.
func plansOf(t *testing.T, s store) {
	for i, step := range []struct {
		r    state.Replan
		want string
	}{
		{registering("a"), "a:planned"},
		{registering("b", "a"), "a:planned b:planned:a"},
		{advancing("a", call.TaskActive), "a:active b:planned:a"},
		{advancing("a", call.TaskDone), "a:done b:planned:a"},
		{advancing("b", call.TaskActive), "a:done b:active:a"},
	} {
		was := s.session(t, "s", Start)
		c := s.replan(t, step.r)
		want := &call.SessionChange{ID: "s", Version: int64(i + 1), PlanVersion: int64(i + 1), PlanUntil: step.r.Ends.UnixNano(), Plan: c.Plan}
		if diff := cmp.Diff(want, c); diff != "" || shown(c.Plan) != step.want {
			t.Errorf("the change is %s, want %s\n%s", shown(c.Plan), step.want, diff)
		}
		if got := s.session(t, "s", Start); shown(got.Plan) != step.want || got.Version != c.Version {
			t.Errorf("Session = %+v, want %s", got, step.want)
		}
		stale := plain(fmt.Sprint("C", i))
		stale.Version = was.Version
		if _, err := s.Admit(t.Context(), stale); !errors.Is(err, state.ErrSessionChanged) {
			t.Errorf("decided on the older plan: %v", err)
		}
	}
	if got := s.session(t, "other", Start); got.Plan != nil || got.Version != 0 {
		t.Errorf("another session has it too: %+v", got)
	}
	a := labelled("C", 5, "x")
	if c := s.admit(t, a).Change.Session; c.Version != 6 || c.Plan != nil || c.PlanVersion != 0 || c.PlanUntil != 0 {
		t.Errorf("a label says something of the plan: %+v", c)
	}
	if c := s.replan(t, registering("c")); c.Version != 7 || c.Labels != nil {
		t.Errorf("the plan and the labels have one version: %+v", c)
	}
	if got := s.session(t, "s", Start); !cmp.Equal(got.Labels, []string{"x"}) || len(got.Plan) != 3 {
		t.Errorf("labels and plan are one another's: %+v", got)
	}
}

// What is refused changes nothing, and says why.
func plansRefuse(t *testing.T, s store) {
	s.replan(t, registering("a"))
	s.replan(t, registering("b", "a"))
	s.apply(t, call.Change{Session: &call.SessionChange{ID: "bobs", Owner: "p-bob"}})
	foreign := registering("c")
	foreign.Session = "bobs"
	nowhere := registering("c")
	nowhere.Session = ""
	over := registering("c")
	over.Ends = Start
	before := s.session(t, "s", Start)
	for name, tt := range map[string]struct {
		r    state.Replan
		want error // nil: any
	}{
		"there already":         {registering("a"), call.ErrTaskThere},
		"no id":                 {registering("A task"), call.ErrTask},
		"waits for nobody":      {registering("c", "d"), call.ErrTask},
		"unknown":               {advancing("d", call.TaskActive), call.ErrNoTask},
		"what it waits for":     {advancing("b", call.TaskActive), call.ErrTaskStatus},
		"not begun":             {advancing("a", call.TaskDone), call.ErrTaskStatus},
		"somebody else's":       {foreign, state.ErrSessionForeign},
		"of no session":         {nowhere, nil},
		"ends before it begins": {over, nil},
	} {
		c, err := s.Replan(t.Context(), tt.r)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !c.IsZero() {
			t.Errorf("%s: %+v, %v; want %v", name, c, err, tt.want)
		}
	}
	if diff := cmp.Diff(before, s.session(t, "s", Start)); diff != "" {
		t.Errorf("a refusal changes something:\n%s", diff)
	}
	if got := s.session(t, "bobs", Start); got.Plan != nil {
		t.Errorf("somebody else's session has a plan: %+v", got)
	}
	full := false
	for i := range 2 * call.MaxTasks {
		_, err := s.Replan(t.Context(), registering(fmt.Sprint("t", i)))
		if full = errors.Is(err, call.ErrPlanFull); full {
			break
		}
	}
	if got := s.session(t, "s", Start); !full || len(got.Plan) != call.MaxTasks {
		t.Errorf("a plan takes %d tasks", len(got.Plan))
	}
}

// A plan leaves its session some time after its last change, and with the session.
func plansEnd(t *testing.T, s store) {
	s.replan(t, registering("a"))
	end := Start.Add(time.Hour)
	if got := s.session(t, "s", end.Add(-1)); shown(got.Plan) != "a:planned" {
		t.Errorf("gone too soon: %+v", got)
	}
	if got := s.session(t, "s", end); got.Plan != nil {
		t.Errorf("after its end: %+v", got)
	}
	// What is changed stays longer, and no shorter than it would have.
	r := advancing("a", call.TaskActive)
	r.Ends = Start.Add(time.Minute)
	if c := s.replan(t, r); c.PlanUntil != end.UnixNano() {
		t.Errorf("cut short: %+v", c)
	}
	r = advancing("a", call.TaskDone)
	r.Now, r.Ends = Start.Add(time.Minute), end.Add(time.Hour)
	s.replan(t, r)
	if got := s.session(t, "s", end); shown(got.Plan) != "a:done" {
		t.Errorf("not prolonged: %+v", got)
	}
	// Then a new one begins.
	r = registering("b")
	r.Now, r.Ends = end.Add(2*time.Hour), end.Add(3*time.Hour)
	if c := s.replan(t, r); shown(c.Plan) != "b:planned" {
		t.Errorf("a plan that had ended goes on: %+v", c)
	}

	until := end.Add(2*time.Hour + time.Minute)
	s.apply(t, call.Change{Session: &call.SessionChange{ID: "so", Owner: "p-alice", Until: until.UnixNano()}})
	r.Session = "so"
	if c := s.replan(t, r); c.PlanUntil != until.UnixNano() || c.Until != until.UnixNano() || c.Owner != "p-alice" {
		t.Errorf("of a session that ends before: %+v", c)
	}
	if got := s.session(t, "so", until.Add(-1)); shown(got.Plan) != "b:planned" || !got.Until.Equal(until) {
		t.Errorf("while it is somebody's: %+v", got)
	}
	if got := s.session(t, "so", until); got.Plan != nil || got.Owner != "" || !got.Until.IsZero() {
		t.Errorf("when it is nobody's any more: %+v", got)
	}
	// A clock that steps back over that end changes the plan that was made after it.
	r.Now, r.Ends, r.Op = until, until.Add(time.Hour), registering("c").Op
	s.replan(t, r)
	r.Now, r.Op = until.Add(-1), registering("d").Op
	c := s.replan(t, r)
	if got := s.session(t, "so", r.Now); shown(got.Plan) != shown(c.Plan) || shown(c.Plan) != "c:planned d:planned" {
		t.Errorf("after a step back it is %s, and was changed to %s", shown(got.Plan), shown(c.Plan))
	}
}

// Of racers for one task, one begins it. Of racers with tasks of their own all get them
// in, and each sees the version that it made.
func racersOnAPlan(t *testing.T, s store) {
	s.replan(t, registering("x"))
	var began atomic.Int64
	var mu sync.Mutex
	versions := map[int64]int{}
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			ctx := context.WithoutCancel(t.Context())
			if _, err := s.Replan(ctx, advancing("x", call.TaskActive)); err == nil {
				began.Add(1)
			} else if !errors.Is(err, call.ErrTaskStatus) {
				t.Errorf("Replan = %v", err)
			}
			c, err := s.Replan(ctx, registering(fmt.Sprint("t", g), "x"))
			if err != nil {
				t.Errorf("Replan = %v", err)
				return
			}
			mu.Lock()
			versions[c.Session.Version]++
			mu.Unlock()
		})
	}
	wg.Wait()
	got := s.session(t, "s", Start)
	if n := began.Load(); n != 1 || len(got.Plan) != 33 || got.Version != 34 || len(versions) != 32 {
		t.Errorf("%d began it; %d tasks, version %d, and %d versions", n, len(got.Plan), got.Version, len(versions))
	}
	if slices.ContainsFunc(got.Plan, func(k call.Task) bool { return k.ID != "x" && k.Status != call.TaskPlanned }) {
		t.Errorf("Session = %s", shown(got.Plan))
	}
}

// A session that its owner ended is nobody's to call in, until its time is over: then it
// is as if nobody had opened it, with the labels that it has still.
func sessionIsEnded(t *testing.T, s store) {
	until := Start.Add(time.Minute)
	opened := call.SessionChange{ID: "s", Owner: "p-alice", Until: until.UnixNano()}
	s.apply(t, call.Change{Session: &opened})
	s.admit(t, labelled("C1", 0, "x"))
	s.replan(t, registering("a"))
	s.admit(t, func() state.Admission { a := plain("C2"); a.Version = 2; return a }())
	ended := opened
	ended.Ended = true
	for range 2 { // again, as after a lost answer
		s.apply(t, call.Change{Session: &ended})
		got := s.session(t, "s", Start)
		if got.Owner != "" || got.Ended != "p-alice" || got.Plan != nil || !got.Until.IsZero() || !cmp.Equal(got.Labels, []string{"x"}) {
			t.Errorf("Session = %+v", got)
		}
		for i, who := range []string{"p-alice", "p-bob"} {
			a := plain(fmt.Sprint("D", i))
			a.Principal, a.Version = who, got.Version
			if ans, err := s.Admit(t.Context(), a); !errors.Is(err, state.ErrSessionForeign) || ans.Admitted {
				t.Errorf("%s calls in it: %+v, %v", who, ans, err)
			}
			r := registering("b")
			r.Principal = who
			if _, err := s.Replan(t.Context(), r); !errors.Is(err, state.ErrSessionForeign) {
				t.Errorf("%s plans in it: %v", who, err)
			}
		}
		s.apply(t, call.Change{Session: &opened}) // the record that opened it is late
	}
	if got := s.session(t, "s", until); got.Owner != "" || got.Ended != "" || got.Plan != nil || len(got.Labels) != 1 {
		t.Errorf("when its time is over: %+v", got)
	}
}
