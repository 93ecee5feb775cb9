package state_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/token"
	"github.com/callgate/callgate/hostfx"
)

// killEnv makes the test binary a process that is killed: where, and its directory.
const killEnv = "CALLGATE_TEST_KILL"

// armed makes the process die at the place that it is told.
var armed atomic.Bool

func die() {
	if armed.Load() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // never returns
		select {}
	}
}

// spending dies when a grant is spent and nothing says so yet.
type spending struct{ *state.Local }

func (s spending) Spend(ctx context.Context, g state.Spend) (call.Change, error) {
	c, err := s.Local.Spend(ctx, g)
	die()
	return c, err
}

// recording dies when a record is durable and nobody knows yet.
type recording struct{ *audit.Log }

func (l recording) Append(ctx context.Context, rec []byte) (int64, error) {
	index, err := l.Log.Append(ctx, rec)
	die()
	return index, err
}

// executor is an engine that issues grants and runs them. Its tool writes a line.
func executor(dir string, s state.Store, log engine.Log, ran func()) (*engine.Engine, error) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	signer, err := token.NewSigner(key)
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey)
	issuers, err := token.NewVerifier(token.Issuer{Name: "here", Keys: token.Set{token.Thumbprint(public): public}, SharesState: true})
	if err != nil {
		return nil, err
	}
	run := func(context.Context, *hostfx.Effects, map[string]float64) (string, error) {
		f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		_, err = f.WriteString("ran\n")
		ran()
		return "ran", errors.Join(err, f.Close())
	}
	manifest := "name: act\ndescription: a tool\nkind: host\nclass: read\n" +
		"input: {type: object, properties: {n: {type: number}}, required: [n], additionalProperties: false}\n"
	return engine.New(engine.Options{
		Policy: allows{}, Log: log, State: s, DecideTimeout: 1 << 40, Tools: []engine.Tool{engine.Host(manifest, run)},
		Grants: &engine.Grants{Signer: signer, Issuer: "here", Issuers: issuers, Audience: "here"},
	})
}

type allows struct{}

func (allows) Decide(context.Context, *call.Input) (call.Decision, error) {
	return call.Decision{Verdict: call.Allow, Revisions: []call.Revision{{Name: "test", Digest: "sha256:0"}}}, nil
}

var actArgs = []byte(`{"n":1}`)

// useGrant issues a grant, says it, and uses it, until it is killed.
func useGrant(where, dir string) error {
	log, err := audit.Open(filepath.Join(dir, "data"), audit.Options{})
	if err != nil {
		return err
	}
	var (
		s   state.Store
		l   engine.Log = log
		ran            = func() {}
	)
	switch where {
	case "spent":
		s = spending{state.NewLocal()}
	case "recorded":
		l = recording{log}
	case "running":
		ran = die
	}
	e, err := executor(dir, s, l, ran)
	if err != nil {
		return err
	}
	who := call.Principal{ID: "alice", Kind: "agent", Auth: call.Auth{Method: "jwt", Issuer: "https://idp.example"}}
	raw, err := e.Issue(context.Background(), call.Call{Principal: who, Tool: "act", Args: actArgs}, "here")
	if err != nil {
		return err
	}
	fmt.Println(raw)
	armed.Store(true)
	_, err = e.Execute(context.Background(), raw, actArgs)
	return err
}

// A process that is killed while it uses a grant runs it once, or not at all. Before the
// record of its use is durable nothing has run: then it can be used after all, once.
func TestKilledWhileAGrantIsUsed(t *testing.T) {
	for where, want := range map[string]struct {
		runs  int       // when it was killed
		again call.Code // the grant is tried again after that
	}{
		"spent":    {0, ""},
		"recorded": {0, call.CodeGrantSpent},
		"running":  {1, call.CodeGrantSpent},
	} {
		t.Run(where, func(t *testing.T) {
			dir := t.TempDir()
			effects := func() int {
				b, err := os.ReadFile(filepath.Join(dir, "effects"))
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				return bytes.Count(b, []byte("\n"))
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), killEnv+"="+where+","+dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the process ended: %v", err)
			}
			raw, err := bufio.NewReader(bytes.NewReader(out)).ReadString('\n')
			if err != nil {
				t.Fatalf("it issued %q", out)
			}
			if n := effects(); n != want.runs {
				t.Fatalf("killed when %s, it had run %d times, want %d", where, n, want.runs)
			}
			log, err := audit.Open(filepath.Join(dir, "data"), audit.Options{})
			if err != nil {
				t.Fatal(err)
			}
			e, err := executor(dir, nil, log, func() {})
			if err != nil {
				t.Fatal(err)
			}
			codes := []call.Code{want.again, call.CodeGrantSpent}
			for _, code := range codes {
				_, err := e.Execute(t.Context(), strings.TrimSpace(raw), actArgs)
				var got call.Code
				if d, ok := errors.AsType[*engine.Denial](err); ok {
					got = d.Code
				} else if err != nil {
					t.Error(err)
				}
				if got != code {
					t.Errorf("used again: %q, want %q", got, code)
				}
			}
			if n := effects(); n > 1 {
				t.Errorf("it ran %d times", n)
			}
			if err := errors.Join(e.Close(), log.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
