package sandbox_test

import (
	"net/http"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
)

// When a file has changed on which the call depends, nothing is changed any more. For
// http that has the number which it had before there was one for it.
func TestCallgateChanged(t *testing.T) {
	w := online(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	caps := w.more.Clone()
	caps.FS = []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "write", "append", "remove"}}}
	const at = "/docs/reports/"
	post := `{"method":"POST","url":"` + site + `/"}` + "\n"
	p := program{}.tell(callMkdir, at+"k", "").tell(callWrite, at+"k/n", "x").tell(callAppend, at+"k/n", "y").tell(callRename, at+"k/n", at+"k/m")
	p = p.tell(callRemove, at+"k/m", "").tell(callRemove, at+"k", "").put(0, post).step(callHTTP, 0, uint32(len(post)), lengthAt)
	for content, want := range map[string]string{"alpha": "0000000", "beta": "<<<<<<6"} {
		g := granttest.Mint(t, call.Digest([]byte("tool")), args(t, `{}`), caps, call.Precondition{File: at + "a.txt", Digest: call.Digest([]byte(content))})
		fx, err := w.host.Open(t.Context(), g)
		must(t, err)
		out, o := w.box.Run(t.Context(), w.install(t, "poke"), args(t, p.args()), fx)
		if string(out) != want || o.Code != call.CodeOK {
			t.Errorf("depending on %q: numbers %s, %s, want %s", content, out, o.Code, want)
		}
		fx.Close()
	}
}
