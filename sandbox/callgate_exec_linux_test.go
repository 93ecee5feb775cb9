package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// runner is a world whose grants give some commands.
func runner(t *testing.T) *world {
	t.Helper()
	w := open(t, sandbox.Options{})
	w.more = call.Caps{Exec: []call.Exec{
		{Command: "/bin/cat", Args: []string{}}, {Command: "/bin/cat", Args: []string{"*"}},
		{Command: "/usr/bin/env", Args: []string{}, Env: []string{"A=b c"}},
		{Command: "/bin/ls", Args: []string{"none"}}, {Command: "/bin/false", Args: []string{}},
		{Command: "/bin/sh", Args: []string{"-c", "kill -9 $$"}}, {Command: "/bin/sleep", Args: []string{"*"}},
	}}
	return w
}

func ran(command, code string, in, out int64) call.Effect {
	return call.Effect{Kind: "exec", Within: command, Target: command, Code: code, BytesIn: in, BytesOut: out}
}

func TestCallgateExec(t *testing.T) {
	w := runner(t)
	refused := func(command string) call.Effect {
		return call.Effect{Kind: "exec", Target: command, Code: "refused"}
	}
	answer := func(exit int, out, err string) string {
		return fmt.Sprintf("00"+`{"exit":%d,"stdout_bytes":%d,"stderr_bytes":%d}`+"\n%s%s", exit, len(out), len(err), out, err)
	}
	const missing = "/bin/cat: none: No such file or directory\n"
	tests := []struct {
		name, give string
		want       got
	}{
		{"stdin", `{"path":"/bin/cat"}` + "\na\n\x00\xff", finished(answer(0, "a\n\x00\xff", ""), ran("/bin/cat", "ok", 4, 4))},
		{"environment", `{"path":"/usr/bin/env","env":["A=b c"]}` + "\n", finished(answer(0, "LANG=C\nA=b c\n", ""), ran("/usr/bin/env", "ok", 13, 0))},
		{"other environment", `{"path":"/usr/bin/env","env":["A=d"]}` + "\n", finished("34", refused("/usr/bin/env"))},
		{"environment of another entry", `{"path":"/bin/cat","env":["A=b c"]}` + "\n", finished("34", refused("/bin/cat"))},
		{"port", `{"path":"/bin/cat","ports":[443]}` + "\n", finished("34", refused("/bin/cat"))},
		{"no stdin", `{"args":[],"path":"/bin/cat"}` + "\n", finished(answer(0, "", ""), ran("/bin/cat", "ok", 0, 0))},
		{"directory", `{"path":"/bin/cat","args":["a.txt"],"dir":"/docs/reports"}` + "\n", finished(answer(0, "alpha", ""), ran("/bin/cat", "ok", 5, 0))},
		{"stderr", `{"path":"/bin/cat","args":["none"]}` + "\n", finished(answer(1, "", missing), ran("/bin/cat", "error", int64(len(missing)), 0))},
		{"status", `{"path":"/bin/false"}` + "\n", finished(answer(1, "", ""), ran("/bin/false", "error", 0, 0))},
		{"signal", `{"path":"/bin/sh","args":["-c","kill -9 $$"]}` + "\n", finished(`00{"exit":-1,"signal":"killed","stdout_bytes":0,"stderr_bytes":0}`+"\n", ran("/bin/sh", "error", 0, 0))},
		{"another command", `{"path":"/bin/echo","args":["x"]}` + "\n", finished("34", refused("/bin/echo"))},
		{"other arguments", `{"path":"/bin/ls","args":["/"]}` + "\n", finished("34", refused("/bin/ls"))},
		{"more arguments", `{"path":"/bin/ls","args":["none","none"]}` + "\n", finished("34", refused("/bin/ls"))},
		{"flag", `{"path":"/bin/cat","args":["-n"]}` + "\n", finished("34", refused("/bin/cat"))},
		{"by another name", `{"path":"/bin/../bin/cat"}` + "\n", finished("34", refused("/bin/../bin/cat"))},
		{"relative", `{"path":"cat"}` + "\n", finished("34", refused("cat"))},
		{"directory beside", `{"path":"/bin/cat","dir":"/docs"}` + "\n", finished("34", ran("/bin/cat", "refused", 0, 0))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.poke(t, program{}.ask(callExec, tt.give), call.Bounds{}, "read")
			compare(t, tt.want, seen(taken(out), o))
		})
	}
	t.Run("prints more than it may", func(t *testing.T) {
		p := program{}.put(0, `{"path":"/bin/cat"}`+"\n").step(fill, 20, 2000, 'x').step(callExec, 0, 2020, lengthAt)
		out, o := w.poke(t, p, call.Bounds{OutputBytes: 1999}, "read")
		if out != "5" || len(o.Effects) != 1 || o.Effects[0].Code != "over_cap" {
			t.Errorf("number %q, %v", out, o.Effects)
		}
	})
	t.Run("no grant", func(t *testing.T) {
		w.more = call.Caps{}
		out, o := w.poke(t, program{}.ask(callExec, `{"path":"/bin/cat"}`+"\n"), call.Bounds{}, "read")
		compare(t, finished("34", refused("/bin/cat")), seen(taken(out), o))
	})
}

// What is no request runs nothing.
func TestCallgateExecMalformed(t *testing.T) {
	w := runner(t)
	for name, give := range map[string]string{
		"nothing":        "",
		"no JSON":        "\n",
		"no newline":     `{"path":"/bin/cat"}`,
		"array":          "[]\n",
		"no path":        `{"args":[]}` + "\n",
		"empty path":     `{"path":""}` + "\n",
		"unknown member": `{"path":"/bin/cat","shell":true}` + "\n",
		"other case":     `{"Path":"/bin/cat"}` + "\n",
		"twice":          `{"path":"/bin/cat","path":"/bin/cat"}` + "\n",
		"null":           `{"path":"/bin/cat","args":null}` + "\n",
		"null argument":  `{"path":"/bin/cat","args":[null]}` + "\n",
		"number":         `{"path":"/bin/cat","args":[1]}` + "\n",
		"one string":     `{"path":"/bin/cat","args":"a"}` + "\n",
		"NUL in env":     `{"path":"/bin/cat","env":["A=b\u0000c"]}` + "\n",
		"no port":        `{"path":"/bin/cat","ports":["1"]}` + "\n",
		"NUL":            `{"path":"/bin/cat","args":["a\u0000b"]}` + "\n",
		"no UTF-8":       `{"path":"/bin/cat","args":["` + "\xff" + `"]}` + "\n",
		"deep":           strings.Repeat("[", 20_000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			out, o := w.poke(t, program{}.put(0, give).step(callExec, 0, uint32(len(give)), lengthAt), call.Bounds{}, "read")
			compare(t, finished("2"), seen(out, o))
		})
	}
}

// A command ends with the run that waits for it, however that ends.
func TestCommandsEndWithTheRun(t *testing.T) {
	wait := program{}.ask(callExec, `{"path":"/bin/cat","args":["fifo"],"dir":"/docs/reports"}`+"\n")
	for name, tt := range map[string]struct {
		give call.Bounds
		want call.Code
		end  func(context.CancelFunc, *world)
	}{
		"deadline":       {short, call.CodeTimeExceeded, nil},
		"cancelled":      {call.Bounds{TimeoutMS: 3_600_000}, call.CodeCancelled, func(cancel context.CancelFunc, _ *world) { cancel() }},
		"sandbox closed": {call.Bounds{TimeoutMS: 3_600_000}, call.CodeCancelled, func(_ context.CancelFunc, w *world) { go w.box.Close(context.Background()) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := runner(t)
			digest, fx := w.install(t, "poke"), w.effects(t, tt.give, "read")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.end != nil {
				go func() {
					// Returns when the command opens it, and waits for something to read.
					f, err := os.OpenFile(filepath.Join(w.dir, "docs/reports/fifo"), os.O_WRONLY, 0)
					if err != nil {
						t.Error(err)
						cancel()
						return
					}
					t.Cleanup(func() { f.Close() })
					tt.end(cancel, w)
				}()
			}
			_, o := w.box.Run(ctx, digest, args(t, wait.args()), fx)
			if effects := fx.Close(); o.Code != tt.want || len(effects) != 1 || effects[0].Code != "stopped" {
				t.Errorf("ended %s, %v, want %s", o.Code, effects, tt.want)
			}
		})
	}
}

// A command that one call starts is found by other calls of its session.
func TestCallgateProcesses(t *testing.T) {
	w := runner(t)
	s := hostfx.Session{Call: "c", Owner: "alice", ID: "s"}
	do := func(s hostfx.Session, p program) string {
		t.Helper()
		fx := w.inSession(t, s, "read")
		defer fx.Close()
		out, o := w.box.Run(t.Context(), w.install(t, "poke"), args(t, p.args()), fx)
		if o.Code != call.CodeOK {
			t.Fatalf("ended %s", o.Code)
		}
		return taken(string(out))
	}
	start := func(req string) string {
		t.Helper()
		out := do(s, program{}.ask(callStart, req))
		id, ok := strings.CutPrefix(out, "00")
		if !ok || id == "" {
			t.Fatalf("exec_start gives %q", out)
		}
		return id
	}
	// until asks again and again, and joins what was printed.
	until := func(id, state string) string {
		t.Helper()
		var printed strings.Builder
		for {
			head, body, ok := strings.Cut(do(s, program{}.ask(callOutput, id)), "\n")
			printed.WriteString(body)
			if !ok || strings.HasPrefix(head, `00{"state":"`+state+`"`) {
				return strings.TrimPrefix(head, "00") + printed.String()
			}
		}
	}
	if got, want := until(start(`{"path":"/bin/cat"}`+"\nbeta"), "exited"), `{"state":"exited","exit":0,"stdout_bytes":`; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "}beta") {
		t.Errorf("it ended %s", got)
	}
	if got, want := until(start(`{"path":"/bin/sh","args":["-c","kill -9 $$"]}`+"\n"), "exited"), `{"state":"exited","exit":-1,"signal":"killed","stdout_bytes":0,"stderr_bytes":0}`; got != want {
		t.Errorf("it ended %s, want %s", got, want)
	}
	id := start(`{"path":"/bin/sleep","args":["86400"]}` + "\n")
	if got, want := do(s, program{}.ask(callOutput, id)), `00{"state":"running","stdout_bytes":0,"stderr_bytes":0}`+"\n"; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	for name, other := range map[string]hostfx.Session{
		"of another session": {Owner: "alice", ID: "t"}, "of another owner": {Owner: "bob", ID: "s"}, "of none": {},
	} {
		if got := do(other, program{}.ask(callOutput, id)); got != "34" {
			t.Errorf("exec_output of a call %s gives %s", name, got)
		}
		if got := do(other, program{}.tell(callKill, id, "")); got != "3" {
			t.Errorf("exec_kill of a call %s gives %s", name, got)
		}
	}
	if got := do(hostfx.Session{}, program{}.ask(callStart, `{"path":"/bin/cat"}`+"\n")); got != "34" {
		t.Errorf("exec_start of a call of no session gives %s", got)
	}
	for _, bad := range []string{"", "none", strings.Repeat("x", 10_000)} {
		if got := do(s, program{}.ask(callOutput, bad)) + do(s, program{}.tell(callKill, bad, "")); got != "343" {
			t.Errorf("exec_output and exec_kill of %.10q give %s", bad, got)
		}
	}
	if got := do(s, program{}.tell(callKill, id, "").tell(callKill, id, "")); got != "00" {
		t.Errorf("exec_kill gives %s", got)
	}
	if got, want := until(id, "stopped"), `{"state":"stopped","stdout_bytes":0,"stderr_bytes":0}`; got != want {
		t.Errorf("it ended %s, want %s", got, want)
	}
	if got := do(s, program{}.ask(callStart, `{"path":"/bin/echo"}`+"\n")); got != "34" {
		t.Errorf("exec_start of what is not granted gives %s", got)
	}
}
