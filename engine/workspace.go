package engine

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// The names of the tools that [WorkspaceTools] makes.
const (
	UndoTool = "workspace_undo"
	DiffTool = "workspace_diff"
)

// maxToolRoots is how many entries a manifest may have.
const maxToolRoots = 32

type pastCall struct {
	Call string `json:"call"`
}

type shownDiff struct {
	Diff string `json:"diff"`
}

// WorkspaceTools are tools that put back, and show, what one call of the same session
// changed in its workspace: see [hostfx.Effects.Undo] and [hostfx.Effects.Diff]. They
// take {"call": id}. Like any tool they may do what a policy grants, of what their
// manifests name: all roots of h (of more than 32, the first by name), as far as the
// ceiling goes. A host without a journal has none, and neither has one whose ceiling
// allows no workspace.
func WorkspaceTools(h *hostfx.Host, ceiling *call.Caps) []Tool {
	if !h.Journaled() {
		return nil
	}
	manifests := WorkspaceManifests(h.Roots(), ceiling)
	if manifests == nil {
		return nil
	}
	return []Tool{
		Host(manifests[0], func(_ context.Context, fx *hostfx.Effects, in pastCall) (pastCall, error) {
			return in, fx.Undo(in.Call)
		}),
		Host(manifests[1], func(_ context.Context, fx *hostfx.Effects, in pastCall) (shownDiff, error) {
			b, err := fx.Diff(in.Call)
			return fitting(b, fx.Grant().Caps().Bounds.Output()), err
		}),
	}
}

// fitting cuts a diff until its JSON, which is longer, fits too.
func fitting(b []byte, most int64) shownDiff {
	for {
		out := shownDiff{string(b)}
		text, err := json.Marshal(out)
		if size := int64(len(text)); err == nil && (size <= most || len(b) == 0) {
			return out
		}
		b = hostfx.CutDiff(b, len(b)*3/4)
	}
}

// WorkspaceManifests are those of [WorkspaceTools], of undo and of diff, for a host with
// those roots and a journal; none if the ceiling allows no workspace.
func WorkspaceManifests(roots []string, ceiling *call.Caps) []string {
	undo, okUndo := workspaceManifest(roots, ceiling, UndoTool, "write", "Puts back what one call of this session changed in its workspace, all of it or nothing.", call.ModeWrite, call.ModeRemove)
	diff, okDiff := workspaceManifest(roots, ceiling, DiffTool, "read", "Shows what one call of this session changed in its workspace.", call.ModeRead)
	if !okUndo || !okDiff {
		return nil
	}
	return []string{undo, diff}
}

func workspaceManifest(roots []string, ceiling *call.Caps, name, class, description string, modes ...string) (text string, ok bool) {
	caps := call.Caps{Workspace: true, Bounds: call.Bounds{TimeoutMS: 300_000, WriteBytes: 1 << 30, OutputBytes: 4 << 20}}
	for _, root := range roots[:min(len(roots), maxToolRoots)] {
		caps.FS = append(caps.FS, call.FS{Root: root, Path: ".", Modes: modes})
	}
	if ceiling != nil {
		var err error
		if caps, err = caps.Meet(*ceiling); err != nil || !caps.Workspace {
			return "", false
		}
	}
	b, err := json.Marshal(caps)
	return fmt.Sprintf(`name: %s
description: %s
kind: host
class: %s
facts: none
input: {type: object, required: [call], properties: {call: {type: string, minLength: 1, maxLength: 128}}, additionalProperties: false}
caps: %s
`, name, description, class, b), err == nil
}

// Undo puts back what one call of the session changed in its workspace. It is a call of
// its own, of the tool [UndoTool]: policy decides about it, it is recorded, and it can be
// undone by its own id. Session is as in [call.Call]; for a call that named a client, use
// [Engine.Do].
//
// # Errors
//
// Those of [Engine.Do]; a [*Denial] with tool_unknown if there is no such tool, see
// [WorkspaceTools].
func (e *Engine) Undo(ctx context.Context, who call.Principal, session, callID string) (*Result, error) {
	return e.about(ctx, UndoTool, who, session, callID)
}

// Diff shows what one call of the session changed in its workspace: the result's output
// is {"diff": text}. It is a call of its own, of the tool [DiffTool], as Undo is.
//
// # Errors
//
// Those of [Engine.Undo].
func (e *Engine) Diff(ctx context.Context, who call.Principal, session, callID string) (*Result, error) {
	return e.about(ctx, DiffTool, who, session, callID)
}

func (e *Engine) about(ctx context.Context, tool string, who call.Principal, session, callID string) (*Result, error) {
	args, err := json.Marshal(pastCall{callID})
	if err != nil {
		args = []byte("{}") // its schema refuses that
	}
	return e.Do(ctx, call.Call{Principal: who, Session: session, Tool: tool, Args: args})
}
