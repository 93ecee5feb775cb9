package hostfx_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// buildProbe builds the program in testdata, without what it could need of the system.
var buildProbe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "callgate-probe-")
	if err != nil {
		return "", err
	}
	probeDir = dir
	name := filepath.Join(dir, "probe")
	cmd := exec.Command("go", "build", "-o", name, "./testdata/exec/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
})

func probe(t testing.TB) string {
	t.Helper()
	name, err := buildProbe()
	must(t, err)
	return name
}

// shop is a host with a root "docs" and a directory beside it.
type shop struct {
	host          *hostfx.Host
	root, outside string
}

func newShop(t testing.TB) shop {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	s := shop{root: filepath.Join(dir, "docs"), outside: filepath.Join(dir, "outside")}
	for _, d := range []string{s.root + "/work/sub", s.root + "/other", s.outside} {
		must(t, os.MkdirAll(d, 0o755))
	}
	for _, f := range []string{s.root + "/work/a.txt", s.root + "/work/sub/b.txt", s.root + "/other/c.txt", s.outside + "/secret.txt"} {
		must(t, os.WriteFile(f, []byte(canary), 0o644))
	}
	must(t, os.Symlink("../../outside", s.root+"/work/out"))
	s.host, err = newHost(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: s.root}}, ExecEnforcement: hostfx.Unavailable, Launcher: probe(t)})
	must(t, err)
	t.Cleanup(func() { s.host.Close() })
	return s
}

// work grants modes in docs/work.
func work(modes ...string) []call.FS {
	return []call.FS{{Root: "docs", Path: "work", Modes: modes}}
}

// exactly grants a command with these very arguments.
func exactly(name string, args ...string) []call.Exec {
	return []call.Exec{{Command: name, Args: args}}
}

// open gives the effects of a call.
func (s shop) open(t testing.TB, caps call.Caps) *hostfx.Effects {
	t.Helper()
	fx, err := s.host.Open(t.Context(), mint(t, caps))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

// try has the probe do one thing, and returns how it went: "" for well.
func (s shop) try(t testing.TB, fs []call.FS, args ...string) string {
	t.Helper()
	fx := s.open(t, call.Caps{FS: fs, Exec: exactly(probe(t), args...)})
	defer fx.Close()
	ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: args})
	must(t, err)
	if ran.Exit == 0 {
		return ""
	}
	return strings.TrimSpace(string(ran.Stderr))
}

// each has the probe do one thing after the other.
func (s shop) each(t testing.TB, fs []call.FS, dir string, list [][]string) []string {
	t.Helper()
	args := []string{"each"}
	for _, one := range list {
		args = append(append(args, one...), "--")
	}
	fx := s.open(t, call.Caps{FS: fs, Exec: exactly(probe(t), args...)})
	defer fx.Close()
	ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: args, Dir: dir})
	must(t, err)
	lines := strings.SplitAfter(string(ran.Stdout), "\n")
	if ran.Exit != 0 || len(lines) != len(list)+1 {
		t.Fatalf("exit %d: %s%s", ran.Exit, ran.Stdout, ran.Stderr)
	}
	for i := range list {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	return lines[:len(list)]
}

func TestRun(t *testing.T) { both(t, testRun) }

func testRun(t *testing.T) {
	s := newShop(t)
	script := filepath.Join(s.outside, "script")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"script $1\"\n"), 0o755))
	link := filepath.Join(s.outside, "link")
	must(t, os.Symlink(probe(t), link))
	tests := []struct {
		name string
		give hostfx.Command
		want hostfx.Ran
		code string
	}{
		{name: "stdin", give: hostfx.Command{Path: "/bin/cat", Stdin: []byte("to and fro")}, want: hostfx.Ran{Stdout: []byte("to and fro")}, code: "ok"},
		{name: "no stdin", give: hostfx.Command{Path: probe(t), Args: []string{"count"}}, want: hostfx.Ran{Stdout: []byte("0")}, code: "ok"},
		{name: "stdin that is not read", give: hostfx.Command{Path: "/bin/true", Stdin: make([]byte, 1<<20)}, code: "ok"},
		{name: "a shell that is granted", give: hostfx.Command{Path: "/bin/sh", Args: []string{"-c", "echo out; echo err >&2; exit 3"}}, want: hostfx.Ran{Exit: 3, Stdout: []byte("out\n"), Stderr: []byte("err\n")}, code: "error"},
		{name: "signal", give: hostfx.Command{Path: probe(t), Args: []string{"die"}}, want: hostfx.Ran{Exit: -1, Signal: "killed"}, code: "error"},
		{name: "directory", give: hostfx.Command{Path: "/bin/cat", Args: []string{"b.txt"}, Dir: "/docs/work/sub"}, want: hostfx.Ran{Stdout: []byte(canary)}, code: "ok"},
		{name: "granted directory", give: hostfx.Command{Path: "/bin/cat", Args: []string{"sub/b.txt"}, Dir: "/docs/work"}, want: hostfx.Ran{Stdout: []byte(canary)}, code: "ok"},
		{name: "script", give: hostfx.Command{Path: script, Args: []string{"$(id)"}}, want: hostfx.Ran{Stdout: []byte("script $(id)\n")}, code: "ok"},
		{name: "link of the operator's", give: hostfx.Command{Path: link, Args: []string{"args", "x"}}, want: hostfx.Ran{Stdout: []byte(`["x"]`)}, code: "ok"},
		{
			name: "nothing in arguments means anything",
			give: hostfx.Command{Path: probe(t), Args: []string{"args", "; touch x", "$(id)", "`id`", "*", "a\nb", "", "|", "--", "ä", "-x"}},
			want: hostfx.Ran{Stdout: []byte(`["; touch x" "$(id)" "` + "`id`" + `" "*" "a\nb" "" "|" "--" "ä" "-x"]`)}, code: "ok",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := s.open(t, call.Caps{FS: work("read"), Exec: exactly(tt.give.Path, tt.give.Args...)})
			got, err := fx.Run(t.Context(), tt.give)
			must(t, err)
			tt.want.Enforcement = hostfx.Enforced
			if d := cmp.Diff(&tt.want, got); d != "" {
				t.Errorf("Run() (-want +got):\n%s", d)
			}
			effects := []call.Effect{{
				Kind: "exec", Within: tt.give.Path, Target: tt.give.Path, Code: tt.code, Enforcement: hostfx.Enforced,
				BytesIn: int64(len(got.Stdout) + len(got.Stderr)), BytesOut: int64(len(tt.give.Stdin)),
			}}
			all := fx.Close()
			if all[0].TookUS < 1 { // which it takes to begin
				t.Errorf("took %d microseconds", all[0].TookUS)
			}
			if d := cmp.Diff(effects, happened(t, all)); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) { both(t, testRunRefuses) }

func testRunRefuses(t *testing.T) {
	s := newShop(t)
	p := probe(t)
	plain := filepath.Join(s.outside, "plain")
	must(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644))
	fifo := filepath.Join(s.outside, "fifo")
	must(t, unix.Mkfifo(fifo, 0o755))
	own := filepath.Join(s.root, "work/own")
	must(t, os.WriteFile(own, []byte("#!/bin/sh\n"), 0o755))
	must(t, os.Symlink(own, filepath.Join(s.outside, "own")))
	granted := []call.Exec{
		{Command: p, Args: []string{"args", "a*", "*"}}, {Command: p, Args: []string{"args", "one"}}, {Command: p, Args: []string{"big*"}}, {Command: "probe"},
		{Command: filepath.Dir(p)}, {Command: plain}, {Command: fifo}, {Command: own}, {Command: s.outside + "/own"}, {Command: s.outside + "/none"}, {Command: s.outside + "/../outside/plain"},
	}
	tests := []struct {
		name string
		give hostfx.Command
		want error
		code string
	}{
		{"another command", hostfx.Command{Path: "/bin/true"}, hostfx.ErrNotGranted, "refused"},
		{"another spelling", hostfx.Command{Path: filepath.Dir(p) + "/./probe", Args: []string{"args", "one"}}, hostfx.ErrNotGranted, "refused"},
		{"relative", hostfx.Command{Path: "probe"}, hostfx.ErrNotGranted, "refused"},
		{"not clean", hostfx.Command{Path: s.outside + "/../outside/plain"}, hostfx.ErrNotGranted, "refused"},
		{"empty", hostfx.Command{}, hostfx.ErrNotGranted, "refused"},
		{"argument off its pattern", hostfx.Command{Path: p, Args: []string{"args", "b", "c"}}, hostfx.ErrNotGranted, "refused"},
		{"option for an operand", hostfx.Command{Path: p, Args: []string{"args", "a", "-c"}}, hostfx.ErrNotGranted, "refused"},
		{"an argument too many", hostfx.Command{Path: p, Args: []string{"args", "one", "two", "three"}}, hostfx.ErrNotGranted, "refused"},
		{"an argument too few", hostfx.Command{Path: p, Args: []string{"args"}}, hostfx.ErrNotGranted, "refused"},
		{"NUL", hostfx.Command{Path: p, Args: []string{"args", "a\x00b", "c"}}, hostfx.ErrNotGranted, "refused"},
		{"not UTF-8", hostfx.Command{Path: p, Args: []string{"args", "a\xff", "c"}}, hostfx.ErrNotGranted, "refused"},
		{"huge", hostfx.Command{Path: p, Args: []string{"big" + strings.Repeat("x", hostfx.MaxArgv)}}, hostfx.ErrTooLarge, "over_cap"},
		{"directory", hostfx.Command{Path: filepath.Dir(p)}, hostfx.ErrNotGranted, "refused"},
		{"not executable", hostfx.Command{Path: plain}, hostfx.ErrNotGranted, "refused"},
		{"FIFO", hostfx.Command{Path: fifo}, hostfx.ErrNotGranted, "refused"},
		{"one that the call may write", hostfx.Command{Path: own}, hostfx.ErrNotGranted, "refused"},
		{"one that the call may write, by a link", hostfx.Command{Path: s.outside + "/own"}, hostfx.ErrNotGranted, "refused"},
		{"missing", hostfx.Command{Path: s.outside + "/none"}, os.ErrNotExist, "error"},
		{"directory outside", hostfx.Command{Path: p, Args: []string{"args", "one"}, Dir: s.outside}, hostfx.ErrNotGranted, "refused"},
		{"directory beside", hostfx.Command{Path: p, Args: []string{"args", "one"}, Dir: "/docs/other"}, hostfx.ErrNotGranted, "refused"},
		{"directory by dots", hostfx.Command{Path: p, Args: []string{"args", "one"}, Dir: "/docs/work/../other"}, hostfx.ErrNotGranted, "refused"},
		{"directory by a link", hostfx.Command{Path: p, Args: []string{"args", "one"}, Dir: "/docs/work/out"}, hostfx.ErrNotGranted, "refused"},
		{"relative directory", hostfx.Command{Path: p, Args: []string{"args", "one"}, Dir: "docs/work"}, hostfx.ErrNotGranted, "refused"},
		{"no directory", hostfx.Command{Path: p, Args: []string{"args", "one"}, Dir: "/docs/work/a.txt"}, unix.ENOTDIR, "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := s.open(t, call.Caps{FS: work("read", "write"), Exec: granted})
			ran, err := fx.Run(t.Context(), tt.give)
			if !errors.Is(err, tt.want) || ran != nil {
				t.Fatalf("Run() = %v, %v, want %v", ran, err, tt.want)
			}
			effects := fx.Close()
			if len(effects) != 1 || effects[0].Kind != "exec" || effects[0].Target != tt.give.Path || effects[0].Code != tt.code || effects[0].Enforcement != hostfx.Structural {
				t.Errorf("effects %v", effects)
			}
		})
	}
	t.Run("no calls left", func(t *testing.T) {
		fx := s.open(t, call.Caps{Exec: exactly("/bin/true"), Bounds: call.Bounds{Calls: 1}})
		_, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"})
		must(t, err)
		if _, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"}); !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("second of one call: %v", err)
		}
	})
	t.Run("over", func(t *testing.T) {
		fx := s.open(t, call.Caps{Exec: exactly("/bin/true")})
		fx.Close()
		if _, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"}); !errors.Is(err, hostfx.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// What a command finds in its world is nothing of ours.
func TestCommandsInheritNothing(t *testing.T) {
	t.Setenv("CALLGATE_SECRET_X", canary)
	left, err := unix.Open("/dev/null", unix.O_RDWR, 0) // as somebody left it open for everybody
	must(t, err)
	defer unix.Close(left)
	s := newShop(t)
	fx := s.open(t, call.Caps{Exec: []call.Exec{{Command: probe(t), Args: []string{"look"}}, {Command: probe(t), Args: []string{"env"}}}, Bounds: call.Bounds{WriteBytes: 12345}})
	ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: []string{"env"}})
	must(t, err)
	if got := string(ran.Stdout); got != `["LANG=C"]` {
		t.Errorf("environment %s", got)
	}
	ran, err = fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: []string{"look"}})
	must(t, err)
	want := fmt.Sprintf(`open [0 1 2]
core 0
files %d
size 12345
memlock 0
bounded true true
no new privileges 1 <nil>
filter 2 <nil>
capabilities [{0 0 0} {0 0 0}] <nil>
leads its session true <nil>
in `, hostfx.MaxExecFiles)
	if got := string(ran.Stdout); !strings.HasPrefix(got, want+"callgate-exec-") {
		t.Errorf("found (-want +got):\n%s", cmp.Diff(want, got))
	}
	hostfx.SetKernel(s.host, 0, false) // so that it can look
	oom := s.open(t, call.Caps{Exec: exactly("/bin/cat", "/proc/self/oom_score_adj")})
	if first, err := oom.Run(t.Context(), hostfx.Command{Path: "/bin/cat", Args: []string{"/proc/self/oom_score_adj"}}); err != nil || string(first.Stdout) != "1000\n" {
		t.Errorf("how soon it goes when memory is short: %v, %v", first, err)
	}
	left2, err := filepath.Glob(filepath.Join(os.TempDir(), "callgate-exec-*"))
	must(t, err)
	for _, d := range left2 {
		if strings.Contains(string(ran.Stdout), filepath.Base(d)) {
			t.Errorf("%s was left behind", d)
		}
	}
}
