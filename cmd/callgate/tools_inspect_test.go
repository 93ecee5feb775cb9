package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/guests"
)

func newBox(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	box, err := sandbox.New(context.Background(), sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(context.Background()) })
	return box
}

func TestInspect(t *testing.T) {
	box := newBox(t)
	tests := []struct {
		guest   string
		kind    string
		effects []string
		grant   string // without bounds
	}{
		{"echo", "reactor", nil, `{}`},
		{"spin", "command", nil, `{}`},
		{"read-file", "command", []string{"reading files", "perhaps writing files (then the grant needs write or append)"}, `{"fs":[{"root":"root","path":".","modes":["read"]}]}`},
		{"list-dir", "command", []string{"listing directories", "reading files", "perhaps writing files (then the grant needs write or append)"}, `{"fs":[{"root":"root","path":".","modes":["list","read"]}]}`},
		{"fetch", "command", []string{"requests over HTTP"}, `{"http":[{"hosts":["api.example.com"],"ports":[443],"methods":["GET"],"paths":["/"],"networks":["public"]}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.guest, func(t *testing.T) {
			module, err := guests.Module(tt.guest)
			mustDo(t, err)
			in := inspectModule(box, module)
			in.Grant.Bounds = call.Bounds{}
			grant, err := json.Marshal(in.Grant)
			mustDo(t, err)
			if in.Kind != tt.kind || in.Refused != "" || !slices.Equal(in.Effects, tt.effects) || string(grant) != tt.grant {
				t.Errorf("%s, refused %q, %q, %s", in.Kind, in.Refused, in.Effects, grant)
			}
		})
	}
}

// sectioned is a module of one section.
func sectioned(id byte, content ...byte) []byte {
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), []byte{id}, binary.AppendUvarint(nil, uint64(len(content))), content)
}

// manyImports is a module that imports n functions, whose names would drive a terminal.
func manyImports(n int, name string) []byte {
	types := sectioned(1, 1, 0x60, 0, 0)
	imports := binary.AppendUvarint(nil, uint64(n))
	for range n {
		for range 2 {
			imports = append(binary.AppendUvarint(imports, uint64(len(name))), name...)
		}
		imports = append(imports, 0, 0)
	}
	return append(types, sectioned(2, imports...)[8:]...)
}

func TestInspectHostile(t *testing.T) {
	box := newBox(t)
	for name, tt := range map[string]struct {
		module  []byte
		kind    string
		refused string
	}{
		"nothing":           {nil, "", "not-wasm"},
		"text":              {[]byte("(module)"), "", "not-wasm"},
		"component":         {[]byte("\x00asm\x0d\x00\x01\x00"), "component", "component"},
		"no entry":          {[]byte("\x00asm\x01\x00\x00\x00"), "", `the module exports neither "_start" nor "callgate_call"`},
		"cut":               {[]byte("\x00asm\x01\x00\x00\x00\x01\xff\xff\xff\xff\x0f"), "", "malformed"},
		"wrapping size":     {append([]byte("\x00asm\x01\x00\x00\x00\x01"), bytes.Repeat([]byte{0xff}, 9)...), "", "malformed"},
		"claims":            {sectioned(7, 0xff, 0xff, 0xff, 0xff, 0x0f), "", "too-many-exports"},
		"claims of code":    {sectioned(10, 0xff, 0xff, 0xff, 0xff, 0x0f), "", ""},
		"thousand imports":  {manyImports(5000, "\x1b[2J\n\u202e,"), "", "and 4994 more"},
		"names of no text":  {manyImports(1, "\xff\xfe"), "", ""},
		"names of no end":   {manyImports(1, strings.Repeat("x", 100_000)), "", ""},
		"imports of no use": {manyImports(1, ""), "", `the host has no function "" of ""`},
	} {
		t.Run(name, func(t *testing.T) {
			in := inspectModule(box, tt.module)
			if in.Kind != tt.kind || in.Refused == "" || !strings.Contains(in.Refused, tt.refused) {
				t.Errorf("kind %q, refused %.200q, want %q", in.Kind, in.Refused, tt.refused)
			}
			checkInspection(t, in)
		})
	}
	for _, f := range hostileGuests(t) {
		module, err := os.ReadFile(f)
		mustDo(t, err)
		checkInspection(t, inspectModule(box, module))
	}
}

func hostileGuests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../shared/fixtures/hostile-guests/*.wasm")
	mustDo(t, err)
	return files
}

// checkInspection checks what holds of any module: both forms can be written, are no
// longer than somebody reads, drive no terminal, and the grant is one.
func checkInspection(t *testing.T, in inspection) {
	t.Helper()
	var text, js strings.Builder
	if err := in.print(&text); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(&js, in); err != nil {
		t.Fatal(err)
	}
	if text.Len() > 64<<10 {
		t.Errorf("%d bytes of text", text.Len())
	}
	for _, line := range strings.Split(text.String(), "\n") {
		if strings.ContainsFunc(line, hidden) {
			t.Errorf("a line holds what nobody sees: %.100q", line)
		}
	}
	if err := in.Grant.Validate(); err != nil {
		t.Error(err)
	}
	var back inspection
	if err := json.Unmarshal([]byte(js.String()), &back, json.RejectUnknownMembers(true)); err != nil {
		t.Error(err)
	} else if d := cmp.Diff(in, back); d != "" {
		t.Errorf("in JSON (-want +got):\n%s", d)
	}
	if in.Kind != "component" && in.Kind != "" && len(in.Exports) == 0 {
		t.Errorf("a %s without exports", in.Kind)
	}
}

func FuzzInspect(f *testing.F) {
	for _, name := range []string{"echo", "fetch", "list-dir"} {
		module, err := guests.Module(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(module)
	}
	f.Add(manyImports(3, "\x1b[2J\u202e"))
	f.Add(sectioned(10, 2, 2, 0, 0x0b, 0xff, 0xff, 0xff, 0xff, 0x0f))
	box := newBox(f)
	f.Fuzz(func(t *testing.T, module []byte) { checkInspection(t, inspectModule(box, module)) })
}
