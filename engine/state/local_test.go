package state_test

import (
	"testing"

	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/statetest"
)

func TestLocal(t *testing.T) {
	statetest.Run(t, func(*testing.T) state.Store { return state.NewLocal() })
}
