package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

const catManifest = `
name: cat
description: gives its text back by way of a command
kind: host
class: read
facts: none
input: {type: object, properties: {text: {type: string}}, additionalProperties: false}
caps: {exec: [{command: /bin/cat, args: []}], bounds: {timeout_ms: 60000}}
`

// A command that a tool runs is in the record, with how it was confined, and nothing
// of what went in and came out. What the operator demands of the kernel is demanded.
func TestCommandsAreRecorded(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	rules := filepath.Join(dir, "bundle", "rules.rego")
	text, err := os.ReadFile(rules)
	if err == nil {
		err = os.WriteFile(rules, bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`"echo"`), []byte(`"cat"`)), []byte(`"bounds"`), []byte(`"exec": [{"command": "/bin/cat", "args": []}], "bounds"`)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := small(dir)
	type in struct {
		Text string `json:"text"`
	}
	c.HostTools = append(c.HostTools, engine.Host(catManifest, func(ctx context.Context, fx *hostfx.Effects, a in) (string, error) {
		if _, err := fx.Run(ctx, hostfx.Command{Path: "/bin/echo", Args: []string{a.Text}}); err == nil {
			t.Error("a command that is not granted ran")
		}
		ran, err := fx.Run(ctx, hostfx.Command{Path: "/bin/cat", Stdin: []byte(a.Text)})
		if err != nil {
			return "", err
		}
		return string(ran.Stdout), nil
	}))
	e := open(t, c)
	res, err := e.Do(t.Context(), ask("cat", "canary-text"))
	if err != nil || string(res.Output) != `"canary-text"` {
		t.Fatalf("Do = %v, %v", res, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	all := records(t, dir)
	effects := all[len(all)-1].Outcome.Effects
	if len(effects) != 2 || effects[0].Kind != "exec" || effects[0].Code != "refused" || effects[0].Within != "" || effects[0].Enforcement != "structural" {
		t.Fatalf("effects %+v", effects)
	}
	want := call.RecordEffect{Kind: "exec", Within: "/bin/cat", Target: effects[1].Target, Code: "ok", BytesIn: 11, BytesOut: 11, TookUS: effects[1].TookUS, Enforcement: hostfx.Enforced}
	if effects[1] != want || want.TookUS <= 0 {
		t.Errorf("effect %+v, want %+v", effects[1], want)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "data/log/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		if b, err := os.ReadFile(s); err != nil || bytes.Contains(b, []byte("canary")) {
			t.Errorf("%s: %v, or it has what went through the command", s, err)
		}
	}
	c.ExecEnforcement = "most"
	if _, err := local.Open(t.Context(), c); err == nil {
		t.Error("an enforcement that there is not was taken")
	}
}
