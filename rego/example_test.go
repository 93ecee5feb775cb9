package rego_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

func ExampleOpen() {
	ctx := context.Background()
	policy, err := rego.Open(ctx, fstest.MapFS{"policy.rego": {Data: []byte(`package callgate

default decision := {"allow": false, "reason": "nobody said yes"}

decision := {"allow": true} if {
	input.tool.name == "search"
	"analyst" in input.principal.roles
}
`)}}, rego.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	args, err := call.Canonical([]byte(`{"query": "quarterly report"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, role := range []string{"analyst", "visitor"} {
		d, err := policy.Decide(ctx, &call.Input{
			Tool:      call.Tool{Name: "search", Kind: "host", Class: "read"},
			Args:      args,
			Principal: call.Principal{ID: "alice", Kind: "agent", Roles: []string{role}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(role, d.Verdict)
	}
	// Output:
	// analyst allow
	// visitor deny
}
