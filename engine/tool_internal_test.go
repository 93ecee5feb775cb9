package engine

import (
	"context"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/internal/seal"
	"github.com/callgate/callgate/hostfx"
)

// A tool runs under a grant for itself and these arguments, and under no other.
func TestToolChecksItsGrant(t *testing.T) {
	tool := Host(`
name: t
description: t
kind: host
class: read
input: {type: object, properties: {n: {type: integer}}, additionalProperties: false}
`, func(context.Context, *hostfx.Effects, struct {
		N int `json:"n"`
	}) (bool, error) {
		return true, nil
	})
	if tool.err != nil {
		t.Fatal(tool.err)
	}
	args, other := canonical(t, `{"n":1}`), canonical(t, `{"n":2}`)
	for name, tt := range map[string]struct {
		digest string
		args   call.Args
		want   call.Code
	}{
		"its own":          {tool.digest, args, call.CodeOK},
		"another tool's":   {"sha256:0", args, call.CodeGrantMismatch},
		"of another call":  {tool.digest, other, call.CodeGrantMismatch},
		"without a digest": {"", args, call.CodeGrantMismatch},
	} {
		g := seal.Mint(seal.Terms{ToolDigest: tt.digest, Args: tt.args, Expires: time.Now().Add(time.Minute)})
		fx, err := (*hostfx.Host)(nil).Open(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		if _, o := tool.run(t.Context(), t.Context(), &Engine{}, fx, args); o.Code != tt.want {
			t.Errorf("under a grant %s: %s, want %s", name, o.Code, tt.want)
		}
		fx.Close()
	}
}

func canonical(t *testing.T, s string) call.Args {
	t.Helper()
	a, err := call.Canonical([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return a
}
