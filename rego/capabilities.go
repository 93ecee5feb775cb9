package rego

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"
)

//go:embed schema/capabilities.json
var capabilitiesJSON string

//go:embed schema/input.json
var inputJSON string

// Capabilities are what a policy may use of OPA: the list in
// rego/schema/capabilities.json, which is also what opa check --capabilities
// takes. It names every builtin that is allowed, so that one that a new OPA adds
// stays out until somebody has looked at it. Each call returns a new copy.
func Capabilities() *ast.Capabilities {
	c := *pinned()
	c.Builtins, c.FutureKeywords = slices.Clone(c.Builtins), slices.Clone(c.FutureKeywords)
	c.Features, c.AllowNet = slices.Clone(c.Features), slices.Clone(c.AllowNet)
	return &c
}

// pinned reads the file once: it takes a good part of the time of loading a policy.
var pinned = sync.OnceValue(func() *ast.Capabilities {
	c, err := ast.LoadCapabilitiesJSON(strings.NewReader(capabilitiesJSON))
	if err != nil {
		panic("rego: internal error: capabilities.json: " + err.Error())
	}
	return c
})

// inputSchema is the schema of [call.Input] in the form that OPA takes.
func inputSchema() (any, error) {
	var v any
	if err := json.Unmarshal([]byte(inputJSON), &v); err != nil {
		return nil, fmt.Errorf("input.json: %w", err)
	}
	return v, nil
}
