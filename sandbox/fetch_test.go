package sandbox_test

import (
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
)

func TestFetch(t *testing.T) {
	w := online(t, handler())
	cannot := func(why string) got {
		return got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "cannot fetch: " + why + "\n"}
	}
	tests := []struct {
		name, give string
		want       got
	}{
		{"text", `{"url":"` + site + `/text"}`, finished(`{"status":200,"text":"tab\t \"é\" bad` + "\ufffd" + `"}`)},
		{"status", `{"url":"` + site + `/gone"}`, finished(`{"status":410,"text":""}`)},
		{"no secret", `{"url":"` + site + `/echo?a=%22"}`, finished(`{"status":200,"text":"GET /echo?a=%22   false"}`)},
		{"secret", `{"secret":"notes","url":"` + site + `/echo"}`, finished(`{"status":200,"text":"GET /echo   true"}`)},
		{"long", `{"url":"` + site + `/long"}`, finished(`{"status":200,"text":"x` + strings.Repeat("é", 32<<10-1) + `","truncated":true}`)},
		{"another host", `{"url":"https://www.example.com/"}`, cannot("not granted")},
		{"another secret", `{"secret":"other","url":"` + site + `/echo"}`, cannot("not granted")},
		{"private address", `{"url":"https://inside.example.com/"}`, cannot("not granted")},
		{"redirect", `{"url":"` + site + `/away"}`, cannot("redirect")},
		{"too large", `{"url":"` + site + `/huge"}`, cannot("too large")},
		{"broken", `{"url":"` + site + `/cut"}`, cannot("failed")},
		{"credential comes back", `{"secret":"notes","url":"` + site + `/tell"}`, cannot("withheld")},
		{"quotes", `{"url":"\"\\\u0001é","secret":"\",\"method\":\"POST"}`, cannot("malformed request")},
		{"no second member", `{"url":"` + site + `/echo\",\"secret\":\"notes"}`, finished(`{"status":404,"text":"404 page not found\n"}`)},
		{"no URL", `{"secret":"notes"}`, got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "the arguments lack: url\n"}},
		{"secret of another type", `{"secret":1,"url":"` + site + `/echo"}`, got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "not a usable string: secret\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.run(t, "fetch", tt.give, call.Bounds{})
			o.Effects = nil // the tests of poke compare them
			compare(t, tt.want, seen(out, o))
		})
	}
}

// The examples of docs/guest-abi.md work.
func TestExamples(t *testing.T) {
	w := online(t, handler())
	out, o := w.run(t, "post", `{"text":"é"}`, call.Bounds{})
	compare(t, finished(`{"noted":{"text":"é"}}`, sent(web("post", "/v1/notes", "ok", int64(len(`{"noted":{"text":"é"}}`))), int64(len(`{"text":"é"}`)))), seen(out, o))
	w.more = call.Caps{}
	out, o = w.run(t, "post", `{}`, call.Bounds{})
	compare(t, got{Status: call.Failed, Code: call.CodeToolError, Exit: 1, Log: "not granted",
		Effects: []call.Effect{{Kind: "http.post", Target: site + "/v1/notes", Code: "refused"}}}, seen(out, o))

	w = open(t, sandbox.Options{})
	out, o = w.run(t, "show", `{}`, call.Bounds{}, "read")
	compare(t, finished("alpha", effect("fs.read", "/docs/reports/a.txt", "ok", 5)), seen(out, o))
	_, o = w.run(t, "show", `{}`, call.Bounds{}, "list")
	compare(t, got{Status: call.Failed, Code: call.CodeToolError, Exit: 3, Effects: []call.Effect{effect("fs.read", "/docs/reports/a.txt", "refused", 0)}}, seen("", o))
}
