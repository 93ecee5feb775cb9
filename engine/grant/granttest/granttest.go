// Package granttest mints grants for tests of packages that need one. Outside
// of a test it panics.
package granttest

import (
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
	g := seal.Mint(seal.Terms{
		Call: "call-of-" + t.Name(), Principal: "alice", Tool: "tool", ToolDigest: toolDigest,
		Args: args, Caps: caps, Expires: time.Now().Add(time.Minute), Preconditions: depends,
	})
	t.Cleanup(func() { seal.Kill(g) })
	return g
}

// Kill ends a grant, as the engine does when its call ends.
func Kill(g grant.Grant) { seal.Kill(g) }
