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

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

type rawFunc = func(context.Context, call.Caps, jsontext.Value) ([]byte, error)

// A raw tool gets the canonical arguments and what was granted, and nothing else of
// the road is left out: it is pinned, decided, recorded, and bounded.
func TestRaw(t *testing.T) {
	granted := allow
	granted.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{TimeoutMS: 60_000, OutputBytes: 9}}}}
	var seen []call.Tool
	decides := policy(func(in *call.Input) (call.Decision, error) {
		seen = append(seen, in.Tool)
		return granted, nil
	})
	run := func(t *testing.T, timeout int64, fn rawFunc) (*engine.Result, []call.Record, error) {
		t.Helper()
		granted.Grants[0].Caps.Bounds.TimeoutMS = timeout
		log := &memory{}
		e := open(t, engine.Options{Policy: decides, Log: log, Tools: []engine.Tool{engine.Raw(echoManifest, fn)}})
		res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "echo", Args: []byte(`{ "text": "x", "n": 1.0 }`)})
		e.Close()
		return res, log.decoded(t), err
	}

	res, recs, err := run(t, 4000, func(_ context.Context, caps call.Caps, args jsontext.Value) ([]byte, error) {
		if caps.Bounds.TimeoutMS != 4000 || caps.Bounds.OutputBytes != 9 || string(args) != `{"n":1,"text":"x"}` {
			t.Errorf("caps %+v, args %s", caps, args)
		}
		caps.Bounds.OutputBytes, args[0] = 1000, '!' // they are its own
		return []byte("123456789"), nil
	})
	if err != nil || string(res.Output) != "123456789" {
		t.Fatalf("Do = %v, %v", res, err)
	}
	if len(recs) != 2 || recs[0].Enforcement != "convention" || recs[0].Tool.Kind != "host" || recs[1].Code != call.CodeOK {
		t.Errorf("records %+v", recs)
	}
	if diff := cmp.Diff([]string{"raw"}, seen[0].Findings); diff != "" || seen[0].Digest != recs[0].Tool.Digest {
		t.Errorf("policy sees %+v, the record %+v: %s", seen[0], recs[0].Tool, diff)
	}
	if seen[0].Digest == (&counted{}).digest(t) {
		t.Error("it has the digest of a tool that is held to its capabilities")
	}

	for _, tt := range []struct {
		name    string
		timeout int64
		fn      rawFunc
		want    call.Code
	}{
		{"a byte more", 60_000, func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return make([]byte, 10), nil }, call.CodeOutputExceeded},
		{"fails", 60_000, func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return nil, errors.New("no") }, call.CodeToolError},
		{"panics", 60_000, func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { panic("no") }, call.CodeInternal},
		{"goes on and on", 50, func(ctx context.Context, _ call.Caps, _ jsontext.Value) ([]byte, error) {
			<-ctx.Done()
			return []byte("late"), nil
		}, call.CodeTimeExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, recs, err := run(t, tt.timeout, tt.fn)
			failed, ok := errors.AsType[*engine.ToolError](err)
			if !ok || failed.Result.Outcome.Code != tt.want || len(failed.Result.Output) > 0 || recs[1].Code != tt.want {
				t.Errorf("Do = %v, want %s", err, tt.want)
			}
		})
	}
}

// Refusals of a raw tool say so too, and no other tool does.
func TestRawInRecords(t *testing.T) {
	deny := call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "no"}}}
	for _, raw := range []bool{true, false} {
		log := &memory{}
		of := (&counted{}).tool()
		if raw {
			of = engine.Raw(echoManifest, func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return nil, nil })
		}
		e := open(t, engine.Options{Policy: always(deny), Log: log, Tools: []engine.Tool{of}})
		for range 2 {
			e.Do(t.Context(), echo("x")) // denied
		}
		for _, r := range log.decoded(t) {
			if (r.Enforcement == "convention") != raw {
				t.Errorf("raw %v: enforcement %q", raw, r.Enforcement)
			}
		}
	}
}

func TestRawRefused(t *testing.T) {
	fine := func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return nil, nil }
	for _, tt := range []struct {
		name, manifest string
		fn             rawFunc
		want           string
	}{
		{"another kind", mailManifest, fine, "kind external"},
		{"no function", echoManifest, nil, "no function"},
		{"no manifest", "name: x", fine, "description"},
		{"preconditions", countManifest + "preconditions: [{file: /path}]\n", fine, "preconditions"},
		{"findings are nobody's word", echoManifest + "findings: []\n", fine, "findings: unknown key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{engine.Raw(tt.manifest, tt.fn)}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, want %q", err, tt.want)
			}
		})
	}
}

// With the base library, a raw tool runs only if a rule names it.
func TestRawWithTheBaseLibrary(t *testing.T) {
	const permit = "package callgate.rules\n\nimport rego.v2\n\nallow contains {\"id\": \"echo\"} if input.tool.name == \"echo\"\n"
	for _, tt := range []struct{ name, rules, want string }{
		{"allowed, not named", permit, "raw_tool"},
		{"named", permit + "\nwaive contains \"raw\" if input.tool.name == \"echo\"\n", ""},
		{"another one named", permit + "\nwaive contains \"raw\" if input.tool.name == \"other\"\n", "raw_tool"},
		{"named, not allowed", "package callgate.rules\n\nimport rego.v2\n\nwaive contains \"raw\" if input.tool.name == \"echo\"\n", "no_rule_allows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.CopyFS(filepath.Join(dir, "callgate"), bundles.Base()), os.WriteFile(filepath.Join(dir, "rules.rego"), []byte(tt.rules), 0o600)); err != nil {
				t.Fatal(err)
			}
			policy, err := rego.Open(t.Context(), os.DirFS(dir), rego.Options{})
			if err != nil {
				t.Fatal(err)
			}
			e := open(t, engine.Options{Policy: policy, Log: &memory{}, DecideTimeout: time.Minute, Tools: []engine.Tool{
				engine.Raw(echoManifest, func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return []byte("ran"), nil }),
			}})
			_, err = e.Do(t.Context(), echo("x"))
			got := ""
			if d, ok := errors.AsType[*engine.Denial](err); ok && len(d.Reasons) == 1 {
				got = d.Reasons[0].Code
			}
			if got != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("Do = %v, reasons %q, want %q", err, got, tt.want)
			}
		})
	}
}

// An experiment with something that effects do not have. The function asks its
// capabilities itself, for nobody else does.
func ExampleRaw() {
	size := engine.Raw(`
name: word-count
description: Counts the bytes of a note, without reading it.
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
`, func(_ context.Context, caps call.Caps, _ jsontext.Value) ([]byte, error) {
		if !caps.Allows(call.Op{Kind: call.OpFS, Root: "work", Path: "notes/todo.txt", Mode: "read"}) {
			return nil, errors.New("not granted")
		}
		return []byte("14 bytes"), nil
	})
	ctx := context.Background()
	e, done, err := openGate(ctx, exampleDir(), size)
	if err != nil {
		panic(err)
	}
	defer done()
	res, err := e.Do(ctx, call.Call{Principal: agent, Tool: "word-count", Args: []byte(`{"path": "/work/notes/todo.txt"}`)})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s, %d effects recorded\n", res.Output, len(res.Outcome.Effects))
	// Output: 14 bytes, 0 effects recorded
}
