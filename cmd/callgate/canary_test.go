package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/local/project"
)

// What is planted, by the place where it stands.
const (
	canaryCredential  = "canary-credential-5Fq2"
	canaryEnvironment = "canary-environment-9Xk1"
	canaryArgument    = "canary-argument-7Jw3"
	canaryFile        = "canary-file-2Rt8"
	canaryWhy         = "canary-justification-4Nb6"
	canaryComplaint   = "canary-complaint-6Hs2" // what a command says on stderr
)

var canaries = []string{canaryCredential, canaryEnvironment, canaryArgument, canaryFile, canaryWhy, canaryComplaint}

// spellings are the ways in which a text could stand somewhere.
func spellings(s string) []string {
	out := []string{s, strings.ToUpper(s), strings.ToLower(s), hex.EncodeToString([]byte(s))}
	for shift := range 3 { // base64 of a longer text that holds it, wherever it begins
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + s))
		out = append(out, strings.TrimRight(text[(8*shift+5)/6:], "=")[:20])
	}
	return out
}

// holds names the canary that b holds in any spelling, "" for none; those in but
// may be there.
func holds(b []byte, but ...string) string {
	for _, c := range canaries {
		if slices.Contains(but, c) {
			continue
		}
		for _, s := range spellings(c) {
			if bytes.Contains(b, []byte(s)) {
				return c
			}
		}
	}
	return ""
}

// Secrets and arguments, planted wherever they can come from, stand in no record,
// no error of ours and no log, and in no output but that of a tool or a policy that
// was asked about them.
func TestCanaries(t *testing.T) {
	for _, s := range spellings(canaryFile) { // or else the test could not fail
		if holds([]byte("<"+s+">")) == "" {
			t.Fatalf("%q is not found", s)
		}
	}
	dir := filepath.Join(t.TempDir(), "p")
	server, err := startDemoServer(canaryCredential)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(project.Write(dir))
	must(project.AddWeb(dir, project.Web{CA: server.ca, Address: server.addr, Private: "10.20.30.40", Range: "127.0.0.0/8", Token: canaryCredential}))
	must(os.WriteFile(filepath.Join(dir, "files/docs/secret.txt"), []byte(canaryFile), 0o600))
	must(os.WriteFile(filepath.Join(dir, "bundle/canary.rego"), []byte(canaryRules), 0o600))
	t.Setenv("CALLGATE_SECRET_OTHER", canaryEnvironment)
	t.Setenv("CALLGATE_DECIDE_TIMEOUT", "1m")

	text := func(key string) string { return `{"` + key + `": "` + canaryArgument + `"}` }
	tests := []struct {
		name, tool, args string
		roles            string   // "" for analyst
		shows            []string // what stdout may hold
		quotes           bool     // our error repeats policy's message, or the tool's name
		exit             int
	}{
		{name: "a file that may be read", tool: "read-file", args: `{"path": "/docs/secret.txt"}`, shows: []string{canaryFile}},
		{name: "a file that is not there", tool: "read-file", args: `{"path": "/docs/` + canaryArgument + `"}`, exit: exitFailed},
		{name: "a folder that is not granted", tool: "read-file", args: `{"path": "/` + canaryArgument + `/x"}`, exit: exitFailed},
		{name: "a path with dots", tool: "list-dir", args: `{"path": "/docs/../` + canaryArgument + `"}`, exit: exitDenied},
		{name: "a key that no schema has", tool: "read-file", args: text(canaryArgument), exit: exitDenied},
		{name: "a value of the wrong type", tool: "read-file", args: `{"path": ["` + canaryArgument + `"]}`, exit: exitDenied},
		{name: "a key twice", tool: "read-file", args: `{"` + canaryArgument + `": 1, "` + canaryArgument + `": 2}`, exit: exitDenied},
		{name: "no JSON", tool: "read-file", args: canaryArgument, exit: exitDenied},
		{name: "an unknown tool", tool: canaryArgument, args: `{}`, quotes: true, exit: exitDenied},
		{name: "a role that may not", tool: "read-file", args: text("path"), roles: "visitor", quotes: true, exit: exitDenied},
		{name: "a rule that fails on it", tool: "publish", args: `{"text": "boom ` + canaryArgument + `"}`, exit: exitUnsure},
		{name: "an approval", tool: "refund", args: `{"amount": 1, "order": "` + canaryArgument + `"}`, roles: "support", exit: exitDenied},
		{name: "a page", tool: "fetch", args: `{"url": "https://api.demo.test/v1/status", "secret": "demo-api"}`},
		{name: "a page that sends the credential back", tool: "fetch", args: `{"url": "https://api.demo.test/v1/echo", "secret": "demo-api"}`, exit: exitFailed},
		{name: "a page that moved", tool: "fetch", args: `{"url": "https://api.demo.test/v1/moved", "secret": "demo-api"}`, exit: exitFailed},
		{name: "a page that is not there", tool: "fetch", args: `{"url": "https://api.demo.test/v1/` + canaryArgument + `", "secret": "demo-api"}`},
		{name: "a page of another host", tool: "fetch", args: `{"url": "https://` + strings.ToLower(canaryArgument) + `.test/"}`, exit: exitFailed},
		{name: "a URL with a password", tool: "fetch", args: `{"url": "https://u:` + canaryArgument + `@api.demo.test/"}`, exit: exitDenied},
		{name: "a credential that is not granted", tool: "fetch", args: `{"url": "https://api.demo.test/v1/status", "secret": "other"}`, exit: exitDenied},
	}
	for _, tt := range tests {
		for _, extra := range [][]string{nil, {"-o", "json"}, {"--dry-run"}} {
			if tt.roles == "" {
				tt.roles = "analyst"
			}
			args := append([]string{
				"call", "--config", filepath.Join(dir, "callgate.yaml"), "--as", "alice", "--roles", tt.roles, "--log-level", "trace", "--log-format", "json",
				"--tool", tt.tool, "--args", tt.args, "--justification", canaryWhy,
			}, extra...)
			var out, errOut bytes.Buffer
			code := run(t.Context(), args, strings.NewReader(""), &out, &errOut)
			if code != tt.exit && !slices.Contains(extra, "--dry-run") {
				t.Errorf("%s: exit %d, want %d: %s%s", tt.name, code, tt.exit, out.String(), errOut.String())
			}
			shows := tt.shows
			if len(extra) > 0 {
				// These repeat the call to whoever made it: the tool's name, what it did,
				// and in a dry run the arguments.
				shows = append(slices.Clone(shows), canaryArgument)
			}
			if c := holds(out.Bytes(), shows...); c != "" {
				t.Errorf("%s %v: stdout holds %s: %s", tt.name, extra, c, out.String())
			}
			for line := range strings.Lines(errOut.String()) {
				// What a tool says of its arguments, and a policy, is for the caller; the
				// operator's log and our own errors say nothing of them.
				own := strings.HasPrefix(line, "{") || strings.HasPrefix(line, "callgate:") && !tt.quotes
				if c := holds([]byte(line)); c != "" && (own || c != canaryArgument) {
					t.Errorf("%s %v: stderr holds %s: %s", tt.name, extra, c, line)
				}
			}
		}
	}

	for _, args := range [][]string{{"approvals", "list"}, {"audit", "verify"}, {"approvals", "list", "-o", "json"}} {
		var out, errOut bytes.Buffer
		code := run(t.Context(), append(args, "--config", filepath.Join(dir, "callgate.yaml")), strings.NewReader(""), &out, &errOut)
		if c := holds(append(out.Bytes(), errOut.Bytes()...)); c != "" || code != exitOK {
			t.Errorf("%v: exit %d, holds %s: %s%s", args, code, c, out.String(), errOut.String())
		}
	}

	searchData(t, dir)
}

// searchData fails if a file of the data directory holds a canary, or a part of a token.
func searchData(t *testing.T, dir string, parts ...string) {
	t.Helper()
	seen := 0
	mustDo(t, filepath.WalkDir(filepath.Join(dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		if c := holds(b); c != "" {
			t.Errorf("%s holds %s", path, c)
		}
		for _, part := range parts {
			if bytes.Contains(b, []byte(part)) {
				t.Errorf("%s holds a part of the token", path)
			}
		}
		return nil
	}))
	if seen < 5 {
		t.Errorf("only %d files of the data directory were searched", seen)
	}
}

// canaryRules say something about each call that is made of its arguments.
const canaryRules = `package callgate.rules

import rego.v2

# METADATA
# title: Refused with a message that quotes
deny contains $"not {input.args.path}" if {
	input.tool.name == "read-file"
	not input.principal.roles == ["analyst"]
}

# METADATA
# title: Fails on what it is asked about
deny contains "never" if {
	input.tool.name == "publish"
	startswith(input.args.text, "boom")
	time.parse_rfc3339_ns(input.args.text) > 0
}
`
