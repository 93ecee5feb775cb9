package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/callgate/callgate/engine/state/redis/redistest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// bin is where the real command is, which scripts run: built once, and without the
// race detector, under which it would start several times as slowly. What runs
// in this process is watched by it.
var bin string

func TestMain(m *testing.M) {
	sandbox.Main()
	hostfx.Main()
	dir, err := os.MkdirTemp("", "callgate-bin-")
	if err != nil {
		panic(err)
	}
	bin = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// buildOnce is for tests that run the command as a process.
var buildOnce = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "callgate"), ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

// Stories told with the real command. `flip FILE TEXT` changes one byte of the
// first place where TEXT stands.
func TestScript(t *testing.T) {
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// Machines that run tests are busy; the 50 ms of policy are tested elsewhere.
			env.Setenv("CALLGATE_DECIDE_TIMEOUT", "1m")
			env.Setenv("REDIS", server.Address)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return goEnv(env)
		},
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"flip": flip},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// goEnv lets scripts build tools in Go with this checkout, and with nothing that is
// not here already.
func goEnv(env *testscript.Env) error {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return err
	}
	dirs := strings.Split(string(out), "\n")
	source, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Vars = append(env.Vars, "GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1], "SOURCE="+source, "MODULES="+filepath.Join(source, "sandbox/guests"),
		"GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOFLAGS=", "GOWORK=off")
	return nil
}

func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip file text")
	}
	text := ts.ReadFile(args[0])
	at := strings.Index(text, args[1])
	if at < 0 {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	b := []byte(text)
	b[at] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}

// Every command says what it does, by example.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"init"}, {"call"}, {"undo"}, {"diff"}, {"issue"}, {"exec"}, {"revoke"}, {"grants"}, {"grants", "keys"}, {"grants", "jwks"}, {"grants", "rotate"}, {"grants", "verify"}, {"approvals"}, {"approvals", "list"}, {"approvals", "show"}, {"approvals", "approve"}, {"approvals", "deny"}, {"approvals", "wait"}, {"demo"}, {"audit"}, {"audit", "verify"}, {"bundle"}, {"bundle", "build"}, {"bundle", "sign"}, {"bundle", "verify"}, {"bundle", "inspect"}, {"bundle", "prune"}, {"policy"}, {"policy", "test"}, {"policy", "check"}, {"policy", "lint"}, {"policy", "eval"}, {"policy", "explain"}, {"policy", "diff"}, {"policy", "who-can"}, {"policy", "what-can"}, {"policy", "vendor"}, {"serve"}, {"tools"}, {"tools", "new"}, {"tools", "inspect"}, {"tools", "run"}, {"tools", "compile"}, {"codes"}} {
		var out, errOut strings.Builder
		code := run(context.Background(), append(args, "--help"), strings.NewReader(""), &out, &errOut)
		if code != exitOK || errOut.Len() > 0 {
			t.Errorf("%v --help: exit %d, %s", args, code, errOut.String())
		}
		if !strings.Contains(out.String(), "Examples:\n  callgate ") {
			t.Errorf("%v --help has no example:\n%s", args, out.String())
		}
	}
}
