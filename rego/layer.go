package rego

import (
	"regexp"

	"github.com/callgate/callgate/engine/call"
)

// Role says what a layer is there for.
type Role string

// The roles. A call runs only if every permit layer allows it and nobody denies.
const (
	// Permit is for layers that must allow: deny, allow or requires-approval.
	// Undefined is a no, and so is not-applicable.
	Permit Role = "permit"

	// Restrict is for layers that can only take away: deny, requires-approval or
	// pass. True and not-applicable are a pass; an allow is an error.
	Restrict Role = "restrict"
)

// lets is the verdict of a layer that has nothing against the call.
func (r Role) lets() call.Verdict {
	if r == Restrict {
		return call.Pass
	}
	return call.Allow
}

// entrypoints are the rules that answer, by role.
var entrypoints = map[Role]string{
	Permit:   "data.callgate.decision",
	Restrict: "data.callgate.restriction",
}

// entrypointPath is deliberately less than all that Rego has: the entrypoint is a
// query, and must not be one that does more.
var entrypointPath = regexp.MustCompile(`\Adata(\.[A-Za-z_][A-Za-z0-9_]{0,63})+\z`)

func isEntrypoint(s string) bool { return len(s) <= maxID && entrypointPath.MatchString(s) }
