package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
	"github.com/callgate/callgate/hostfx"
)

const planRules = `package callgate.rules

import rego.v2

# METADATA
# title: Plans
allow contains {"id": "plan", "plan": true} if input.tool.name == "plan"

# METADATA
# title: Echo
allow contains {"id": "echo"} if input.tool.name == "echo"

# METADATA
# title: As planned
deny contains {"code": "not_planned", "message": "no task says so"} if {
	input.tool.name == "echo"
	not _planned
}

_planned if {
	some task in input.session.plan
	task.status == "active"
	input.tool.name in task.tools
}

waive contains "ask" if input.tool.name in {"plan", "echo"}
`

// A call is explained, now and from the log, with the plan that its session had then.
func TestExplainWithAPlan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(project.Write(dir))
	must(os.WriteFile(filepath.Join(dir, "bundle/plan.rego"), []byte(planRules), 0o600))
	t.Setenv("CALLGATE_DECIDE_TIMEOUT", "1m")
	file := filepath.Join(dir, "callgate.yaml")
	conf, err := readConfig(file, nil)
	must(err)
	c := conf.local(io.Discard)
	tool := func(name, caps string, run func(context.Context, *hostfx.Effects) error) engine.Tool {
		manifest := "name: " + name + "\ndescription: does it\nkind: host\nclass: unclassified\ninput: {type: object, additionalProperties: false}\n" + caps
		return engine.Host(manifest, func(ctx context.Context, fx *hostfx.Effects, _ struct{}) (string, error) { return "", run(ctx, fx) })
	}
	c.HostTools = []engine.Tool{
		tool("echo", "", func(context.Context, *hostfx.Effects) error { return nil }),
		tool("plan", "caps: {plan: true}\n", func(ctx context.Context, fx *hostfx.Effects) error {
			return errors.Join(fx.RegisterTask(ctx, call.Task{ID: "say", Tools: []string{"echo"}}), fx.AdvanceTask(ctx, "say", call.TaskActive))
		}),
	}
	e, err := local.Open(t.Context(), c)
	must(err)
	echo := call.Call{Principal: asserted("alice", "agent", "", nil), Tool: "echo"}
	if _, err := e.Do(t.Context(), echo); !errors.Is(err, engine.ErrDenied) { // record 0
		t.Errorf("Do = %v, want a denial", err)
	}
	planned := echo
	planned.Tool = "plan"
	for _, c := range []call.Call{planned, echo} { // records 1 and 2, 3 and 4
		if _, err := e.Do(t.Context(), c); err != nil {
			t.Errorf("Do = %v", err)
		}
	}
	x, err := e.Explain(t.Context(), echo)
	must(err)
	var out, errOut bytes.Buffer
	must(printExplanation(&out, "echo", x))
	if !strings.Contains(out.String(), "say is active echo\n") {
		t.Errorf("explained as\n%s", &out)
	}
	must(e.Close())
	for record, want := range map[string]string{"0": "not_planned", "3": "verdict allow"} {
		out.Reset()
		errOut.Reset()
		code := run(t.Context(), []string{"policy", "explain", "--config", file, "--record", record, "--args", "{}"}, strings.NewReader(""), &out, &errOut)
		if code != 0 || strings.Contains(out.String(), "OTHERWISE") || !strings.Contains(out.String(), want) {
			t.Errorf("explain %s: exit %d\n%s%s", record, code, &out, &errOut)
		}
	}
}
