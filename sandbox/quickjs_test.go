package sandbox_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/sandbox"
)

// script are arguments of the guest quickjs.
func script(t testing.TB, source string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"source": source, "text": "grün", "list": []int{3, 1, 2}}, json.Deterministic(true))
	must(t, err)
	return string(b)
}

// A JavaScript engine is an ordinary guest. It takes long to compile, so all of its
// tests share what was compiled.
func TestQuickJS(t *testing.T) {
	o := sandbox.Options{CacheDir: filepath.Join(t.TempDir(), "cache"), CacheKey: cacheKey}
	w := open(t, o)
	o.Fresh = true
	alone := open(t, o)
	t.Run("answers", func(t *testing.T) { answersOfQuickJS(t, w, alone) })
	t.Run("bounds", func(t *testing.T) { boundsOfQuickJS(t, w) })
	t.Run("canary", func(t *testing.T) { canaryInQuickJS(t, w) })
}

// It starts where its initialisation ended, and answers as one that initialises
// itself in each call.
func answersOfQuickJS(t *testing.T, w, alone *world) {
	for _, tt := range []struct {
		source, want string
		exit         uint32
		log          string // holds this
	}{
		{source: "/*" + strings.Repeat("x", 1<<20-100) + "*/ 7", want: `7`}, // as long as arguments may be, nearly
		{source: `1 + 1`, want: `2`},
		{source: `args.list.toSorted().map(n => n * n)`, want: `[1,4,9]`},
		{source: `({text: args.text.toUpperCase(), n: args.text.match(/[^a-z]/g).length})`, want: `{"text":"GRÜN","n":1}`},
		{source: `(2n ** 200n).toString()`, want: `"1606938044258990275541962092341162602522202993782792835301376"`},
		{source: `[typeof require, typeof process, typeof fetch, typeof std]`, want: `["undefined","undefined","undefined","undefined"]`},
		{source: `"x".repeat(200000).length`, want: `200000`},
		{source: `throw new TypeError("not this")`, exit: 1, log: "TypeError: not this"},
		{source: `1 +`, exit: 1, log: "SyntaxError"},
		{source: `(() => { const o = {}; o.o = o; return o })()`, exit: 1, log: "circular"},
		{source: `undefined`, exit: 2},
	} {
		in := script(t, tt.source)
		_, want := alone.run(t, "quickjs", in, call.Bounds{})
		for range 2 {
			out, o := w.run(t, "quickjs", in, call.Bounds{})
			if out != tt.want || o.Exit != tt.exit || !strings.Contains(string(o.Stderr), tt.log) || o.MemoryRefused {
				t.Errorf("%.99s gives %q, and ended %+v\n%s", tt.source, out, o, o.Stderr)
			}
			if o.Code != want.Code || o.Fuel != want.Fuel || o.MemoryBytes != want.MemoryBytes {
				t.Errorf("%.99s ended %+v, and without a snapshot %+v", tt.source, o, want)
			}
		}
	}
	if n := w.box.Snapshots(call.Digest(module(t, "quickjs"))); n != 1 {
		t.Errorf("there are %d snapshots", n)
	}
	if n, _ := w.box.Idle(); n != 1 {
		t.Errorf("%d instances wait for the next call", n)
	}
}

// Scripts that do not end, or take all they get, end as other guests do.
func boundsOfQuickJS(t *testing.T, w *world) {
	const grant = 8 << 20
	for _, tt := range []struct {
		source  string
		give    call.Bounds
		code    call.Code
		refused bool // memory
	}{
		{"for (;;);", short, call.CodeTimeExceeded, false},
		{`/(x+x+)+y/.test("x".repeat(40))`, short, call.CodeTimeExceeded, false},
		{"for (;;) try { for (;;); } catch {}", call.Bounds{Fuel: 20_000_000}, call.CodeFuelExhausted, false},
		{"for (const a = [];;) a.push(new Array(1000).fill(1))", call.Bounds{}, call.CodeToolError, true},
		{"const a = []; for (;;) try { a.push(new ArrayBuffer(1 << 20)) } catch {}", call.Bounds{}, call.CodeToolError, true}, // not caught
		{"new ArrayBuffer(1e9)", call.Bounds{}, call.CodeToolError, true},
		{"const f = () => f() + 1; f()", call.Bounds{}, call.CodeStackExhausted, false},
		{"for (;;) try { const f = () => f() + 1; f() } catch {}", call.Bounds{}, call.CodeStackExhausted, false},
		{`"x".repeat(2 << 20)`, call.Bounds{MemoryBytes: 32 << 20}, call.CodeOutputExceeded, false},
	} {
		tt.give.MemoryBytes = max(tt.give.MemoryBytes, grant)
		out, o := w.run(t, "quickjs", script(t, tt.source), tt.give)
		if out != "" || o.Code != tt.code || o.MemoryRefused != tt.refused || o.MemoryBytes > tt.give.MemoryBytes {
			t.Errorf("%s gives %d bytes, and ended %+v", tt.source, len(out), o)
		}
	}
}

// However a script ends, the next one, of somebody else, finds nothing of it.
func canaryInQuickJS(t *testing.T, w *world) {
	digest, in := w.install(t, "quickjs"), script(t, `[
		typeof left, typeof declared, typeof scoped, Object.keys(globalThis), [].left ?? null, Symbol.for("left").description,
		Math.max(1, 2), JSON.stringify.name, Function.prototype.call.name, RegExp.prototype.exec.name, typeof args.left, Math.random(),
	]`)
	look := func() (string, call.Outcome) {
		fx, err := w.host.Open(t.Context(), granttest.MintFor(t, "mallory", nil, digest, args(t, in), call.Caps{}))
		must(t, err)
		defer fx.Close()
		out, o := w.box.Run(t.Context(), digest, args(t, in), fx)
		return string(out), o
	}
	want, first := look()
	if !strings.HasPrefix(want, `["undefined","undefined","undefined",["performance","args"],null,`) {
		t.Fatalf("a first call finds %s, and ended %+v", want, first)
	}
	const leave = `globalThis.left = args.text; var declared = args.text; let scoped = args.text; Array.prototype.left = args.text;
		Object.prototype.left = args.text; Math.max = () => 7; JSON.stringify = Function.prototype.call = RegExp.prototype.exec = () => left;
		Object.defineProperty(globalThis, "args", {get: () => left}); Object.freeze(globalThis); Math.random(); `
	for _, end := range []struct {
		source string
		code   call.Code
		kept   bool // the instance serves the next call
	}{
		{"1", call.CodeOK, true},
		{`throw "left"`, call.CodeToolError, true},
		{`new Array(1e6).fill(left).length`, call.CodeOK, false}, // memory grows
		{"for (;;);", call.CodeTimeExceeded, false},
		{"(function f() { f() })()", call.CodeStackExhausted, false},
	} {
		for range 2 {
			b := call.Bounds{}
			if end.code == call.CodeTimeExceeded {
				b = short
			}
			if _, o := w.run(t, "quickjs", script(t, leave+end.source), b); o.Code != end.code {
				t.Fatalf("%s ended %+v", end.source, o)
			}
			if n, _ := w.box.Idle(); (n == 1) != end.kept {
				t.Errorf("%s: %d instances are kept, and it can be: %v", end.source, n, end.kept)
			}
			if out, o := look(); out != want || o.Fuel != first.Fuel || o.MemoryBytes != first.MemoryBytes || len(o.Stderr) != 0 {
				t.Errorf("after %s the next call finds\n%s, want\n%s (%+v)", end.source, out, want, o)
			}
		}
	}
}
