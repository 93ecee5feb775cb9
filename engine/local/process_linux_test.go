package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// program prints the number of its process and then that it is asleep.
var program = []string{"-c", "echo $$; exec sleep 1000"}

// processTools start, read and kill it; look has no command granted.
func processTools(dir string) local.Config {
	c := local.Config{Data: filepath.Join(dir, "data"), Bundle: filepath.Join(dir, "bundle"), DecideTimeout: time.Minute, AssertedApprovers: true}
	type in struct {
		Text string `json:"text"`
	}
	for name, do := range map[string]func(ctx context.Context, fx *hostfx.Effects, id string) (string, error){
		"start": func(ctx context.Context, fx *hostfx.Effects, _ string) (string, error) {
			return fx.Start(ctx, hostfx.Command{Path: "/bin/sh", Args: program, Env: []string{"A=1"}, Ports: []int{443}})
		},
		"read": func(_ context.Context, fx *hostfx.Effects, id string) (string, error) {
			o, err := fx.Output(id)
			if err != nil {
				return "", err
			}
			return o.State + " " + string(o.Stdout), nil
		},
		"kill": func(_ context.Context, fx *hostfx.Effects, id string) (string, error) { return "killed", fx.Kill(id) },
		"look": func(_ context.Context, fx *hostfx.Effects, id string) (string, error) {
			_, err := fx.Output(id)
			return fmt.Sprint(len(fx.Processes())), err
		},
	} {
		manifest := fmt.Sprintf(`
name: %s
description: has to do with a process
kind: host
class: read
facts: none
input: {type: object, properties: {text: {type: string}}, additionalProperties: false}
caps: {exec: [{command: /bin/sh, args: [%q, %q], env: [A=1, B=2], ports: [443, 80]}]}
`, name, program[0], program[1])
		c.HostTools = append(c.HostTools, engine.Host(manifest, func(ctx context.Context, fx *hostfx.Effects, a in) (string, error) { return do(ctx, fx, a.Text) }))
	}
	return c
}

const processRules = `package callgate.rules

import rego.v2

allow contains {"exec": [{"command": "/bin/sh", "args": ["-c", "echo $$; exec sleep 1000"], "env": {"A=1", "C=3"}, "ports": {8443, 443}}]} if input.tool.name in ["start", "read", "kill"]

allow contains {"id": "nothing"} if input.tool.name == "look"

waive contains "limit"
`

func openProcesses(t *testing.T) (*local.Engine, string) {
	t.Helper()
	dir := t.TempDir()
	writeSmall(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "bundle/rules.rego"), []byte(processRules), 0o644); err != nil {
		t.Fatal(err)
	}
	return open(t, processTools(dir)), dir
}

// in is a call of alice's in a session.
func in(session, tool, text string) call.Call {
	c := ask(tool, text)
	c.Session = session
	return c
}

// answer makes a call that must go well, and gives the text of its answer.
func answer(t *testing.T, e *local.Engine, c call.Call) string {
	t.Helper()
	res, err := e.Do(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Tool, err)
	}
	text, err := strconv.Unquote(string(res.Output))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// started starts the program in a session, and waits until it says what its number is.
func started(t *testing.T, e *local.Engine, start, read call.Call) (id string, pid int) {
	t.Helper()
	id = answer(t, e, start)
	read.Args = fmt.Appendf(nil, `{"text":%q}`, id)
	for {
		state, text, _ := strings.Cut(answer(t, e, read), " ")
		if state != hostfx.ProcessRuns {
			t.Fatalf("it is %s: %s", state, text)
		}
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			return id, n
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// What a call of a session started, calls of that session read and end, and nobody else:
// not another session of the same principal, not another principal, not a tool that has
// not the command.
func TestProcessesOfASession(t *testing.T) {
	e, dir := openProcesses(t)
	so, err := e.OpenSession(t.Context(), ask("start", "").Principal)
	if err != nil {
		t.Fatal(err)
	}
	id, pid := started(t, e, in(so, "start", ""), in(so, "read", ""))
	if !alive(pid) {
		t.Fatal("it is not there")
	}
	if got := answer(t, e, in(so, "read", id)); got != hostfx.ProcessRuns+" " {
		t.Errorf("read again: %q", got)
	}
	mallory := ask("read", id)
	mallory.Principal.ID = "mallory"
	theirs, err := e.OpenSession(t.Context(), mallory.Principal)
	if err != nil {
		t.Fatal(err)
	}
	mallory.Session = theirs
	for name, c := range map[string]call.Call{
		"no session of its own": in("", "read", id), "another principal": mallory, "without the command": in(so, "look", id), "no such id": in(so, "read", "x"),
		"killed without a session": in("", "kill", id),
	} {
		_, err := e.Do(t.Context(), c)
		failed, ok := errors.AsType[*engine.ToolError](err)
		if !ok || !slices.ContainsFunc(failed.Result.Outcome.Effects, func(fx call.Effect) bool { return fx.Code == "refused" && fx.Within == "" }) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stolen := mallory
	stolen.Session = so
	if denied, ok := errors.AsType[*engine.Denial](func() error { _, err := e.Do(t.Context(), stolen); return err }()); !ok || denied.Code != call.CodeSessionInvalid {
		t.Errorf("another principal in the session: %v", denied)
	}
	if !alive(pid) {
		t.Fatal("somebody ended it")
	}
	if got := answer(t, e, in(so, "kill", id)); got != "killed" || alive(pid) {
		t.Errorf("killed: %q", got)
	}
	if got := answer(t, e, in(so, "read", id)); got != hostfx.ProcessStopped+" " {
		t.Errorf("afterwards: %q", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, r := range records(t, dir) {
		if r.Type == call.TypeDecision && r.Tool.Name == "start" {
			want := []call.Exec{{Command: "/bin/sh", Args: program, Env: []string{"A=1"}, Ports: []int{443}}}
			if d := cmp.Diff(want, r.Caps.Exec); d != "" {
				t.Errorf("granted (-want +got):\n%s", d)
			}
		}
		if r.Outcome == nil {
			continue
		}
		for _, fx := range r.Outcome.Effects {
			kinds[fx.Kind+" "+fx.Code+" "+fx.Within]++
		}
	}
	if kinds["exec.start ok /bin/sh"] != 1 || kinds["exec.read ok /bin/sh"] < 3 || kinds["exec.kill ok /bin/sh"] != 1 || kinds["exec.read refused "] != 4 || kinds["exec.kill refused "] != 1 {
		t.Errorf("recorded: %v", kinds)
	}
}

// A process goes with its session, its principal, the one it acts for, its tool, and the engine.
func TestProcessesGoWithWhoStartedThem(t *testing.T) {
	carol := call.Principal{ID: "carol", Kind: "user", Roles: []string{"analyst"}, Auth: call.Auth{Method: "asserted"}}
	tests := []struct {
		name string
		end  func(e *local.Engine, so string) error
	}{
		{"its session is closed", func(e *local.Engine, so string) error {
			return e.CloseSession(context.Background(), ask("start", "").Principal, so)
		}},
		{"its principal is revoked", func(e *local.Engine, _ string) error {
			return e.Revoke(context.Background(), call.Revocation{Principal: engine.PrincipalDigest(ask("start", "").Principal)})
		}},
		{"its tool is revoked", func(e *local.Engine, _ string) error {
			return e.Revoke(context.Background(), call.Revocation{Tool: "start"})
		}},
		{"the engine is closed", func(e *local.Engine, _ string) error { return e.Close() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := openProcesses(t)
			so, err := e.OpenSession(t.Context(), ask("start", "").Principal)
			if err != nil {
				t.Fatal(err)
			}
			_, pid := started(t, e, in(so, "start", ""), in(so, "read", ""))
			others := in("", "start", "")
			others.Principal = carol
			reads := others
			reads.Tool = "read"
			_, other := started(t, e, others, reads)
			if err := tt.end(e, so); err != nil {
				t.Fatal(err)
			}
			both := tt.name == "the engine is closed" || tt.name == "its tool is revoked"
			if alive(pid) || alive(other) == both {
				t.Errorf("there is it: %v, and that of another principal: %v", alive(pid), alive(other))
			}
		})
	}
}

// recorder is a log in memory.
type recorder struct {
	mu   sync.Mutex // protects the next one
	list [][]byte
}

func (l *recorder) Append(_ context.Context, rec []byte) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, rec)
	return int64(len(l.list) - 1), nil
}

func (*recorder) Replay(context.Context, func(int64, []byte) error) error { return nil }

// shells lets every call have the program.
type shells struct{}

func (shells) Decide(context.Context, *call.Input) (call.Decision, error) {
	exec := []call.Exec{{Command: "/bin/sh", Args: program, Env: []string{"A=1"}, Ports: []int{443}}}
	return call.Decision{Verdict: call.Allow, Grants: []call.RuleGrant{{Caps: call.Caps{Exec: exec}}}}, nil
}

// What goes on in a session that another engine closed, or that was closed although
// nobody could tell, ends when its owner closes it here.
func TestProcessesOfASessionClosedElsewhere(t *testing.T) {
	shared := state.NewLocal()
	node := func() *engine.Engine {
		host, err := hostfx.New(hostfx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(engine.Options{
			Policy: shells{}, Tools: processTools("").HostTools, Log: &recorder{}, State: shared, Host: host, DecideTimeout: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close(); host.Close() })
		return e
	}
	here, elsewhere := node(), node()
	alice := ask("start", "").Principal
	so, err := here.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	_, pid := started(t, &local.Engine{Engine: here}, in(so, "start", ""), in(so, "read", ""))
	for _, e := range []*engine.Engine{elsewhere, here} {
		if !alive(pid) {
			t.Error("it ended before it was closed here")
		}
		if err := e.CloseSession(t.Context(), alice, so); err != nil {
			t.Fatal(err)
		}
	}
	if alive(pid) {
		t.Error("it goes on")
	}
}
