package hostfx

import (
	"context"
	"errors"

	"github.com/callgate/callgate/engine/call"
)

// Errors about plans, besides [ErrNotGranted] and [ErrClosed]. What [call.ErrTask] and its
// like say, tools may test for by these names.
var (
	ErrTask       = call.ErrTask
	ErrNoTask     = call.ErrNoTask
	ErrTaskThere  = call.ErrTaskThere
	ErrTaskStatus = call.ErrTaskStatus
	ErrPlanFull   = call.ErrPlanFull

	// ErrPlanUnavailable says that nobody can tell what the plan is, or whether it
	// changed; or that the session has ended meanwhile.
	ErrPlanUnavailable = errors.New("the plan is not available")
)

// planRead is the one kind of effect that leaves the plan as it is.
const planRead = "plan.read"

// maxTask is how much of a task's id is looked at, in bytes: a longer one is none.
const maxTask = 256

// Planner keeps the plan of one session. It MUST be safe for concurrent use, and its
// errors MUST be among those above.
type Planner interface {
	Plan(ctx context.Context) (call.Plan, error)
	Replan(ctx context.Context, op call.PlanOp) error
}

// Plan returns the tasks of the session's plan, whoever registered them.
//
// # Errors
//
// [ErrNotGranted] when the grant does not give the plan, or the call belongs to no
// session; [ErrPlanUnavailable].
func (fx *Effects) Plan(ctx context.Context) (call.Plan, error) {
	var plan call.Plan
	err := fx.plan(planRead, "", func(p Planner) (err error) {
		plan, err = p.Plan(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return plan.Clone(), nil
}

// RegisterTask adds a task to the end of the session's plan, which policy sees of every
// call from then on. It is planned, whatever its Status says. The plan is the word of the
// tools that may change it: see [call.Plan] for how large it may be and how it ends.
//
// # Errors
//
// [ErrTask], also for what stands in After and is not in the plan; [ErrTaskThere];
// [ErrPlanFull]; [ErrChanged]; those of [Effects.Plan]. After [ErrPlanUnavailable] the
// task may be there.
func (fx *Effects) RegisterTask(ctx context.Context, t call.Task) error {
	t.Status = ""
	return fx.replan(ctx, "plan.register", t.ID, call.PlanOp{By: []call.Task{t}})
}

// AdvanceTask makes a task active, done or failed: see [call.TaskStatus] for the order.
//
// # Errors
//
// [ErrNoTask]; [ErrTaskStatus] when the task cannot become that, or one that it waits for
// is not done; [ErrPlanFull]; [ErrChanged]; those of [Effects.Plan].
func (fx *Effects) AdvanceTask(ctx context.Context, id string, to call.TaskStatus) error {
	if to == call.TaskReplaced || to == "" {
		to = call.TaskPlanned // which nothing becomes: ReplanTask replaces
	}
	return fx.replan(ctx, "plan.advance", id, call.PlanOp{Task: id, To: to})
}

// ReplanTask replaces a task that is not done by others, which stand in its place: all
// that waited for it wait for them. By none it is given up.
//
// # Errors
//
// [ErrNoTask], [ErrTaskStatus] and those of [Effects.RegisterTask].
func (fx *Effects) ReplanTask(ctx context.Context, id string, by ...call.Task) error {
	list := make([]call.Task, 0, min(len(by), call.MaxTasks+1)) // of more, the plan says that it is full
	for _, t := range by[:cap(list)] {
		t.Status = ""
		list = append(list, t)
	}
	return fx.replan(ctx, "plan.replan", id, call.PlanOp{Task: id, To: call.TaskReplaced, By: list})
}

func (fx *Effects) replan(ctx context.Context, kind, task string, op call.PlanOp) error {
	return fx.plan(kind, task, func(p Planner) error { return p.Replan(ctx, op) })
}

// plan does one thing with the session's plan, and records it.
func (fx *Effects) plan(kind, task string, do func(Planner) error) error {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return err
	}
	began, task := fx.now(), shortened(task, maxTask)
	within, err := fx.caps.Within(call.Op{Kind: call.OpPlan}), ErrNotGranted
	if within != "" && fx.session.Plan != nil {
		if err = nil; kind != planRead {
			err = fx.unchanged()
		}
		if err == nil {
			err = do(fx.session.Plan)
		}
	}
	fx.log.add(kind, within, task, planCode(err)).lasted(fx.since(began))
	return err
}

// planCode is what became of what was asked of a plan.
func planCode(err error) string {
	for _, known := range []struct {
		err  error
		code string
	}{{nil, ok}, {ErrNotGranted, refused}, {ErrChanged, changed}, {ErrNoTask, notFound}, {ErrPlanFull, overCap}} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return failed
}
