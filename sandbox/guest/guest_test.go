package guest_test

import (
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// onLinux tests what there is only there.
var onLinux func(*testing.T, *world)

func TestReactor(t *testing.T) {
	w := open(t, build(t, "tool", "-buildmode=c-shared"))

	writer := call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "write"}}}}
	changer := call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "append", "write", "remove"}}}, Bounds: call.Bounds{WriteBytes: 100}}
	ran := []struct {
		name, give string
		caps       call.Caps
		want       string
	}{
		{"arguments and result", `{"do":"<é\u0001>"}`, call.Caps{}, `{"text":"<é\u0001>"}`},
		{"file", `{"do":"read","path":"/docs/reports/a.txt"}`, everything(), `{"text":"alpha"}`},
		{"file by package os", `{"do":"os","path":"/docs/reports/a.txt"}`, everything(), `{"text":"alpha"}`},
		{"writing by package os", `{"do":"write","path":"/docs/reports/new.txt","body":"beta"}`, writer, `{}`},
		{"what was written", `{"do":"read","path":"/docs/reports/new.txt"}`, writer, `{"text":"beta"}`},
		{"writing without a grant", `{"do":"write","path":"/docs/reports/a.txt","body":"beta"}`, everything(), `{"is":["fs.ErrPermission"]}`},
		{"no file", `{"do":"read","path":"/docs/reports/none"}`, everything(), `{"is":["not found","fs.ErrNotExist"]}`},
		{"a link that leads out", `{"do":"read","path":"/docs/reports/out"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"beside the folder", `{"do":"read","path":"/docs/secret.txt"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"no path", `{"do":"read","path":""}`, everything(), `{"is":["malformed"]}`},
		{"file without a grant", `{"do":"read","path":"/docs/reports/a.txt"}`, call.Caps{}, `{"is":["not granted","fs.ErrPermission"]}`},
		{"directory", `{"do":"list","path":"/docs/reports"}`, everything(),
			`{"entries":[{"Name":"a.txt","Dir":false},{"Name":"new.txt","Dir":false},{"Name":"out","Dir":false},{"Name":"sub","Dir":true}]}`},
		{"empty directory", `{"do":"list","path":"/docs/reports/sub"}`, everything(), `{"entries":[]}`},
		{"directory without a grant", `{"do":"list","path":"/docs/reports"}`, call.Caps{}, `{"is":["not granted","fs.ErrPermission"]}`},
		{"request", `{"do":"http","method":"POST","url":"` + site + `/echo?a=%22","headers":{"X-One":"\"1\""},"body":"b\n\u0000"}`, everything(),
			`{"text":"POST /echo?a=%22\nb\n\u0000 \"1\" false","status":418,"headers":{"content-length":"30","x-two":"a, b"}}`},
		{"request with a credential", `{"do":"http","method":"GET","url":"` + site + `/echo","secret":"notes"}`, everything(),
			`{"text":"GET /echo\n  true","status":418,"headers":{"content-length":"16","x-two":"a, b"}}`},
		{"request of no method", `{"do":"http","url":"` + site + `/echo"}`, everything(), `{"is":["malformed"]}`},
		{"the host's header", `{"do":"http","method":"GET","url":"` + site + `/echo","headers":{"Host":"x"}}`, everything(), `{"is":["malformed"]}`},
		{"another host", `{"do":"http","method":"GET","url":"https://www.example.com/"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"another credential", `{"do":"http","method":"GET","url":"` + site + `/echo","secret":"other"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"request without a grant", `{"do":"http","method":"GET","url":"` + site + `/echo"}`, call.Caps{}, `{"is":["not granted","fs.ErrPermission"]}`},
		{"redirect", `{"do":"http","method":"GET","url":"` + site + `/away"}`, everything(), `{"is":["redirect"]}`},
		{"broken server", `{"do":"http","method":"GET","url":"` + site + `/cut"}`, everything(), `{"is":["failed"]}`},
		{"credential comes back", `{"do":"http","method":"GET","url":"` + site + `/tell","secret":"notes"}`, everything(), `{"is":["withheld"]}`},
		{"log without a grant", `{"do":"log","lines":["x"]}`, call.Caps{}, `{"is":["not granted","fs.ErrPermission"]}`},
		{"a link out to be written", `{"do":"write-file","path":"/docs/reports/out","body":"x"}`, changer, `{"is":["not granted","fs.ErrPermission"]}`},
		{"a file written whole", `{"do":"write-file","path":"/docs/reports/new.txt","body":"on"}`, changer, `{}`},
		{"a file added to", `{"do":"append","path":"/docs/reports/new.txt","body":"e"}`, changer, `{}`},
		{"what there is", `{"do":"read","path":"/docs/reports/new.txt"}`, changer, `{"text":"one"}`},
		{"what it is", `{"do":"stat","path":"/docs/reports/new.txt"}`, changer, `{"text":"file","status":3}`},
		{"what nothing is", `{"do":"stat","path":"/docs/reports/none"}`, changer, `{"is":["not found","fs.ErrNotExist"]}`},
		{"too much", `{"do":"append","path":"/docs/reports/new.txt","body":"` + strings.Repeat("x", 101) + `"}`, changer, `{"is":["quota"]}`},
		{"a directory made", `{"do":"mkdir","path":"/docs/reports/d"}`, changer, `{}`},
		{"and again", `{"do":"mkdir","path":"/docs/reports/d"}`, changer, `{"is":["exists","fs.ErrExist"]}`},
		{"another name", `{"do":"rename","path":"/docs/reports/new.txt","to":"/docs/reports/d/n"}`, changer, `{}`},
		{"what is not empty", `{"do":"remove","path":"/docs/reports/d"}`, changer, `{"is":["exists","fs.ErrExist"]}`},
		{"a file removed", `{"do":"remove","path":"/docs/reports/d/n"}`, changer, `{}`},
		{"a directory removed", `{"do":"remove","path":"/docs/reports/d"}`, changer, `{}`},
		{"writing whole without a grant", `{"do":"write-file","path":"/docs/reports/a.txt","body":"x"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"adding without a grant", `{"do":"append","path":"/docs/reports/a.txt","body":"x"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"making without a grant", `{"do":"mkdir","path":"/docs/reports/d"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"removing without a grant", `{"do":"remove","path":"/docs/reports/a.txt"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"renaming without a grant", `{"do":"rename","path":"/docs/reports/a.txt","to":"/docs/reports/b"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"running without a grant", `{"do":"run","path":"/bin/cat"}`, everything(), `{"text":"||","is":["not granted","fs.ErrPermission"]}`},
		{"starting without a grant", `{"do":"start","path":"/bin/cat"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"no process", `{"do":"output","path":"none"}`, everything(), `{"text":"|","is":["not granted","fs.ErrPermission"]}`},
		{"no process to end", `{"do":"kill","path":"none"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"no plan", `{"do":"plan"}`, call.Caps{Plan: true}, `{"tasks":[]}`},
		{"a task", `{"do":"register","path":"a"}`, call.Caps{Plan: true}, `{}`},
		{"another task", `{"do":"register","path":"b","lines":["a"]}`, call.Caps{Plan: true}, `{}`},
		{"the task again", `{"do":"register","path":"a"}`, call.Caps{Plan: true}, `{"is":["exists","fs.ErrExist"]}`},
		{"what is no task", `{"do":"register","path":"A"}`, call.Caps{Plan: true}, `{"is":["malformed"]}`},
		{"a task that waits", `{"do":"advance","path":"b","to":"active"}`, call.Caps{Plan: true}, `{"is":["status"]}`},
		{"a task that is not there", `{"do":"advance","path":"c","to":"active"}`, call.Caps{Plan: true}, `{"is":["not found","fs.ErrNotExist"]}`},
		{"a task that begins", `{"do":"advance","path":"a","to":"active"}`, call.Caps{Plan: true}, `{}`},
		{"a task replaced", `{"do":"replan","path":"b","to":"c","lines":["tool"]}`, call.Caps{Plan: true}, `{}`},
		{"the plan", `{"do":"plan"}`, call.Caps{Plan: true}, `{"tasks":[{"ID":"a","Status":"active","Tools":[],"After":[]},{"ID":"b","Status":"replaced","Tools":[],"After":["a"]},` +
			`{"ID":"c","Status":"planned","Tools":["tool"],"After":[]},{"ID":"c2","Status":"planned","Tools":[],"After":[]}]}`},
		{"a plan without a grant", `{"do":"plan"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"a task without a grant", `{"do":"register","path":"d"}`, everything(), `{"is":["not granted","fs.ErrPermission"]}`},
		{"a charge", `{"do":"charge","path":"rows","units":3}`, call.Caps{}, `{}`},
		{"a charge of nobody's", `{"do":"charge","path":"fuel","units":3}`, call.Caps{}, `{"is":["malformed"]}`},
		{"goroutines", `{"do":"together","path":"/docs/reports/a.txt"}`, everything(), `{}`},
		{"one call", `{"do":"count"}`, call.Caps{}, `{"status":1}`},
		{"and another", `{"do":"count"}`, call.Caps{}, `{"status":1}`},
	}
	for _, tt := range ran {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.run(t, tt.give, tt.caps)
			if o.Code != call.CodeOK || out != tt.want || len(o.Stderr) > 0 {
				t.Errorf("%s, %s, stderr %q, want\n%s", o.Code, out, o.Stderr, tt.want)
			}
		})
	}

	if onLinux != nil {
		t.Run("commands", func(t *testing.T) { onLinux(t, w) })
	}
	t.Run("randomness", func(t *testing.T) {
		a, _ := w.run(t, `{"do":"random"}`, call.Caps{})
		b, o := w.run(t, `{"do":"random"}`, call.Caps{})
		if o.Code != call.CodeOK || len(a) < 30 || a == b {
			t.Errorf("%s, %s and %s, want two that differ", o.Code, a, b)
		}
	})

	t.Run("log", func(t *testing.T) {
		out, o := w.run(t, `{"do":"log","lines":["one","","`+strings.Repeat("x", 5000)+`"]}`, everything())
		if want := "one\n\n" + strings.Repeat("x", 4096) + "\n"; o.Code != call.CodeOK || out != `{}` || string(o.Stderr) != want {
			t.Errorf("%s, %s, %.50q", o.Code, out, o.Stderr)
		}
		if _, o := w.run(t, `{"do":"log","path":"warn","lines":["one"]}`, everything()); string(o.Stderr) != "warn: one\n" {
			t.Errorf("at a level: %q", o.Stderr)
		}
	})

	failed := []struct {
		name, give string
		exit       uint32
		log        string
	}{
		{"error", `{"do":"fail"}`, 1, "it does not work\n"},
		{"coded error", `{"do":"coded"}`, 77, "it has a status\n"},
		{"silent error", `{"do":"silent"}`, 78, ""},
		{"unknown member", `{"do":"count","dont":1}`, 3, "the arguments do not fit the tool: at /dont\n"},
		{"member in another case", `{"Do":"count"}`, 3, "the arguments do not fit the tool: at /Do\n"},
		{"another type", `{"do":"count","lines":["a",2]}`, 3, "the arguments do not fit the tool: at /lines/1\n"},
		{"result of no JSON", `{"do":"unfit"}`, 4, "the result cannot be encoded\n"},
	}
	for _, tt := range failed {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.run(t, tt.give, call.Caps{})
			if o.Code != call.CodeToolError || o.Exit != tt.exit || string(o.Stderr) != tt.log || out != "" {
				t.Errorf("%s with %d, %q, stderr %q, want %d, %q", o.Code, o.Exit, out, o.Stderr, tt.exit, tt.log)
			}
		})
	}

	t.Run("panic", func(t *testing.T) {
		out, o := w.run(t, `{"do":"panic"}`, call.Caps{})
		if o.Code != call.CodeGuestTrap || out != "" || !strings.HasPrefix(string(o.Stderr), "panic: at the disco") {
			t.Errorf("%s, stderr %.50q, want a trap and the panic", o.Code, o.Stderr)
		}
		if out, _ := w.run(t, `{"do":"count"}`, call.Caps{}); out != `{"status":1}` {
			t.Errorf("the call after a panic gives %s", out)
		}
	})
}

func TestCommand(t *testing.T) {
	module := build(t, "plain", "-tags=callgate_command")
	if len(module) > 3<<20 {
		t.Errorf("a tool without JSON of Go types has %d bytes", len(module))
	}
	w := open(t, module)
	if out, o := w.run(t, `{"b":1,"a":"é"}`, call.Caps{}); o.Code != call.CodeOK || out != `{"a":"é","b":1}` {
		t.Errorf("%s, %s", o.Code, out)
	}
	if _, o := w.run(t, `{"panic":true}`, call.Caps{}); o.Code != call.CodeToolError || o.Exit != 2 || !strings.HasPrefix(string(o.Stderr), "panic: at the disco") {
		t.Errorf("%s with %d, stderr %.50q, want 2 and the panic", o.Code, o.Exit, o.Stderr)
	}
	if _, o := w.run(t, `{}`, call.Caps{}); o.Code != call.CodeToolError || o.Exit != 20 || string(o.Stderr) != "there is nothing to say\n" {
		t.Errorf("%s with %d, stderr %q", o.Code, o.Exit, o.Stderr)
	}
}
