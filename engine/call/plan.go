package call

import (
	"errors"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
)

// Limits of a plan.
const (
	MaxTasks     = 64       // in one plan
	maxPlanBytes = 32 << 10 // of one plan as JSON
)

// Errors of a change of a plan, for errors.Is. After any of them the plan is as it was.
var (
	// ErrTask says that something is not a task: its id or the name of a tool is not of
	// their form, something stands there twice, or it waits for a task that does not
	// stand before it.
	ErrTask = errors.New("not a task")

	// ErrNoTask says that the plan has no such task.
	ErrNoTask = errors.New("no such task in the plan")

	// ErrTaskThere says that the plan has a task of that id already, ended or not.
	ErrTaskThere = errors.New("the plan has such a task already")

	// ErrTaskStatus says that a task cannot become that: see [TaskStatus]. Or one that it
	// waits for is not done.
	ErrTaskStatus = errors.New("the task cannot become that now")

	// ErrPlanFull says that the plan would have more than 64 tasks that matter, or more
	// than 32 KiB as JSON; or that one call tries to change it more than 1,000 times.
	ErrPlanFull = errors.New("the plan is full")
)

// TaskStatus is where a task stands. A task that is planned becomes active, once all
// that it waits for is done, or failed; one that is active becomes done or failed. All
// but one that is done can be replaced.
type TaskStatus string

// The statuses of tasks.
const (
	TaskPlanned  TaskStatus = "planned"
	TaskActive   TaskStatus = "active"
	TaskDone     TaskStatus = "done"
	TaskFailed   TaskStatus = "failed"
	TaskReplaced TaskStatus = "replaced"
)

// Task is one step of what an agent says it will do in a session. It is the word of the
// tools that were granted the plan, and holds no text of theirs but names.
type Task struct {
	ID     string     `json:"id"` // a lower-case letter or digit, then up to 63 of those and . _ -
	Status TaskStatus `json:"status"`
	Tools  []string   `json:"tools"` // names of the tools that it is for; none says nothing
	After  []string   `json:"after"` // ids of tasks that must be done before it is active
}

// Plan is the tasks of a session. What a task waits for stands before it, so no task
// waits for itself. The zero value is no plan.
type Plan []Task

// PlanOp is one change of a plan: the tasks By are added as planned ones. With a Task,
// that becomes To; if that is replaced, By stand in its place, and whoever waited for
// it waits for them.
type PlanOp struct {
	Task string
	To   TaskStatus
	By   []Task
}

var (
	taskID   = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)
	taskTool = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,63}$`) // as in manifests
)

// Change returns the plan after op, and leaves p as it is. A plan that has no room drops
// the oldest task that is done or replaced and that no planned or active one waits for.
//
// # Errors
//
// [ErrTask], [ErrNoTask], [ErrTaskThere], [ErrTaskStatus] and [ErrPlanFull].
func (p Plan) Change(op PlanOp) (Plan, error) {
	if len(op.By) > MaxTasks {
		return nil, ErrPlanFull
	}
	out, at := p.Clone(), len(p)
	if op.Task != "" || op.To != "" {
		i := out.index(op.Task)
		if i < 0 {
			return nil, ErrNoTask
		}
		if !out.may(out[i], op.To) || op.To != TaskReplaced && len(op.By) > 0 {
			return nil, ErrTaskStatus
		}
		out[i].Status, at = op.To, i+1
	} else if len(op.By) == 0 {
		return nil, ErrTask
	}
	ids := make([]string, 0, len(op.By))
	for n, t := range op.By {
		if err := out.fits(t, at+n); err != nil {
			return nil, err
		}
		t.Status = TaskPlanned
		out = slices.Insert(out, at+n, t.clone())
		ids = append(ids, t.ID)
	}
	if op.To == TaskReplaced {
		out.instead(op.Task, ids)
	}
	return out.bounded()
}

// may reports whether a task may become that.
func (p Plan) may(t Task, to TaskStatus) bool {
	switch to {
	case TaskActive:
		return t.Status == TaskPlanned && !slices.ContainsFunc(t.After, func(id string) bool {
			i := p.index(id)
			return i < 0 || p[i].Status != TaskDone
		})
	case TaskDone:
		return t.Status == TaskActive
	case TaskFailed:
		return t.Status == TaskPlanned || t.Status == TaskActive
	case TaskReplaced:
		return t.Status == TaskPlanned || t.Status == TaskActive || t.Status == TaskFailed
	}
	return false
}

// fits says what is wrong with a task that is to stand at that place.
func (p Plan) fits(t Task, at int) error {
	if !taskID.MatchString(t.ID) || t.Status != "" && t.Status != TaskPlanned || repeats(t.Tools) || repeats(t.After) ||
		slices.ContainsFunc(t.Tools, func(name string) bool { return !taskTool.MatchString(name) }) {
		return ErrTask
	}
	if p.index(t.ID) >= 0 {
		return ErrTaskThere
	}
	for _, id := range t.After {
		if i := p[:at].index(id); i < 0 || p[i].Status == TaskReplaced {
			return ErrTask // it would wait for ever
		}
	}
	return nil
}

// instead makes whoever waits for the task wait for others.
func (p Plan) instead(task string, by []string) {
	for i := range p {
		n := slices.Index(p[i].After, task)
		if n < 0 || p[i].Status != TaskPlanned {
			continue // what has ended waited for what it did
		}
		after := slices.Delete(p[i].After, n, n+1)
		for _, id := range by {
			if !slices.Contains(after, id) {
				after = append(after, id)
			}
		}
		p[i].After = after
	}
}

// bounded drops what no longer matters until the plan is no longer too large.
func (p Plan) bounded() (Plan, error) {
	for {
		b, err := json.Marshal(p)
		if err != nil {
			return nil, ErrTask
		}
		if len(p) <= MaxTasks && len(b) <= maxPlanBytes {
			return p, nil
		}
		i := slices.IndexFunc(p, func(t Task) bool { return (t.Status == TaskDone || t.Status == TaskReplaced) && !p.waited(t.ID) })
		if i < 0 {
			return nil, ErrPlanFull
		}
		p = slices.Delete(p, i, i+1)
	}
}

// waited reports whether a task that may still run waits for this one.
func (p Plan) waited(id string) bool {
	return slices.ContainsFunc(p, func(t Task) bool {
		return (t.Status == TaskPlanned || t.Status == TaskActive) && slices.Contains(t.After, id)
	})
}

func (p Plan) index(id string) int {
	return slices.IndexFunc(p, func(t Task) bool { return t.ID == id })
}

// Clone copies the plan with all that is in it. Lists that are nil are empty ones then,
// as after JSON.
func (p Plan) Clone() Plan {
	out := slices.Clone(p)
	for i := range out {
		out[i] = out[i].clone()
	}
	return out
}

func (t Task) clone() Task {
	t.Tools, t.After = append([]string{}, t.Tools...), append([]string{}, t.After...)
	return t
}

func repeats(list []string) bool {
	if len(list) > maxPlanBytes {
		return true // no plan holds so many
	}
	seen := make(map[string]bool, len(list))
	for _, s := range list {
		if seen[s] {
			return true
		}
		seen[s] = true
	}
	return false
}
