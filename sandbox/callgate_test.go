package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

func finished(out string, effects ...call.Effect) got {
	return got{Out: out, Status: call.Succeeded, Code: call.CodeOK, Effects: effects}
}

func TestCallgateFiles(t *testing.T) {
	w := open(t, sandbox.Options{})
	at := filepath.Join(w.dir, "docs/reports")
	for name, size := range map[string]int64{"full": pokeMemory, "over": pokeMemory + 1, "huge": 1 << 40} {
		must(t, os.WriteFile(filepath.Join(at, name), nil, 0o600))
		must(t, os.Truncate(filepath.Join(at, name), size))
	}
	must(t, os.WriteFile(filepath.Join(at, "sub/empty"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(at, "many"), 0o700))
	for i := range 1000 {
		must(t, os.WriteFile(filepath.Join(at, "many", strings.Repeat("n", 246)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))), nil, 0o600))
	}
	read := func(name, code string, n int64) call.Effect {
		return effect("fs.read", "/docs/reports/"+name, code, n)
	}
	list := func(name, code string) call.Effect { return effect("fs.list", "/docs/reports"+name, code, 0) }
	outside := func(kind, target string) call.Effect {
		return call.Effect{Kind: kind, Target: target, Code: "refused"}
	}
	tests := []struct {
		name string
		op   byte
		give string
		want got
	}{
		{"file", callRead, "/docs/reports/a.txt", finished("00alpha", read("a.txt", "ok", 5))},
		{"empty file", callRead, "/docs/reports/sub/empty", finished("00", read("sub/empty", "ok", 0))},
		{"link inside", callRead, "/docs/reports/in", finished("00beta", read("in", "ok", 4))},
		{"bytes as they are", callRead, "/docs/reports/odd", finished("00tab\t quote\" \x01 bad\xff end", read("odd", "ok", 22))},
		{"as large as the memory", callRead, "/docs/reports/full", finished("01", read("full", "ok", pokeMemory))},
		{"larger than the memory", callRead, "/docs/reports/over", finished("54", read("over", "ok", 0))},
		{"sparse", callRead, "/docs/reports/huge", finished("54", read("huge", "ok", 0))},
		{"missing", callRead, "/docs/reports/none", finished("44", read("none", "not_found", 0))},
		{"link out", callRead, "/docs/reports/out", finished("34", read("out", "refused", 0))},
		{"FIFO", callRead, "/docs/reports/fifo", finished("34", read("fifo", "refused", 0))},
		{"directory", callRead, "/docs/reports/sub", finished("64")},
		{"below a file", callRead, "/docs/reports/a.txt/x", finished("64", read("a.txt/x", "error", 0))},
		{"beside the folder", callRead, "/docs/secret.txt", finished("34", outside("fs.read", "/docs/secret.txt"))},
		{"dots", callRead, "/docs/reports/../secret.txt", finished("34", outside("fs.read", "/docs/secret.txt"))},
		{"elsewhere", callRead, "/etc/passwd", finished("34", outside("fs.read", "/etc/passwd"))},
		{"relative", callRead, "docs/reports/a.txt", finished("24")},
		{"no name", callRead, "", finished("24")},
		{"NUL", callRead, "/docs/reports/a.txt\x00", finished("24")},
		{"long", callRead, "/docs/reports/" + strings.Repeat("x", 4096), finished("24")},
		{"listing", callList, "/docs/reports/sub", finished(`00[{"name":"b.txt","dir":false},{"name":"empty","dir":false}]`, list("/sub", "ok"))},
		{"listing of links", callList, "/docs/reports/", finished(`00[{"name":"a.txt","dir":false},{"name":"absolute","dir":false},`+
			`{"name":"fifo","dir":false},{"name":"full","dir":false},{"name":"huge","dir":false},{"name":"in","dir":false},{"name":"loop","dir":false},`+
			`{"name":"many","dir":true},{"name":"odd","dir":false},{"name":"out","dir":false},{"name":"over","dir":false},`+
			`{"name":"sub","dir":true},{"name":"updir","dir":false}]`, list("", "ok"))},
		{"listing too large", callList, "/docs/reports/many", finished("54", list("/many", "ok"))},
		{"listing of a file", callList, "/docs/reports/a.txt", finished("64", list("/a.txt", "error"))},
		{"listing out", callList, "/docs/reports/updir", finished("34", list("/updir", "refused"))},
		{"listing beside", callList, "/docs", finished("34", outside("fs.list", "/docs"))},
		{"listing nothing", callList, "/docs/reports/none", finished("44", list("/none", "not_found"))},
		{"listing without a name", callList, "", finished("24")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.poke(t, program{}.ask(tt.op, tt.give), call.Bounds{}, "read", "list")
			compare(t, tt.want, seen(taken(out), o))
		})
	}
	t.Run("modes", func(t *testing.T) {
		out, o := w.poke(t, program{}.ask(callRead, "/docs/reports/a.txt"), call.Bounds{}, "list")
		compare(t, finished("34", read("a.txt", "refused", 0)), seen(out, o))
		out, o = w.poke(t, program{}.ask(callList, "/docs/reports"), call.Bounds{}, "read")
		compare(t, finished("34", list("", "refused")), seen(out, o))
		out, o = w.poke(t, program{}.ask(callList, "/docs/reports"), call.Bounds{})
		compare(t, finished("34", outside("fs.list", "/docs/reports")), seen(out, o))
	})
	t.Run("names that are no text", func(t *testing.T) {
		must(t, os.Mkdir(filepath.Join(at, "names"), 0o700))
		for _, name := range []string{"\xff", "a\nb", "<é>"} {
			must(t, os.WriteFile(filepath.Join(at, "names", name), nil, 0o600))
		}
		out, o := w.poke(t, program{}.ask(callList, "/docs/reports/names"), call.Bounds{}, "list")
		compare(t, finished(`00[{"name":"<é>","dir":false},{"name":"a\nb","dir":false},{"name":"`+"\ufffd"+`","dir":false}]`, list("/names", "ok")), seen(out, o))
	})
}

// No pointer or length makes the host read or write beside the memory, and
// nothing is done for a guest that could not be told.
func TestCallgatePointers(t *testing.T) {
	w := open(t, sandbox.Options{})
	const path = "/docs/reports/a.txt"
	n := uint32(len(path))
	tests := []struct {
		name  string
		words []uint32
	}{
		{"request at the end", []uint32{pokeMemory - n + 1, n, lengthAt}},
		{"request behind the end", []uint32{pokeMemory + 1, 0, lengthAt}},
		{"request that wraps", []uint32{0xffffffff, n, lengthAt}},
		{"length of all there is", []uint32{0, 0xffffffff, lengthAt}},
		{"length one too much", []uint32{0, pokeMemory + 1, lengthAt}},
		{"length to the end", []uint32{1, pokeMemory, lengthAt}},
		{"answer's length at the end", []uint32{0, n, pokeMemory - 3}},
		{"answer's length behind the end", []uint32{0, n, pokeMemory}},
		{"answer's length far behind the end", []uint32{0, n, 0xffffffff}},
		{"everything", []uint32{0xffffffff, 0xffffffff, 0xffffffff}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program{}.put(0, path)
			for _, op := range []byte{callHTTP, callRead, callList, callStat, callExec, callStart, callOutput} {
				p = p.step(op, tt.words...)
			}
			want := "1111111"
			if strings.HasPrefix(tt.name, "request") || strings.HasPrefix(tt.name, "length") || tt.name == "everything" {
				for _, op := range []byte{callLog, callMkdir, callRemove, callKill, callRegister} {
					p, want = p.step(op, tt.words...), want+"1"
				}
			}
			out, o := w.poke(t, p.step(callAnswer, 0, 0), call.Bounds{}, "read", "list")
			compare(t, finished(want+"4"), seen(out, o))
		})
	}
	t.Run("at the edge", func(t *testing.T) {
		// The memory of poke above pokeFree is its own, but for its end.
		p := program{}.put(0, path).step(callRead, 0, n, pokeMemory-4).step(callAnswer, pokeMemory-5, 5)
		out, o := w.poke(t, p.step(show, pokeMemory-5, 5), call.Bounds{}, "read")
		compare(t, finished("00alpha", effect("fs.read", path, "ok", 5)), seen(out, o))
	})
	t.Run("answer", func(t *testing.T) {
		p := program{}.step(callAnswer, 0, 0).put(0, path).step(callRead, 0, n, lengthAt)
		for _, words := range [][]uint32{{0x8000, 4}, {0x8000, 6}, {0x8000, 0}, {0x8000, 0xffffffff}, {pokeMemory - 4, 5}, {0xffffffff, 5}} {
			p = p.step(callAnswer, words...)
		}
		// After all that it is still there, once.
		p = p.step(callAnswer, 0x8000, 5).step(show, 0x8000, 5).step(callAnswer, 0x8000, 5)
		out, o := w.poke(t, p, call.Bounds{}, "read")
		compare(t, finished("402222110alpha4", effect("fs.read", path, "ok", 5)), seen(out, o))
	})
	t.Run("overlapping", func(t *testing.T) {
		// The length goes where the request lies, and the answer where the length lies.
		p := program{}.put(0, path).step(callRead, 0, n, 4).step(show, 0, 12).step(take, 6, 4).step(show, 0, 12)
		out, o := w.poke(t, p, call.Bounds{}, "read")
		compare(t, finished("0/doc\x05\x00\x00\x00port0/doc\x05\x00alphat", effect("fs.read", path, "ok", 5)), seen(out, o))
	})
}

// Any new request forgets the answer before, whatever becomes of it.
func TestAnswerIsForgotten(t *testing.T) {
	w := open(t, sandbox.Options{})
	const path = "/docs/reports/a.txt"
	n := uint32(len(path))
	for name, words := range map[string][]uint32{"malformed": {0, 0, lengthAt}, "fault": {0xffffffff, 1, lengthAt}} {
		for _, op := range []byte{callHTTP, callRead, callList} {
			t.Run(name, func(t *testing.T) {
				p := program{}.put(0, path).step(callRead, 0, n, lengthAt).step(op, words...).step(callAnswer, 0x8000, 5)
				out, o := w.poke(t, p, call.Bounds{}, "read", "list")
				if o.Code != call.CodeOK || len(out) != 3 || out[0] != '0' || out[1] == '0' || out[2] != '4' {
					t.Errorf("numbers %q, %s", out, o.Code)
				}
			})
		}
	}
	t.Run("next run", func(t *testing.T) {
		digest, fx := w.install(t, "poke"), w.effects(t, call.Bounds{}, "read")
		leave, look := program{}.put(0, path).step(callRead, 0, n, lengthAt), program{}.step(callAnswer, 0x8000, 5)
		for range 2 {
			if out, o := w.box.Run(t.Context(), digest, args(t, leave.args()), fx); string(out) != "0" {
				t.Errorf("first run: %q, %s", out, o.Code)
			}
			if out, o := w.box.Run(t.Context(), digest, args(t, look.args()), fx); string(out) != "4" {
				t.Errorf("second run finds %q, %s", out, o.Code)
			}
		}
	})
}

func TestCallgateBusyAndClosed(t *testing.T) {
	w := open(t, sandbox.Options{})
	p := program{}.ask(callRead, "/docs/reports/a.txt").ask(callRead, "/docs/reports/a.txt")
	out, o := w.poke(t, p, call.Bounds{OpenFiles: 1}, "read")
	if out != "00alpha00alpha" || o.Code != call.CodeOK {
		t.Errorf("one file after the other, of one: %q, %s", out, o.Code)
	}
	digest, fx := w.install(t, "poke"), w.effects(t, call.Bounds{OpenFiles: 1}, "read")
	f, err := fx.OpenRead("/docs/reports/a.txt")
	must(t, err)
	raw, o := w.box.Run(t.Context(), digest, args(t, program{}.ask(callRead, "/docs/reports/a.txt").args()), fx)
	if string(raw[:2]) != "84" || o.Code != call.CodeOK {
		t.Errorf("with a file open, of one: %q, %s", raw, o.Code)
	}
	must(t, f.Close())
	fx.Close()
	p = program{}.put(0, "/docs/reports/a.txt").step(callRead, 0, 19, lengthAt).step(callList, 0, 13, lengthAt).step(callLog, 0, 19)
	if raw, o = w.box.Run(t.Context(), digest, args(t, p.args()), fx); string(raw) != "999" || o.Code != call.CodeOK {
		t.Errorf("after Close: %q, %s", raw, o.Code)
	}
}

// What runs before the guest is called has the same functions.
func TestCallgateFromStartFunction(t *testing.T) {
	w := open(t, sandbox.Options{})
	_, o := w.run(t, "early", `{}`, call.Bounds{}, "list")
	compare(t, got{Status: call.Failed, Code: call.CodeToolError, Exit: uint32(len(`[{"name":"b.txt","dir":false}]`)),
		Effects: []call.Effect{effect("fs.list", "/docs/reports/sub", "ok", 0)}}, seen("", o))
}
