package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

func register(t *testing.T, s *redis.Store, session, task string) call.SessionChange {
	t.Helper()
	now := time.Now()
	c, err := s.Replan(t.Context(), state.Replan{
		Now: now, Principal: "p-alice", Session: session, Ends: now.Add(time.Hour), Op: call.PlanOp{By: []call.Task{{ID: task}}},
	})
	if err != nil {
		t.Fatalf("Replan = %v", err)
	}
	return *c.Session
}

// sessionOf is the session, once the server answers.
func sessionOf(t *testing.T, s state.Store, id string) (got state.Session) {
	t.Helper()
	eventually(t, "the server is never ready", func() (ok bool) {
		var err error
		got, err = s.Session(t.Context(), id, time.Now())
		return err == nil
	})
	return got
}

func ids(p call.Plan) (out string) {
	for _, t := range p {
		out += t.ID
	}
	return out
}

// What a node made of sessions it puts back when the server has lost it: their plans, and
// that they are ended.
func TestPlansArePutBack(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, options(srv))
	register(t, s, "s", "a")
	was := register(t, s, "s", "b")
	opened := call.SessionChange{ID: "so", Owner: "p-alice", Until: time.Now().Add(time.Hour).UnixNano()}
	ended := opened
	ended.Ended = true
	for _, c := range []call.SessionChange{opened, ended} {
		if err := s.Apply(t.Context(), call.Change{Session: &c}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := srv.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	if got := sessionOf(t, s, "s"); ids(got.Plan) != "ab" || got.Version < was.Version {
		t.Errorf("the plan: %+v", got)
	}
	if got := sessionOf(t, s, "so"); got.Owner != "" || got.Ended != "p-alice" {
		t.Errorf("the session that was ended: %+v", got)
	}
}

// What a log says of sessions holds again, unless the server knows better.
func TestPlansOfTheLog(t *testing.T) {
	o := options(server)
	s := open(t, o)
	older := register(t, s, "s", "a")
	register(t, s, "s", "b")
	register(t, s, "unknown", "a")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	soon := time.Now().Add(time.Hour).UnixNano()
	plan := call.Plan{{ID: "c", Status: call.TaskActive}}
	begin(t, s, state.Recovery{Sessions: []call.SessionChange{
		older, {ID: "unknown", Version: 9, PlanVersion: 9, PlanUntil: soon}, {ID: "lost", Version: 4, Plan: plan, PlanVersion: 3, PlanUntil: soon},
		{ID: "over", Version: 4, Plan: plan, PlanVersion: 3, PlanUntil: 1}, {ID: "so", Owner: "p-alice", Until: soon, Ended: true},
	}})
	for id, want := range map[string]struct {
		plan  string
		least int64
		ended string
	}{"s": {"ab", 2, ""}, "unknown": {"", 9, ""}, "lost": {"c", 4, ""}, "over": {"", 0, ""}, "so": {"", 0, "p-alice"}} {
		if got := sessionOf(t, s, id); ids(got.Plan) != want.plan || got.Version < want.least || got.Ended != want.ended {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

// A change of a plan whose answer is lost was made once; when nobody can tell, that is an
// error that is none of a plan's.
func TestPlanOnABadLine(t *testing.T) {
	p := newProxy(t, server.Address)
	o := options(server)
	o.Address = p.address
	s := open(t, o)
	register(t, s, "s", "a")
	p.set(cutAnswers, true)
	c := register(t, s, "s", "b")
	if got := sessionOf(t, s, "s"); p.cuts() == 0 || ids(got.Plan) != "ab" || got.Version != c.Version {
		t.Errorf("Session = %+v after %d cuts, and the change said version %d", got, p.cuts(), c.Version)
	}
	p.set(cutAsking, false)
	now := time.Now()
	_, err := s.Replan(t.Context(), state.Replan{
		Now: now, Principal: "p-alice", Session: "s", Ends: now.Add(time.Hour), Op: call.PlanOp{By: []call.Task{{ID: "c"}}},
	})
	if err == nil || errors.Is(err, state.ErrSessionForeign) || errors.Is(err, call.ErrTaskThere) {
		t.Errorf("without a server: %v", err)
	}
	p.set(pass, false)
}

// That a plan was changed is remembered for as long as the same may be asked again, and
// not much longer: tools change plans as often as they like.
func TestChangesOfPlansAreForgotten(t *testing.T) {
	o := options(server)
	s := open(t, o)
	register(t, s, "s", "a")
	c := raw(t, server.Address)
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("{"+o.Prefix+"}:replan:*").Build()).AsStrSlice()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	if ms, err := c.Do(t.Context(), c.B().Pttl().Key(keys[0]).Build()).AsInt64(); err != nil || ms < 1000 || ms > 90_000 {
		t.Errorf("kept for %d ms, %v", ms, err)
	}
}
