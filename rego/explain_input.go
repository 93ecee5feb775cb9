package rego

import (
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
)

// ParseInput reads a whole input, as rego/schema/input.json describes it: what
// [call.Input] becomes. Unknown members are errors, for a policy would not see
// them; those that are absent are empty.
//
// # Errors
//
// The error's text quotes nothing of the input.
func ParseInput(b []byte) (*call.Input, error) {
	in := &call.Input{}
	if err := json.Unmarshal(b, in, json.RejectUnknownMembers(true)); err != nil {
		if e, ok := errors.AsType[*json.SemanticError](err); ok {
			return nil, &fault{"input" + string(e.JSONPointer), errors.New("does not fit rego/schema/input.json")}
		}
		return nil, &fault{"input", errors.New("is not JSON, or has an argument twice")}
	}
	if in.Args.IsZero() {
		args, err := call.Canonical([]byte("{}"))
		if err != nil {
			return nil, err
		}
		in.Args = args
	}
	return in, nil
}
