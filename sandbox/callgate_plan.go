package sandbox

import (
	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
)

// taskHead is a task that a guest plans.
type taskHead struct {
	ID    string   `json:"id"`
	Tools []string `json:"tools"`
	After []string `json:"after"`
}

func (h taskHead) task() call.Task { return call.Task{ID: h.ID, Tools: h.Tools, After: h.After} }

// parseTask reads one task, parseTasks several.
func parseTask(b []byte) (call.Task, error) {
	var h taskHead
	err := parseValue(b, &h)
	return h.task(), err
}

func parseTasks(b []byte) ([]call.Task, error) {
	var hs []taskHead
	if err := parseValue(b, &hs); err != nil {
		return nil, err
	}
	tasks := make([]call.Task, 0, len(hs))
	for _, h := range hs {
		tasks = append(tasks, h.task())
	}
	return tasks, nil
}

func (q *request) plan() (*kept, error) {
	ctx, cancel := q.life()
	defer cancel()
	plan, err := q.fx.Plan(ctx)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(plan)
	return &kept{body: b}, err
}

func (q *request) taskRegister(req []byte) error {
	task, err := parseTask(req)
	if err != nil {
		return err
	}
	ctx, cancel := q.life()
	defer cancel()
	return q.fx.RegisterTask(ctx, task)
}

func (q *request) taskAdvance(id, to []byte) error {
	ctx, cancel := q.life()
	defer cancel()
	return q.fx.AdvanceTask(ctx, idIn(id), call.TaskStatus(idIn(to)))
}

func (q *request) taskReplan(id, by []byte) error {
	tasks, err := parseTasks(by)
	if err != nil {
		return err
	}
	ctx, cancel := q.life()
	defer cancel()
	return q.fx.ReplanTask(ctx, idIn(id), tasks...)
}
