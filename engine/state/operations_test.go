package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

// window is what counts and lasts, in these tests.
const window = 20 * time.Minute

var start = time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC) // midnight is near

// result is what an operation answered and what its record carries.
type result struct {
	Call   string // that was admitted
	Change call.Change
	Later  bool // acts when it is durable
	Answer any
	Err    error
}

// operations draws random ones on few names, so that they meet.
type operations struct {
	*rapid.T
	n      int
	ids    []string      // of the approvals asked so far
	calls  []result      // whose admission is durable
	opened []call.Change // sessions
}

var questions = [][]call.ApprovalRule{
	{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}, TTL: 300}},
	{{Name: "lead", Count: 2, From: call.From{Roles: []string{"lead"}}, Reason: "why"}, {Name: "boss", Count: 1, From: call.From{IDs: []string{"boss"}}, TTL: 86400}},
}

func (o *operations) draw(now time.Time) func(*Local) result {
	o.n++
	switch n := rapid.IntRange(0, 32).Draw(o.T, "operation"); {
	case n < 11:
		return o.admit(now)
	case n < 19 && len(o.ids) > 0:
		v := call.Vote{Approval: rapid.SampledFrom(o.ids).Draw(o.T, "approval"), Deny: rapid.IntRange(0, 5).Draw(o.T, "deny") == 0}
		v.By = call.RecordPrincipal{ID: rapid.SampledFrom([]string{"boss", "lena", "lars", "alice", "eve"}).Draw(o.T, "voter"), Kind: "user"}
		v.By.Roles = rapid.SampledFrom([][]string{nil, {"lead"}, {"lead"}, {"lead", "other"}}).Draw(o.T, "roles")
		return func(l *Local) result {
			c, err := l.Vote(context.Background(), v, now)
			return result{Change: c, Later: !c.IsZero() && !v.Deny, Err: err}
		}
	case n == 19:
		r := rapid.SampledFrom([]call.Revocation{{Epoch: 1}, {Epoch: 1}, {Principal: "p-bob"}, {Tool: "rm"}}).Draw(o.T, "revocation")
		return func(l *Local) result {
			c, err := l.Revoke(context.Background(), r)
			return result{Change: c, Err: err}
		}
	case n == 20:
		begin := now.Truncate(window)
		s := Spend{
			ID: fmt.Sprint(rapid.SampledFrom([]string{"g", "h"}).Draw(o.T, "grant"), begin.Unix()), Now: now, Expires: begin.Add(window),
			Principals: []string{"p-alice"}, Tool: "ls",
		}
		off := rapid.SampledFrom([]int64{0, 0, 0, -1, 1}).Draw(o.T, "epoch")
		return func(l *Local) result {
			s := s
			s.Epoch = l.epoch + off
			c, err := l.Spend(context.Background(), s)
			return result{Change: c, Err: err}
		}
	case n > 26:
		return o.replan(now)
	case n > 20 && len(o.calls) > 0:
		return o.refund()
	default:
		c := call.Change{Session: &call.SessionChange{ID: fmt.Sprint("so-", o.n), Owner: "p-alice", Until: now.Add(window).UnixNano()}}
		o.opened = append(o.opened, c)
		return func(*Local) result { return result{Change: c, Later: true} }
	}
}

// replan changes the plan of a session, or ends one that was opened.
func (o *operations) replan(now time.Time) func(*Local) result {
	ids := []string{"s", "s2"}
	for _, c := range o.opened {
		ids = append(ids, c.Session.ID)
	}
	id := rapid.SampledFrom(ids).Draw(o.T, "session")
	if i := slices.Index(ids, id) - 2; i >= 0 && rapid.IntRange(0, 2).Draw(o.T, "end") == 0 {
		c := *o.opened[i].Session
		c.Ended = true
		return func(l *Local) result {
			change := call.Change{Session: &c}
			return result{Change: change, Err: l.Apply(context.Background(), change)}
		}
	}
	task := func() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(o.T, "task") }
	op := rapid.SampledFrom([]call.PlanOp{
		{By: []call.Task{{ID: task(), Tools: []string{"ls"}}}}, {By: []call.Task{{ID: task(), After: []string{task()}}}},
		{Task: task(), To: call.TaskActive}, {Task: task(), To: call.TaskDone}, {Task: task(), To: call.TaskReplaced, By: []call.Task{{ID: task()}}},
	}).Draw(o.T, "op")
	who := rapid.SampledFrom([]string{"p-alice", "p-alice", "p-bob"}).Draw(o.T, "who")
	return func(l *Local) result {
		c, err := l.Replan(context.Background(), Replan{Now: now, Principal: who, Session: id, Op: op, Ends: now.Add(10 * time.Minute)})
		return result{Change: c, Err: err}
	}
}

func (o *operations) admit(now time.Time) func(*Local) result {
	a := o.admission(now)
	stale := int64(rapid.IntRange(0, 5).Draw(o.T, "stale") / 5)
	return func(l *Local) result {
		s, err := l.Session(context.Background(), a.Session, now)
		if err != nil {
			return result{Err: err}
		}
		a := a
		a.Version = s.Version - stale
		ans, err := l.Admit(context.Background(), a)
		s.Calls = 0 // advisory
		id := ""
		if ans.Admitted {
			id = a.Call
		}
		return result{Call: id, Change: ans.Change, Later: ans.Change.Asked != nil, Answer: []any{ans, s}, Err: err}
	}
}

// refund gives back some of what a call took, more than that, or of what it did not take,
// now and then a second time.
func (o *operations) refund() func(*Local) result {
	of := rapid.SampledFrom(o.calls).Draw(o.T, "call")
	back := call.Uses{"never": {Units: 1}}
	for key, u := range of.Change.Used {
		back[key] = call.Use{Units: int64(rapid.IntRange(-1, int(u.Units)+1).Draw(o.T, "units"))}
	}
	return func(l *Local) result {
		c, err := l.Refund(context.Background(), of.Call, back)
		return result{Change: c, Err: err}
	}
}

func (o *operations) admission(now time.Time) Admission {
	who := rapid.SampledFrom([]string{"alice", "alice", "alice", "bob"}).Draw(o.T, "who")
	a := Admission{
		Call: fmt.Sprint("C", o.n), Now: now, Principal: "p-" + who, Requester: call.RecordPrincipal{ID: who, Kind: "agent"},
		Session:   rapid.SampledFrom([]string{"s", "s2"}).Draw(o.T, "session"),
		Tool:      call.RecordTool{Name: rapid.SampledFrom([]string{"ls", "ls", "rm"}).Draw(o.T, "tool")},
		Labels:    rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 1).Draw(o.T, "labels"),
		LabelsEnd: now.Add(10 * time.Minute),
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(o.T, "limits") {
		a.Charges = append(a.Charges, Charge{Name: key, Key: key, Burst: 5, Cost: int64(rapid.IntRange(1, 2).Draw(o.T, "cost")), Per: time.Minute})
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"c", "d"}), 0, 2).Draw(o.T, "quotas") {
		begin := now.Truncate(window)
		a.Charges = append(a.Charges, Charge{
			Name: key, Key: fmt.Sprint(key, begin.Unix()), Burst: 9, Cost: int64(rapid.IntRange(1, 4).Draw(o.T, "units")), Per: window, End: begin.Add(window),
		})
	}
	if rapid.IntRange(0, 2).Draw(o.T, "asks") > 0 {
		a.Asks = rapid.SampledFrom(questions).Draw(o.T, "question")
		what := rapid.SampledFrom([]string{"p", "q"}).Draw(o.T, "binding")
		policy := rapid.SampledFrom([]string{"", "", "", " under another policy"}).Draw(o.T, "policy")
		a.Policy = []call.Revision{{Name: "policy", Digest: policy}}
		a.Bind = func(day time.Time) (Binding, error) {
			b := day.Format(time.DateOnly) + what
			return Binding{Exact: b + policy, About: b}, nil
		}
		if rapid.IntRange(0, 4).Draw(o.T, "in whose name") == 0 {
			a.Requester.OnBehalfOf = []call.RecordPrincipal{{ID: "lena", Kind: "user"}}
		}
	}
	return a
}
