package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/token"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/sandbox"
)

const policyText = `package callgate

import rego.v1

# Nobody may do anything that is not said below.
default decision := {"decision": "deny", "reasons": [{"code": "not_listed"}]}

# Anyone may be greeted but nobody, and that gets a second.
decision := {"decision": "allow", "grants": [{"bounds": {"timeout_ms": 1000}}]} if {
	input.tool.name == "greet"
	input.args.name != "nobody"
}

# Notes may be read, and nothing else in that folder.
decision := {"decision": "allow", "grants": [{"fs": [{"root": "work", "path": "notes", "modes": ["read"]}]}]} if {
	input.tool.name == "word-count"
	every p in input.facts.paths { p.root == "work" }
}

# Mail stays in the house. The caller's own program sends it.
decision := {"decision": "allow"} if {
	input.tool.name == "send-mail"
	endswith(input.args.to, "@example.com")
}
`

// openGate opens an engine over dir: a policy, a log, a folder called work, and
// these tools.
func openGate(ctx context.Context, dir string, tools ...engine.Tool) (*engine.Engine, func(), error) {
	policy, err := rego.Open(ctx, os.DirFS(filepath.Join(dir, "bundle")), rego.Options{})
	if err != nil {
		return nil, nil, err
	}
	host, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "work", Path: filepath.Join(dir, "work")}}})
	if err != nil {
		return nil, nil, err
	}
	data := filepath.Join(dir, "data")
	log, err := audit.Open(data, audit.Options{})
	if err != nil {
		host.Close()
		return nil, nil, err
	}
	parts := func() { log.Close(); host.Close() }
	salts, err := audit.OpenSalts(data) // without them, limits are forgotten with the process
	if err != nil {
		parts()
		return nil, nil, err
	}
	e, err := engine.New(engine.Options{
		Policy: policy, Log: log, Salts: salts, Host: host, Tools: tools,
		DecideTimeout: 10 * time.Second, // 50 ms unless said; this runs as a test, on machines that are busy
	})
	if err != nil {
		parts()
		return nil, nil, err
	}
	return e, func() { e.Close(); parts() }, nil // the engine first: it waits for its records
}

var agent = call.Principal{ID: "agent-7", Kind: "agent", Auth: call.Auth{Method: "mtls", Issuer: "internal"}}

// Over one data directory, with all that the command has. If another process has
// the directory open, it is asked.
func Example_local() {
	ctx, dir := context.Background(), exampleDir()
	greet := engine.Host(`
name: greet
description: Greets somebody.
kind: host
class: read
input:
  type: object
  properties: {name: {type: string, maxLength: 100}}
  required: [name]
  additionalProperties: false
`, func(_ context.Context, _ *hostfx.Effects, in map[string]string) (string, error) {
		return "Hello " + in["name"], nil
	})
	gate, err := local.Join(ctx, local.Config{
		Data:      filepath.Join(dir, "data"),
		Bundle:    filepath.Join(dir, "bundle"),
		Roots:     []hostfx.Root{{Name: "work", Path: filepath.Join(dir, "work")}},
		HostTools: []engine.Tool{greet},

		DecideTimeout: 10 * time.Second, // 50 ms unless said; this runs as a test, on machines that are busy
	})
	if err != nil {
		panic(err)
	}
	defer gate.Close()

	res, err := gate.Do(ctx, call.Call{Principal: agent, Tool: "greet", Args: []byte(`{"name": "Ada"}`)})
	fmt.Println(string(res.Output), err)
	// Output: "Hello Ada" <nil>
}

// A Go service puts a policy in front of a tool of its own.
func ExampleEngine_Do() {
	type greeting struct {
		Name string `json:"name"`
	}
	greet := engine.Host(`
name: greet
description: Greets somebody.
kind: host
class: read
input:
  type: object
  properties: {name: {type: string, maxLength: 100}}
  required: [name]
  additionalProperties: false
`, func(_ context.Context, _ *hostfx.Effects, in greeting) (string, error) {
		return "Hello " + in.Name, nil
	})
	ctx := context.Background()
	e, done, err := openGate(ctx, exampleDir(), greet)
	if err != nil {
		panic(err)
	}
	defer done()

	res, err := e.Do(ctx, call.Call{Principal: agent, Tool: "greet", Args: []byte(`{"name": "Ada"}`)})
	fmt.Println(string(res.Output), err)

	_, err = e.Do(ctx, call.Call{Principal: agent, Tool: "greet", Args: []byte(`{"name": "nobody"}`)})
	fmt.Println(errors.Is(err, engine.ErrDenied), err)
	// Output:
	// "Hello Ada" <nil>
	// true greet: policy_denied: policy says no (not_listed)
}

// A tool reaches the world through its effects, which are what the grant gives.
func ExampleHost() {
	type file struct {
		Path string `json:"path"`
	}
	wordCount := engine.Host(`
name: word-count
description: Counts the words in a note.
kind: host
class: read
facts:
  paths: [{at: /path, mode: read}]
input:
  type: object
  properties: {path: {type: string}}
  required: [path]
  additionalProperties: false
caps:
  fs: [{root: work, path: ., modes: [read]}]
`, func(_ context.Context, fx *hostfx.Effects, in file) (int, error) {
		text, err := fx.ReadFile(in.Path)
		return len(bytes.Fields(text)), err
	})
	ctx := context.Background()
	e, done, err := openGate(ctx, exampleDir(), wordCount)
	if err != nil {
		panic(err)
	}
	defer done()

	for _, path := range []string{"/work/notes/todo.txt", "/work/payroll.txt", "/work/notes/../payroll.txt"} {
		res, err := e.Do(ctx, call.Call{Principal: agent, Tool: "word-count", Args: fmt.Appendf(nil, `{"path": %q}`, path)})
		if failed, ok := errors.AsType[*engine.ToolError](err); ok {
			res = failed.Result
		}
		if res == nil {
			fmt.Println(path, "did not run:", err)
			continue
		}
		fx := res.Outcome.Effects[0]
		fmt.Println(path, string(res.Output), fx.Kind, fx.Code)
	}
	// Output:
	// /work/notes/todo.txt 3 fs.read ok
	// /work/payroll.txt  fs.read refused
	// /work/notes/../payroll.txt did not run: word-count: facts_unparsable: a URL, path or command in the arguments is one that programs read differently: at /path: the path has a dot segment
}

// A service asks before it runs a tool of its own, and says what came of it.
func ExamplePlain() {
	greet := func(_ context.Context, args jsontext.Value) (string, error) { // from another framework
		var in map[string]string
		err := json.Unmarshal(args, &in)
		return "Hello " + in["name"], err
	}
	ctx := context.Background()
	e, done, err := openGate(ctx, exampleDir(), engine.Plain(`
name: greet
description: Greets somebody.
kind: host
class: read
input:
  type: object
  properties: {name: {type: string, maxLength: 100}}
  required: [name]
  additionalProperties: false
`, greet))
	if err != nil {
		panic(err)
	}
	defer done()

	res, err := e.Do(ctx, call.Call{Principal: agent, Tool: "greet", Args: []byte(`{"name": "Ada"}`)})
	fmt.Println(string(res.Output), err)
	// Output: "Hello Ada" <nil>
}

func ExampleEngine_Authorize() {
	sendMail := engine.External(`
name: send-mail
description: Sends a mail.
kind: external
class: write
input:
  type: object
  properties: {to: {type: string}, text: {type: string}}
  required: [to, text]
  additionalProperties: false
`)
	ctx := context.Background()
	e, done, err := openGate(ctx, exampleDir(), sendMail)
	if err != nil {
		panic(err)
	}
	defer done()

	permit, err := e.Authorize(ctx, call.Call{Principal: agent, Tool: "send-mail", Args: []byte(`{"to": "bob@example.com", "text": "Hi"}`)})
	if err != nil {
		panic(err) // an *engine.Denial: the mail must not be sent
	}
	fmt.Printf("send %s\n", permit.Args()) // these arguments, not your own
	res, err := permit.Finish(ctx, engine.Reported{Output: []byte("queued")})
	fmt.Println(string(res.Output), res.Outcome.Code, err)

	_, err = e.Authorize(ctx, call.Call{Principal: agent, Tool: "send-mail", Args: []byte(`{"to": "eve@example.org", "text": "Hi"}`)})
	fmt.Println(errors.Is(err, engine.ErrDenied), err)
	// Output:
	// send {"text":"Hi","to":"bob@example.com"}
	// queued ok <nil>
	// true send-mail: policy_denied: policy says no (not_listed)
}

// One machine decides and another one runs, with nothing in common but the tool and
// the public keys of the first.
func ExampleEngine_Issue() {
	ctx, here, there := context.Background(), exampleDir(), exampleDir()
	greet := engine.Host(`
name: greet
description: Greets somebody.
kind: host
class: read
input:
  type: object
  properties: {name: {type: string, maxLength: 100}}
  required: [name]
  additionalProperties: false
`, func(_ context.Context, _ *hostfx.Effects, in map[string]string) (string, error) {
		return "Hello " + in["name"], nil
	})
	place := func(dir string, g local.Grants) *local.Engine {
		e, err := local.Open(ctx, local.Config{
			Data: filepath.Join(dir, "data"), Bundle: filepath.Join(dir, "bundle"), HostTools: []engine.Tool{greet}, Grants: g,
			DecideTimeout: 10 * time.Second, // 50 ms unless said; this runs as a test, on machines that are busy
		})
		if err != nil {
			panic(err)
		}
		return e
	}
	// Once: keys for the one, which gives the public halves to the other.
	keys, jwks := filepath.Join(here, "keys"), filepath.Join(there, "decider.jwks.json")
	ring, err := token.MakeRing(keys, nil)
	if err != nil {
		panic(err)
	}
	set, err := ring.Set()
	if err != nil {
		panic(err)
	}
	public, err := set.Encode()
	if err := errors.Join(err, os.WriteFile(jwks, public, 0o600)); err != nil {
		panic(err)
	}

	decider := place(here, local.Grants{Keys: keys, Issuer: "decider"})
	defer decider.Close()
	runner := place(there, local.Grants{Audience: "runner", Issuers: []local.GrantIssuer{{Name: "decider", JWKS: jwks}}})
	defer runner.Close()

	args := []byte(`{"name": "Ada"}`)
	grant, err := decider.Issue(ctx, call.Call{Principal: agent, Tool: "greet", Args: args}, "runner")
	if err != nil {
		panic(err) // an *engine.Denial
	}
	res, err := runner.Execute(ctx, grant, args)
	fmt.Println(string(res.Output), err)

	_, err = runner.Execute(ctx, grant, args)
	fmt.Println(err)
	_, err = runner.Execute(ctx, grant, []byte(`{"name": "Eve"}`))
	fmt.Println(err)
	// Output:
	// "Hello Ada" <nil>
	// greet: grant_spent: the grant was used before
	// greet: grant_invalid: the grant is not one for this executor, tool and call, or its time is over: the arguments are others than those that were decided on
}

// A host with a journal has tools that show, and put back, what one call changed in its
// workspace.
func ExampleEngine_Undo() {
	ctx, dir := context.Background(), exampleDir()
	host, err := hostfx.New(hostfx.Options{
		Roots:   []hostfx.Root{{Name: "work", Path: filepath.Join(dir, "work")}},
		Journal: filepath.Join(dir, "journal"), // for one process; package local has it in the data directory
	})
	if err != nil {
		panic(err)
	}
	defer host.Close()
	tidy := engine.Host(`
name: tidy
description: Removes a file of notes.
kind: host
class: destructive
facts: none
input: {type: object, required: [name], properties: {name: {type: string, maxLength: 100}}, additionalProperties: false}
caps: {workspace: true, fs: [{root: work, path: ., modes: [write, remove]}]}
`, func(_ context.Context, fx *hostfx.Effects, in map[string]string) (string, error) {
		w, err := fx.Workspace()
		if err != nil {
			return "", err
		}
		name, err := w.ResolvePath(in["name"])
		if err != nil {
			return "", err
		}
		return "", fx.Remove(name)
	})
	// Policy decides about undoing as about all else.
	policy := policy(func(*call.Input) (call.Decision, error) {
		notes := call.Caps{Workspace: true, FS: []call.FS{{Root: "work", Path: "notes", Modes: []string{"read", "write", "remove"}}}}
		return call.Decision{Verdict: call.Allow, Grants: []call.RuleGrant{{Caps: notes}}}, nil
	})
	e, err := engine.New(engine.Options{
		Policy: policy, Log: &memory{}, Host: host, Tools: append(engine.WorkspaceTools(host, nil), tidy),
		DecideTimeout: 10 * time.Second,
	})
	if err != nil {
		panic(err)
	}
	defer e.Close()

	res, err := e.Do(ctx, call.Call{Principal: agent, Tool: "tidy", Args: []byte(`{"name": "todo.txt"}`)})
	if err != nil {
		panic(err)
	}
	_, err = e.Undo(ctx, agent, "", res.CallID)
	text, readErr := os.ReadFile(filepath.Join(dir, "work/notes/todo.txt"))
	fmt.Printf("%q %v %v\n", text, err, readErr)
	_, err = e.Undo(ctx, agent, "", res.CallID)
	fmt.Println(err)
	// Output:
	// "buy more milk\n" <nil> <nil>
	// workspace_undo: tool_error: the tool ran and reported an error
}

// exampleDir is a new directory with a policy and some files.
func exampleDir() string {
	dir, err := os.MkdirTemp(exampleRoot, "")
	if err != nil {
		panic(err)
	}
	for name, text := range map[string]string{
		"bundle/policy.rego": policyText, "work/notes/todo.txt": "buy more milk\n", "work/payroll.txt": "secret\n",
	} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			panic(err)
		}
	}
	return dir
}

// exampleRoot is removed after all tests.
var exampleRoot string

func TestMain(m *testing.M) {
	sandbox.Main()
	dir, err := os.MkdirTemp("", "callgate-example-")
	if err != nil {
		panic(err)
	}
	exampleRoot = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
