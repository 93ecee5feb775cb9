package hostfx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

var ours = hostfx.Session{Call: "c", Owner: "o", ActsFor: []string{"boss"}, Tool: "t", ID: "so"}

// openFor gives the effects of a call of a session.
func (s shop) openFor(t testing.TB, of hostfx.Session, caps call.Caps) *hostfx.Effects {
	t.Helper()
	fx, err := s.host.OpenFor(t.Context(), mint(t, caps), of)
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

// echo is a command that prints what is written to a pipe, and ends with it.
type echo struct {
	command hostfx.Command
	caps    call.Caps
	in      *os.File
}

func (s shop) echo(t testing.TB) echo {
	t.Helper()
	pipe := filepath.Join(s.root, "work", fmt.Sprintf("pipe%d", time.Now().UnixNano()))
	must(t, unix.Mkfifo(pipe, 0o644))
	in, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that the command meets no end before there is a reader
	must(t, err)
	t.Cleanup(func() { in.Close() })
	c := hostfx.Command{Path: "/bin/cat", Args: []string{pipe}}
	return echo{c, call.Caps{FS: work("read"), Exec: exactly(c.Path, c.Args...)}, in}
}

func (e echo) say(t testing.TB, s string) {
	t.Helper()
	_, err := e.in.WriteString(s)
	must(t, err)
}

// until reads what a process prints until enough of it is there, or it does not run.
func until(t testing.TB, fx *hostfx.Effects, id string, enough func(stdout string) bool) hostfx.Output {
	t.Helper()
	var all hostfx.Output
	for t.Context().Err() == nil {
		o, err := fx.Output(id)
		must(t, err)
		all.Process = o.Process
		all.Stdout, all.Stderr = append(all.Stdout, o.Stdout...), append(all.Stderr, o.Stderr...)
		if enough(string(all.Stdout)) || o.State != hostfx.ProcessRuns {
			break
		}
		time.Sleep(time.Millisecond) // between two looks
	}
	return all
}

func never(string) bool { return false }

// effectsOf are the effects of a call, without those that came again and again.
func effectsOf(t *testing.T, fx *hostfx.Effects) []call.Effect {
	t.Helper()
	var out []call.Effect
	for _, e := range happened(t, fx.Close()) {
		if n := len(out); n > 0 && out[n-1].Kind == e.Kind && out[n-1].Code == e.Code && out[n-1].Target == e.Target {
			out[n-1].BytesIn += e.BytesIn
			continue
		}
		out = append(out, e)
	}
	return out
}

// A process goes on after its call, and other calls of the session read what it prints.
func TestStart(t *testing.T) {
	s := newShop(t)
	e := s.echo(t)
	e.command.Stdin = []byte("not read")
	first := s.openFor(t, ours, e.caps)
	id, err := first.Start(t.Context(), e.command)
	must(t, err)
	want := []call.Effect{{Kind: "exec.start", Within: "/bin/cat", Target: "/bin/cat", Code: "ok", BytesOut: 8, Enforcement: hostfx.Enforced}}
	if d := cmp.Diff(want, effectsOf(t, first)); d != "" {
		t.Errorf("effects of the first call (-want +got):\n%s", d)
	}
	if _, err := first.Output(id); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("after its call: %v", err)
	}

	second := s.openFor(t, ours, e.caps)
	e.say(t, "one\n")
	o := until(t, second, id, func(s string) bool { return s == "one\n" })
	if o.State != hostfx.ProcessRuns || string(o.Stdout) != "one\n" || o.Exit != 0 || o.Err != nil {
		t.Errorf("while it runs: %+v", o)
	}
	list := second.Processes()
	if len(list) != 1 || list[0].ID != id || list[0].Path != "/bin/cat" || !slices.Equal(list[0].Args, e.command.Args) || list[0].Started.IsZero() || list[0].Enforcement != hostfx.Enforced {
		t.Errorf("Processes() = %+v", list)
	}
	want = []call.Effect{{Kind: "exec.read", Within: "/bin/cat", Target: "/bin/cat", Code: "ok", BytesIn: 4}}
	if d := cmp.Diff(want, effectsOf(t, second)); d != "" {
		t.Errorf("effects of the second call (-want +got):\n%s", d)
	}

	third := s.openFor(t, ours, e.caps)
	e.say(t, "two\n")
	must(t, e.in.Close())
	o = until(t, third, id, never)
	if o.State != hostfx.ProcessExited || string(o.Stdout) != "two\n" || o.Exit != 0 || o.Signal != "" || o.Err != nil {
		t.Errorf("after its end: %+v", o)
	}
	if again, err := third.Output(id); err != nil || again.State != hostfx.ProcessExited || len(again.Stdout) > 0 {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if err := third.Kill(id); err != nil {
		t.Errorf("killing what ended: %v", err)
	}
	if o, err := third.Output(id); err != nil || o.State != hostfx.ProcessExited {
		t.Errorf("after that: %+v, %v", o, err)
	}
}

// How commands end shows, and what they print on both outputs.
func TestHowProcessesEnd(t *testing.T) {
	s := newShop(t)
	plain := filepath.Join(s.outside, "plain")
	must(t, os.WriteFile(plain, []byte("no program"), 0o755))
	tests := []struct {
		name   string
		path   string
		args   []string
		bounds call.Bounds
		state  string
		exit   int
		signal string
		output string
		is     error // nil for any
	}{
		{name: "well", path: "/bin/sh", args: []string{"-c", "echo out; echo err >&2; exit 3"}, state: hostfx.ProcessExited, exit: 3, output: "out\nerr\n"},
		{name: "signal", path: probe(t), args: []string{"die"}, state: hostfx.ProcessExited, exit: -1, signal: "killed"},
		{name: "no program", path: plain, state: hostfx.ProcessFailed},
		{name: "output", path: "/usr/bin/yes", bounds: call.Bounds{OutputBytes: 1000}, state: hostfx.ProcessOverCap, output: strings.Repeat("y\n", 500), is: hostfx.ErrTooLarge},
		{name: "the call's time is not its own", path: "/bin/sh", args: []string{"-c", "sleep 0.3; echo there"}, bounds: call.Bounds{TimeoutMS: 100}, state: hostfx.ProcessExited, output: "there\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			caps := call.Caps{Exec: exactly(tt.path, tt.args...), Bounds: tt.bounds}
			fx := s.openFor(t, ours, caps)
			id, err := fx.Start(t.Context(), hostfx.Command{Path: tt.path, Args: tt.args})
			must(t, err)
			fx.Close()
			caps.Bounds = call.Bounds{}
			// What is read makes room, so nothing is before the end.
			reader := s.openFor(t, ours, caps)
			for is := func() string { return reader.Processes()[len(reader.Processes())-1].State }; is() == hostfx.ProcessRuns; {
				time.Sleep(time.Millisecond)
			}
			o, err := reader.Output(id)
			must(t, err)
			if o.State != tt.state || o.Exit != tt.exit || o.Signal != tt.signal || string(o.Stdout)+string(o.Stderr) != tt.output || tt.is != nil && !errors.Is(o.Err, tt.is) {
				t.Errorf("Output() = %+v", o)
			}
			if (o.Err != nil) != (tt.state != hostfx.ProcessExited) {
				t.Errorf("Err = %v", o.Err)
			}
		})
	}
}

// What is read makes room for more.
func TestReadingMakesRoom(t *testing.T) {
	s := newShop(t)
	e := s.echo(t)
	e.caps.Bounds.OutputBytes = 8
	fx := s.openFor(t, ours, e.caps)
	id, err := fx.Start(t.Context(), e.command)
	must(t, err)
	for range 4 {
		e.say(t, "123456\n")
		if o := until(t, fx, id, func(s string) bool { return len(s) == 7 }); o.State != hostfx.ProcessRuns || string(o.Stdout) != "123456\n" {
			t.Fatalf("read %+v", o)
		}
	}
	e.say(t, "123456789")
	if o := until(t, fx, id, never); o.State != hostfx.ProcessOverCap && len(o.Stdout) != 9 {
		t.Errorf("more than fits: %+v", o)
	}
}

// Nobody but the calls of its session that may run the same command finds a process, or
// learns that there is one.
func TestProcessesAreTheirSessions(t *testing.T) {
	s := newShop(t)
	e := s.echo(t)
	e.caps.Exec[0].Env, e.caps.Exec[0].Ports = []string{"A=1"}, []int{443}
	e.command.Env, e.command.Ports = []string{"A=1"}, []int{443}
	fx := s.openFor(t, ours, e.caps)
	id, err := fx.Start(t.Context(), e.command)
	must(t, err)
	fx.Close()
	with := func(change func(*call.Exec)) call.Caps {
		c := e.caps.Clone()
		change(&c.Exec[0])
		return c
	}
	tests := []struct {
		name string
		of   hostfx.Session
		caps call.Caps
		id   string
		want error
	}{
		{"another session", hostfx.Session{Owner: "o", ID: "so2"}, e.caps, id, hostfx.ErrNotGranted},
		{"another owner", hostfx.Session{Owner: "o2", ID: "so"}, e.caps, id, hostfx.ErrNotGranted},
		{"no owner", hostfx.Session{ID: "so"}, e.caps, id, hostfx.ErrNotGranted},
		{"no session", hostfx.Session{Owner: "o"}, e.caps, id, hostfx.ErrNotGranted},
		{"another command", ours, with(func(e *call.Exec) { e.Command = "/bin/true" }), id, hostfx.ErrNotGranted},
		{"other arguments", ours, with(func(e *call.Exec) { e.Args[0] += "x" }), id, hostfx.ErrNotGranted},
		{"no arguments", ours, with(func(e *call.Exec) { e.Args = nil }), id, hostfx.ErrNotGranted},
		{"another environment", ours, with(func(e *call.Exec) { e.Env[0] = "A=2" }), id, hostfx.ErrNotGranted},
		{"other ports", ours, with(func(e *call.Exec) { e.Ports[0] = 80 }), id, hostfx.ErrNotGranted},
		{"no commands", ours, call.Caps{}, id, hostfx.ErrNotGranted},
		{"another id", ours, e.caps, strings.Repeat("A", len(id)), hostfx.ErrNotGranted},
		{"no id", ours, e.caps, "", hostfx.ErrNotGranted},
		{"a wider grant", ours, with(func(e *call.Exec) { e.Args, e.Env = []string{"/*"}, append(e.Env, "B=1") }), id, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := s.openFor(t, tt.of, tt.caps)
			o, err := fx.Output(tt.id)
			if !errors.Is(err, tt.want) || (o == nil) != (tt.want != nil) {
				t.Errorf("Output() = %v, %v, want %v", o, err, tt.want)
			}
			if n := len(fx.Processes()); (n == 1) != (tt.want == nil || tt.id != id) {
				t.Errorf("%d processes", n)
			}
			if tt.want == nil {
				return
			}
			killed := fx.Kill(tt.id)
			if fmt.Sprint(killed) != fmt.Sprint(hostfx.ErrNotGranted) || fmt.Sprint(err) != fmt.Sprint(killed) {
				t.Errorf("Kill() = %v after %v", killed, err)
			}
			// The same as for an id that nobody has.
			want := []call.Effect{{Kind: "exec.read", Target: tt.id, Code: "refused"}, {Kind: "exec.kill", Target: tt.id, Code: "refused"}}
			if d := cmp.Diff(want, effectsOf(t, fx)); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
		})
	}
	fx = s.openFor(t, ours, e.caps)
	e.say(t, "x")
	if o := until(t, fx, id, func(s string) bool { return s != "" }); o.State != hostfx.ProcessRuns || string(o.Stdout) != "x" {
		t.Errorf("after all that: %+v", o)
	}
	must(t, fx.Kill(id))
	if o, err := fx.Output(id); err != nil || o.State != hostfx.ProcessStopped || !errors.Is(o.Err, hostfx.ErrEnded) || !errors.Is(o.Err, context.Canceled) {
		t.Errorf("killed: %+v, %v", o, err)
	}
	if d := cmp.Diff(call.Effect{Kind: "exec.kill", Within: "/bin/cat", Target: "/bin/cat", Code: "ok"}, effectsOf(t, fx)[1]); d != "" {
		t.Errorf("effect (-want +got):\n%s", d)
	}
	long := strings.Repeat("x", 1000)
	fx = s.openFor(t, ours, e.caps)
	if err := fx.Kill(long); !errors.Is(err, hostfx.ErrNotGranted) || fx.Close()[0].Target != long[:64] {
		t.Errorf("a long id: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	sleep := hostfx.Command{Path: "/bin/sleep", Args: []string{"1000"}}
	with := func(stdin []byte) hostfx.Command { c := sleep; c.Stdin = stdin; return c }
	caps := call.Caps{Exec: exactly(sleep.Path, sleep.Args...)}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	type opened struct {
		s  shop
		fx *hostfx.Effects
	}
	start := func(t *testing.T, o opened, n int, of hostfx.Session) {
		t.Helper()
		fx := o.s.openFor(t, of, caps)
		for range n {
			_, err := fx.Start(t.Context(), sleep)
			must(t, err)
		}
	}
	tests := []struct {
		name   string
		of     hostfx.Session
		caps   func(*call.Caps)
		give   hostfx.Command
		ctx    context.Context
		before func(t *testing.T, o opened)
		want   error
		code   string
	}{
		{name: "nothing else", of: ours, give: sleep, code: "ok"},
		{name: "another command", of: ours, give: hostfx.Command{Path: "/bin/true"}, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "other arguments", of: ours, give: hostfx.Command{Path: "/bin/sleep", Args: []string{"1"}}, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "no session", of: hostfx.Session{Owner: "o"}, give: sleep, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "a session that is over", of: hostfx.Session{Owner: "o", ID: "so", Ends: time.Now().Add(-time.Second)}, give: sleep, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "a session that was ended meanwhile", of: ours, give: sleep, before: func(_ *testing.T, o opened) { o.s.host.EndSession("o", "so") }, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "an owner that was ended meanwhile", of: ours, give: sleep, before: func(_ *testing.T, o opened) { o.s.host.EndOwner("o") }, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "one that it acts for was ended meanwhile", of: ours, give: sleep, before: func(_ *testing.T, o opened) { o.s.host.EndOwner("boss") }, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "its tool was ended meanwhile", of: ours, give: sleep, before: func(_ *testing.T, o opened) { o.s.host.EndTool("t") }, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "others were ended", of: ours, give: sleep, before: func(_ *testing.T, o opened) {
			o.s.host.EndSession("o", "so2")
			o.s.host.EndSession("o2", "so")
			o.s.host.EndOwner("o2")
			o.s.host.EndTool("t2")
		}, code: "ok"},
		{name: "a host that was closed", of: ours, give: sleep, before: func(_ *testing.T, o opened) { o.s.host.Close() }, want: hostfx.ErrClosed, code: "error"},
		{name: "a call that is over", of: ours, give: sleep, before: func(_ *testing.T, o opened) { o.fx.Close() }, want: hostfx.ErrClosed},
		{name: "no time", of: ours, give: sleep, ctx: done, want: hostfx.ErrEnded, code: "stopped"},
		{name: "no calls left", of: ours, give: sleep, caps: func(c *call.Caps) { c.Bounds.Calls = 1 }, before: func(t *testing.T, o opened) {
			_, err := o.fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"})
			must(t, err)
		}, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "a workspace that it may change", of: ours, give: sleep, caps: func(c *call.Caps) { c.Workspace, c.FS = true, work("read", "remove") }, want: hostfx.ErrNotGranted, code: "refused"},
		{name: "a workspace to read", of: ours, give: sleep, caps: func(c *call.Caps) { c.Workspace, c.FS = true, work("read", "list") }, code: "ok"},
		{name: "as much on stdin as it may print", of: ours, give: with(make([]byte, 1<<20)), code: "ok"},
		{name: "more on stdin than it may print", of: ours, give: with(make([]byte, 1<<20+1)), want: hostfx.ErrTooLarge, code: "over_cap"},
		{name: "more on stdin than the grant lets it print", of: ours, give: with(make([]byte, 11)), caps: func(c *call.Caps) { c.Bounds.OutputBytes = 10 }, want: hostfx.ErrTooLarge, code: "over_cap"},
		{name: "too many of the session", of: ours, give: sleep, before: func(t *testing.T, o opened) { start(t, o, 2, ours) }, want: hostfx.ErrTooManyProcesses, code: "error"},
		{name: "too many in all", of: ours, give: sleep, before: func(t *testing.T, o opened) {
			start(t, o, 2, hostfx.Session{Owner: "o", ID: "so2"})
			start(t, o, 1, hostfx.Session{Owner: "o2", ID: "so"})
		}, want: hostfx.ErrTooManyProcesses, code: "error"},
		{name: "a directory that is not granted", of: ours, give: hostfx.Command{Path: sleep.Path, Args: sleep.Args, Dir: "/docs/other"}, want: hostfx.ErrNotGranted, code: "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newShop(t)
			journal := filepath.Join(t.TempDir(), "journal")
			must(t, os.Mkdir(journal, 0o700))
			var err error
			s.host, err = newHost(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: s.root}}, Launcher: probe(t), Processes: 2, AllProcesses: 3, Journal: journal})
			must(t, err)
			t.Cleanup(func() { s.host.Close() })
			c := caps.Clone()
			c.Exec = append(c.Exec, exactly("/bin/true")[0])
			if tt.name == "another command" {
				c.Exec = c.Exec[:1]
			}
			if tt.caps != nil {
				tt.caps(&c)
			}
			fx := s.openFor(t, tt.of, c)
			if tt.before != nil {
				tt.before(t, opened{s, fx})
			}
			ctx := t.Context()
			if tt.ctx != nil {
				ctx = tt.ctx
			}
			id, err := fx.Start(ctx, tt.give)
			if !errors.Is(err, tt.want) || (id == "") != (tt.want != nil) {
				t.Errorf("Start() = %q, %v, want %v", id, err, tt.want)
			}
			effects := fx.Close()
			if tt.code == "" {
				return
			}
			if e := effects[len(effects)-1]; e.Kind != "exec.start" || e.Target != tt.give.Path || e.Code != tt.code {
				t.Errorf("effects %v", effects)
			}
		})
	}
	for _, o := range []hostfx.Options{{ProcessLife: -1}, {Processes: -1}, {AllProcesses: -1}} {
		if _, err := hostfx.New(o); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
	// A call that was on its way when its session was ended.
	now := time.Now().Add(-2 * time.Minute)
	h, err := hostfx.New(hostfx.Options{Launcher: probe(t), Now: func() time.Time { return now }})
	must(t, err)
	defer h.Close()
	h.EndSession("o", "so")
	for _, want := range []error{hostfx.ErrNotGranted, nil} {
		fx, err := h.OpenFor(t.Context(), mint(t, caps), ours)
		must(t, err)
		if _, err := fx.Start(t.Context(), sleep); !errors.Is(err, want) {
			t.Errorf("%v after its end: %v, want %v", now, err, want)
		}
		fx.Close()
		now = now.Add(2 * time.Minute)
	}
	var none *hostfx.Host
	none.EndSession("o", "so")
	none.EndOwner("o")
	none.EndTool("t")
	fx, err := none.OpenFor(t.Context(), mint(t, call.Caps{}), ours)
	must(t, err)
	if _, err := fx.Start(t.Context(), sleep); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("without a host: %v", err)
	}
}
