package engine_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// oneSalt is one key for everything.
type oneSalt byte

func (s oneSalt) Key(string, time.Time) (k [32]byte, err error) {
	k[0] = byte(s)
	return k, nil
}

// Nodes with one state and one key for it find each other's limits and approvals,
// though each has keys of its own for its records; and tenants share neither.
func TestStateSaltsAreShared(t *testing.T) {
	limited, asks := allow, allow
	limited.Limits = []call.Limit{{Name: "l", Key: "k", Burst: 1, Cost: 1, Per: "1h"}}
	asks.Verdict, asks.Approvals = call.Ask, leads
	for _, tt := range []struct {
		name   string
		shared bool
	}{{"with one key", true}, {"without", false}} {
		t.Run(tt.name, func(t *testing.T) {
			s := state.NewLocal()
			node := func(d call.Decision, own oneSalt) (*engine.Engine, *memory) {
				log, tool := &memory{}, &counted{}
				o := engine.Options{Policy: always(d), Log: log, State: s, Tools: []engine.Tool{tool.tool()}, Salts: own, DecideTimeout: time.Minute}
				if tt.shared {
					o.StateSalts = oneSalt(9)
				}
				return open(t, o), log
			}
			code := func(e *engine.Engine, who call.Principal) (call.Code, string) {
				_, err := e.Do(t.Context(), call.Call{Principal: who, Tool: "echo"})
				if d, ok := errors.AsType[*engine.Denial](err); ok {
					return d.Code, d.ApprovalID
				}
				return call.CodeOK, ""
			}
			one, log := node(limited, 1)
			two, _ := node(limited, 2)
			elsewhere := alice
			elsewhere.Tenant = "elsewhere"
			if c, _ := code(one, alice); c != call.CodeOK {
				t.Fatalf("the first call: %s", c)
			}
			if c, _ := code(two, alice); (c == call.CodeRateLimited) != tt.shared {
				t.Errorf("on the other node: %s", c)
			}
			if c, _ := code(one, elsewhere); c != call.CodeOK {
				t.Errorf("of another tenant: %s", c)
			}
			for key := range log.decoded(t)[0].Change.TATs {
				if !regexp.MustCompile(`^[0-9a-f]{16}/hmac-sha256:[0-9a-f]{64}$`).MatchString(key) {
					t.Errorf("the limit's key is %q", key)
				}
			}
			one, _ = node(asks, 1)
			two, _ = node(asks, 2)
			_, id := code(one, alice)
			if _, other := code(two, alice); id == "" || other == "" || (id == other) != tt.shared {
				t.Errorf("one call is asked about as %s and %s", id, other)
			}
		})
	}
}
