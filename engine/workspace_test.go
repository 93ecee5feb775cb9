package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

const noteManifest = `
name: note
description: Writes a note.
kind: host
class: write
facts: none
input: {type: object, required: [text], properties: {text: {type: string}}, additionalProperties: false}
caps: {workspace: true, fs: [{root: work, path: ., modes: [write]}]}
`

var note = engine.Host(noteManifest, func(_ context.Context, fx *hostfx.Effects, in struct {
	Text string `json:"text"`
}) (string, error) {
	f, err := fx.OpenWrite("/work/note.txt")
	if err != nil {
		return "", err
	}
	_, err = f.Write([]byte(in.Text))
	return "", errors.Join(err, f.Close())
})

// atDesk is an engine over a folder with a note, whose policy lets everybody change it
// but mallory, who may only ask.
func atDesk(t *testing.T, ceiling *call.Caps) (e *engine.Engine, log *memory, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "work/note.txt")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "work"), 0o755), os.WriteFile(file, []byte("as it was\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	host, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "work", Path: filepath.Join(dir, "work")}}, Journal: filepath.Join(dir, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	log = &memory{}
	e, err = engine.New(engine.Options{
		Log: log, Host: host, Ceiling: ceiling, Tools: append([]engine.Tool{note}, engine.WorkspaceTools(host, ceiling)...), DecideTimeout: time.Minute,
		Policy: policy(func(in *call.Input) (call.Decision, error) {
			if in.Principal.ID == "mallory" {
				return call.Decision{}, nil
			}
			d := allow
			d.Grants = []call.RuleGrant{{Caps: call.Caps{Workspace: true, FS: []call.FS{{Root: "work", Path: ".", Modes: []string{"read", "write", "remove"}}}}}}
			return d, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, log, file
}

func noted(t *testing.T, e *engine.Engine, session string) string {
	t.Helper()
	res, err := e.Do(t.Context(), call.Call{Principal: alice, Session: session, Tool: "note", Args: []byte(`{"text":"canary\n"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return res.CallID
}

func reads(t *testing.T, file, want string) {
	t.Helper()
	if b, err := os.ReadFile(file); err != nil || string(b) != want {
		t.Errorf("the file has %q, %v, want %q", b, err, want)
	}
}

// What a call changed is shown and put back by calls that are decided and recorded like
// any other, for the principal and in the session of that call and for nobody else.
func TestUndoIsACall(t *testing.T) {
	e, log, file := atDesk(t, nil)
	id := noted(t, e, "")
	res, err := e.Diff(t.Context(), alice, "", id)
	if err != nil {
		t.Fatal(err)
	}
	var shown struct{ Diff string }
	if err := json.Unmarshal(res.Output, &shown, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if want := "changed file /work/note.txt (0644)\n--- /work/note.txt\n+++ /work/note.txt\n@@ -1,1 +1,1 @@\n-as it was\n+canary\n"; shown.Diff != want {
		t.Errorf("Diff = %q, want %q", shown.Diff, want)
	}

	session, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	bob, mallory := alice, alice
	bob.ID, mallory.ID = "bob", "mallory"
	for _, tt := range []struct {
		name    string
		who     call.Principal
		session string
		is      error
	}{
		{"another principal", bob, "", engine.ErrTool},
		{"another session", alice, session, engine.ErrTool},
		{"another's session", bob, session, engine.ErrDenied},
		{"whom policy refuses", mallory, "", engine.ErrDenied},
	} {
		if _, err := e.Undo(t.Context(), tt.who, tt.session, id); !errors.Is(err, tt.is) {
			t.Errorf("%s: Undo = %v", tt.name, err)
		}
		if _, err := e.Diff(t.Context(), tt.who, tt.session, id); !errors.Is(err, tt.is) {
			t.Errorf("%s: Diff = %v", tt.name, err)
		}
		reads(t, file, "canary\n")
	}

	own, err := e.Undo(t.Context(), alice, "", id)
	if err != nil {
		t.Fatal(err)
	}
	reads(t, file, "as it was\n")
	var te *engine.ToolError
	if _, err := e.Undo(t.Context(), alice, "", id); !errors.As(err, &te) || !strings.Contains(string(te.Result.Outcome.Stderr), "not as the call left it") {
		t.Errorf("a second time: %v", err)
	}
	if _, err := e.Undo(t.Context(), alice, "", own.CallID); err != nil {
		t.Errorf("undoing the undoing: %v", err)
	}
	reads(t, file, "canary\n")

	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range log.decoded(t) {
		if r.Call == own.CallID && r.Type == call.TypeDecision && r.Tool.Name != engine.UndoTool {
			t.Errorf("decision %+v", r)
		}
		if r.Call == own.CallID && r.Outcome != nil {
			for _, fx := range r.Outcome.Effects {
				kinds = append(kinds, fx.Kind+" "+fx.Code)
			}
		}
	}
	if got := strings.Join(kinds, ", "); got != "fs.write ok, workspace.undo ok" {
		t.Errorf("recorded: %s", got)
	}
	for _, r := range log.records {
		if strings.Contains(string(r), "canary") {
			t.Errorf("content in the log: %s", r)
		}
	}
}

// In a session of its own, a call is undone in that session.
func TestUndoInSession(t *testing.T) {
	e, _, file := atDesk(t, nil)
	session, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	id := noted(t, e, session)
	if _, err := e.Undo(t.Context(), alice, "", id); !errors.Is(err, engine.ErrTool) {
		t.Errorf("in another: %v", err)
	}
	if _, err := e.Undo(t.Context(), alice, session, id); err != nil {
		t.Error(err)
	}
	reads(t, file, "as it was\n")
}

// The tools are within the ceiling, and there are none where nothing is journaled.
func TestWorkspaceToolsKeepWithin(t *testing.T) {
	small := &call.Caps{Workspace: true, FS: []call.FS{{Root: "work", Path: ".", Modes: []string{"write"}}}, Bounds: call.Bounds{TimeoutMS: 1000}}
	e, _, _ := atDesk(t, small)
	id := noted(t, e, "")
	if _, err := e.Undo(t.Context(), alice, "", id); !errors.Is(err, engine.ErrTool) { // its ceiling has no mode remove
		t.Errorf("Undo = %v", err)
	}
	if tools := engine.WorkspaceTools(nil, nil); tools != nil {
		t.Errorf("without a host: %d tools", len(tools))
	}
	if m := engine.WorkspaceManifests([]string{"work"}, &call.Caps{}); m != nil {
		t.Errorf("within a ceiling without workspaces: %s", m)
	}
	var roots []string
	for i := range 40 {
		roots = append(roots, fmt.Sprintf("r%d", i))
	}
	if m := engine.WorkspaceManifests(roots, nil); len(m) != 2 {
		t.Errorf("of many roots: %s", m)
	}
	bare, err := engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}, DecideTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	for _, ask := range []func(context.Context, call.Principal, string, string) (*engine.Result, error){bare.Undo, bare.Diff} {
		_, err := ask(t.Context(), alice, "", id)
		if d, ok := errors.AsType[*engine.Denial](err); !ok || d.Code != call.CodeToolUnknown {
			t.Errorf("without the tools: %v", err)
		}
	}
}

// A diff that is too long for the grant's output is cut, whatever its JSON needs.
func TestDiffFits(t *testing.T) {
	e, _, file := atDesk(t, &call.Caps{Workspace: true, FS: []call.FS{{Root: "work", Path: ".", Modes: []string{"read", "write", "remove"}}}, Bounds: call.Bounds{OutputBytes: 2000}})
	if err := os.WriteFile(file, []byte(strings.Repeat("\x01\"\\\n", 2000)), 0o644); err != nil {
		t.Fatal(err)
	}
	res, err := e.Diff(t.Context(), alice, "", noted(t, e, ""))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(res.Output); n > 2000 || n < 1000 || !strings.Contains(string(res.Output), "the rest is left out") {
		t.Errorf("%d bytes: %.100s", n, res.Output)
	}
}
