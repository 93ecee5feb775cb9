package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A tool that makes requests can be tried against a server of one's own, with a
// credential that it does not see.
func TestToolsRunReachesServers(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %t", r.URL.Path, r.Header.Get("Authorization") == "Bearer correct-horse-battery")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)

	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		mustDo(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	entry := `{"hosts":["api.example.com"],"ports":[443],"methods":["GET"],"paths":["/v1"],"networks":["here"]%s}`
	grant := file("grant.json", `{"http":[`+fmt.Sprintf(entry, "")+","+fmt.Sprintf(entry, `,"secret":{"name":"notes","as":"bearer"}`)+`]}`)
	flags := []string{
		"tools", "run", "../../sandbox/guests/fetch.wasm", "--grant", grant,
		"--ca", file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))),
		"--host", "api.example.com=" + server.Listener.Addr().String(), "--network", "here=127.0.0.0/8",
		"--secret", "notes=" + file("notes", "correct-horse-battery\n"),
	}
	for _, tt := range []struct {
		args, out, errOut string
		code              int
	}{
		{`{"url":"https://api.example.com/v1/a","secret":"notes"}`, `{"status":200,"text":"/v1/a true"}`, "  http.get https://api.example.com/v1/a: ok, 10 bytes", exitOK},
		{`{"url":"https://api.example.com/v1/a"}`, `{"status":200,"text":"/v1/a false"}`, "ok: ", exitOK},
		{`{"url":"https://api.example.com/v2"}`, "", "cannot fetch: not granted\n", exitFailed},
		{`{"url":"https://api.example.com/v1/a","secret":"other"}`, "", "cannot fetch: not granted\n", exitFailed},
	} {
		code, out, errOut := command(t, append(flags, "--args", tt.args)...)
		if code != tt.code || strings.TrimSuffix(out, "\n") != tt.out || !strings.Contains(errOut, tt.errOut) || strings.Contains(errOut, "horse") {
			t.Errorf("%s: exit %d, %s%s", tt.args, code, out, errOut)
		}
	}

	// A credential that cannot be read is found out before anything runs.
	mustDo(t, os.Remove(filepath.Join(dir, "notes")))
	code, out, errOut := command(t, append(flags, "--args", `{"url":"https://api.example.com/v1/a"}`)...)
	if code != exitUnsure || out != "" || !strings.HasPrefix(errOut, "secret_unavailable: ") {
		t.Errorf("without the credential: exit %d, %s%s", code, out, errOut)
	}
}
