package main

import (
	"testing"

	"github.com/callgate/callgate/engine/call"
)

func TestEffectLine(t *testing.T) {
	for want, fx := range map[string]call.Effect{
		"fs.read /docs/a: ok, 5 bytes in":                       {Kind: "fs.read", Target: "/docs/a", Code: "ok", BytesIn: 5, TookUS: 49, Enforcement: "structural"},
		"fs.write /docs/a: ok, 2 bytes in, 5 bytes out, 0.1 ms": {Kind: "fs.write", Target: "/docs/a", Code: "ok", BytesIn: 2, BytesOut: 5, TookUS: 50},
		"http.get https://a.example.com/: no_answer, 1500.0 ms, at 192.0.2.1:443": {
			Kind: "http.get", Target: "https://a.example.com/", Code: "no_answer", TookUS: 1_500_000, Address: "192.0.2.1:443", Enforcement: "structural",
		},
		"exec /bin/cat: ok, confinement partial": {Kind: "exec", Target: "/bin/cat", Code: "ok", Enforcement: "partial"},
		"log: ok, 9 bytes out, 3 of them":        {Kind: "log", Code: "ok", BytesOut: 9, Count: 3},
		"others: more, 12 of them":               {Code: "more", Count: 12},
		`fs.read /docs/\u001b[2J: refused`:       {Kind: "fs.read", Target: "/docs/\x1b[2J", Code: "refused", Enforcement: "structural"},
	} {
		if got := effectLine(fx); got != want {
			t.Errorf("effectLine(%+v) = %q, want %q", fx, got, want)
		}
	}
}
