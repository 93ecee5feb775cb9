package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// step is what the tool "plan" is asked to do.
type step struct {
	Do    string   `json:"do"`
	Task  string   `json:"task"`
	Tools []string `json:"tools,omitempty"`
	After []string `json:"after,omitempty"`
}

const planManifest = `
name: plan
description: keeps the plan
kind: host
class: write
input:
  type: object
  properties:
    do: {type: string}
    task: {type: string}
    tools: {type: array, items: {type: string}}
    after: {type: array, items: {type: string}}
  additionalProperties: false
caps:
  plan: true
  bounds: {timeout_ms: 60000}
`

// planTool does one step and answers with the ids of the plan.
func planTool() engine.Tool {
	return engine.Host(planManifest, func(ctx context.Context, fx *hostfx.Effects, s step) (out string, err error) {
		switch s.Do {
		case "register":
			err = fx.RegisterTask(ctx, call.Task{ID: s.Task, Tools: s.Tools, After: s.After})
		case "replan":
			err = fx.ReplanTask(ctx, s.Task, call.Task{ID: s.Task + "-2", Tools: s.Tools})
		case "begin-and-end":
			if err = fx.AdvanceTask(ctx, s.Task, call.TaskActive); err == nil {
				err = fx.AdvanceTask(ctx, s.Task, call.TaskDone)
			}
		case "read":
		default:
			err = fx.AdvanceTask(ctx, s.Task, call.TaskStatus(s.Do))
		}
		if err != nil {
			return "", err
		}
		plan, err := fx.Plan(ctx)
		return brief(plan), err
	})
}

func brief(p call.Plan) string {
	var out []string
	for _, k := range p {
		out = append(out, k.ID+":"+string(k.Status))
	}
	return strings.Join(out, " ")
}

// asPlanned lets the tool "plan" do what it likes, and "echo" run only while a task that
// is active names it.
var asPlanned = policy(func(in *call.Input) (call.Decision, error) {
	d := allow
	d.Grants = []call.RuleGrant{{Caps: call.Caps{Plan: in.Tool.Name == "plan"}}}
	if in.Tool.Name == "echo" && !slices.ContainsFunc(in.Session.Plan, func(k call.Task) bool {
		return k.Status == call.TaskActive && slices.Contains(k.Tools, in.Tool.Name)
	}) {
		return call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "not_planned"}}}, nil
	}
	return d, nil
})

func plans(do, task string, rest ...string) call.Call {
	c := call.Call{Principal: alice, Tool: "plan", Args: fmt.Appendf(nil, `{"do":%q,"task":%q}`, do, task)}
	for _, tool := range rest {
		c.Args = fmt.Appendf(nil, `{"do":%q,"task":%q,"tools":[%q]}`, do, task, tool)
	}
	return c
}

func in(session string, c call.Call) call.Call { c.Session = session; return c }

// Policy denies a tool until a task of the session is active that names it, in that
// session alone, whoever else has one, before a restart and after it; and again when the
// task has ended.
func TestPlanGates(t *testing.T) {
	log, echoes := &memory{}, &counted{}
	o := engine.Options{Policy: asPlanned, Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{planTool(), echoes.tool()}}
	e := open(t, o)
	bob := call.Principal{ID: "bob", Kind: "user"}
	one, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	two, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	do := func(c call.Call, want call.Code) {
		t.Helper()
		if _, err := e.Do(t.Context(), c); code(err) != want || want == "" && err != nil {
			t.Errorf("%s in %q: %v, want %q", c.Args, c.Session, err, want)
		}
	}
	elsewhere := func() {
		t.Helper()
		do(in(two, echo("x")), call.CodePolicyDenied)
		do(echo("x"), call.CodePolicyDenied)
		other := echo("x")
		other.Client = "editor"
		do(other, call.CodePolicyDenied)
		other = echo("x")
		other.Principal = bob
		do(other, call.CodePolicyDenied)
		do(in(one, other), call.CodeSessionInvalid)
	}
	do(in(one, echo("x")), call.CodePolicyDenied)
	do(in(one, plans("register", "say", "echo")), "")
	do(in(one, echo("x")), call.CodePolicyDenied)
	do(in(one, plans("active", "say")), "")
	for range 2 {
		do(in(one, echo("x")), "")
		elsewhere()
		x, err := e.Explain(t.Context(), in(one, echo("x")))
		if err != nil || brief(x.Plan) != "say:active" || x.Verdict != call.Allow {
			t.Errorf("Explain = %+v, %v", x, err)
		}
		if x, err := e.Explain(t.Context(), in(two, echo("x"))); err != nil || x.Plan != nil || x.Verdict != call.Deny {
			t.Errorf("Explain = %+v, %v", x, err)
		}
		foreign := in(one, echo("x"))
		foreign.Principal = bob
		if x, err := e.Explain(t.Context(), foreign); err != nil || x.Plan != nil {
			t.Errorf("somebody else is told of the plan: %+v, %v", x, err)
		}
		e.Close()
		e = open(t, o)
	}
	do(in(one, plans("done", "say")), "")
	do(in(one, echo("x")), call.CodePolicyDenied)
	if echoes.count() != 2 {
		t.Errorf("ran %d times, want 2", echoes.count())
	}
	// Without a session of one's own, a plan is the principal's through that client.
	do(plans("register", "mine", "echo"), "")
	do(plans("active", "mine"), "")
	do(echo("x"), "")
	e.Close()
	kinds := map[string]int{}
	for _, r := range log.decoded(t) {
		if r.Outcome == nil {
			continue
		}
		for _, fx := range r.Outcome.Effects {
			kinds[fx.Kind+" "+fx.Within+" "+fx.Code]++
			if fx.Target == "say" || fx.Target == "mine" {
				t.Errorf("an effect names its task: %+v", fx)
			}
		}
	}
	if kinds["plan.register plan ok"] != 2 || kinds["plan.advance plan ok"] != 3 || kinds["plan.read plan ok"] != 5 || len(kinds) != 3 {
		t.Errorf("effects %v", kinds)
	}
}

// The record of the outcome carries the last plan that the call made, whole; that of a
// call that only read it, or was refused, carries none.
func TestPlanIsRecorded(t *testing.T) {
	log, clock := &memory{}, newClock()
	e := open(t, engine.Options{Policy: asPlanned, Log: log, Now: clock.Now, Tools: []engine.Tool{planTool()}, LabelsLast: time.Hour})
	for _, c := range []call.Call{plans("register", "a"), plans("begin-and-end", "a"), plans("read", ""), plans("active", "b"), plans("replan", "a")} {
		e.Do(t.Context(), c)
	}
	e.Close()
	var got []string
	for _, r := range log.decoded(t) {
		if r.Type != call.TypeOutcome || r.Change == nil {
			continue
		}
		s := r.Change.Session
		got = append(got, fmt.Sprint(s.Version, s.PlanVersion, time.Unix(0, s.PlanUntil).Sub(clock.Now()), " ", brief(s.Plan)))
		if s.Owner != "" || s.Labels != nil {
			t.Errorf("it says more: %+v", s)
		}
	}
	if want := []string{"1 1 1h0m0s a:planned", "3 3 1h0m0s a:done"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// A crash before the record of an outcome takes the change of the plan with it: the next
// start knows what the log says.
func TestPlanIsLostWithItsRecord(t *testing.T) {
	log := &memory{}
	registered := make(chan struct{})
	tool := engine.Host(planManifest, func(ctx context.Context, fx *hostfx.Effects, s step) (string, error) {
		err := fx.RegisterTask(ctx, call.Task{ID: s.Task})
		if s.Task == "lost" {
			log.mu.Lock()
			log.fail = errors.New("disk full")
			log.mu.Unlock()
			close(registered)
		}
		return "", err
	})
	o := engine.Options{Policy: asPlanned, Log: log, Tools: []engine.Tool{tool}}
	e := open(t, o)
	for _, task := range []string{"kept", "lost"} {
		if _, err := e.Do(t.Context(), plans("register", task)); err != nil {
			t.Fatal(err)
		}
	}
	<-registered
	e.Close()
	log.fail = nil
	o.Tools = []engine.Tool{planTool()}
	e = open(t, o)
	res, err := e.Do(t.Context(), plans("read", ""))
	if err != nil || string(res.Output) != `"kept:planned"` {
		t.Errorf("the plan is %s, %v", res.Output, err)
	}
}

// A call that was decided on the plan as it was is decided on the plan as it is.
func TestPlanDecidesAgain(t *testing.T) {
	var e *engine.Engine
	var seen []string
	changed := false
	p := policy(func(in *call.Input) (call.Decision, error) {
		d := allow
		d.Grants = []call.RuleGrant{{Caps: call.Caps{Plan: true}}}
		if in.Tool.Name == "echo" {
			seen = append(seen, brief(in.Session.Plan))
			if !changed {
				changed = true
				if _, err := e.Do(context.Background(), plans("register", "a")); err != nil {
					t.Error(err)
				}
			}
		}
		return d, nil
	})
	e = open(t, engine.Options{Policy: p, Log: &memory{}, Tools: []engine.Tool{planTool(), (&counted{}).tool()}})
	if _, err := e.Do(t.Context(), echo("x")); err != nil || !slices.Equal(seen, []string{"", "a:planned"}) {
		t.Errorf("decided on %q, %v", seen, err)
	}
}

// Calls of one session at once lose none of each other's tasks, here or in the log, where
// their records stand in any order.
func TestPlanConcurrently(t *testing.T) {
	log := &memory{}
	// Each run changes the session: who decided before is told to try again.
	o := engine.Options{Policy: asPlanned, Log: log, Tools: []engine.Tool{planTool()}, MaxRefusals: -1}
	e := open(t, o)
	const n = 16
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for {
				_, err := e.Do(context.WithoutCancel(t.Context()), plans("register", fmt.Sprint("t", i)))
				if code(err) == call.CodeSessionChanged {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	wg.Wait()
	read := func() string {
		res, err := e.Do(t.Context(), plans("read", ""))
		if err != nil {
			t.Fatal(err)
		}
		return string(res.Output)
	}
	before := read()
	e.Close()
	slices.Reverse(log.records[n:]) // whatever order they have
	e = open(t, o)
	if after := read(); strings.Count(before, ":planned") != n || before != after {
		t.Errorf("%d tasks of %d: %s, and after a restart %s", strings.Count(before, ":planned"), n, before, after)
	}
}

// A plan is not there for a call that another engine decided: nobody here knows its
// session.
func TestNoPlanElsewhere(t *testing.T) {
	h := apart(t, func(d, r *engine.Options) {
		d.Policy = asPlanned
		for _, o := range []*engine.Options{d, r} {
			o.Tools = []engine.Tool{planTool()}
		}
	})
	c := plans("register", "a")
	_, err := h.execute(h.issue(c), c)
	failed, ok := errors.AsType[*engine.ToolError](err)
	if !ok || len(failed.Result.Outcome.Effects) != 1 || failed.Result.Outcome.Effects[0].Code != "refused" {
		t.Errorf("Execute = %v", err)
	}
}

// badPlans is a store that cannot tell what plans are.
type badPlans struct {
	state.Store
	panics bool
}

func (b *badPlans) Replan(context.Context, state.Replan) (call.Change, error) {
	if b.panics {
		panic("canary in a panic")
	}
	return call.Change{}, errors.New("canary in an error")
}

// A state that does not answer is told of in words that say nothing else.
func TestPlanUnavailable(t *testing.T) {
	for _, panics := range []bool{false, true} {
		log := &memory{}
		e := open(t, engine.Options{Policy: asPlanned, Log: log, State: &badPlans{state.NewLocal(), panics}, Tools: []engine.Tool{planTool()}})
		_, err := e.Do(t.Context(), plans("register", "a"))
		failed, ok := errors.AsType[*engine.ToolError](err)
		if !ok || string(failed.Result.Outcome.Stderr) != hostfx.ErrPlanUnavailable.Error() || failed.Result.Outcome.Effects[0].Code != "error" {
			t.Errorf("Do = %v", err)
		}
		e.Close()
		for _, line := range log.records {
			if strings.Contains(string(line), "canary") {
				t.Errorf("a record holds the cause: %s", line)
			}
		}
	}
}

// A call that goes on changing the plan, so that no other call of its session would be
// decided on what it is, is refused more.
func TestPlanChangesAreBounded(t *testing.T) {
	made := 0
	tool := engine.Host(planManifest, func(ctx context.Context, fx *hostfx.Effects, _ step) (string, error) {
		for i := range 2000 {
			task := call.Task{ID: fmt.Sprint("t", i)}
			err := fx.RegisterTask(ctx, task)
			if err == nil {
				err = fx.ReplanTask(ctx, task.ID)
			}
			if err != nil {
				return "", err
			}
			made++
		}
		return "", nil
	})
	e := open(t, engine.Options{Policy: asPlanned, Log: &memory{}, Tools: []engine.Tool{tool}})
	for range 2 { // the next one may again
		made = 0
		_, err := e.Do(t.Context(), plans("churn", ""))
		failed, ok := errors.AsType[*engine.ToolError](err)
		if !ok || string(failed.Result.Outcome.Stderr) != hostfx.ErrPlanFull.Error() || made != 500 {
			t.Errorf("%d changes: %v", 2*made, err)
		}
	}
}
