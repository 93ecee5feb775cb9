package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

// The test binary plays another process, in the role that these name.
const (
	roleEnv = "CALLGATE_TEST_ROLE"
	roleDir = "CALLGATE_TEST_DIR"
	roleArg = "CALLGATE_TEST_ARG"
)

const rules = `package callgate.rules

import rego.v2

allow contains {"id": "all", "bounds": {"timeout_ms": 60000}} if input.tool.name in ["echo", "hold", "wipe"]

waive contains "limit"
`

// writeSmall writes a project without guests into dir, which is quick to open.
func writeSmall(t testing.TB, dir string) {
	t.Helper()
	bundle := filepath.Join(dir, "bundle")
	err := errors.Join(
		os.MkdirAll(bundle, 0o755),
		os.CopyFS(filepath.Join(bundle, "callgate"), bundles.Base()),
		os.WriteFile(filepath.Join(bundle, "rules.rego"), []byte(rules), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// small is the configuration of that project. Echo gives its text back. Hold says
// in the file held that it runs, and goes on until there is a file go, or until it
// is stopped, which it says in the file stopped. Wipe is destructive.
func small(dir string) local.Config {
	manifest := func(name, class string) string {
		return fmt.Sprintf(`
name: %s
description: a tool for tests
kind: host
class: %s
input: {type: object, properties: {text: {type: string}}, additionalProperties: false}
caps: {bounds: {timeout_ms: 60000}}
`, name, class)
	}
	type in struct {
		Text string `json:"text"`
	}
	echo := func(_ context.Context, _ *hostfx.Effects, a in) (string, error) { return a.Text, nil }
	hold := func(ctx context.Context, _ *hostfx.Effects, _ in) (string, error) {
		if err := os.WriteFile(filepath.Join(dir, "held"), nil, 0o600); err != nil {
			return "", err
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
				return "held", nil
			}
			select {
			case <-ctx.Done():
				return "", errors.Join(ctx.Err(), os.WriteFile(filepath.Join(dir, "stopped"), nil, 0o600))
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	return local.Config{
		Data: filepath.Join(dir, "data"), Bundle: filepath.Join(dir, "bundle"),
		DecideTimeout: time.Minute, AssertedApprovers: true,
		HostTools: []engine.Tool{
			engine.Host(manifest("echo", "read"), echo),
			engine.Host(manifest("hold", "read"), hold),
			engine.Host(manifest("wipe", "destructive"), echo),
		},
	}
}

func ask(tool, text string) call.Call {
	return call.Call{
		Principal: call.Principal{ID: "alice", Kind: "user", Roles: []string{"analyst"}, Auth: call.Auth{Method: "asserted"}},
		Tool:      tool, Args: fmt.Appendf(nil, `{"text":%q}`, text),
	}
}

var approver = call.Principal{ID: "bob", Kind: "user", Roles: []string{"approver"}}

// playRole does what one child process of a test does, and says on stdout how it
// went. Its result is the exit code.
func playRole(role, dir, arg string) int {
	ctx := context.Background()
	fail := func(err error) int { fmt.Fprintln(os.Stderr, role+":", err); return 2 }
	c := small(dir)
	switch role {
	case "own": // until stdin ends
		e, err := local.Open(ctx, c)
		if err != nil {
			return fail(err)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		if err := e.Close(); err != nil {
			return fail(err)
		}
		return 0
	case "foreign":
		_, err := local.Dial(ctx, c)
		switch {
		case errors.Is(err, syscall.EACCES):
			fmt.Println("no access")
		case errors.Is(err, local.ErrNoOwner):
			fmt.Println("no hello")
		default:
			return fail(fmt.Errorf("Dial = %w", err))
		}
		return 0
	}
	g, err := local.Join(ctx, c)
	if err != nil {
		return fail(err)
	}
	switch role {
	case "call":
		var res *engine.Result
		if res, err = g.Do(ctx, ask("echo", arg)); err == nil {
			fmt.Println(res.CallID, string(res.Output))
		}
	case "hold":
		_, err = g.Do(ctx, ask("hold", ""))
	case "approve":
		_, err = g.Vote(ctx, engine.Vote{Approval: arg, By: approver})
	case "wait":
		err = waitAndCall(ctx, g)
	}
	if err := errors.Join(err, g.Close()); err != nil {
		return fail(err)
	}
	return 0
}

// waitAndCall makes a call that must be approved, says the id of the approval,
// and makes the call again when it is given.
func waitAndCall(ctx context.Context, g local.Gate) error {
	_, err := g.Do(ctx, ask("wipe", "clean"))
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok || !errors.Is(err, engine.ErrPending) {
		return fmt.Errorf("Do = %w, want it pending", err)
	}
	fmt.Println(d.ApprovalID)
	if _, err := g.Wait(ctx, d.ApprovalID); err != nil {
		return err
	}
	res, err := g.Do(ctx, ask("wipe", "clean"))
	if err == nil {
		fmt.Println(string(res.Output))
	}
	return err
}

// child is a process in a role.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.Closer
}

func start(t *testing.T, role, dir, arg string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, roleDir+"="+dir, roleArg+"="+arg)
	cmd.Stderr = os.Stderr
	out, err1 := cmd.StdoutPipe()
	in, err2 := cmd.StdinPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	return &child{cmd: cmd, lines: bufio.NewScanner(out), stdin: in}
}

// line is the next thing that the child says.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("the child said nothing more: %v, %v", c.lines.Err(), c.cmd.Wait())
	}
	return c.lines.Text()
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // says that it was killed
}

// appears waits for a file.
func appears(t *testing.T, dir, name string) {
	t.Helper()
	for {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("no file %s", name)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func open(t *testing.T, c local.Config) *local.Engine {
	t.Helper()
	e, err := local.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func dial(t *testing.T, c local.Config) *local.Client {
	t.Helper()
	k, err := local.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// outcomes are the codes of the log's outcomes, by the tool that was called.
func outcomes(t *testing.T, dir string) map[string][]call.Code {
	t.Helper()
	tools, out := map[string]string{}, map[string][]call.Code{}
	for _, r := range records(t, dir) {
		switch {
		case r.Type == call.TypeDecision && r.Tool != nil:
			tools[r.Call] = r.Tool.Name
		case r.Type == call.TypeOutcome:
			out[tools[r.Call]] = append(out[tools[r.Call]], r.Code)
		}
	}
	return out
}

func socketOf(dir string) string { return filepath.Join(dir, "data", "callgate.sock") }

// longDir is a directory whose name no socket could have.
func longDir(t *testing.T) string {
	return filepath.Join(t.TempDir(), strings.Repeat("a-long-name-", 12), "p")
}
