package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
)

// What policy saw of a raw tool is in no manifest, but the record says it.
func TestExplainRecordOfRawTool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(project.Write(dir))
	rules := "package callgate.rules\n\nimport rego.v2\n\n# METADATA\n# title: Echo\nallow contains {\"id\": \"echo\"} if input.tool.name == \"echo\"\n"
	must(os.WriteFile(filepath.Join(dir, "bundle/echo.rego"), []byte(rules), 0o600))
	t.Setenv("CALLGATE_DECIDE_TIMEOUT", "1m")
	file := filepath.Join(dir, "callgate.yaml")
	conf, err := readConfig(file, nil)
	must(err)
	c := conf.local(io.Discard)
	c.HostTools = []engine.Tool{engine.Raw(
		"name: echo\ndescription: gives nothing back\nkind: host\nclass: read\ninput: {type: object, additionalProperties: false}\n",
		func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return nil, nil },
	)}
	e, err := local.Open(t.Context(), c)
	must(err)
	_, err = e.Do(t.Context(), call.Call{Principal: asserted("alice", "agent", "", nil), Tool: "echo"})
	if d, ok := errors.AsType[*engine.Denial](err); !ok || !slices.ContainsFunc(d.Reasons, func(r call.Reason) bool { return r.Code == "raw_tool" }) {
		t.Errorf("Do = %v, want raw_tool", err)
	}
	must(e.Close())

	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"policy", "explain", "--config", file, "--record", "0", "--args", "{}"}, strings.NewReader(""), &out, &errOut)
	if code != 0 || strings.Contains(out.String(), "OTHERWISE") || !strings.Contains(out.String(), "raw_tool") {
		t.Errorf("explain: exit %d\n%s%s", code, &out, &errOut)
	}
}
