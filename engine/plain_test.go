package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

// rawMessage is as encoding/json has it.
type rawMessage []byte

// A plain function runs on the same road as a raw tool, and its text is the result.
func TestPlain(t *testing.T) {
	granted := allow
	granted.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{TimeoutMS: 60_000, OutputBytes: 14}}}}
	tests := []struct {
		name string
		fn   func(context.Context, rawMessage) (string, error)
		want string // the result
		code call.Code
		says string // what stderr holds
	}{
		{name: "a text", fn: func(_ context.Context, args rawMessage) (string, error) {
			if string(args) != `{"n":1,"text":"x"}` {
				t.Errorf("args %s", args)
			}
			args[0] = '!' // they are its own
			return "it's \"<1>\"", nil
		}, want: `"it's \"<1>\""`, code: call.CodeOK},
		{name: "empty", fn: func(context.Context, rawMessage) (string, error) { return "", nil }, want: `""`, code: call.CodeOK},
		{name: "as much as may be", fn: func(context.Context, rawMessage) (string, error) { return "123456789012", nil }, want: `"123456789012"`, code: call.CodeOK},
		{name: "a byte more", fn: func(context.Context, rawMessage) (string, error) { return "1234567890123", nil }, code: call.CodeOutputExceeded},
		{name: "more once it is JSON", fn: func(context.Context, rawMessage) (string, error) { return "\n\n\n\n\n\n\n", nil }, code: call.CodeOutputExceeded},
		{name: "no UTF-8", fn: func(context.Context, rawMessage) (string, error) { return "canary\xff", nil }, code: call.CodeToolError, says: "not UTF-8"},
		{name: "half a surrogate", fn: func(context.Context, rawMessage) (string, error) { return "canary\xed\xa0\x80", nil }, code: call.CodeToolError, says: "not UTF-8"},
		{name: "fails", fn: func(context.Context, rawMessage) (string, error) { return "half", errors.New("no such thing") }, code: call.CodeToolError, says: "no such thing"},
		{name: "panics", fn: func(context.Context, rawMessage) (string, error) { panic("canary") }, code: call.CodeInternal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen []call.Tool
			decides := policy(func(in *call.Input) (call.Decision, error) { seen = append(seen, in.Tool); return granted, nil })
			log := &memory{}
			e := open(t, engine.Options{Policy: decides, Log: log, Tools: []engine.Tool{engine.Plain(echoManifest, tt.fn)}})
			res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "echo", Args: []byte(`{ "text": "x", "n": 1.0 }`)})
			e.Close()
			if failed, ok := errors.AsType[*engine.ToolError](err); ok {
				res = failed.Result
			}
			if res == nil || string(res.Output) != tt.want || res.Outcome.Code != tt.code {
				t.Fatalf("Do = %+v, %v; want %s, %s", res, err, tt.want, tt.code)
			}
			if s := string(res.Outcome.Stderr); !strings.Contains(s, tt.says) || strings.Contains(s, "canary") {
				t.Errorf("it says %q", s)
			}
			recs := log.decoded(t)
			if len(recs) != 2 || recs[0].Enforcement != "convention" || recs[0].Tool.Kind != "host" || recs[1].Code != tt.code {
				t.Errorf("records %+v", recs)
			}
			if len(seen) != 1 || len(seen[0].Findings) != 1 || seen[0].Findings[0] != "raw" || seen[0].Digest != recs[0].Tool.Digest {
				t.Errorf("policy sees %+v", seen)
			}
		})
	}
}

// An approval or a grant for one form of a tool is none for another.
func TestPlainHasItsOwnDigest(t *testing.T) {
	digests := map[string]string{}
	for form, of := range map[string]engine.Tool{
		"host":  (&counted{}).tool(),
		"raw":   engine.Raw(echoManifest, func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return nil, nil }),
		"plain": engine.Plain(echoManifest, func(context.Context, []byte) (string, error) { return "", nil }),
	} {
		log := &memory{}
		e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{of}})
		e.Do(t.Context(), echo("x"))
		d := log.decoded(t)[0].Tool.Digest
		if other, taken := digests[d]; taken {
			t.Errorf("%s and %s have one digest", form, other)
		}
		digests[d] = form
	}
}

func TestPlainRefused(t *testing.T) {
	fine := func(context.Context, jsontext.Value) (string, error) { return "", nil }
	for _, tt := range []struct {
		name, manifest string
		fn             func(context.Context, jsontext.Value) (string, error)
		want           string
	}{
		{"another kind", mailManifest, fine, "kind external"},
		{"no function", echoManifest, nil, "no function"},
		{"no manifest", "name: x", fine, "description"},
		{"preconditions", countManifest + "preconditions: [{file: /path}]\n", fine, "preconditions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{engine.Plain(tt.manifest, tt.fn)}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, want %q", err, tt.want)
			}
		})
	}
}
