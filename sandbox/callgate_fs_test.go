package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// wrote is an effect that sent bytes.
func wrote(kind, name, code string, bytes int64) call.Effect {
	return sent(effect(kind, "/docs/reports/"+name, code, 0), bytes)
}

func TestCallgateChangesFiles(t *testing.T) {
	const at = "/docs/reports/"
	outside := func(kind, target string) call.Effect {
		return call.Effect{Kind: kind, Target: target, Code: "refused"}
	}
	long := at + strings.Repeat("x", 4096)
	all := []string{"read", "append", "write", "list", "remove"}
	tests := []struct {
		name       string
		op         byte
		give, body string
		modes      []string // nil for all
		want       got
		file       string // relative to the folder
		has        string // its content afterwards, "" for no file
	}{
		{name: "write", op: callWrite, give: at + "new", body: "a\n\x00\xff", want: finished("0", wrote("fs.write", "new", "ok", 4)), file: "new", has: "a\n\x00\xff"},
		{name: "write less", op: callWrite, give: at + "a.txt", body: "al", modes: []string{"write"}, want: finished("0", wrote("fs.write", "a.txt", "ok", 2)), file: "a.txt", has: "al"},
		{name: "write too much", op: callWrite, give: at + "a.txt", body: strings.Repeat("x", 101), want: finished(";", wrote("fs.write", "a.txt", "over_cap", 0)), file: "a.txt", has: "alpha"},
		{name: "write a directory", op: callWrite, give: at + "sub", want: finished("6", wrote("fs.write", "sub", "error", 0))},
		{name: "write below nothing", op: callWrite, give: at + "none/a", want: finished("4", wrote("fs.write", "none/a", "not_found", 0))},
		{name: "write without the mode", op: callWrite, give: at + "a.txt", modes: []string{"read", "append", "list", "remove"}, want: finished("3", wrote("fs.write", "a.txt", "refused", 0)), file: "a.txt", has: "alpha"},
		{name: "write through a link", op: callWrite, give: at + "out", body: "x", want: finished("3", wrote("fs.write", "out", "refused", 0)), file: "../secret.txt", has: canary},
		{name: "write a FIFO", op: callWrite, give: at + "fifo", body: "x", want: finished("3", wrote("fs.write", "fifo", "refused", 0))},
		{name: "write beside", op: callWrite, give: at + "../secret.txt", body: "x", want: finished("3", outside("fs.write", "/docs/secret.txt")), file: "../secret.txt", has: canary},
		{name: "write elsewhere", op: callWrite, give: "/etc/passwd", body: "x", want: finished("3", outside("fs.write", "/etc/passwd"))},
		{name: "append", op: callAppend, give: at + "a.txt", body: "bet", modes: []string{"append"}, want: finished("0", wrote("fs.append", "a.txt", "ok", 3)), file: "a.txt", has: "alphabet"},
		{name: "append too much", op: callAppend, give: at + "a.txt", body: strings.Repeat("x", 101), want: finished(";", wrote("fs.append", "a.txt", "over_cap", 0)), file: "a.txt", has: "alpha"},
		{name: "append without the mode", op: callAppend, give: at + "a.txt", modes: []string{"read", "list", "remove"}, want: finished("3", wrote("fs.append", "a.txt", "refused", 0)), file: "a.txt", has: "alpha"},
		{name: "append beside", op: callAppend, give: "/docs/secret.txt", body: "x", want: finished("3", outside("fs.append", "/docs/secret.txt")), file: "../secret.txt", has: canary},
		{name: "mkdir", op: callMkdir, give: at + "more", want: finished("0", wrote("fs.write", "more", "ok", 0))},
		{name: "mkdir again", op: callMkdir, give: at + "sub", want: finished(">", wrote("fs.write", "sub", "error", 0))},
		{name: "mkdir without the mode", op: callMkdir, give: at + "more", modes: []string{"read", "append", "list", "remove"}, want: finished("3", wrote("fs.write", "more", "refused", 0)), file: "more"},
		{name: "mkdir beside", op: callMkdir, give: "/docs/more", want: finished("3", outside("fs.write", "/docs/more")), file: "../more"},
		{name: "remove", op: callRemove, give: at + "a.txt", modes: []string{"remove"}, want: finished("0", wrote("fs.remove", "a.txt", "ok", 0)), file: "a.txt"},
		{name: "remove a link", op: callRemove, give: at + "out", want: finished("0", wrote("fs.remove", "out", "ok", 0)), file: "../secret.txt", has: canary},
		{name: "remove what is not empty", op: callRemove, give: at + "sub", want: finished(">", wrote("fs.remove", "sub", "error", 0)), file: "sub/b.txt", has: "beta"},
		{name: "remove nothing", op: callRemove, give: at + "none", want: finished("4", wrote("fs.remove", "none", "not_found", 0))},
		{name: "remove without the mode", op: callRemove, give: at + "a.txt", modes: []string{"read", "append", "write", "list"}, want: finished("3", wrote("fs.remove", "a.txt", "refused", 0)), file: "a.txt", has: "alpha"},
		{name: "remove beside", op: callRemove, give: "/docs/secret.txt", want: finished("3", outside("fs.remove", "/docs/secret.txt")), file: "../secret.txt", has: canary},
		{name: "rename", op: callRename, give: at + "a.txt", body: at + "sub/b.txt", want: finished("0", wrote("fs.remove", "a.txt", "ok", 0), wrote("fs.write", "sub/b.txt", "ok", 0)), file: "sub/b.txt", has: "alpha"},
		{name: "rename nothing", op: callRename, give: at + "none", body: at + "a.txt", want: finished("4", wrote("fs.remove", "none", "not_found", 0)), file: "a.txt", has: "alpha"},
		{name: "rename onto what is not empty", op: callRename, give: at + "d", body: at + "sub", want: finished(">", wrote("fs.write", "sub", "error", 0)), file: "sub/b.txt", has: "beta"},
		{name: "rename without remove", op: callRename, give: at + "a.txt", body: at + "b.txt", modes: []string{"read", "append", "write", "list"}, want: finished("3", wrote("fs.remove", "a.txt", "refused", 0)), file: "a.txt", has: "alpha"},
		{name: "rename without write", op: callRename, give: at + "a.txt", body: at + "b.txt", modes: []string{"read", "append", "list", "remove"}, want: finished("3", wrote("fs.write", "b.txt", "refused", 0)), file: "a.txt", has: "alpha"},
		{name: "rename out", op: callRename, give: at + "a.txt", body: "/docs/secret.txt", want: finished("3", outside("fs.write", "/docs/secret.txt")), file: "../secret.txt", has: canary},
		{name: "rename in", op: callRename, give: "/docs/secret.txt", body: at + "b.txt", want: finished("3", outside("fs.remove", "/docs/secret.txt")), file: "../secret.txt", has: canary},
		{name: "rename to no path", op: callRename, give: at + "a.txt", body: "b.txt", want: finished("2"), file: "a.txt", has: "alpha"},
		{name: "no path", op: callWrite, give: "", body: "x", want: finished("2")},
		{name: "relative", op: callWrite, give: "docs/reports/a.txt", body: "x", want: finished("2"), file: "a.txt", has: "alpha"},
		{name: "NUL", op: callAppend, give: at + "a.txt\x00", body: "x", want: finished("2"), file: "a.txt", has: "alpha"},
		{name: "long", op: callMkdir, give: long, want: finished("2")},
		{name: "long to remove", op: callRemove, give: long, want: finished("2")},
		{name: "long to rename", op: callRename, give: at + "a.txt", body: long, want: finished("2"), file: "a.txt", has: "alpha"},
	}
	w := open(t, sandbox.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fresh(t, w)
			if tt.modes == nil {
				tt.modes = all
			}
			out, o := w.poke(t, program{}.tell(tt.op, tt.give, tt.body), call.Bounds{WriteBytes: 100}, tt.modes...)
			compare(t, tt.want, seen(out, o))
			if tt.file == "" {
				return
			}
			b, err := os.ReadFile(filepath.Join(w.dir, "docs/reports", tt.file))
			if string(b) != tt.has || (err != nil) != (tt.has == "") {
				t.Errorf("%s has %q, %v, want %q", tt.file, b, err, tt.has)
			}
		})
	}
	t.Run("answer stays", func(t *testing.T) {
		fresh(t, w)
		p := program{}.put(0, at+"a.txt").step(callRead, 0, 19, lengthAt).tell(callAppend, at+"a.txt", "bet").tell(callMkdir, "", "").step(take, 0x8000, lengthAt).step(showTaken, 0x8000, lengthAt)
		out, o := w.poke(t, p, call.Bounds{}, all...)
		compare(t, finished("0020alpha", effect("fs.read", at+"a.txt", "ok", 5), wrote("fs.append", "a.txt", "ok", 3)), seen(out, o))
	})
}

// fresh makes the folder as open left it, as far as TestCallgateChangesFiles goes.
func fresh(t *testing.T, w *world) {
	t.Helper()
	folder := filepath.Join(w.dir, "docs/reports")
	for _, name := range []string{"new", "more", "b.txt"} {
		must(t, os.RemoveAll(filepath.Join(folder, name)))
	}
	must(t, os.MkdirAll(filepath.Join(folder, "d"), 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "a.txt"), []byte("alpha"), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "sub/b.txt"), []byte("beta"), 0o600))
	if _, err := os.Lstat(filepath.Join(folder, "out")); err != nil {
		must(t, os.Symlink("../secret.txt", filepath.Join(folder, "out")))
	}
}

// when files of a test were changed.
var when = time.UnixMilli(1767225600123)

func TestCallgateStat(t *testing.T) {
	w := open(t, sandbox.Options{})
	at := filepath.Join(w.dir, "docs/reports")
	for _, name := range []string{"a.txt", "sub/b.txt", "sub", "fifo"} {
		must(t, os.Chtimes(filepath.Join(at, name), when, when))
	}
	info := func(kind, size string) got {
		return finished(`00{"type":"` + kind + `","size":` + size + `,"modified_ms":1767225600123}`)
	}
	refused := func(name string) call.Effect { return effect("fs.stat", "/docs/reports/"+name, "refused", 0) }
	tests := []struct {
		name, give string
		modes      []string
		want       got
	}{
		{"file", "/docs/reports/a.txt", []string{"read"}, info("file", "5")},
		{"by the mode list", "/docs/reports/a.txt", []string{"list"}, info("file", "5")},
		{"link", "/docs/reports/in", []string{"read"}, info("file", "4")},
		{"directory", "/docs/reports/sub", []string{"read"}, info("directory", "0")},
		{"FIFO", "/docs/reports/fifo", []string{"read"}, info("other", "0")},
		{"missing", "/docs/reports/none", []string{"read"}, finished("44")},
		{"link out", "/docs/reports/out", []string{"read"}, finished("34", refused("out"))},
		{"another mode", "/docs/reports/a.txt", []string{"write", "append", "remove"}, finished("34", refused("a.txt"))},
		{"beside", "/docs/secret.txt", []string{"read"}, finished("34", call.Effect{Kind: "fs.stat", Target: "/docs/secret.txt", Code: "refused"})},
		{"relative", "a.txt", []string{"read"}, finished("24")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.poke(t, program{}.ask(callStat, tt.give), call.Bounds{}, tt.modes...)
			compare(t, tt.want, seen(taken(out), o))
		})
	}
}

// No pointer or length of the functions without an answer leads out of the memory, and
// nothing is done for a request of which a part does.
func TestCallgatePointersOfTwo(t *testing.T) {
	w := open(t, sandbox.Options{})
	const path = "/docs/reports/new"
	n := uint32(len(path))
	bad := [][2]uint32{{pokeMemory - n + 1, n}, {pokeMemory + 1, 0}, {0xffffffff, n}, {0, 0xffffffff}, {0, pokeMemory + 1}, {1, pokeMemory}}
	for _, op := range []byte{callWrite, callAppend, callRename, callMkdir, callRemove, callCharge} {
		p, want := program{}.put(0, path), ""
		for _, b := range bad {
			p, want = p.words(0, n).step(op, b[0], b[1], moreAt), want+"1"
			if op == callWrite || op == callAppend || op == callRename {
				p, want = p.words(b[0], b[1]).step(op, 0, n, moreAt), want+"1"
			}
		}
		out, o := w.poke(t, p, call.Bounds{}, "write", "append", "remove")
		compare(t, finished(want), seen(out, o))
	}
	// The path and the content may be one.
	out, o := w.poke(t, program{}.put(0, path).words(0, n).step(callWrite, 0, n, moreAt), call.Bounds{}, "write")
	compare(t, finished("0", wrote("fs.write", "new", "ok", int64(n))), seen(out, o))
}
