package guest

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Statuses of tasks. One that is planned becomes active, once all that it waits for is
// done, or failed; one that is active becomes done or failed.
const (
	TaskPlanned  = "planned"
	TaskActive   = "active"
	TaskDone     = "done"
	TaskFailed   = "failed"
	TaskReplaced = "replaced"
)

// Task is one step of what an agent says it will do in a session.
type Task struct {
	ID     string   // a lower-case letter or digit, then up to 63 of those and . _ -
	Status string   // of one in a plan; a new one is planned
	Tools  []string // names of the tools that it is for; none says nothing
	After  []string // ids of tasks before it that must be done before it is active
}

// Plan returns the tasks of the session's plan, which policies see. The errors of this
// and the functions that change the plan are an [Errno], [ErrNotGranted] for a call of no
// session among them, and [errors.ErrUnsupported].
func Plan() ([]Task, error) {
	b, err := ask(func(_ []byte, length *uint32) error { return hostPlan(length) }, nil)
	if err != nil {
		return nil, err
	}
	return decodeTasks(b)
}

// RegisterTask adds a task to the end of the plan. The error is [ErrExists] for one that
// is there, and [ErrQuota] when the plan is full; [Plan] says which else there are.
func RegisterTask(t Task) error {
	b, err := encodeTask(t)
	if err != nil {
		return err
	}
	return hostRegister(b)
}

// AdvanceTask makes a task active, done or failed. The error is [ErrNotFound] for a task
// that is not there, [ErrStatus] when it cannot become that, or one of those of [Plan].
func AdvanceTask(id, status string) error { return hostAdvance([]byte(id), []byte(status)) }

// ReplanTask replaces a task that is not done by others, which stand in its place; by none
// it is given up. The errors are those of [AdvanceTask] and [RegisterTask].
func ReplanTask(id string, by ...Task) error {
	b := []byte("[")
	for i, t := range by {
		task, err := encodeTask(t)
		if err != nil {
			return err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, task...)
	}
	return hostReplan([]byte(id), append(b, ']'))
}

func encodeTask(t Task) ([]byte, error) {
	var h head
	h.text("id", t.ID)
	h.list("tools", t.Tools)
	h.list("after", t.After)
	return h.with(nil)
}

func decodeTasks(b []byte) ([]Task, error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	tasks := []Task{}
	ok := array(d, func() bool {
		var t Task
		ok := object(d, func(name string) (ok bool) {
			switch name {
			case "id":
				t.ID, ok = text(d)
			case "status":
				t.Status, ok = text(d)
			case "tools":
				t.Tools, ok = texts(d)
			case "after":
				t.After, ok = texts(d)
			default:
				ok = d.SkipValue() == nil
			}
			return ok
		})
		tasks = append(tasks, t)
		return ok
	})
	if !ok {
		return nil, ErrFailed
	}
	return tasks, nil
}
