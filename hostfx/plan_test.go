package hostfx_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

// planner is a plan that nobody else sees.
type planner struct {
	mu   sync.Mutex
	plan call.Plan
	err  error // instead
}

func (p *planner) Plan(context.Context) (call.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan, p.err
}

func (p *planner) Replan(_ context.Context, op call.PlanOp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	next, err := p.plan.Change(op)
	if err == nil {
		p.plan = next
	}
	return err
}

func planning(t *testing.T, p hostfx.Planner, caps call.Caps) *hostfx.Effects {
	t.Helper()
	var h *hostfx.Host
	fx, err := h.OpenFor(t.Context(), mint(t, caps), hostfx.Session{Plan: p})
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

// Each thing that is asked of a plan is one effect, whatever becomes of it; and only a
// grant of the plan, in a session, does anything.
func TestPlanEffects(t *testing.T) {
	planned, other := call.Plan{{ID: "a", Status: call.TaskPlanned}, {ID: "b", Status: call.TaskPlanned, After: []string{"a"}}}, call.Task{ID: "c"}
	full := make(call.Plan, call.MaxTasks)
	for i := range full {
		full[i] = call.Task{ID: strings.Repeat("x", i+1), Status: call.TaskPlanned}
	}
	read := func(fx *hostfx.Effects) error { _, err := fx.Plan(t.Context()); return err }
	register := func(k call.Task) func(*hostfx.Effects) error {
		return func(fx *hostfx.Effects) error { return fx.RegisterTask(t.Context(), k) }
	}
	advance := func(id string, to call.TaskStatus) func(*hostfx.Effects) error {
		return func(fx *hostfx.Effects) error { return fx.AdvanceTask(t.Context(), id, to) }
	}
	replan := func(id string, by ...call.Task) func(*hostfx.Effects) error {
		return func(fx *hostfx.Effects) error { return fx.ReplanTask(t.Context(), id, by...) }
	}
	long := strings.Repeat("x", 100_000)
	for name, tt := range map[string]struct {
		plan               call.Plan
		do                 func(*hostfx.Effects) error
		err                error
		kind, target, code string
	}{
		"read":     {planned, read, nil, "plan.read", "", "ok"},
		"register": {planned, register(other), nil, "plan.register", "c", "ok"},
		"advance":  {planned, advance("a", call.TaskActive), nil, "plan.advance", "a", "ok"},
		"replan":   {planned, replan("a", other), nil, "plan.replan", "a", "ok"},
		"give up":  {planned, replan("a"), nil, "plan.replan", "a", "ok"},
		// A status is not for the tool to say.
		"registered as done": {planned, register(call.Task{ID: "c", Status: call.TaskDone}), nil, "plan.register", "c", "ok"},

		"a bad id":           {nil, register(call.Task{ID: "A B"}), hostfx.ErrTask, "plan.register", "A B", "error"},
		"a long id":          {nil, register(call.Task{ID: long}), hostfx.ErrTask, "plan.register", long[:256], "error"},
		"a bad tool":         {nil, register(call.Task{ID: "a", Tools: []string{"rm -rf"}}), hostfx.ErrTask, "plan.register", "a", "error"},
		"after nothing":      {nil, register(call.Task{ID: "a", After: []string{"b"}}), hostfx.ErrTask, "plan.register", "a", "error"},
		"there already":      {planned, register(call.Task{ID: "a"}), hostfx.ErrTaskThere, "plan.register", "a", "error"},
		"full":               {full, register(call.Task{ID: "a"}), hostfx.ErrPlanFull, "plan.register", "a", "over_cap"},
		"unknown":            {planned, advance("c", call.TaskActive), hostfx.ErrNoTask, "plan.advance", "c", "not_found"},
		"too soon":           {planned, advance("b", call.TaskActive), hostfx.ErrTaskStatus, "plan.advance", "b", "error"},
		"out of order":       {planned, advance("a", call.TaskDone), hostfx.ErrTaskStatus, "plan.advance", "a", "error"},
		"advanced away":      {planned, advance("a", call.TaskReplaced), hostfx.ErrTaskStatus, "plan.advance", "a", "error"},
		"to nothing":         {planned, advance("a", ""), hostfx.ErrTaskStatus, "plan.advance", "a", "error"},
		"no task to nothing": {planned, advance("", ""), hostfx.ErrNoTask, "plan.advance", "", "not_found"},
		"replan of nothing":  {planned, replan("c", other), hostfx.ErrNoTask, "plan.replan", "c", "not_found"},
		"replan by too many": {planned, replan("a", make([]call.Task, 100)...), hostfx.ErrPlanFull, "plan.replan", "a", "over_cap"},
	} {
		p := &planner{plan: tt.plan.Clone()}
		fx := planning(t, p, call.Caps{Plan: true})
		err := tt.do(fx)
		want := call.Effect{Kind: tt.kind, Within: "plan", Target: tt.target, Code: tt.code}
		if diff := cmp.Diff([]call.Effect{want}, happened(t, fx.Close())); !errors.Is(err, tt.err) || diff != "" {
			t.Errorf("%s: %v, want %v\n%s", name, err, tt.err, diff)
		}
		if err != nil && !cmp.Equal(p.plan, tt.plan.Clone()) {
			t.Errorf("%s changes the plan: %+v", name, p.plan)
		}
		if err := tt.do(fx); !errors.Is(err, hostfx.ErrClosed) {
			t.Errorf("%s after the call: %v", name, err)
		}
		was := p.plan.Clone()
		want.Code, want.Within = "refused", ""
		fx = planning(t, p, call.Caps{Log: true})
		err = tt.do(fx)
		if diff := cmp.Diff([]call.Effect{want}, happened(t, fx.Close())); !errors.Is(err, hostfx.ErrNotGranted) || diff != "" {
			t.Errorf("%s without a grant: %v\n%s", name, err, diff)
		}
		fx, want.Within = planning(t, nil, call.Caps{Plan: true}), "plan"
		err = tt.do(fx)
		if diff := cmp.Diff([]call.Effect{want}, happened(t, fx.Close())); !errors.Is(err, hostfx.ErrNotGranted) || diff != "" {
			t.Errorf("%s without a session: %v\n%s", name, err, diff)
		}
		if !cmp.Equal(was, p.plan) {
			t.Errorf("%s without a grant changes the plan", name)
		}
	}
}

// What a tool does with the plan that it was given is its own business.
func TestPlanIsACopy(t *testing.T) {
	p := &planner{plan: call.Plan{{ID: "a", Status: call.TaskPlanned, Tools: []string{"ls"}}}}
	fx := planning(t, p, call.Caps{Plan: true})
	got, err := fx.Plan(t.Context())
	must(t, err)
	got[0].Status, got[0].Tools[0] = call.TaskActive, "rm"
	if p.plan[0].Status != call.TaskPlanned || p.plan[0].Tools[0] != "ls" {
		t.Errorf("the plan is %+v", p.plan)
	}
	p.err = hostfx.ErrPlanUnavailable
	if got, err := fx.Plan(t.Context()); !errors.Is(err, hostfx.ErrPlanUnavailable) || got != nil {
		t.Errorf("Plan = %+v, %v", got, err)
	}
}

// A call whose files are not as they were when it was decided changes no plan either.
func TestPlanDependsOnFiles(t *testing.T) {
	dir := tree(t)
	p := &planner{plan: call.Plan{{ID: "a", Status: call.TaskPlanned}}}
	caps := call.Caps{Plan: true, FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}}
	args, err := call.Canonical([]byte(`{}`))
	must(t, err)
	g := granttest.Mint(t, call.Digest([]byte("tool")), args, caps, call.Precondition{File: "/docs/reports/a.txt", Digest: call.Digest([]byte("alpha"))})
	fx, err := host(t, dir).OpenFor(t.Context(), g, hostfx.Session{Plan: p})
	must(t, err)
	defer fx.Close()
	must(t, os.WriteFile(filepath.Join(dir, "docs", "reports", "a.txt"), []byte("other"), 0o600))
	if _, err := fx.Plan(t.Context()); err != nil {
		t.Errorf("Plan = %v", err)
	}
	if err := fx.AdvanceTask(t.Context(), "a", call.TaskActive); !errors.Is(err, hostfx.ErrChanged) || p.plan[0].Status != call.TaskPlanned {
		t.Errorf("AdvanceTask = %v, and the plan is %+v", err, p.plan)
	}
	fx.Close()
	if list := fx.Close(); len(list) != 2 || list[1].Code != "changed" {
		t.Errorf("effects %+v", list)
	}
}
