package engine

import (
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// StateOf is what the local state of e comes to, but for what no longer mattered at
// this time.
func StateOf(e *Engine) []call.Change {
	l := e.o.State.(*state.Local)
	l.Forget(e.o.Now())
	return l.Changes()
}

// EpochOf is the newest epoch that e knows of, and since when.
func EpochOf(e *Engine) any {
	number, since := e.epochs.last()
	return []any{number, since}
}
