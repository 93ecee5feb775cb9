package engine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

// An agent's planner finds out whether a step of its plan would run before it
// counts on it.
func ExampleEngine_Explain() {
	rules := policy(func(in *call.Input) (call.Decision, error) {
		if in.Principal.Kind != "agent" {
			return call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "agents_only"}}}, nil
		}
		return call.Decision{
			Verdict:   call.Ask,
			Approvals: []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}},
			Limits:    []call.Limit{{Name: "echoes", Key: in.Principal.ID, Burst: 5, Per: "1h"}},
		}, nil
	})
	e, err := engine.New(engine.Options{Policy: rules, Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}, DecideTimeout: time.Minute})
	if err != nil {
		panic(err)
	}
	defer e.Close()

	c := call.Call{Principal: call.Principal{ID: "agent-7", Kind: "agent"}, Tool: "echo", Args: []byte(`{"text": "hi"}`)}
	for range 10 { // as often as it likes
		if _, err := e.Explain(context.Background(), c); err != nil {
			panic(err)
		}
	}
	x, err := e.Explain(context.Background(), c)
	if err != nil {
		panic(err) // nobody can tell
	}
	fmt.Println(x.Verdict, x.Code)
	fmt.Println(x.Limits[0].Name, x.Limits[0].Remaining, "of", x.Limits[0].Limit)
	fmt.Println(x.Approvals[0].Name, x.Approvals[0].From.Roles)

	c.Principal.Kind = "user"
	x, err = e.Explain(context.Background(), c)
	fmt.Println(x.Verdict, x.Code, x.Reasons[0].Code, err)
	// Output:
	// requires-approval requires_approval
	// echoes 4 of 5
	// lead [lead]
	// deny policy_denied agents_only <nil>
}
