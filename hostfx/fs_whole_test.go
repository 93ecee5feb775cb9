package hostfx_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

func TestWholeFiles(t *testing.T) { both(t, testWholeFiles) }

func testWholeFiles(t *testing.T) {
	const limit = 3 << 20
	outside := func(kind, target string) call.Effect {
		return call.Effect{Kind: kind, Target: target, Code: "refused"}
	}
	large := bytes.Repeat([]byte("x"), limit) // more than one part
	tests := []struct {
		name     string
		do       func(fx *hostfx.Effects) error
		modes    []string
		err      error
		file     string // which is looked at
		want     string // its content, "" for a file that is not there
		effects  []call.Effect
		elsewise bool // err is of no name
	}{
		{name: "new", do: writes("new", "one"), modes: []string{"write"}, file: "new", want: "one", effects: []call.Effect{effect("fs.write", within+"/new", "ok", 3)}},
		{name: "shorter", do: writes("a.txt", "al"), modes: []string{"write"}, file: "a.txt", want: "al", effects: []call.Effect{effect("fs.write", within+"/a.txt", "ok", 2)}},
		{name: "all that may be written", do: writes("a.txt", string(large)), modes: []string{"write"}, file: "a.txt", want: string(large), effects: []call.Effect{effect("fs.write", within+"/a.txt", "ok", limit)}},
		{name: "link inside", do: writes("in", "two"), modes: []string{"write"}, file: "sub/b.txt", want: "two", effects: []call.Effect{effect("fs.write", within+"/in", "ok", 3)}},
		{name: "one byte more", do: writes("a.txt", string(large)+"x"), modes: []string{"write"}, err: hostfx.ErrQuota, file: "a.txt", want: "alpha", effects: []call.Effect{effect("fs.write", within+"/a.txt", "over_cap", 0)}},
		{name: "one byte more of a new file", do: writes("new", string(large)+"x"), modes: []string{"write"}, err: hostfx.ErrQuota, file: "new", effects: []call.Effect{effect("fs.write", within+"/new", "over_cap", 0)}},
		{name: "another mode", do: writes("a.txt", "one"), modes: []string{"read", "append", "list", "remove"}, err: hostfx.ErrNotGranted, file: "a.txt", want: "alpha", effects: []call.Effect{effect("fs.write", within+"/a.txt", "refused", 0)}},
		{name: "link out", do: writes("out", "one"), modes: []string{"write"}, err: hostfx.ErrNotGranted, file: "../secret.txt", want: "secret", effects: []call.Effect{effect("fs.write", within+"/out", "refused", 0)}},
		{name: "dots", do: writes("../secret.txt", "one"), modes: []string{"write"}, err: hostfx.ErrNotGranted, file: "../secret.txt", want: "secret", effects: []call.Effect{outside("fs.write", "/docs/secret.txt")}},
		{name: "directory", do: writes("sub", "one"), modes: []string{"write"}, elsewise: true, effects: []call.Effect{effect("fs.write", within+"/sub", "error", 0)}},
		{name: "no directory", do: writes("none/a", "one"), modes: []string{"write"}, err: fs.ErrNotExist, effects: []call.Effect{effect("fs.write", within+"/none/a", "not_found", 0)}},
		{name: "add", do: adds("a.txt", "bet"), modes: []string{"append"}, file: "a.txt", want: "alphabet", effects: []call.Effect{effect("fs.append", within+"/a.txt", "ok", 3)}},
		{name: "add to a new file", do: adds("new", "bet"), modes: []string{"write"}, file: "new", want: "bet", effects: []call.Effect{effect("fs.append", within+"/new", "ok", 3)}},
		{name: "add too much", do: adds("new", string(large)+"x"), modes: []string{"append"}, err: hostfx.ErrQuota, file: "new", effects: []call.Effect{effect("fs.append", within+"/new", "over_cap", 0)}},
		{name: "add in another mode", do: adds("a.txt", "bet"), modes: []string{"read", "remove", "list"}, err: hostfx.ErrNotGranted, file: "a.txt", want: "alpha", effects: []call.Effect{effect("fs.append", within+"/a.txt", "refused", 0)}},
		{name: "too much in another mode", do: adds("a.txt", string(large)+"x"), modes: []string{"read"}, err: hostfx.ErrNotGranted, file: "a.txt", want: "alpha", effects: []call.Effect{effect("fs.append", within+"/a.txt", "refused", 0)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t)
			must(t, os.WriteFile(filepath.Join(dir, "docs/secret.txt"), []byte("secret"), 0o600))
			caps := call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: tt.modes}}, Bounds: call.Bounds{WriteBytes: limit}}
			fx, err := host(t, dir).Open(t.Context(), mint(t, caps))
			must(t, err)
			if err := tt.do(fx); !errors.Is(err, tt.err) && !tt.elsewise || tt.elsewise && !is(err, errAny) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if d := cmp.Diff(tt.effects, happened(t, fx.Close()), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
			if tt.file == "" {
				return
			}
			b, err := os.ReadFile(filepath.Join(dir, "docs/reports", tt.file))
			if string(b) != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%s has %d bytes, %.20q, %v, want %.20q", tt.file, len(b), b, err, tt.want)
			}
		})
	}
}

func writes(name, text string) func(*hostfx.Effects) error {
	return func(fx *hostfx.Effects) error { return fx.WriteFile(within+"/"+name, []byte(text)) }
}

func adds(name, text string) func(*hostfx.Effects) error {
	return func(fx *hostfx.Effects) error { return fx.AppendFile(within+"/"+name, []byte(text)) }
}
