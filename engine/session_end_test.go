package engine_test

import (
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// A session that was opened ends when it was said to, before a restart and after one alike.
func TestSessionEnds(t *testing.T) {
	now := newClock()
	o := engine.Options{Policy: always(allow), Log: &memory{}, Now: now.Now, Tools: []engine.Tool{(&counted{}).tool()}}
	e := open(t, o)
	id, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	do := func() call.Code {
		c := echo("x")
		c.Session = id
		_, err := e.Do(t.Context(), c)
		return code(err)
	}
	now.add(state.SessionLife - 1)
	if got := do(); got != "" {
		t.Errorf("at the last moment: %q", got)
	}
	now.add(1)
	for _, when := range []string{"when it is over", "after a restart"} {
		if got := do(); got != call.CodeSessionInvalid {
			t.Errorf("%s: %q, want %q", when, got, call.CodeSessionInvalid)
		}
		e.Close()
		e = open(t, o)
	}
	now.add(100 * time.Hour)
	if got := do(); got != call.CodeSessionInvalid {
		t.Errorf("long after: %q", got)
	}
}
