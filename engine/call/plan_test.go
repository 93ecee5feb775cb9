package call_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

// planOf reads a plan that is written as id:status:after,after tool tool; and so on.
func planOf(text string) (p call.Plan) {
	for line := range strings.SplitSeq(text, ";") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		parts := strings.Split(words[0], ":")
		t := call.Task{ID: parts[0], Status: call.TaskStatus(parts[1]), Tools: words[1:]}
		if len(parts) > 2 {
			t.After = strings.Split(parts[2], ",")
		}
		p = append(p, t)
	}
	return p.Clone()
}

func TestPlanChange(t *testing.T) {
	register := func(by ...call.Task) call.PlanOp { return call.PlanOp{By: by} }
	become := func(id string, to call.TaskStatus) call.PlanOp { return call.PlanOp{Task: id, To: to} }
	replace := func(id string, by ...call.Task) call.PlanOp {
		return call.PlanOp{Task: id, To: call.TaskReplaced, By: by}
	}
	a, b := call.Task{ID: "a"}, call.Task{ID: "b", Tools: []string{"rm"}}
	for name, tt := range map[string]struct {
		plan string
		op   call.PlanOp
		want string
		err  error
	}{
		"the first":                {"", register(b), "b:planned rm", nil},
		"planned in so many words": {"", register(call.Task{ID: "a", Status: call.TaskPlanned}), "a:planned", nil},
		"after another":            {"a:active", register(call.Task{ID: "b", After: []string{"a"}}), "a:active; b:planned:a", nil},
		"several":                  {"", register(a, call.Task{ID: "b", After: []string{"a"}}), "a:planned; b:planned:a", nil},
		"a long id":                {"", register(call.Task{ID: "0." + strings.Repeat("x", 62)}), "0." + strings.Repeat("x", 62) + ":planned", nil},

		"active at once":         {"", register(call.Task{ID: "a", Status: call.TaskActive}), "", call.ErrTask},
		"no id":                  {"", register(call.Task{}), "", call.ErrTask},
		"an id with a space":     {"", register(call.Task{ID: "rm -rf"}), "", call.ErrTask},
		"an id that is too long": {"", register(call.Task{ID: strings.Repeat("x", 65)}), "", call.ErrTask},
		"an id with a line":      {"", register(call.Task{ID: "a\n"}), "", call.ErrTask},
		"an id that ends a line": {"", register(call.Task{ID: "a"}, call.Task{ID: "b\na"}), "", call.ErrTask},
		"no tool's name":         {"", register(call.Task{ID: "a", Tools: []string{"Rm me"}}), "", call.ErrTask},
		"a tool twice":           {"", register(call.Task{ID: "a", Tools: []string{"rm", "rm"}}), "", call.ErrTask},
		"nothing":                {"", register(), "", call.ErrTask},
		"there already":          {"a:done", register(a), "", call.ErrTaskThere},
		"there twice":            {"", register(a, a), "", call.ErrTaskThere},
		"after itself":           {"", register(call.Task{ID: "a", After: []string{"a"}}), "", call.ErrTask},
		"after a later one":      {"", register(call.Task{ID: "a", After: []string{"b"}}, b), "", call.ErrTask},
		"after one twice":        {"a:planned", register(call.Task{ID: "b", After: []string{"a", "a"}}), "", call.ErrTask},
		"after a replaced one":   {"a:replaced", register(call.Task{ID: "b", After: []string{"a"}}), "", call.ErrTask},

		"begins":                    {"a:planned", become("a", call.TaskActive), "a:active", nil},
		"begins when it may":        {"a:done; b:planned:a", become("b", call.TaskActive), "a:done; b:active:a", nil},
		"begins too soon":           {"a:active; b:planned:a", become("b", call.TaskActive), "", call.ErrTaskStatus},
		"begins after a failure":    {"a:failed; b:planned:a", become("b", call.TaskActive), "", call.ErrTaskStatus},
		"begins after what is gone": {"b:planned:a", become("b", call.TaskActive), "", call.ErrTaskStatus},
		"begins twice":              {"a:active", become("a", call.TaskActive), "", call.ErrTaskStatus},
		"ends":                      {"a:active", become("a", call.TaskDone), "a:done", nil},
		"ends before it begins":     {"a:planned", become("a", call.TaskDone), "", call.ErrTaskStatus},
		"fails":                     {"a:active", become("a", call.TaskFailed), "a:failed", nil},
		"fails before it begins":    {"a:planned", become("a", call.TaskFailed), "a:failed", nil},
		"fails when it is done":     {"a:done", become("a", call.TaskFailed), "", call.ErrTaskStatus},
		"begins when it failed":     {"a:failed", become("a", call.TaskActive), "", call.ErrTaskStatus},
		"begins when it is done":    {"a:done", become("a", call.TaskActive), "", call.ErrTaskStatus},
		"begins when replaced":      {"a:replaced", become("a", call.TaskActive), "", call.ErrTaskStatus},
		"planned again":             {"a:active", become("a", call.TaskPlanned), "", call.ErrTaskStatus},
		"of no known status":        {"a:active", become("a", "paused"), "", call.ErrTaskStatus},
		"to nothing":                {"a:active", become("a", ""), "", call.ErrTaskStatus},
		"unknown":                   {"a:active", become("b", call.TaskDone), "", call.ErrNoTask},
		"unknown without a name":    {"a:active", become("", call.TaskDone), "", call.ErrNoTask},
		"more than a step":          {"a:active", call.PlanOp{Task: "a", To: call.TaskDone, By: []call.Task{b}}, "", call.ErrTaskStatus},

		"given up":                            {"a:active; b:planned:a", replace("a"), "a:replaced; b:planned", nil},
		"in its place":                        {"a:failed; c:planned:a", replace("a", b), "a:replaced; b:planned rm; c:planned:b", nil},
		"by several":                          {"x:done; a:planned; c:planned:x,a", replace("a", b, call.Task{ID: "d", After: []string{"b", "x"}}), "x:done; a:replaced; b:planned rm; d:planned:b,x; c:planned:x,b,d", nil},
		"by what it was":                      {"a:planned", replace("a", a), "", call.ErrTaskThere},
		"after what it was":                   {"a:planned", replace("a", call.Task{ID: "b", After: []string{"a"}}), "", call.ErrTask},
		"after a follower":                    {"a:planned; b:planned:a", replace("a", call.Task{ID: "c", After: []string{"b"}}), "", call.ErrTask},
		"what is done":                        {"a:done", replace("a", b), "", call.ErrTaskStatus},
		"twice":                               {"a:replaced", replace("a", b), "", call.ErrTaskStatus},
		"what ended keeps what it waited for": {"a:failed; c:failed:a", replace("a", b), "a:replaced; b:planned rm; c:failed:a", nil},
	} {
		p := planOf(tt.plan)
		before := p.Clone()
		got, err := p.Change(tt.op)
		if diff := cmp.Diff(planOf(tt.want), got); !errors.Is(err, tt.err) || diff != "" {
			t.Errorf("%s: %v, want %v\n%s", name, err, tt.err, diff)
		}
		if diff := cmp.Diff(before, p); diff != "" {
			t.Errorf("%s: changes what was\n%s", name, diff)
		}
	}
}

// A plan that is full forgets the oldest task that is over and that nobody waits for, and
// takes no more when there is none. What failed stays until it is replaced.
func TestPlanIsBounded(t *testing.T) {
	p := planOf("failed:failed; needed:done; old:done; gone:replaced; waits:planned:needed")
	add := func(id string, tools ...string) (err error) {
		next, err := p.Change(call.PlanOp{By: []call.Task{{ID: id, Tools: tools}}})
		if err == nil {
			p = next
		}
		return err
	}
	for i := len(p); i < call.MaxTasks; i++ {
		if err := add(fmt.Sprint("t", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []error{nil, nil, call.ErrPlanFull} {
		if err := add(fmt.Sprint("u", i)); !errors.Is(err, want) {
			t.Errorf("one more: %v, want %v", err, want)
		}
	}
	left := []string{}
	for _, k := range p[:3] {
		left = append(left, k.ID)
	}
	if want := []string{"failed", "needed", "waits"}; len(p) != call.MaxTasks || !slices.Equal(left, want) {
		t.Errorf("%d tasks, the first %v; want %v", len(p), left, want)
	}
	if _, err := p.Change(call.PlanOp{By: make([]call.Task, call.MaxTasks+1)}); !errors.Is(err, call.ErrPlanFull) {
		t.Errorf("more than any plan has: %v", err)
	}
	p = nil
	tools := make([]string, 500)
	for i := range tools {
		tools[i] = fmt.Sprintf("t%063d", i)
	}
	if err := add("large", tools...); !errors.Is(err, call.ErrPlanFull) || p != nil {
		t.Errorf("one that is too large: %v", err)
	}
}

// Whatever is done to a plan, no task stands before one that it waits for and may still
// need, none is there twice, and none begins before what it waits for is done.
func TestPlanLaws(t *testing.T) {
	began := 0
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		task := rapid.Custom(func(t *rapid.T) call.Task {
			return call.Task{ID: id.Draw(t, "id"), After: rapid.SliceOfN(id, 0, 2).Draw(t, "after")}
		})
		var p call.Plan
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			op := call.PlanOp{By: rapid.SliceOfN(task, 1, 2).Draw(t, "by")}
			if rapid.IntRange(0, 3).Draw(t, "step") > 0 {
				op = call.PlanOp{Task: id.Draw(t, "task"), To: rapid.SampledFrom([]call.TaskStatus{call.TaskActive, call.TaskDone, call.TaskFailed}).Draw(t, "to")}
			} else if rapid.Bool().Draw(t, "replace") {
				op.Task, op.To = id.Draw(t, "task"), call.TaskReplaced
			}
			next, err := p.Change(op)
			if err != nil {
				if next != nil {
					t.Fatal("a plan and an error")
				}
				continue
			}
			p = next
			before := map[string]call.TaskStatus{}
			for _, k := range p {
				if _, twice := before[k.ID]; twice {
					t.Fatalf("%s is there twice", k.ID)
				}
				for _, dep := range k.After {
					status, ok := before[dep]
					if k.Status == call.TaskPlanned && (!ok || status == call.TaskReplaced) {
						t.Fatalf("%s waits for %s, which never comes: %+v", k.ID, dep, p)
					}
					if (k.Status == call.TaskActive || k.Status == call.TaskDone) && status != call.TaskDone {
						t.Fatalf("%s began before %s was done: %+v", k.ID, dep, p)
					}
					began++
				}
				before[k.ID] = k.Status
			}
		}
	})
	if began == 0 {
		t.Error("no task ever waits for another")
	}
}

// Records of a session come to the same in any order.
func TestSessionsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []call.SessionChange
		for i := range rapid.IntRange(1, 8).Draw(t, "records") {
			c := call.SessionChange{ID: "s", Owner: rapid.SampledFrom([]string{"", "p"}).Draw(t, "owner"), Version: int64(i), Until: 9, Ended: rapid.Bool().Draw(t, "ended")}
			if rapid.Bool().Draw(t, "labels") {
				c.Labels = call.Times{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "label"): int64(rapid.IntRange(1, 9).Draw(t, "end"))}
			} else {
				c.Plan, c.PlanVersion, c.PlanUntil = call.Plan{{ID: fmt.Sprint("t", i)}}.Clone(), int64(i), int64(rapid.IntRange(1, 3).Draw(t, "until"))
			}
			all = append(all, c)
		}
		fold := func(list []call.SessionChange) (out call.SessionChange) {
			out.ID = "s"
			for _, c := range list {
				out.Merge(c)
			}
			return out
		}
		want := fold(all)
		if diff := cmp.Diff(want, fold(rapid.Permutation(all).Draw(t, "order"))); diff != "" {
			t.Fatal(diff)
		}
		if twice := fold(append(all, all...)); !cmp.Equal(want, twice) {
			t.Fatal("a record counts twice")
		}
	})
}
