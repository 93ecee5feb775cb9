package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

// script runs steps of the guest script, and returns what it printed for each.
func (w *world) script(t *testing.T, steps string, b call.Bounds, modes ...string) (string, call.Outcome) {
	t.Helper()
	out, o := w.run(t, "script", fmt.Sprintf(`{"s":"%s"}`, steps), b, modes...)
	if o.Code != call.CodeOK {
		t.Fatalf("ended %s with %d: %s", o.Code, o.Exit, o.Stderr)
	}
	return out, o
}

// beside lists what is beside the granted folder, and what it holds.
func (w *world) beside(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"", "docs"} {
		entries, err := os.ReadDir(filepath.Join(w.dir, dir))
		must(t, err)
		for _, e := range entries {
			i, err := e.Info()
			must(t, err)
			fmt.Fprintln(&b, dir, e.Name(), i.Mode(), !i.IsDir() && i.Size() > 0, func() any { // a folder changes as what is in it does
				if i.IsDir() {
					return nil
				}
				return i.ModTime()
			}())
		}
	}
	for _, name := range []string{"docs/secret.txt", "outside.txt"} {
		c, err := os.ReadFile(filepath.Join(w.dir, name))
		must(t, err)
		b.Write(c)
	}
	return b.String()
}

var everyMode = []string{"read", "append", "write", "list", "remove"}

// A guest with every mode of its folder does nothing beside it, whatever it makes and
// whatever the host has made there. 2 is EACCES, 8 EBADF, 20 EEXIST, 37 ENAMETOOLONG,
// 44 ENOENT, 54 ENOTDIR, 63 EPERM.
func TestFileAttacks(t *testing.T) {
	w := open(t, sandbox.Options{})
	at := filepath.Join(w.dir, "docs/reports")
	link := func(target, name string) { must(t, os.Symlink(target, filepath.Join(at, name))) }
	link("../made", "dangling")
	link("/proc/self/root/etc/passwd", "magic")
	link("/proc/self/cwd", "cwd")
	link("/dev/null", "null")
	link("../../docs", "twoup")
	must(t, os.Link(filepath.Join(w.dir, "docs/secret.txt"), filepath.Join(at, "hard")))
	must(t, syscall.Mkfifo(filepath.Join(at, "pipe"), 0o600))
	before := w.beside(t)
	for _, tt := range []struct{ name, steps, want string }{
		{"dots", "o 3 ../secret.txt r;o 3 sub/../../secret.txt wt;m 3 ../d;n 3 a.txt 3 ../x;n 3 ../secret.txt 3 x;h 3 ../secret.txt 3 x;u 3 ../secret.txt;d 3 ..;i 3 ../secret.txt", "63;63;63;63;63;63;63;63;63;"},
		{"absolute", "o 3 /etc/passwd r;o 3 /docs/secret.txt w;S 3 /etc;u 3 /outside.txt", "63;63;63;63;"},
		{"link out", "o 3 out r;o 3 out w;o 3 out wt;o 3 out wa;S 3 out;i 3 out;k 3 out", "2;2;2;2;2;2;2;"},
		{"dangling", "o 3 dangling wc;o 3 dangling wcx;o 3 dangling wct", "2;2;2;"},
		{"through a directory", "m 3 updir/d;u 3 updir/secret.txt;d 3 updir/reports;n 3 updir/secret.txt 3 x;n 3 a.txt 3 updir/x;h 3 updir/secret.txt 3 x;h 3 a.txt 3 updir/x;s 3 updir/x y;k 3 updir/x;o 3 updir dr;S 3 updir/secret.txt;i 3 twoup/secret.txt", strings.Repeat("2;", 12)},
		{"magic links", "o 3 magic r;o 3 cwd d;o 3 cwd/secret r;k 3 magic;o 3 null w;o 3 null r", "2;2;2;2;2;2;"},
		{"pipes", "o 3 pipe r;o 3 pipe w;o 3 pipe rw;o 3 fifo wt;h 3 pipe 3 pipe2;S 3 pipe", "2;2;2;2;0;0;"},
		{"hard links of the host", "o 3 hard w;o 3 hard wt;o 3 hard wa;i 3 hard;h 3 hard 3 hard2", "2;2;2;2;2;"},
		{"links of its own", "s 3 l1 ../secret.txt;s 3 l2 /etc/passwd;s 3 l3 sub/../../secret.txt;s 3 sub/l4 ../../secret.txt;s 3 l5 a.txt;k 3 l5;o 3 l5 r;o 3 l5 rn", "2;2;2;2;0;0:a.txt;0:4;32;"},
		{"moved links", "n 3 updir 3 sub/updir;n 3 out 3 sub/out;h 3 out 3 sub/out;n 3 in 3 sub/in", "2;2;2;0;"},
		{"moved directories", "m 3 x;m 3 x/y;o 3 x/y d;n 3 x/y 3 y;o 4 ../secret.txt r;o 4 .. d;m 4 z;o 3 y/z d;d 4 z", "0;0;0:4;0;63;63;0;0:5;0;"},
		{"odd names", "o 3 A.TXT r;o 3 a.txt/ r;o 3 .../x r;o 3 ‥/secret.txt r;o 3 ．．/secret.txt r;o 3 ..\u200b/secret.txt r", "44;54;44;44;44;44;"},
		{"long names", "o 3 @255 wc;u 3 @255;o 3 @256 wc;o 3 @4096 r;o 3 @4097 r;m 3 @60000", "0:4;0;37;37;37;37;"},
		{"closed", "c 3;o 3 a.txt r;c 3;l 3", "0;8;8;8;"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, o := w.script(t, tt.steps, call.Bounds{}, everyMode...); got != tt.want {
				t.Errorf("%s\n gives %s\n  want %s; effects %v", tt.steps, got, tt.want, o.Effects)
			}
			if now := w.beside(t); now != before {
				t.Errorf("beside the folder was\n%s\nand is\n%s", before, now)
			}
		})
	}
}

// What a guest writes into its folder is there.
func TestFilesAreWritten(t *testing.T) {
	w := open(t, sandbox.Options{})
	got, o := w.script(t, "m 3 new;o 3 new/f wrcx;w 4 hello;w 4 -there;c 4;o 3 new/f wra;w 4 !;c 4;n 3 new/f 3 g;h 3 g 3 h;o 3 h rw;r 4;t 4 5;S 3 g;u 3 g;u 3 a.txt;d 3 new;l 3",
		call.Bounds{}, everyMode...)
	if want := "0;0:4;0:5;0:6;0;0:4;0:1;0;0;0;0:4;0:hello-there!;0;0:5;0;0;0;0:11;"; got != want {
		t.Errorf("gives %s, want %s; effects %v", got, want, o.Effects)
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "docs/reports/h")); err != nil || string(b) != "hello" {
		t.Errorf("h holds %q, %v", b, err)
	}
}

// Two grants are two: what may be read or removed in the one is not in the other.
func TestAcrossGrants(t *testing.T) {
	w := open(t, sandbox.Options{})
	for _, dir := range []string{"drop", "safe"} {
		must(t, os.Mkdir(filepath.Join(w.dir, "docs", dir), 0o755))
		must(t, os.WriteFile(filepath.Join(w.dir, "docs", dir, "f"), []byte(dir), 0o600))
	}
	w.more.FS = []call.FS{
		{Root: "docs", Path: "drop", Modes: []string{"write", "remove"}},
		{Root: "docs", Path: "reports", Modes: []string{"read", "write", "remove"}},
		{Root: "docs", Path: "safe", Modes: []string{"read"}},
	}
	// 3 may be written, 4 read and written, 5 read.
	got, o := w.script(t, "n 3 f 4 f;h 3 f 4 f;n 5 f 4 g;h 5 f 4 g;u 5 f;n 4 a.txt 5 a.txt;o 5 f w;o 3 f r;n 4 a.txt 3 a.txt;o 3 ../safe/f w;o 4 ../drop/f r", call.Bounds{})
	if want := "2;2;2;2;2;2;2;2;0;63;63;"; got != want {
		t.Errorf("gives %s, want %s; effects %v", got, want, o.Effects)
	}
}

// What a guest writes, opens and makes is counted: 19 is EDQUOT, 33 EMFILE.
func TestFileQuotas(t *testing.T) {
	w := open(t, sandbox.Options{})
	got, o := w.script(t, "o 3 f wc;w 4 12345678;t 4 1000000000000;w 4 901;w 4 90;w 4 x;o 3 a.txt r;o 3 a.txt r", call.Bounds{WriteBytes: 10, OpenFiles: 2}, everyMode...)
	if want := "0:4;0:8;19;19;0:2;19;0:5;33;"; got != want {
		t.Errorf("gives %s, want %s; effects %v", got, want, o.Effects)
	}
	if i, err := os.Stat(filepath.Join(w.dir, "docs/reports/f")); err != nil || i.Size() != 10 {
		t.Errorf("f is %v, %v", i, err)
	}
}

// A directory of 100,000 entries is listed, and its guest is ended when its time is.
func TestHugeDirectory(t *testing.T) {
	w := open(t, sandbox.Options{})
	at := filepath.Join(w.dir, "docs/reports/sub")
	for i := range 100_000 {
		name, first := filepath.Join(at, fmt.Sprint(i)), filepath.Join(at, fmt.Sprint(i/10_000*10_000))
		if i%10_000 == 0 {
			must(t, os.WriteFile(name, nil, 0o600))
		} else if err := os.Link(first, name); err != nil { // cheaper than a file
			t.Fatal(err)
		}
	}
	if got, _ := w.script(t, "o 3 sub d;l 4", call.Bounds{}, "list"); got != "0:4;0:100003;" {
		t.Errorf("gives %s", got)
	}
	_, o := w.run(t, "script", `{"s":"o 3 sub d`+strings.Repeat(";l 4", 10_000)+`"}`, short, "list")
	if o.Code != call.CodeTimeExceeded {
		t.Errorf("ended %s", o.Code)
	}
}

// A folder is swapped for a link that leads out while guests write into it.
func TestWriteSwapRace(t *testing.T) {
	w := open(t, sandbox.Options{})
	at := filepath.Join(w.dir, "docs/reports")
	must(t, os.Mkdir(filepath.Join(at, "d"), 0o755))
	must(t, os.Symlink("..", filepath.Join(at, "l")))
	before := w.beside(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, m := range [][2]string{{"d", "x"}, {"l", "d"}, {"d", "l"}, {"x", "d"}} {
				os.Rename(filepath.Join(at, m[0]), filepath.Join(at, m[1]))
			}
		}
	}()
	steps := strings.Repeat("o 3 d/made wct;c 4;u 3 d/secret.txt;m 3 d/dir;d 3 d/reports;n 3 d/secret.txt 3 got;h 3 d/secret.txt 3 got;", 500)
	w.script(t, steps, call.Bounds{}, everyMode...)
	close(stop)
	<-done
	if now := w.beside(t); now != before {
		t.Errorf("beside the folder was\n%s\nand is\n%s", before, now)
	}
}

// Guests that hang, starve or kill a host that is not prepared for them, through WASI.
func TestHostileGuestsOfWASI(t *testing.T) {
	w := open(t, sandbox.Options{})
	must(t, os.WriteFile(filepath.Join(w.dir, "docs/reports/f"), []byte("content"), 0o600))
	fine := got{Status: call.Succeeded, Code: call.CodeOK}
	for name, want := range map[string]got{
		"fdbomb": fine, "iovamp": fine, "polloverflow": fine, "renumber": fine, "stdin": fine,
		"rotrunc": {Status: call.Failed, Code: call.CodeToolError, Exit: 2 + 100*2},
		"sleep":   {Status: call.Failed, Code: call.CodeTimeExceeded},
		"random":  fine, // a gigabyte is refused at once
	} {
		b, err := os.ReadFile(filepath.Join("../../shared/fixtures/hostile-guests", name+".wasm"))
		must(t, err)
		must(t, w.box.Install(t.Context(), call.Digest(b), b))
		fx := w.effects(t, call.Bounds{TimeoutMS: 2000, MemoryBytes: 1 << 30}, "read", "list")
		out, o := w.box.Run(t.Context(), call.Digest(b), args(t, `{}`), fx)
		if got := seen(string(out), o); !cmp.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if c, err := os.ReadFile(filepath.Join(w.dir, "docs/reports/f")); err != nil || string(c) != "content" {
		t.Errorf("f holds %q, %v", c, err)
	}
}
