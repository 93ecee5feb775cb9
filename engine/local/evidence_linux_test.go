package local_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

const busyManifest = `
name: busy
description: does one of everything
kind: host
class: read
facts: none
input: {type: object, properties: {text: {type: string}}, additionalProperties: false}
caps:
  fs: [{root: docs, path: in, modes: [read, write, list]}]
  http: [{hosts: ["*.example.com"], ports: [443], methods: [POST], paths: [/v1], networks: [loopback], secret: {name: token, as: bearer}}]
  exec: [{command: /bin/cat, args: ["-"]}, {command: /bin/echo, args: ["word-*"]}]
  log: true
  bounds: {timeout_ms: 60000}
`

// A real server, file and command: each effect is in the record with all that is known
// of it, and nothing that went through it or stood in its arguments.
func TestEffectsAreEvidence(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	granted := `"fs": [{"root": "docs", "path": "in", "modes": ["read", "write", "list"]}],
		"http": [{"hosts": ["*.example.com"], "ports": [443], "methods": ["POST"], "paths": ["/v1"], "networks": ["loopback"], "secret": {"name": "token", "as": "bearer"}}],
		"exec": [{"command": "/bin/cat", "args": ["-"]}, {"command": "/bin/echo", "args": ["word-*"]}], "log": true, "bounds"`
	must(t, os.WriteFile(filepath.Join(dir, "bundle/rules.rego"), []byte(strings.NewReplacer(`"echo"`, `"busy"`, `"bounds"`, granted).Replace(rules)), 0o644))
	must(t, os.MkdirAll(filepath.Join(dir, "files/in/sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "files/in/sub/notes.txt"), []byte("canary-file"), 0o600))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		if _, err2 := io.WriteString(w, "canary-answer"); errors.Join(err, err2) != nil || r.Header.Get("Authorization") != "Bearer canary-token" {
			t.Errorf("the server has %v, %v", err, err2)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	t.Setenv("CALLGATE_SECRET_TOKEN", "canary-token")

	c := small(dir)
	c.Roots = []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "files")}}
	c.Networks = []hostfx.Network{{Name: "loopback", Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	c.Names = []hostfx.Name{{Host: "api.example.com", Addresses: []netip.AddrPort{at}}}
	c.CA = filepath.Join(dir, "ca.pem")
	must(t, os.WriteFile(c.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644))
	c.Secrets = []local.Secret{{Name: "token"}}
	c.ExecEnforcement = hostfx.Unavailable
	held := ""
	c.HostTools = append(c.HostTools, engine.Host(busyManifest, func(ctx context.Context, fx *hostfx.Effects, a struct {
		Text string `json:"text"`
	}) (string, error) {
		post := func(url string) error {
			_, err := fx.HTTP(ctx, hostfx.Request{Method: "POST", URL: url, Header: http.Header{"X-Canary": {"canary-header"}}, Body: []byte("canary-body"), Secret: "token"})
			return err
		}
		_, err := fx.ReadFile("/docs/in/sub/notes.txt")
		must(t, errors.Join(err, fx.Mkdir("/docs/in/new"), post("https://api.example.com/v1/canary-path?q=canary-query"), fx.Log("canary-line")))
		ran, err := fx.Run(ctx, hostfx.Command{Path: "/bin/cat", Args: []string{"-"}, Stdin: []byte("canary-stdin")})
		must(t, err)
		held = ran.Enforcement
		_, err = fx.Run(ctx, hostfx.Command{Path: "/bin/echo", Args: []string{"word-canary-argv"}})
		must(t, err)

		_, missing := fx.ReadFile("/docs/in/canary-missing")
		_, beside := fx.ReadFile("/docs/in/../canary-beside")
		_, command := fx.Run(ctx, hostfx.Command{Path: "/bin/canary", Args: []string{"canary-refused"}})
		if missing == nil || beside == nil || command == nil || post("https://canary.example.org/v1") == nil || post("https://api.example.com/v2/canary-path") == nil {
			t.Error("what is not granted was done")
		}
		return a.Text, nil
	}))
	e := open(t, c)
	res, err := e.Do(t.Context(), ask("busy", "canary-argument"))
	must(t, err)
	must(t, e.Close())

	want := []call.RecordEffect{
		{Kind: "fs.read", Within: "/docs/in", Path: "sub/notes.txt", Code: "ok", BytesIn: 11},
		{Kind: "fs.write", Within: "/docs/in", Path: "new", Code: "ok"},
		{Kind: "http.post", Within: "*.example.com:443", Host: "api.example.com:443", Address: at.String(), Code: "ok", BytesIn: 13, BytesOut: 11},
		{Kind: "log", Within: "log", Code: "ok", BytesOut: 12, Count: 1},
		{Kind: "exec", Within: "/bin/cat", Code: "ok", BytesIn: 12, BytesOut: 12, Enforcement: held},
		{Kind: "exec", Within: "/bin/echo", Code: "ok", BytesIn: 17, Enforcement: held},
		{Kind: "fs.read", Within: "/docs/in", Code: "not_found"},
		{Kind: "fs.read", Code: "refused"},
		{Kind: "exec", Code: "refused"},
		{Kind: "http.post", Code: "refused"},
		{Kind: "http.post", Host: "api.example.com:443", Code: "refused"},
	}
	all := records(t, dir)
	got, took := slices.Clone(all[len(all)-1].Outcome.Effects), map[string]int64{}
	for i := range got {
		if got[i].Target == "" || i >= len(want) {
			t.Fatalf("effect %+v", got[i])
		}
		if want[i].Enforcement == "" {
			want[i].Enforcement = "structural"
		}
		took[got[i].Kind+" "+got[i].Code] = got[i].TookUS
		got[i].Target, got[i].TookUS = "", 0
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("recorded (-want +got):\n%s", d)
	}
	for _, kind := range []string{"http.post ok", "exec ok"} { // a microsecond is enough for others
		if took[kind] <= 0 {
			t.Errorf("%s took no time", kind)
		}
	}
	if fx := res.Outcome.Effects; len(fx) != len(want) || fx[2].Target != "https://api.example.com/v1/canary-path?q=canary-query" || fx[2].Address != at.String() || fx[2].TookUS != took["http.post ok"] {
		t.Errorf("the caller is told %+v", fx)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "data/log/*"))
	must(t, err)
	for _, s := range segments {
		b, err := os.ReadFile(s)
		must(t, err)
		if at := bytes.Index(bytes.ToLower(b), []byte("canary")); at >= 0 {
			t.Errorf("%s has %q", s, b[max(0, at-40):min(len(b), at+40)])
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
