package local_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

// A command that prints a credential does not outlive the engine, though the call that
// wanted it is long over.
func TestCloseEndsSecretCommands(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	http := `"http": [{"hosts": ["api.example.com"], "ports": [443], "methods": ["GET"], "paths": ["/"], "networks": ["public"], "secret": {"name": "token", "as": "bearer"}}]`
	must(t, os.WriteFile(filepath.Join(dir, "bundle/rules.rego"), []byte(strings.NewReplacer(`"echo"`, `"page"`, `"bounds"`, http+`, "bounds"`).Replace(rules)), 0o644))
	fifo := filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))

	c := small(dir)
	c.Secrets = []local.Secret{{Name: "token", Command: []string{"/bin/sh", "-c", `exec sleep 1000 3>"$1"`, "sh", fifo}}}
	c.HostTools = append(c.HostTools, engine.Host(`
name: page
description: asks for a page
kind: host
class: read
facts: none
input: {type: object, properties: {text: {type: string}}, additionalProperties: false}
caps:
  http: [{hosts: [api.example.com], ports: [443], methods: [GET], paths: [/], networks: [public], secret: {name: token, as: bearer}}]
  bounds: {timeout_ms: 60000}
`, func(context.Context, *hostfx.Effects, map[string]string) (string, error) { return "", nil }))
	e := open(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Do(ctx, ask("page", "x"))
		done <- err
	}()
	alive, err := os.Open(fifo) // once the command runs
	must(t, err)
	defer alive.Close()
	cancel()
	err = <-done
	if d, ok := errors.AsType[*engine.Denial](err); !ok || d.Code != call.CodeSecretUnavailable {
		t.Errorf("Do = %v", err)
	}
	must(t, e.Close())
	must(t, alive.SetReadDeadline(time.Now().Add(5*time.Second))) // less than the command has
	if n, err := alive.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("the command is there: %d, %v", n, err)
	}
}
