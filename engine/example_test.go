package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/rego"
)

const policyText = `package callgate

import rego.v1

# Anyone may greet, and gets a second for it; nobody may do anything else.
default decision := {"decision": "deny", "reasons": [{"code": "only_greetings"}]}

decision := {"decision": "allow", "grants": [{"bounds": {"timeout_ms": 1000}}]} if {
	input.tool.name == "greet"
	input.args.name != "nobody"
}
`

const greetManifest = `
name: greet
description: Greets somebody.
kind: host
class: read
input:
  type: object
  properties:
    name: {type: string, maxLength: 100}
  required: [name]
  additionalProperties: false
`

type greeting struct {
	Name string `json:"name"`
}

// A Go service puts a policy in front of a tool of its own.
func ExampleEngine_Do() {
	dir, err := os.MkdirTemp("", "callgate-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bundle := filepath.Join(dir, "bundle")
	if err := errors.Join(os.Mkdir(bundle, 0o700), os.WriteFile(filepath.Join(bundle, "policy.rego"), []byte(policyText), 0o600)); err != nil {
		panic(err)
	}
	ctx := context.Background()
	policy, err := rego.Open(ctx, os.DirFS(bundle), rego.Options{})
	if err != nil {
		panic(err)
	}
	log, err := audit.Open(filepath.Join(dir, "data"), audit.Options{})
	if err != nil {
		panic(err)
	}
	defer log.Close()

	greet := engine.Host(greetManifest, func(_ context.Context, _ *hostfx.Effects, in greeting) (string, error) {
		return "Hello " + in.Name, nil
	})
	e, err := engine.New(engine.Options{Policy: policy, Log: log, Tools: []engine.Tool{greet}})
	if err != nil {
		panic(err)
	}
	defer e.Close()

	agent := call.Principal{ID: "agent-7", Kind: "agent", Auth: call.Auth{Method: "mtls", Issuer: "internal"}}
	res, err := e.Do(ctx, call.Call{Principal: agent, Tool: "greet", Args: []byte(`{"name": "Ada"}`)})
	fmt.Println(string(res.Output), err)

	_, err = e.Do(ctx, call.Call{Principal: agent, Tool: "greet", Args: []byte(`{"name": "nobody"}`)})
	fmt.Println(errors.Is(err, engine.ErrDenied), err)
	// Output:
	// "Hello Ada" <nil>
	// true greet: policy_denied: policy says no (only_greetings)
}
