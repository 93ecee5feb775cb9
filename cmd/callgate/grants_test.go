package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
	"github.com/callgate/callgate/engine/token"
)

// Neither a grant nor the arguments that it is for stand in any file of the data
// directory, in a log or in an error, whatever becomes of it; and stdout holds the
// grant of callgate issue alone.
func TestCanariesOfGrants(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(project.Write(dir))
	conf := filepath.Join(dir, "callgate.yaml")
	text, err := os.ReadFile(conf)
	must(err)
	text = append(text, "\nnode: both\ngrants: {keys: keys, issuers: [{name: both, jwks: jwks.json}]}\n"...)
	must(os.WriteFile(conf, text, 0o600))
	t.Setenv("CALLGATE_DECIDE_TIMEOUT", "1m")
	do := func(want int, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &out, &errOut)
		if code != want {
			t.Fatalf("%v: exit %d: %s%s", args[:2], code, out.String(), errOut.String())
		}
		if c := holds(errOut.Bytes()); c != "" {
			t.Errorf("%v: stderr holds %s: %s", args[:2], c, errOut.String())
		}
		if strings.Contains(errOut.String(), "eyJ") { // how every part of a token begins that is JSON
			t.Errorf("%v: stderr holds a token: %s", args[:2], errOut.String())
		}
		return out.String()
	}
	do(exitOK, "grants", "keys", "--config", conf)
	must(os.WriteFile(filepath.Join(dir, "jwks.json"), []byte(do(exitOK, "grants", "jwks", "--config", conf)), 0o600))

	loud := []string{"--config", conf, "--log-level", "trace", "--log-format", "json"}
	args := `{"path": "/docs/` + canaryArgument + `"}`
	issue := func() string {
		return strings.TrimSpace(do(exitOK, append([]string{
			"issue", "--audience", "both", "--as", "alice", "--roles", "analyst", "--tool", "read-file", "--args", args, "--justification", canaryWhy,
		}, loud...)...))
	}
	exec := func(want int, raw, args string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "grant")
		must(os.WriteFile(file, []byte(raw), 0o600))
		for _, format := range []string{"text", "json"} {
			out := do(want, append([]string{"exec", "--grant", file, "--args", args, "-o", format}, loud...)...)
			if strings.Contains(out, "eyJ") {
				t.Errorf("exec: stdout holds a token: %s", out)
			}
			if want == exitFailed {
				want = exitDenied // it is spent
			}
		}
	}
	raw := issue()
	parts := strings.Split(raw, ".")
	exec(exitDenied, raw[:len(raw)-1], args)
	exec(exitDenied, raw, `{"path": "/docs/other"}`)
	exec(exitDenied, raw, `{"path": `+canaryArgument)
	exec(exitDenied, parts[0]+"."+parts[1]+"."+strings.Split(issue(), ".")[2], args)
	exec(exitFailed, raw, args) // there is no such file

	searchData(t, dir, parts...)
}

func TestGrantsConfig(t *testing.T) {
	c, err := load(t, `
node: here
grants:
  keys: keys
  issuer: us
  ttl: 20s
  audience: them
  issuers:
    - {name: Decider.1, jwks: /srv/a.json, shares_state: true}
    - {name: b, jwks: "https://b.example/jwks.json", ca: b.pem}
`)
	if err != nil {
		t.Fatal(err)
	}
	l := c.local(os.Stderr).Grants
	dir := filepath.Dir(l.Keys)
	want := local.Grants{Keys: filepath.Join(dir, "keys"), Issuer: "us", TTL: 20 * time.Second, Audience: "them", Issuers: []local.GrantIssuer{
		{Name: "Decider.1", JWKS: "/srv/a.json", SharesState: true},
		{Name: "b", JWKS: "https://b.example/jwks.json", CA: filepath.Join(dir, "b.pem")},
	}}
	if diff := cmp.Diff(want, l); diff != "" || !filepath.IsAbs(dir) {
		t.Error(diff)
	}
	for name, bad := range map[string]string{
		"nobody's keys":  "grants: {keys: k}",
		"nobody's name":  "grants: {issuers: [{name: a, jwks: j}]}",
		"no name":        "node: n\ngrants: {issuers: [{jwks: j}]}",
		"no keys":        "node: n\ngrants: {issuers: [{name: a}]}",
		"plain http":     "node: n\ngrants: {issuers: [{name: a, jwks: 'http://h/j'}]}",
		"a useless ca":   "node: n\ngrants: {issuers: [{name: a, jwks: j, ca: c}]}",
		"one name twice": "node: n\ngrants: {issuers: [{name: a, jwks: j}, {name: a, jwks: k}]}",
		"too long":       "node: n\ngrants: {keys: k, ttl: 2m}",
		"misspelt":       "node: n\ngrants: {key: k}",
	} {
		if _, err := load(t, bad); err == nil {
			t.Errorf("%s: loads", name)
		}
	}
}

// Nobody has vouched yet for what a grant says when it is refused, so nothing of it
// reaches the terminal that is not the name of a tool.
func TestToolOfAGrant(t *testing.T) {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, want := range map[string]string{
		"read-file": "read-file", `evil\u001b[2J`: "grant", `a\nok: all is well`: "grant", `a\u202e`: "grant", strings.Repeat("a", 129): "grant",
	} {
		raw := part(`{"alg":"EdDSA","kid":"`+strings.Repeat("A", 43)+`","typ":"grant+jwt"}`) + "." +
			part(`{"iss":"i","aud":"a","sub":"s","jti":"g","iat":1,"nbf":1,"exp":2,"prn":{"id":"s","kind":"user","auth":{"method":"jwt"}},"tool":{"name":"`+name+
				`","digest":"sha256:`+strings.Repeat("0", 64)+`"},"args":"sha256:`+strings.Repeat("0", 64)+`","caps":{},"dec":"d","log":{"origin":"","index":0},"ep":0}`) +
			"." + part(strings.Repeat("x", 64))
		if got := toolOf(raw); got != want {
			t.Errorf("%.30s: %q, want %q", name, got, want)
		}
	}
	if got := toolOf("x"); got != "grant" {
		t.Errorf("no grant: %q", got)
	}
}

// Executors read the set for every grant: while it is published again, none of them
// sees an empty one, or half of one.
func TestJWKSIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	conf, out := filepath.Join(dir, "callgate.yaml"), filepath.Join(dir, "jwks.json")
	if err := os.WriteFile(conf, []byte("grants: {keys: keys}\nnode: n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		root := newRoot()
		root.SetArgs(append(args, "--config", conf))
		root.SetOut(io.Discard)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run("grants", "keys")
	run("grants", "jwks", "--out", out)
	stop, read := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(read)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := token.ReadSet(out); err != nil {
				read <- err
				return
			}
		}
	}()
	for range 50 {
		run("grants", "jwks", "--out", out)
	}
	close(stop)
	if err := <-read; err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
}
