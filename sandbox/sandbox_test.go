package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/guests"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a sandbox and a directory with a granted folder in it.
type world struct {
	box  *sandbox.Sandbox
	host *hostfx.Host
	dir  string

	more call.Caps // what grants give besides the folder
}

// canary is in every file that no grant of these tests gives.
const canary = "must never be read"

func open(t testing.TB, o sandbox.Options) *world {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "docs/reports")
	must(t, os.MkdirAll(filepath.Join(folder, "sub"), 0o755))
	for name, text := range map[string]string{
		"docs/reports/a.txt": "alpha", "docs/reports/sub/b.txt": "beta", "docs/secret.txt": canary, "outside.txt": canary,
		"docs/reports/odd": "tab\t quote\" \x01 bad\xff end",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, to := range map[string]string{
		"in": "sub/b.txt", "out": "../secret.txt", "absolute": filepath.Join(dir, "outside.txt"), "updir": "..", "loop": "loop",
	} {
		must(t, os.Symlink(to, filepath.Join(folder, name)))
	}
	must(t, syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o600))
	box, err := sandbox.New(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, box.Close(context.Background())) })
	host, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "docs")}}})
	must(t, err)
	t.Cleanup(func() { host.Close() })
	return &world{box: box, host: host, dir: dir}
}

// module returns a guest of package guests, or one of testdata.
func module(t testing.TB, name string) []byte {
	t.Helper()
	if b, err := guests.Module(name); err == nil {
		return b
	}
	b, err := os.ReadFile(filepath.Join("testdata", name+".wasm"))
	must(t, err)
	return b
}

func (w *world) install(t testing.TB, name string) string {
	t.Helper()
	b := module(t, name)
	must(t, w.box.Install(t.Context(), call.Digest(b), b))
	return call.Digest(b)
}

// effects opens the folder with the modes, and what the world gives besides.
func (w *world) effects(t testing.TB, b call.Bounds, modes ...string) *hostfx.Effects {
	t.Helper()
	caps := w.more.Clone()
	caps.Bounds = b
	if modes != nil {
		caps.FS = []call.FS{{Root: "docs", Path: "reports", Modes: modes}}
	}
	fx, err := w.host.Open(t.Context(), granttest.Mint(t, call.Digest([]byte("tool")), args(t, `{}`), caps))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

func args(t testing.TB, s string) call.Args {
	t.Helper()
	a, err := call.Canonical([]byte(s))
	must(t, err)
	return a
}

// run runs a guest once, and fills in the effects as the engine does.
func (w *world) run(t testing.TB, name, in string, b call.Bounds, modes ...string) (string, call.Outcome) {
	t.Helper()
	digest, fx := w.install(t, name), w.effects(t, b, modes...)
	out, o := w.box.Run(t.Context(), digest, args(t, in), fx)
	o.Effects = fx.Close()
	return string(out), o
}

func effect(kind, target, code string, bytes int64) call.Effect {
	return call.Effect{Kind: kind, Within: "/docs/reports", Target: target, Code: code, BytesIn: bytes}
}

// got is what the tests compare of a run.
type got struct {
	Out     string
	Status  call.Status
	Code    call.Code
	Exit    uint32
	Refused bool // memory
	Log     string
	Effects []call.Effect
}

func seen(out string, o call.Outcome) got {
	g := got{out, o.Status, o.Code, o.Exit, o.MemoryRefused, string(o.Stderr), nil}
	for _, e := range o.Effects { // the rest of the evidence is hostfx's business
		e.TookUS, e.Address, e.Enforcement = 0, "", ""
		g.Effects = append(g.Effects, e)
	}
	return g
}

func compare(t *testing.T, want, have got) {
	t.Helper()
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("run (-want +got):\n%s", d)
	}
}

// short bounds a run that ends by its time alone.
var short = call.Bounds{TimeoutMS: 150}

func TestBounds(t *testing.T) {
	w := open(t, sandbox.Options{})
	failed := func(c call.Code) got { return got{Status: call.Failed, Code: c} }
	tool := func(exit uint32) got { return got{Status: call.Failed, Code: call.CodeToolError, Exit: exit} }
	refused := func(g got) got { g.Refused = true; return g }
	tests := []struct {
		guest string
		name  string
		give  call.Bounds
		want  got
	}{
		{guest: "spin", give: short, want: failed(call.CodeTimeExceeded)},
		{guest: "fib", give: short, want: failed(call.CodeTimeExceeded)},
		{guest: "startinf", give: short, want: failed(call.CodeTimeExceeded)},
		{guest: "sleep", give: short, want: failed(call.CodeTimeExceeded)},
		{guest: "random", give: short, want: failed(call.CodeTimeExceeded)},
		{guest: "fill", give: short, want: failed(call.CodeTimeExceeded)},
		{guest: "spin", name: "fuel", give: call.Bounds{Fuel: 10_000}, want: failed(call.CodeFuelExhausted)},
		{guest: "fib", name: "fuel", give: call.Bounds{Fuel: 10_000}, want: failed(call.CodeFuelExhausted)},
		{guest: "startinf", name: "fuel", give: call.Bounds{Fuel: 10_000}, want: failed(call.CodeFuelExhausted)},
		{guest: "fill", name: "fuel", give: call.Bounds{Fuel: 10_000}, want: failed(call.CodeFuelExhausted)},
		{guest: "recurse", want: failed(call.CodeStackExhausted)},
		{guest: "bigframe", want: failed(call.CodeStackExhausted)},
		{guest: "starttrap", want: failed(call.CodeGuestTrap)},
		{guest: "chatter", want: failed(call.CodeOutputExceeded)},
		{guest: "chatter", name: "small", give: call.Bounds{OutputBytes: 13}, want: failed(call.CodeOutputExceeded)},
		{guest: "grow", give: short, want: refused(failed(call.CodeTimeExceeded))},
		{guest: "hog", give: call.Bounds{MemoryBytes: 4 << 20}, want: refused(got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "out of memory, after this many MiB: 3\n"})},
		{guest: "bigmin", want: got{Status: call.NotStarted, Code: call.CodeMemoryMinimum}},
		{guest: "bigmin", name: "enough", give: call.Bounds{MemoryBytes: 128 << 20}, want: got{Status: call.Succeeded, Code: call.CodeOK}},
		{guest: "polloverflow", want: tool(28)},
		{guest: "poll", want: tool(82)},
		{guest: "stdin", want: tool(2)},
		{guest: "iovamp", want: tool(28)},
		{guest: "iovsum", want: tool(28)},
		{guest: "sockets", want: tool(57)},
		{guest: "exitinit", want: tool(0)},
		{guest: "exitbig", want: tool(0xefffffff)},
		{guest: "exit0", want: got{Out: "{}", Status: call.Succeeded, Code: call.CodeOK}},
	}
	for _, tt := range tests {
		t.Run(tt.guest+tt.name, func(t *testing.T) {
			out, o := w.run(t, tt.guest, `{}`, tt.give)
			compare(t, tt.want, seen(out, o))
			if o.Took <= 0 {
				t.Errorf("Took = %v", o.Took)
			}
			if limit := tt.give.Fuel; limit > 0 && o.Fuel != limit {
				t.Errorf("Fuel = %d of %d", o.Fuel, limit)
			}
		})
	}
}

func TestMemoryAndFuelAreCounted(t *testing.T) {
	w := open(t, sandbox.Options{})
	_, o := w.run(t, "hog", `{}`, call.Bounds{MemoryBytes: 1 << 20})
	if o.MemoryBytes <= 0 || o.MemoryBytes > 1<<20 {
		t.Errorf("MemoryBytes = %d of %d", o.MemoryBytes, 1<<20)
	}
	_, a := w.run(t, "echo", `{"a":1}`, call.Bounds{})
	_, b := w.run(t, "echo", `{"a":1}`, call.Bounds{})
	if a.Fuel <= 0 || a.Fuel != b.Fuel {
		t.Errorf("the same call burnt %d and %d", a.Fuel, b.Fuel)
	}
	if _, o := w.run(t, "echo", `{"a":1}`, call.Bounds{Fuel: a.Fuel}); o.Code != call.CodeOK {
		t.Errorf("with exactly what it needs: %s", o.Code)
	}
	if _, o := w.run(t, "echo", `{"a":1}`, call.Bounds{Fuel: a.Fuel - 1}); o.Code != call.CodeFuelExhausted {
		t.Errorf("with one less: %s", o.Code)
	}
}

func TestReactor(t *testing.T) {
	w := open(t, sandbox.Options{})
	out, o := w.run(t, "echo", `{"b":[1,"x"],"a":"\u00e9"}`, call.Bounds{})
	compare(t, got{Out: `{"a":"é","b":[1,"x"]}`, Status: call.Succeeded, Code: call.CodeOK}, seen(out, o))
}

// A guest's globals and memory are as new for each call.
func TestInstancesAreFresh(t *testing.T) {
	w := open(t, sandbox.Options{})
	for range 3 {
		_, o := w.run(t, "counter", `{}`, call.Bounds{})
		if o.Code != call.CodeToolError || o.Exit != 102 {
			t.Errorf("ended %s with %d, want 102 each time", o.Code, o.Exit)
		}
	}
	a, _ := w.run(t, "randomness", `{}`, call.Bounds{})
	b, _ := w.run(t, "randomness", `{}`, call.Bounds{})
	if len(a) != 16 || a == b {
		t.Errorf("randomness is the same in two instances: %x and %x", a, b)
	}
}

func TestLogIsCapped(t *testing.T) {
	w := open(t, sandbox.Options{})
	_, o := w.run(t, "hog", `{}`, call.Bounds{MemoryBytes: 2 << 20, LogBytes: 13})
	if string(o.Stderr) != "out of memory" {
		t.Errorf("Stderr = %q", o.Stderr)
	}
}
