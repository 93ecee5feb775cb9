package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

const noteManifest = `
name: note
description: writes a note
kind: host
class: write
facts: none
input: {type: object, properties: {text: {type: string}}, additionalProperties: false}
caps: {workspace: true, fs: [{root: work, path: ., modes: [write]}]}
`

const noteRules = `package callgate.rules

allow contains {"id": "notes", "workspace": true, "fs": [{"root": "work", "path": ".", "modes": ["read", "write", "remove"]}]} if {
	input.tool.name in {"note", "workspace_undo", "workspace_diff"}
}
`

// What a call changed is undone through the owner, before and after it opens anew, and
// by a client too. Its contents are in the journal, which is the user's alone, and in no
// record.
func TestUndoOverOwners(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	file := filepath.Join(dir, "work/note.txt")
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "work"), 0o755), os.WriteFile(file, []byte("as it was"), 0o644),
		os.WriteFile(filepath.Join(dir, "bundle/note.rego"), []byte(noteRules), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	config := func() local.Config {
		c := small(dir)
		c.Roots = []hostfx.Root{{Name: "work", Path: filepath.Join(dir, "work")}}
		c.HostTools = append(c.HostTools, engine.Host(noteManifest, func(_ context.Context, fx *hostfx.Effects, in struct {
			Text string `json:"text"`
		}) (string, error) {
			f, err := fx.OpenWrite("/work/note.txt")
			if err != nil {
				return "", err
			}
			_, err = f.Write([]byte(in.Text))
			return "", errors.Join(err, f.Close())
		}))
		return c
	}
	past := func(tool, id string) call.Call {
		c := ask(tool, "")
		c.Args = []byte(`{"call":"` + id + `"}`)
		return c
	}
	reads := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(file); err != nil || string(b) != want {
			t.Errorf("the file has %q, %v, want %q", b, err, want)
		}
	}
	e := open(t, config())
	res, err := e.Do(t.Context(), ask("note", "canary"))
	if err != nil {
		t.Fatal(err)
	}
	reads("canary")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	e = open(t, config())
	k := dial(t, config())
	own, err := k.Do(t.Context(), past("workspace_undo", res.CallID))
	if err != nil {
		t.Fatal(err)
	}
	reads("as it was")
	shown, err := e.Do(t.Context(), past("workspace_diff", own.CallID))
	if err != nil || !strings.Contains(string(shown.Output), `-canary\n`) {
		t.Errorf("Diff = %s, %v", shown.Output, err)
	}
	for _, j := range []local.Journal{{Dir: filepath.Join(dir, "other")}, {Bytes: 5}, {Days: 5}} {
		c := config()
		c.Journal = j
		if _, err := local.Dial(t.Context(), c); !errors.Is(err, local.ErrConfigDiffers) {
			t.Errorf("another journal: Dial = %v", err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	if i, err := os.Stat(filepath.Join(dir, "data/journal")); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("the journal: %v, %v", i, err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "data/log/*"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	for _, s := range segments {
		if b, err := os.ReadFile(s); err != nil || strings.Contains(string(b), "canary") {
			t.Errorf("%s: %v, or it has content", s, err)
		}
	}

	c := config()
	c.Journal.Dir = filepath.Join(dir, "work/journal") // where tools could write to it
	if _, err := local.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "lie in each other") {
		t.Errorf("in a root: Open = %v", err)
	}
}
