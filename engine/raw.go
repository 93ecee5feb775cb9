package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
)

// findingRaw is what policy sees among the findings of a [Raw] or [Plain] tool.
const findingRaw = "raw"

// Raw is a tool written in Go that is handed its capabilities and trusted to keep
// within them: for experiments with what [hostfx.Effects] do not have yet. The
// manifest is the text of its tool.yaml, of kind host. args are canonical and fit its
// schema.
//
// Nothing but the time and the size of the output is enforced, no effect is recorded,
// and the log says so: enforcement is "convention". Policy sees "raw" in
// input.tool.findings, and the base library denies such a tool unless a rule waives
// that for it by name. Its digest is not the one that [Host] has for the same
// manifest, so an approval or a grant for one is none for the other.
func Raw(manifest string, fn func(ctx context.Context, caps call.Caps, args jsontext.Value) ([]byte, error)) Tool {
	if fn == nil {
		return byConvention(manifest, findingRaw, nil)
	}
	return byConvention(manifest, findingRaw, func(ctx context.Context, fx *hostfx.Effects, args call.Args) ([]byte, error) {
		out, err := fn(ctx, fx.Grant().Caps(), args.Bytes())
		return bytes.Clone(out), err
	})
}

// Plain is a tool written in Go for something else: a function of arguments, as the
// json.RawMessage of either JSON package or as bytes, that gives a text. The manifest is
// the text of its tool.yaml, of kind host. args are canonical and fit its schema; the
// result of the call is the text as a JSON string, and it is an error if the text is not
// UTF-8.
//
// It has no effects and does not know its capabilities, so all that it does it does by
// itself. What is said of [Raw] holds: policy sees "raw", and enforcement is
// "convention". Its digest is neither that of [Host] nor that of Raw.
func Plain[A ~[]byte](manifest string, fn func(ctx context.Context, args A) (string, error)) Tool {
	if fn == nil {
		return byConvention(manifest, "plain", nil)
	}
	return byConvention(manifest, "plain", func(ctx context.Context, _ *hostfx.Effects, args call.Args) ([]byte, error) {
		text, err := fn(ctx, A(args.Bytes()))
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(text) {
			return nil, errors.New("the tool's text is not UTF-8")
		}
		return jsontext.AppendQuote(nil, text)
	})
}

// byConvention is a tool that is trusted to keep within its capabilities. Its form is
// part of what it is.
func byConvention(manifest, form string, host func(context.Context, *hostfx.Effects, call.Args) ([]byte, error)) Tool {
	m, err := tool.Parse([]byte(manifest))
	if err != nil {
		return Tool{err: err}
	}
	if m.Kind != "host" {
		return Tool{err: fmt.Errorf("tool %s: kind %s for a tool written in Go", m.Name, m.Kind)}
	}
	if len(m.Preconditions) > 0 {
		return Tool{err: fmt.Errorf("tool %s: preconditions, which nobody would check", m.Name)}
	}
	if host == nil {
		return Tool{err: fmt.Errorf("tool %s: no function", m.Name)}
	}
	return Tool{manifest: m, digest: call.Digest([]byte(form + " " + m.Digest())), raw: true, host: host}
}

// shown is what policy sees of the tool.
func (t *Tool) shown() call.Tool {
	s := t.manifest.Tool()
	if t.raw {
		s.Digest, s.Findings = t.digest, append(s.Findings, findingRaw)
	}
	return s
}

// enforcement is what the record says of how the tool is held to its capabilities.
func (t *Tool) enforcement() string {
	if t.raw {
		return "convention"
	}
	return ""
}
