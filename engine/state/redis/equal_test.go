package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// operation is one question to a store, and whatever it answers.
type operation func(s state.Store) []any

// operations draws random ones on few names, so that they meet.
type operations struct {
	*rapid.T
	n     int
	now   time.Time
	ids   []string          // of the approvals asked so far
	calls []state.Admission // that are admitted
	last  state.Admission
	later []call.Change
	epoch int64 // asked for by revocations of everything; 0: there are none, which do more when they are asked for twice
}

func pick[T any](o *operations, what string, of ...T) T { return rapid.SampledFrom(of).Draw(o.T, what) }

func (o *operations) draw() operation {
	o.n++
	ctx, now := context.Background(), o.now
	switch pick(o, "operation", 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10) {
	case 0:
		return o.admit()
	case 1:
		if len(o.ids) == 0 {
			return o.admit()
		}
		by := call.RecordPrincipal{ID: pick(o, "voter", "boss", "lena", "lars", "alice", "eve"), Kind: "user"}
		by.Roles = pick(o, "roles", nil, []string{"lead"}, []string{"lead"}, []string{"lead", "other"})
		v := call.Vote{Approval: pick(o, "approval", o.ids...), By: by, Principal: "p-" + by.ID, Deny: pick(o, "deny", false, false, false, true)}
		return func(s state.Store) []any {
			c, err := s.Vote(ctx, v, now)
			return []any{c, told(err)}
		}
	case 2:
		if len(o.later) == 0 {
			return o.admit()
		}
		c := pick(o, "durable", o.later...)
		return func(s state.Store) []any { return []any{told(s.Apply(ctx, c))} }
	case 3:
		r := pick(o, "revocation", call.Revocation{Epoch: 1}, call.Revocation{Principal: "p-bob"}, call.Revocation{Principal: "p-lena"}, call.Revocation{Tool: "rm"})
		if r.Epoch = r.Epoch * o.epoch; r == (call.Revocation{}) {
			return o.admit()
		}
		return func(s state.Store) []any {
			c, err := s.Revoke(ctx, r)
			return []any{c, told(err)}
		}
	case 4:
		id := fmt.Sprint("so-", o.n%3)
		c := call.Change{Session: &call.SessionChange{ID: id, Owner: "p-alice"}}
		if left := pick(o, "until", 0, 0, 1, time.Minute, time.Hour); left > 0 {
			c.Session.Until = now.Add(left).UnixNano()
			c.Session.Ended = pick(o, "ended", false, false, true)
		}
		return func(s state.Store) []any { return []any{told(s.Apply(ctx, c))} }
	case 5:
		if len(o.calls) == 0 {
			return o.admit()
		}
		// Afterwards nobody asks about the call: whether it may be admitted again differs.
		i := rapid.IntRange(0, len(o.calls)-1).Draw(o.T, "released")
		id := o.calls[i].Call
		o.calls = append(o.calls[:i:i], o.calls[i+1:]...)
		return func(s state.Store) []any { return []any{told(s.Release(ctx, id))} }
	case 6:
		id := fmt.Sprint("R", pick(o, "refunded", 1, 2, 3))
		units := call.Uses{pick(o, "window", "w/1", "w/2"): {Units: pick[int64](o, "units", -1, 1, 2, 1000)}, "w/none": {Units: 1}}
		return func(s state.Store) []any {
			c, err := s.Refund(ctx, id, units)
			return []any{c, told(err)}
		}
	case 7:
		g := state.Spend{
			ID: fmt.Sprint("G", pick(o, "grant", 1, 2, 3, 4)), Now: now, Expires: now.Add(pick(o, "left", -1, time.Minute)),
			Principals: pick(o, "principals", nil, []string{"p-alice"}, []string{"p-alice", "p-bob"}), Tool: pick(o, "tool", "ls", "rm"),
		}
		off := pick[int64](o, "epoch", 0, 0, 0, -1, 1)
		return func(s state.Store) []any {
			epoch, err := s.Epoch(ctx)
			g.Epoch = epoch + off
			c, err2 := s.Spend(ctx, g)
			return []any{epoch, told(err), c, told(err2)}
		}
	case 8:
		return func(s state.Store) []any {
			e, err := s.Epoch(ctx)
			r, err2 := s.Revoked(ctx, "p-bob")
			return []any{e, r, told(err), told(err2)}
		}
	case 10:
		return o.replan()
	default:
		return func(s state.Store) (out []any) {
			for _, id := range o.ids {
				a, err := s.Approval(ctx, id, now)
				out = append(out, a, told(err))
			}
			list, err := s.Approvals(ctx, now)
			return append(out, len(list), told(err))
		}
	}
}

func (o *operations) replan() operation {
	ctx, now := context.Background(), o.now
	task := func() string { return pick(o, "task", "a", "b", "c") }
	r := state.Replan{
		Now: now, Principal: pick(o, "who", "p-alice", "p-alice", "p-bob"), Session: pick(o, "session", "s", "s2", "so-1"),
		Ends: now.Add(pick(o, "ends", 0, 1, time.Minute, time.Hour)),
		Op: pick(o, "op", call.PlanOp{By: []call.Task{{ID: task(), Tools: []string{"ls"}}}}, call.PlanOp{By: []call.Task{{ID: task(), After: []string{task()}}}},
			call.PlanOp{Task: task(), To: call.TaskActive}, call.PlanOp{Task: task(), To: call.TaskDone},
			call.PlanOp{Task: task(), To: call.TaskReplaced, By: []call.Task{{ID: task()}}}),
	}
	return func(s state.Store) []any {
		c, err := s.Replan(ctx, r)
		was, err2 := s.Session(ctx, r.Session, now)
		return []any{c, told(err), was, told(err2)}
	}
}

var asks = [][]call.ApprovalRule{
	{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}, TTL: 300}},
	{{Name: "lead", Count: 2, From: call.From{Roles: []string{"lead"}}, Reason: "why"}, {Name: "boss", Count: 1, From: call.From{IDs: []string{"boss"}}, TTL: 86400}},
}

func (o *operations) admit() operation {
	ctx, now := context.Background(), o.now
	who := pick(o, "who", "alice", "alice", "alice", "bob")
	a := state.Admission{
		Call: fmt.Sprint("C", o.n), Now: now, Principal: "p-" + who, Requester: call.RecordPrincipal{ID: who, Kind: "agent", Tenant: "acme"},
		Session: pick(o, "session", "s", "s2", "so-1"), Tool: call.RecordTool{Name: pick(o, "tool", "ls", "ls", "rm"), Digest: pick(o, "digest", "1", "1", "1", "2")},
		Labels:    rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2).Draw(o.T, "labels"),
		LabelsEnd: now.Add(10 * time.Minute), Peek: pick(o, "peek", false, false, true),
	}
	if len(o.calls) > 0 && pick(o, "again", false, false, false, false, true) {
		a = pick(o, "call", o.calls...)
		return func(s state.Store) []any {
			ans, err := s.Admit(ctx, a)
			return []any{ans, told(err)}
		}
	}
	a.ActsFor = pick(o, "chain", nil, nil, nil, []string{"p-bob"})
	for range pick(o, "limits", 0, 1, 1, 2, 3) {
		c := state.Charge{Name: "l", Key: pick(o, "limit", "a/1", "a/2", "b"), Burst: pick[int64](o, "burst", 1, 5, 7, 1<<53-1, 1<<62), Cost: pick[int64](o, "cost", 1, 1, 2, 1<<52, 1<<61), Per: pick(o, "per", 1, time.Minute, time.Hour, 1<<62)}
		if pick(o, "counted", false, false, true) {
			c.Key, c.End = pick(o, "window", "w/1", "w/2"), noon.Add(pick(o, "end", 0, time.Hour, 1000*time.Hour))
		}
		a.Charges = append(a.Charges, c)
	}
	if pick(o, "asks", true, false) {
		a.Asks = pick(o, "question", asks...)
		what := pick(o, "binding", "p", "q")
		policy := pick(o, "policy", "1", "1", "1", "2")
		a.Policy = []call.Revision{{Name: "l", Digest: policy}}
		a.Bind = func(day time.Time) (state.Binding, error) {
			about := day.Format(time.DateOnly) + what
			return state.Binding{Exact: about + policy + a.Tool.Digest, About: about}, nil
		}
	}
	o.last = a
	stale := pick[int64](o, "stale", 0, 0, 0, 0, 0, 0, 1)
	return func(s state.Store) []any {
		was, err := s.Session(ctx, a.Session, now)
		if err != nil {
			return []any{told(err)}
		}
		a.Version = was.Version - stale
		o.last.Version = a.Version
		ans, err := s.Admit(ctx, a)
		return []any{was, ans, told(err)}
	}
}

// sentinels are the errors that mean something.
var sentinels = []error{
	state.ErrSessionChanged, state.ErrSessionForeign, state.ErrNoApproval, state.ErrTooManyPending, state.ErrTooManyKeys, state.ErrSpent,
	state.ErrRevoked, state.ErrMayNotVote, call.ErrTask, call.ErrNoTask, call.ErrTaskThere, call.ErrTaskStatus, call.ErrPlanFull,
}

// told is what an error says.
func told(err error) string {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	if err != nil {
		return "cannot tell"
	}
	return ""
}

// Whatever is asked of it, in whatever order, this store answers what the local one
// does, to the nanosecond.
func TestEqualsLocal(t *testing.T) {
	equals(t, func(o *operations, _ *redis.Options) func() { o.epoch = 1; return func() {} })
}

// So it does when connections break all the time, before the server has heard something or
// after it did it.
func TestEqualsLocalOnABadLine(t *testing.T) {
	p := newProxy(t, server.Address)
	equals(t, func(o *operations, opts *redis.Options) func() {
		opts.Address = p.address
		p.set(pass, false)
		return func() {
			p.cut(pick(o, "line", pass, cutAsking, cutAnswers), true, pick(o, "about", "", `"plan":{`, `"nonce":`, `"vote":`))
		}
	})
	if p.cuts() == 0 {
		t.Error("nothing was cut")
	}
}

// equals compares stores that are opened with what line makes of their options, and calls
// what that returns before each operation.
func equals(t *testing.T, line func(*operations, *redis.Options) (before func())) {
	answered := 0
	rapid.Check(t, func(rt *rapid.T) {
		opts := options(server)
		opts.UseOperationClock()
		opts.Timeout = time.Minute
		o := &operations{T: rt, now: noon}
		before := line(o, &opts)
		s := open(t, opts)
		defer s.Close()
		local := state.NewLocal()
		for range rapid.IntRange(10, 60).Draw(rt, "operations") {
			o.now = o.now.Add(time.Duration(pick(o, "pause", 0, 0, 1, 999, 1_000_000_000, 59_999_999_999, 300_000_000_000, -1_000_000_000)))
			op := o.draw()
			before()
			want, got := op(local), op(s)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				rt.Fatalf("operation %d (-local +redis):\n%s", o.n, diff)
			}
			answered++
			for _, part := range want {
				switch c := part.(type) {
				case call.Change:
					o.carries(c)
				case state.Answer:
					o.carries(c.Change)
					if c.Admitted && o.last.Call == fmt.Sprint("C", o.n) && !o.last.Peek {
						o.calls = append(o.calls, o.last)
					}
				}
			}
		}
	})
	if answered == 0 {
		t.Error("nothing was asked")
	}
}

func (o *operations) carries(c call.Change) {
	if c.Asked != nil {
		o.ids = append(o.ids, c.Asked.ID)
	}
	if c.Asked != nil || c.Voted != nil {
		o.later = append(o.later, c)
	}
}
