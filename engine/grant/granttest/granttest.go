// Package granttest mints grants for tests of packages that need one. Outside
// of a test it panics.
package granttest

import (
	"cmp"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
	"github.com/callgate/callgate/engine/internal/seal"
)

// Mint returns a live grant for one call of the tool with this digest, which depends
// on what is said. It is killed when the test ends.
func Mint(t testing.TB, toolDigest string, args call.Args, caps call.Caps, depends ...call.Precondition) grant.Grant {
	if !testing.Testing() {
		panic("granttest: Mint called outside of a test")
	}
	return mint(t, seal.Terms{Principal: "alice", ToolDigest: toolDigest, Args: args, Caps: caps, Preconditions: depends})
}

// MintFor is like Mint, for a principal and the revisions of policy that decided.
func MintFor(t testing.TB, principal string, policy []call.Revision, toolDigest string, args call.Args, caps call.Caps) grant.Grant {
	if !testing.Testing() {
		panic("granttest: MintFor called outside of a test")
	}
	return mint(t, seal.Terms{Principal: principal, Policy: policy, ToolDigest: toolDigest, Args: args, Caps: caps})
}

// MintOf is like Mint, for the tool with this name.
func MintOf(t testing.TB, tool, toolDigest string, args call.Args, caps call.Caps) grant.Grant {
	if !testing.Testing() {
		panic("granttest: MintOf called outside of a test")
	}
	return mint(t, seal.Terms{Principal: "alice", Tool: tool, ToolDigest: toolDigest, Args: args, Caps: caps})
}

func mint(t testing.TB, terms seal.Terms) grant.Grant {
	terms.Call, terms.Tool, terms.Expires = "call-of-"+t.Name(), cmp.Or(terms.Tool, "tool"), time.Now().Add(time.Minute)
	g := seal.Mint(terms)
	t.Cleanup(func() { seal.Kill(g) })
	return g
}

// Kill ends a grant, as the engine does when its call ends.
func Kill(g grant.Grant) { seal.Kill(g) }
