package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/sandbox"
)

func TestReadFile(t *testing.T) {
	w := open(t, sandbox.Options{})
	must(t, os.WriteFile(filepath.Join(w.dir, "docs/reports/big"), []byte(strings.Repeat("é", 200_000)), 0o600))
	cannot := func(why string, effects ...call.Effect) got {
		return got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "cannot open: " + why + "\n", Effects: effects}
	}
	text := func(s string, effects ...call.Effect) got {
		return got{Out: s, Status: call.Succeeded, Code: call.CodeOK, Effects: effects}
	}
	read := func(name, code string, n int64) call.Effect {
		return effect("fs.read", "/docs/reports/"+name, code, n)
	}
	tests := []struct {
		name, path string
		want       got
	}{
		{name: "file", path: `/docs/reports/a.txt`, want: text(`{"text":"alpha"}`, read("a.txt", "ok", 5))},
		{name: "no leading slash", path: `docs/reports/a.txt`, want: text(`{"text":"alpha"}`, read("a.txt", "ok", 5))},
		{name: "escapes", path: `\/docs\u002freports/\u0061.txt`, want: text(`{"text":"alpha"}`, read("a.txt", "ok", 5))},
		{name: "dots inside", path: `/docs/reports/sub/../a.txt`, want: text(`{"text":"alpha"}`, read("sub/../a.txt", "ok", 5))},
		{name: "link inside", path: `/docs/reports/in`, want: text(`{"text":"beta"}`, read("in", "ok", 4))},
		{name: "odd bytes", path: `/docs/reports/odd`, want: text(`{"text":"tab\t quote\" \u0001 bad`+"\ufffd"+` end"}`, read("odd", "ok", 22))},
		{name: "large", path: `/docs/reports/big`, want: text(`{"text":"`+strings.Repeat("é", 128<<10)+`","truncated":true}`, read("big", "ok", 256<<10+1))},
		{name: "missing", path: `/docs/reports/none`, want: cannot("No such file or directory", read("none", "not_found", 0))},
		{name: "link out", path: `/docs/reports/out`, want: cannot("Permission denied", read("out", "refused", 0))},
		{name: "absolute link", path: `/docs/reports/absolute`, want: cannot("Permission denied", read("absolute", "refused", 0))},
		{name: "directory link out", path: `/docs/reports/updir/secret.txt`, want: cannot("Permission denied", read("updir/secret.txt", "refused", 0))},
		{name: "FIFO", path: `/docs/reports/fifo`, want: cannot("Permission denied", read("fifo", "refused", 0))},
		{name: "dots out of the folder", path: `/docs/reports/../secret.txt`, want: cannot("Operation not permitted", effect("fs.read", "/docs/secret.txt", "refused", 0))},
		{name: "beside the folder", path: `/docs/secret.txt`, want: cannot("Capabilities insufficient")},
		{name: "elsewhere", path: `/etc/passwd`, want: cannot("Capabilities insufficient")},
		{name: "dots", path: `../../etc/passwd`, want: cannot("Capabilities insufficient")},
		{name: "long", path: `/docs/reports/` + strings.Repeat("x", 100_000), want: cannot("Filename too long")},
		{name: "empty", path: ``, want: cannot("Capabilities insufficient")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.run(t, "read-file", `{"n":[1,{"path":"no"}],"path":"`+tt.path+`"}`, call.Bounds{}, "read")
			compare(t, tt.want, seen(out, o))
		})
	}
	t.Run("arguments", func(t *testing.T) {
		for _, in := range []string{`{}`, `{"path":1}`, `{"path":"a\u0000b"}`, `{"paths":"x"}`} {
			if out, o := w.run(t, "read-file", in, call.Bounds{}, "read"); out != "" || o.Code != call.CodeToolError || len(o.Effects) > 0 {
				t.Errorf("%s gives %q, %s, %v", in, out, o.Code, o.Effects)
			}
		}
	})
}

func TestListDir(t *testing.T) {
	w := open(t, sandbox.Options{})
	list := `{"path":"/docs/reports"}`
	all := `{"entries":[{"name":"a.txt","type":"file"},{"name":"absolute","type":"link"},{"name":"fifo","type":"other"},` +
		`{"name":"in","type":"link"},{"name":"loop","type":"link"},{"name":"odd","type":"file"},{"name":"out","type":"link"},` +
		`{"name":"sub","type":"directory"},{"name":"updir","type":"link"}]}`
	tests := []struct {
		name, give string
		modes      []string
		want       got
	}{
		{"folder", list, []string{"list"}, got{Out: all, Status: call.Succeeded, Code: call.CodeOK, Effects: []call.Effect{effect("fs.list", "/docs/reports", "ok", 0)}}},
		{"below", `{"path":"/docs/reports/sub"}`, []string{"list"}, got{Out: `{"entries":[{"name":"b.txt","type":"file"}]}`, Status: call.Succeeded, Code: call.CodeOK, Effects: []call.Effect{effect("fs.list", "/docs/reports/sub", "ok", 0)}}},
		{"without the mode", list, []string{"read"}, got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "cannot list: Permission denied\n", Effects: []call.Effect{effect("fs.list", "/docs/reports", "refused", 0)}}},
		{"link out", `{"path":"/docs/reports/updir"}`, []string{"list"}, got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "cannot list: Permission denied\n", Effects: []call.Effect{effect("fs.list", "/docs/reports/updir", "refused", 0)}}},
		{"no grant", list, nil, got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "cannot list: Capabilities insufficient\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.run(t, "list-dir", tt.give, call.Bounds{}, tt.modes...)
			compare(t, tt.want, seen(out, o))
		})
	}
}

// Without the modes that change something nothing is changed, in whatever way WASI
// has a guest ask for it.
func TestNothingIsWritten(t *testing.T) {
	w := open(t, sandbox.Options{})
	try := func(kind, target string) call.Effect { return effect(kind, "/docs/reports/"+target, "refused", 0) }
	_, o := w.run(t, "rotrunc", `{}`, call.Bounds{}, "read", "list")
	compare(t, got{Status: call.Failed, Code: call.CodeToolError, Exit: 3 * 2, Effects: []call.Effect{
		try("fs.write", "a.txt"), try("fs.write", "newfile"), try("fs.append", "a.txt"),
	}}, seen("", o))
	_, o = w.run(t, "mutate", `{}`, call.Bounds{}, "read", "list")
	compare(t, got{Status: call.Succeeded, Code: call.CodeOK, Effects: []call.Effect{
		try("fs.write", "new"), try("fs.remove", "new"), try("fs.remove", "a.txt"), try("fs.write", "new"), try("fs.write", "new"),
		try("fs.write", "new"), try("fs.write", "a.txt"), try("fs.write", "a.txt"),
	}}, seen("", o))
	b, err := os.ReadFile(filepath.Join(w.dir, "docs/reports/a.txt"))
	if err != nil || string(b) != "alpha" {
		t.Errorf("a.txt is %q, %v", b, err)
	}
	for _, name := range []string{"new", "newfile"} {
		if _, err := os.Lstat(filepath.Join(w.dir, "docs/reports", name)); err == nil {
			t.Errorf("%s was created", name)
		}
	}
}

func TestDescriptors(t *testing.T) {
	w := open(t, sandbox.Options{})
	_, o := w.run(t, "renumber", `{}`, call.Bounds{}, "read")
	if o.Code != call.CodeToolError || o.Exit != 8|8<<8 {
		t.Errorf("renumber ended %s with %#x, want EBADF twice, then none", o.Code, o.Exit)
	}
	_, o = w.run(t, "fdbomb", `{}`, call.Bounds{OpenFiles: 5}, "read")
	if o.Exit != 5033 || len(o.Effects) != 6 || o.Effects[5].Code != "error" {
		t.Errorf("fdbomb ended %s with %d, %v, want five files, then EMFILE", o.Code, o.Exit, o.Effects)
	}
	// What a guest leaves open is closed with it, though the call goes on.
	digest, fx := w.install(t, "fdbomb"), w.effects(t, call.Bounds{OpenFiles: 5}, "read")
	for range 2 {
		if _, o := w.box.Run(t.Context(), digest, args(t, `{}`), fx); o.Exit != 5033 {
			t.Errorf("again ended %s with %d, want five files", o.Code, o.Exit)
		}
	}
	_, o = w.run(t, "fdbomb", `{}`, call.Bounds{}, "read")
	if o.Exit != 64033 {
		t.Errorf("fdbomb ended %s with %d, want 64 files, then EMFILE", o.Code, o.Exit)
	}
	_, o = w.run(t, "dirbomb", `{}`, call.Bounds{OpenFiles: 5}, "read")
	if o.Exit != 5033 {
		t.Errorf("dirbomb ended %s with %d, want five directories, then EMFILE", o.Code, o.Exit)
	}
	_, o = w.run(t, "bigdirents", `{}`, call.Bounds{}, "list")
	if o.Exit != 28 {
		t.Errorf("bigdirents ended %s with %d, want EINVAL", o.Code, o.Exit)
	}
}

// Guests that do not use a C library pass what they like.
func TestRawPaths(t *testing.T) {
	w := open(t, sandbox.Options{})
	tests := []struct {
		name, path string
		errno      uint32
		want       []call.Effect
	}{
		{"file", "a.txt", 0, []call.Effect{effect("fs.read", "/docs/reports/a.txt", "ok", 0)}},
		{"dots", "../secret.txt", 63, []call.Effect{effect("fs.read", "/docs/secret.txt", "refused", 0)}},
		{"dots later", "sub/../../secret.txt", 63, []call.Effect{effect("fs.read", "/docs/reports/sub/../../secret.txt", "refused", 0)}},
		{"absolute", "/etc/passwd", 63, []call.Effect{effect("fs.read", "/etc/passwd", "refused", 0)}},
		{"through a link", "updir/secret.txt", 2, []call.Effect{effect("fs.read", "/docs/reports/updir/secret.txt", "refused", 0)}},
		{"long", strings.Repeat("x", 4097), 37, nil},
		{"empty", "", 44, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, o := w.run(t, "paths", `{"p":"`+tt.path+`"}`, call.Bounds{}, "read")
			want := got{Status: call.Succeeded, Code: call.CodeOK, Effects: tt.want}
			if tt.errno != 0 {
				want = got{Status: call.Failed, Code: call.CodeToolError, Exit: tt.errno, Effects: tt.want}
			}
			compare(t, want, seen("", o))
		})
	}
	t.Run("below a directory", func(t *testing.T) {
		_, o := w.run(t, "subdir", `{}`, call.Bounds{}, "read")
		compare(t, got{Status: call.Failed, Code: call.CodeToolError, Exit: 63, Effects: []call.Effect{
			effect("fs.read", "/docs/reports/sub/b.txt", "ok", 0), effect("fs.read", "/docs/secret.txt", "refused", 0),
		}}, seen("", o))
	})
}

// A file is swapped for a link that leads out while guests read it.
func TestSwapRace(t *testing.T) {
	w := open(t, sandbox.Options{})
	at := filepath.Join(w.dir, "docs/reports")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, m := range [][2]string{{"a.txt", "x"}, {"out", "a.txt"}, {"x", "out"}} {
				os.Rename(filepath.Join(at, m[0]), filepath.Join(at, m[1]))
			}
		}
	}()
	digest := w.install(t, "read-file")
	for range 300 {
		fx := w.effects(t, call.Bounds{}, "read")
		out, _ := w.box.Run(t.Context(), digest, args(t, `{"path":"/docs/reports/a.txt"}`), fx)
		if strings.Contains(string(out), canary) {
			t.Error("read outside of the granted folder")
		}
		fx.Close()
	}
	close(stop)
	<-done
}

func TestDeadGrantHasNoFiles(t *testing.T) {
	w := open(t, sandbox.Options{})
	digest, fx := w.install(t, "read-file"), w.effects(t, call.Bounds{}, "read")
	granttest.Kill(fx.Grant())
	out, o := w.box.Run(t.Context(), digest, args(t, `{"path":"/docs/reports/a.txt"}`), fx)
	if out != nil || o.Status != call.NotStarted || o.Code != call.CodeGrantMismatch || len(fx.Close()) != 0 {
		t.Errorf("Run() = %q, %v, effects %v", out, o, fx.Close())
	}
	fx = w.effects(t, call.Bounds{}, "read")
	fx.Close()
	out, o = w.box.Run(t.Context(), digest, args(t, `{"path":"/docs/reports/a.txt"}`), fx)
	if out != nil || o.Code != call.CodeToolError || len(fx.Close()) != 0 {
		t.Errorf("after Close: %q, %v, effects %v", out, o, fx.Close())
	}
}

const goGuest = `package main

import "os"

func main() {
	b, err := os.ReadFile("/docs/reports/a.txt")
	entries, _ := os.ReadDir("/docs/reports/sub")
	_, out := os.ReadFile("/docs/reports/out")
	write := os.WriteFile("/docs/reports/a.txt", nil, 0o600)
	if err == nil && len(entries) == 1 && out != nil && write != nil {
		os.Stdout.WriteString(string(b) + " " + entries[0].Name())
	}
}
`

// Go's own guests are large and deeply nested, and go through WASI in ways that
// C does not.
func TestGoGuest(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(goGuest), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module guest\n"), 0o600))
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "guest.wasm", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "guest.wasm"))
	must(t, err)
	w := open(t, sandbox.Options{})
	must(t, w.box.Install(t.Context(), call.Digest(b), b))
	fx := w.effects(t, call.Bounds{}, "read", "list")
	out, o := w.box.Run(t.Context(), call.Digest(b), args(t, `{}`), fx)
	o.Effects = fx.Close()
	compare(t, got{Out: "alpha b.txt", Status: call.Succeeded, Code: call.CodeOK, Effects: []call.Effect{
		effect("fs.read", "/docs/reports/a.txt", "ok", 5),
		effect("fs.list", "/docs/reports/sub", "ok", 0),
		effect("fs.read", "/docs/reports/out", "refused", 0),
		effect("fs.write", "/docs/reports/a.txt", "refused", 0),
	}}, seen(string(out), o))
}
