package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
)

// maxMessage is how much of a host tool's error text is kept, in bytes.
const maxMessage = 4096

// Tool is something the engine can run, or let its caller run. Make one with
// [Host], [Wasm], [External] or, for what keeps within its capabilities by convention
// alone, [Raw] or [Plain].
type Tool struct {
	manifest *tool.Manifest
	digest   string // the pin of the whole descriptor
	module   []byte // of wasm tools
	pin      string // of wasm tools: the module's digest
	source   tool.Source
	files    *tool.Files // as they were read
	host     func(context.Context, *hostfx.Effects, call.Args) ([]byte, error)
	raw      bool  // host keeps within its capabilities by convention alone
	err      error // what New will say
}

// Wasm is the tool in dir: tool.yaml beside its module. What is wrong with it is
// an error of [New]. When the files change later, its calls are refused with
// tool_changed: what ran would not be what is there.
func Wasm(dir string) Tool { return wasm(tool.Source{Dir: dir}) }

// Edited is [Wasm] for a tool that is being worked on: whatever module is there is
// taken for the one that its tool.yaml means, on opening, and again before the next
// call when a file has changed. Both are recorded. It pins nothing, and is for
// writing tools alone.
func Edited(dir string) Tool { return wasm(tool.Source{Dir: dir, Edited: true}) }

// Manifested is the tool of a manifest that does not stand beside its module: the
// text of its tool.yaml comes from elsewhere, such as a signed bundle, and dir holds
// the module that it names, if it is of wasm. Else it is [External].
func Manifested(manifest, dir string) Tool {
	m, err := tool.Parse([]byte(manifest))
	if err == nil && m.Kind == kindExternal {
		return External(manifest)
	}
	return wasm(tool.Source{Dir: dir, Manifest: []byte(manifest)})
}

// IsWasm reports whether the tool is one that needs [Options.Guests].
func (t Tool) IsWasm() bool { return t.module != nil }

func wasm(s tool.Source) Tool {
	f, err := tool.Read(s)
	switch {
	case err != nil:
	case f.Manifest.Kind != "wasm" && s.Manifest != nil:
		err = fmt.Errorf("tool %s: kind %s, which a manifest alone cannot make", f.Manifest.Name, f.Manifest.Kind)
	case f.Manifest.Kind != "wasm":
		err = fmt.Errorf("tool %s: kind %s in a directory of wasm tools", f.Manifest.Name, f.Manifest.Kind)
	}
	if err != nil {
		return Tool{err: err}
	}
	return Tool{manifest: f.Manifest, digest: f.Manifest.Digest(), module: f.Module, pin: call.Digest(f.Module), source: s, files: f}
}

// Host is a tool written in Go. The manifest is the text of its tool.yaml. In is
// decoded from the canonical arguments, which fit the manifest's schema; members
// that In lacks are refused. Out is encoded as JSON.
//
// The tool SHOULD reach the outside through its effects alone: they are checked
// and recorded. Go code can do more than that, and nothing here stops it: whoever
// registers a tool trusts its code like the program's own. The effects are dead when
// the call ends. A tool that ignores its context and goes on is abandoned: see
// [Options.MaxAbandoned].
func Host[In, Out any](manifest string, fn func(context.Context, *hostfx.Effects, In) (Out, error)) Tool {
	m, err := tool.Parse([]byte(manifest))
	if err != nil {
		return Tool{err: err}
	}
	if m.Kind != "host" {
		return Tool{err: fmt.Errorf("tool %s: kind %s for a tool written in Go", m.Name, m.Kind)}
	}
	return Tool{manifest: m, digest: m.Digest(), host: func(ctx context.Context, fx *hostfx.Effects, args call.Args) ([]byte, error) {
		var in In
		if err := json.Unmarshal(args.Bytes(), &in, json.RejectUnknownMembers(true)); err != nil {
			return nil, errors.New("the manifest's schema allows arguments that the tool does not take")
		}
		out, err := fn(ctx, fx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}}
}

const kindExternal = "external"

// External is a tool that its caller runs: see [Engine.Authorize]. The manifest is
// the text of its tool.yaml.
func External(manifest string) Tool {
	m, err := tool.Parse([]byte(manifest))
	if err != nil {
		return Tool{err: err}
	}
	if m.Kind != kindExternal {
		return Tool{err: fmt.Errorf("tool %s: kind %s for a tool that its caller runs", m.Name, m.Kind)}
	}
	return Tool{manifest: m, digest: m.Digest()}
}

// record names the tool in records.
func (t *Tool) record() call.RecordTool {
	return call.RecordTool{Name: t.manifest.Name, Kind: t.manifest.Kind, Digest: t.digest}
}

// run runs the tool once. The sandbox counts the time of a guest itself, once there
// is a place for it; all others have what timed leaves them.
func (t *Tool) run(ctx, timed context.Context, e *Engine, fx *hostfx.Effects, args call.Args) ([]byte, call.Outcome) {
	if !fx.Grant().Is(t.digest, args) {
		return nil, call.Outcome{Status: call.NotStarted, Code: call.CodeGrantMismatch}
	}
	if t.host != nil {
		return t.runHost(timed, e, fx, args)
	}
	if e.o.Guests == nil {
		return nil, call.Outcome{Status: call.NotStarted, Code: call.CodeGuestUnavailable}
	}
	return e.o.Guests.Run(ctx, t.pin, args, fx)
}

func hostOutcome(output []byte, err error, bounds call.Bounds) ([]byte, call.Outcome) {
	switch {
	case err != nil && call.CodeOf(err, "") == call.CodeInternal:
		return nil, call.Outcome{Status: call.Failed, Code: call.CodeInternal}
	case err != nil:
		text := strings.Map(func(r rune) rune { // it may hold what a server sent
			moves := unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
			if moves {
				return utf8.RuneError
			}
			return r
		}, err.Error())
		text = strings.ToValidUTF8(text[:min(len(text), maxMessage)], "") // no half of a character at its end
		return nil, call.Outcome{Status: call.Failed, Code: call.CodeToolError, Stderr: []byte(text)}
	case int64(len(output)) > bounds.Output():
		return nil, call.Outcome{Status: call.Failed, Code: call.CodeOutputExceeded}
	}
	return output, call.Outcome{Status: call.Succeeded, Code: call.CodeOK}
}
