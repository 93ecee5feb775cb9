package guest_test

import (
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

func init() { onLinux = runCommands }

func runCommands(t *testing.T, w *world) {
	caps := call.Caps{
		FS:   []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}},
		Exec: []call.Exec{{Command: "/bin/cat", Args: []string{}}, {Command: "/bin/cat", Args: []string{"*"}}, {Command: "/bin/sleep", Args: []string{"*"}}},
	}
	for _, tt := range []struct{ name, give, want string }{
		{"stdin", `{"do":"run","path":"/bin/cat","body":"\u0000é"}`, `{"text":"\u0000é||"}`},
		{"directory", `{"do":"run","path":"/bin/cat","lines":["a.txt"],"to":"/docs/reports"}`, `{"text":"alpha||"}`},
		{"stderr", `{"do":"run","path":"/bin/cat","lines":["none"]}`, `{"text":"|/bin/cat: none: No such file or directory\n|","status":1}`},
		{"other arguments", `{"do":"run","path":"/bin/cat","lines":["-n"]}`, `{"text":"||","is":["not granted","fs.ErrPermission"]}`},
	} {
		if out, o := w.run(t, tt.give, caps); o.Code != call.CodeOK || out != tt.want {
			t.Errorf("%s: %s, %s, want %s", tt.name, o.Code, out, tt.want)
		}
	}
	out, _ := w.run(t, `{"do":"start","path":"/bin/sleep","lines":["86400"]}`, caps)
	id, ok := strings.CutSuffix(strings.TrimPrefix(out, `{"text":"`), `"}`)
	if !ok {
		t.Fatalf("Start gives %s", out)
	}
	for _, tt := range []struct{ give, want string }{
		{`{"do":"output","path":"` + id + `"}`, `{"text":"running|"}`},
		{`{"do":"kill","path":"` + id + `"}`, `{}`},
		{`{"do":"output","path":"` + id + `"}`, `{"text":"stopped|"}`},
	} {
		if out, o := w.run(t, tt.give, caps); o.Code != call.CodeOK || out != tt.want {
			t.Errorf("%s: %s, %s, want %s", tt.give, o.Code, out, tt.want)
		}
	}
}
