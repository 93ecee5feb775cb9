package engine_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// No grant without an allow, no effect without a grant, nothing allowed runs
// before its record is durable.
func TestPromise1OneRoad(t *testing.T) {
	t.Run("one place mints grants", func(t *testing.T) {
		var minters []string
		err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Mint" {
					minters = append(minters, filepath.ToSlash(path))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"../engine/do.go", "../engine/grant/granttest/granttest.go"}
		if diff := cmp.Diff(want, minters); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the record is durable before the tool runs", func(t *testing.T) {
		r := newReal(t)
		seen := ""
		look := engine.Host(strings.ReplaceAll(echoManifest, "name: echo", "name: read-file"), func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
			for _, rec := range r.records(t) { // from the disk, while the tool runs
				if rec.Call == fx.Grant().CallID() && rec.Verdict == call.Allow {
					seen = rec.Call
				}
			}
			return "", nil
		})
		r.o.Tools = []engine.Tool{look}
		e := open(t, r.o)
		res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "read-file"})
		if err != nil {
			t.Fatal(err)
		}
		if seen != res.CallID {
			t.Error("the tool ran before its record could be read back from the disk")
		}
	})
	t.Run("a refused call leaves one record and no instance", func(t *testing.T) {
		r := newReal(t)
		guests := &spy{Guests: r.o.Guests}
		r.o.Guests = guests
		e := open(t, r.o)
		c := readFile("/docs/welcome.txt")
		c.Principal.Roles = nil
		if _, err := e.Do(t.Context(), c); !errors.Is(err, engine.ErrDenied) {
			t.Fatalf("Do = %v", err)
		}
		if guests.runs != 0 {
			t.Error("a guest ran")
		}
		if recs := r.records(t); len(recs) != 1 || recs[0].Code != call.CodePolicyDenied {
			t.Errorf("records %+v", recs)
		}
	})
}

// spy counts the runs of guests.
type spy struct {
	engine.Guests
	runs int
}

func (s *spy) Run(ctx context.Context, digest string, args call.Args, fx *hostfx.Effects) ([]byte, call.Outcome) {
	s.runs++
	return s.Guests.Run(ctx, digest, args, fx)
}

// The default, the timeout, the error and the undefined deny.
func TestPromise2DenyIsTheZeroValue(t *testing.T) {
	if v := (call.Decision{}).Verdict; v == call.Allow || v == call.Ask {
		t.Errorf("the zero decision is %q", v)
	}
	if (state.Answer{}).Admitted {
		t.Error("the zero answer admits")
	}
	var g grant.Grant
	if g.Live() || g.Spend(time.Now()) || g.Is("", call.Args{}) {
		t.Error("the zero grant grants")
	}
	if call.Code("").Info().Class == call.ClassRan {
		t.Error("the zero code is a success")
	}
	if (call.Outcome{}).Status == call.Succeeded {
		t.Error("the zero outcome is a success")
	}
	for _, op := range []call.Op{{}, {Kind: "fs", Root: "docs", Path: ".", Mode: "read"}, {Kind: "log"}} {
		if (call.Caps{}).Allows(op) {
			t.Errorf("no capabilities allow %+v", op)
		}
	}
	t.Run("a policy that never answers", func(t *testing.T) {
		log, tool := &memory{}, &counted{}
		e := open(t, engine.Options{Policy: stuck{}, Log: log, DecideTimeout: time.Millisecond, Tools: []engine.Tool{tool.tool()}})
		_, err := e.Do(t.Context(), echo("x"))
		if d, ok := err.(*engine.Denial); !ok || d.Code != call.CodePolicyTimeout || tool.count() != 0 {
			t.Errorf("Do = %v", err)
		}
	})
}

type stuck struct{}

func (stuck) Decide(ctx context.Context, _ *call.Input) (call.Decision, error) {
	<-ctx.Done()
	return call.Decision{Verdict: call.Allow}, ctx.Err()
}

// Arguments are made canonical once: policy, record, grant and tool see the same
// bytes, whatever the caller's spelling.
func TestPromise3SameBytes(t *testing.T) {
	const want = `{"n":100,"text":"é\n"}`
	spellings := []string{
		want,
		"{ \"text\" : \"\\u00e9\\n\",\n \"n\":1e2 }",
		`{"n":100.0,"text":"\u00E9\u000a"}`,
	}
	for _, s := range spellings {
		var decided []byte
		p := policy(func(in *call.Input) (call.Decision, error) {
			decided = in.Args.Bytes()
			return allow, nil
		})
		var granted bool
		tool := &counted{}
		log := &memory{}
		var got echoArgs
		tool.fn = func(_ context.Context, fx *hostfx.Effects, in echoArgs) (string, error) {
			args, err := call.Canonical([]byte(want))
			granted = err == nil && fx.Grant().Is(tool.digest(t), args)
			got = in
			return "", nil
		}
		e := open(t, engine.Options{Policy: p, Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{tool.tool()}})
		res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "echo", Args: []byte(s)})
		if err != nil {
			t.Fatal(err)
		}
		if string(decided) != want {
			t.Errorf("policy saw %s", decided)
		}
		if !granted {
			t.Error("the grant is for other arguments")
		}
		if got != (echoArgs{Text: "é\n", N: 100}) {
			t.Errorf("the tool got %+v", got)
		}
		if d := log.decoded(t)[0].Args; d != call.Keyed([32]byte{1}, res.CallID, "args", []byte(want)) {
			t.Errorf("the record has the digest %s", d)
		}
	}
}

// A guest reads from its stdin what policy decided on, byte for byte.
func TestPromise3SameBytesInGuests(t *testing.T) {
	r := newReal(t)
	r.o.Policy = always(allow)
	r.o.Tools = []engine.Tool{engine.Wasm(guestTool(t, "echo", "{type: object, properties: {n: {type: number}}, additionalProperties: false}"))}
	e := open(t, r.o)
	res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "echo", Args: []byte(" {\"n\" : 1.50} ")})
	if err != nil || string(res.Output) != `{"n":1.5}` {
		t.Errorf("the guest read %s, %v", res.Output, err)
	}
}

// This principal, tool, arguments and capabilities, once, before a time.
func TestPromise4AGrantIsOneCall(t *testing.T) {
	args, err := call.Canonical([]byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	other, err := call.Canonical([]byte(`{"a":2}`))
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() grant.Grant { return granttest.Mint(t, "sha256:tool", args, call.Caps{Log: true}) }

	g := fresh()
	if !g.Is("sha256:tool", args) || g.Is("sha256:other", args) || g.Is("sha256:tool", other) {
		t.Error("the grant does not tell its own call from another")
	}
	if !g.Spend(time.Now()) || g.Spend(time.Now()) {
		t.Error("a grant is spent once, not never and not twice")
	}
	if fresh().Spend(time.Now().Add(time.Hour)) {
		t.Error("an expired grant was spent")
	}
	g = fresh()
	granttest.Kill(g)
	if g.Live() || g.Spend(time.Now()) || g.Caps().Log {
		t.Error("a dead grant lives on")
	}
	caps := fresh().Caps()
	caps.Log = false
	if g = fresh(); !g.Caps().Log {
		t.Error("a grant shares its capabilities with whoever reads them")
	}

	// A tool that keeps its grant cannot open anything with it again.
	host, err := hostfx.New(hostfx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	var second error
	tool := &counted{fn: func(ctx context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
		if p := fx.Grant().Policy(); !slices.Equal(p, allow.Revisions) {
			t.Errorf("the grant names the policy %+v", p)
		}
		_, second = host.Open(ctx, fx.Grant())
		return "", nil
	}}
	e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Host: host, Tools: []engine.Tool{tool.tool()}})
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	if call.CodeOf(second, "") != call.CodeGrantMismatch {
		t.Errorf("opened a second time: %v", second)
	}
}

// What a grant does not give does not exist, whatever the manifest could have.
func TestPromise5StructureNotConvention(t *testing.T) {
	tests := []struct {
		name   string
		grants []call.RuleGrant
		path   string
		want   []call.Effect
		ok     bool
	}{
		{name: "granted", grants: []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}}}}}, path: "/docs/welcome.txt",
			want: []call.Effect{{Kind: "fs.read", Within: "/docs", Target: "/docs/welcome.txt", Code: "ok", BytesIn: 74, Enforcement: "structural"}}, ok: true},
		{name: "nothing granted", path: "/docs/welcome.txt"},
		{name: "a folder below", grants: []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: "notes", Modes: []string{"read"}}}}}}, path: "/docs/welcome.txt"},
		{name: "more than the manifest has", grants: []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"list"}}}}}}, path: "/docs/welcome.txt"},
		{name: "out of the folder", grants: []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}}}}}, path: "/docs/../../callgate.yaml",
			want: []call.Effect{{Kind: "fs.read", Within: "/docs", Target: "/callgate.yaml", Code: "refused", Enforcement: "structural"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReal(t)
			d := allow
			d.Grants = tt.grants
			r.o.Policy = always(d)
			e := open(t, r.o)
			res, err := e.Do(t.Context(), readFile(tt.path))
			if te, ok := errors.AsType[*engine.ToolError](err); ok {
				res = te.Result
			} else if err != nil {
				t.Fatal(err)
			}
			if (err == nil) != tt.ok {
				t.Errorf("Do = %v", err)
			}
			for i := range res.Outcome.Effects {
				res.Outcome.Effects[i].TookUS = 0
			}
			if diff := cmp.Diff(tt.want, slices.Clip(res.Outcome.Effects)); diff != "" && len(tt.want)+len(res.Outcome.Effects) > 0 {
				t.Errorf("effects:\n%s", diff)
			}
		})
	}
}

// The bundle that init writes runs under plain OPA, unmodified.
func TestPromise7PlainOPA(t *testing.T) {
	r := newReal(t)
	bundle := filepath.Join(r.dir, "bundle")
	schema := filepath.Join("..", "rego", "schema")
	for _, args := range [][]string{
		{"test", "-b", bundle},
		{"check", "--strict", "-b", "-s", filepath.Join(schema, "input.json"), "--capabilities", filepath.Join(schema, "capabilities.json"), bundle},
		{"eval", "-b", bundle, "--fail", "data.callgate.decision"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"tool", "opa"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("opa %s: %v\n%s", args[0], err, out)
		}
	}
}

// The record says what ran, and the threat model says what is not protected.
func TestPromise8TheTruth(t *testing.T) {
	text, err := os.ReadFile("../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, not, ok := strings.Cut(string(text), "## What is not protected")
	if !ok {
		t.Fatal("the threat model has no section on what is not protected")
	}
	for _, want := range []string{"bypass the gate", "allowed host", "leaking later", "Prompt injection", "Go host tools", "compiler of guests", "compromised host", "log at rest", "clock"} {
		if !strings.Contains(not, want) {
			t.Errorf("the threat model does not speak of %q", want)
		}
	}
	r := newReal(t)
	r.o.Policy = always(allow)
	r.o.Tools = append(r.o.Tools, (&counted{}).tool(), engine.External(mailManifest))
	e := open(t, r.o)
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Do(t.Context(), readFile("/docs/welcome.txt")); !errors.Is(err, engine.ErrTool) {
		t.Fatal(err)
	}
	permit, err := e.Authorize(t.Context(), mail("bob"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := permit.Finish(t.Context(), engine.Reported{}); err != nil {
		t.Fatal(err)
	}
	e.Close()
	kinds := map[string]string{}
	for _, rec := range r.records(t) {
		if rec.Outcome != nil && rec.Outcome.Reported != (rec.Call == permit.CallID()) {
			t.Errorf("who saw it run? %+v", rec)
		}
		if rec.Tool != nil {
			kinds[rec.Tool.Name] = rec.Tool.Kind
		}
	}
	if diff := cmp.Diff(map[string]string{"echo": "host", "read-file": "wasm", "mail": "external"}, kinds); diff != "" {
		t.Error(diff)
	}
}

// Programs outside of the engine that try to make a grant do not compile.
func TestGrantCannotBeForged(t *testing.T) {
	tests := []struct{ name, code, want string }{
		{"a literal", `var _ = grant.Grant{nil}`, "unexported field"},
		{"a named field", `var _ = grant.Grant{B: nil}`, "unknown field"},
		{"the constructor", `var _ = seal.Mint(seal.Terms{})`, "use of internal package"},
		{"control: the zero value", `var _ grant.Grant`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			imports := `import "github.com/callgate/callgate/engine/grant"`
			if strings.Contains(tt.code, "seal.") {
				imports = `import "github.com/callgate/callgate/engine/internal/seal"`
			}
			// An overlay puts the program beside the engine without writing there.
			dir := t.TempDir()
			source := filepath.Join(dir, "main.go")
			if err := os.WriteFile(source, []byte("package main\n\n"+imports+"\n\n"+tt.code+"\n\nfunc main() {}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			at, err := filepath.Abs("../cmd/forger/main.go")
			if err != nil {
				t.Fatal(err)
			}
			overlay := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(overlay, []byte(`{"Replace":{"`+at+`":"`+source+`"}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", os.DevNull, "../cmd/forger").CombinedOutput()
			if tt.want == "" {
				if err != nil {
					t.Fatalf("the control does not compile: %s", out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("go build: %v, want %q in:\n%s", err, tt.want, out)
			}
		})
	}
}
