package engine

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
)

// findingRaw is what policy sees among the findings of a [Raw] tool.
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
	if fn == nil {
		return Tool{err: fmt.Errorf("tool %s: no function", m.Name)}
	}
	return Tool{
		manifest: m, digest: call.Digest([]byte(findingRaw + " " + m.Digest())), raw: true,
		host: func(ctx context.Context, fx *hostfx.Effects, args call.Args) ([]byte, error) {
			out, err := fn(ctx, fx.Grant().Caps(), args.Bytes())
			return bytes.Clone(out), err
		},
	}
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
