package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/local/project"
)

// A credential stands in no byte that leaves the process but those of its request,
// wherever it comes from, whether it can be used or not, through an owner as well, and
// neither does what the command says that prints it.
func TestCanariesOfEverySource(t *testing.T) {
	server, err := startDemoServer(canaryCredential)
	mustDo(t, err)
	defer server.Close()
	t.Setenv("CALLGATE_DECIDE_TIMEOUT", "1m")

	script := func(text string) func(t *testing.T, dir string) string {
		return func(t *testing.T, dir string) string {
			mustDo(t, os.WriteFile(filepath.Join(dir, "print.sh"), []byte(text), 0o700))
			return "command: [/bin/sh, " + filepath.Join(dir, "print.sh") + "]"
		}
	}
	speaks := "echo " + canaryComplaint + " >&2; echo " + canaryCredential + "\n"
	for _, tt := range []struct {
		name   string
		source func(t *testing.T, dir string) string // for the configuration
		why    string                                // it cannot be read, as the operator is told; "" if it can
	}{
		{"environment", func(t *testing.T, _ string) string {
			t.Setenv("CALLGATE_SECRET_DEMO_API", canaryCredential)
			return "header: X-Key"
		}, ""},
		{"file", func(*testing.T, string) string { return "file: demo-api.key" }, ""},
		{"command", script(speaks), ""},
		{"nowhere", func(*testing.T, string) string { return "file: none" }, "none: no such file"},
		{"file of others", func(t *testing.T, dir string) string {
			mustDo(t, os.Chmod(filepath.Join(dir, "demo-api.key"), 0o644))
			return "file: demo-api.key"
		}, "so others may have read it"},
		{"command that fails", script(speaks + "exit 3"), "/bin/sh: exit status 3"},
		{"command that is ended", script(speaks + "kill -9 $$"), "/bin/sh: a signal ended it"},
		{"command without end", script("while " + speaks + "do :; done"), "/bin/sh: printed more than"},
		{"two lines", script(speaks + speaks), ""}, // which no header can hold
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "callgate-canary-") // short, for its socket
			mustDo(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			mustDo(t, project.Write(dir))
			mustDo(t, project.AddWeb(dir, project.Web{CA: server.ca, Address: server.addr, Private: "10.20.30.40", Range: "127.0.0.0/8", Token: canaryCredential}))
			file := filepath.Join(dir, "callgate.yaml")
			text, err := os.ReadFile(file)
			mustDo(t, err)
			changed := strings.Replace(string(text), "file: demo-api.key", tt.source(t, dir), 1)
			mustDo(t, os.WriteFile(file, []byte(changed), 0o600))

			usable := tt.why == "" && tt.name != "two lines"
			calls := func(through string) {
				for _, c := range []struct {
					path, form string
					exit       int
				}{{"status", "json", exitOK}, {"echo", "text", exitFailed}} {
					if !usable {
						c.exit = exitUnsure
					}
					out, errOut, code := withCanary(t, file, "call", "--as", "alice", "--roles", "analyst", "--tool", "fetch", "--log-format", c.form, "-o", c.form,
						"--args", `{"url": "https://api.demo.test/v1/`+c.path+`", "secret": "demo-api"}`)
					if code != c.exit {
						t.Errorf("%s %s: exit %d, want %d: %s%s", through, c.path, code, c.exit, out, errOut)
					}
					if through == "alone" && !strings.Contains(errOut, tt.why) {
						t.Errorf("the operator is told %q, want %q", errOut, tt.why)
					}
				}
			}
			calls("alone")
			if strings.HasPrefix(tt.name, "command") { // others differ in nothing that an owner says
				wire := owned(t, file, dir)
				calls("through an owner")
				if said := wire(); len(said) < 1000 || holds(said) != "" {
					t.Errorf("the socket carried %d bytes, and %s", len(said), holds(said))
				}
			}
			if out, errOut, code := withCanary(t, file, "audit", "verify"); code != exitOK {
				t.Errorf("audit verify: exit %d: %s%s", code, out, errOut)
			}
			searchData(t, dir)
		})
	}
}

// withCanary runs a command at the level trace and fails if it says a canary.
func withCanary(t *testing.T, config string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), append(args, "--config", config, "--log-level", "trace"), strings.NewReader(""), &out, &errOut)
	if c := holds(append(out.Bytes(), errOut.Bytes()...)); c != "" {
		t.Errorf("%v says %s: %s%s", args, c, out.String(), errOut.String())
	}
	return out.String(), errOut.String(), code
}

// owned makes an owner of the data directory and listens to all that is said on its
// socket. What it returns ends that, and says what was heard there and what the owner
// printed.
func owned(t *testing.T, config, dir string) func() []byte {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	heard := &hearing{}
	ready, out := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--config", config, "--log-level", "trace"}, strings.NewReader(""), io.MultiWriter(heard, out), heard)
		out.Close()
	}()
	if _, err := io.ReadFull(ready, make([]byte, len("serving"))); err != nil {
		t.Fatalf("no owner: %s", heard.b.String())
	}
	go io.Copy(io.Discard, ready)

	socket := filepath.Join(dir, "data/callgate.sock")
	mustDo(t, os.Rename(socket, socket+"-real"))
	l, err := net.Listen("unix", socket)
	mustDo(t, err)
	mustDo(t, os.Chmod(socket, 0o600))
	var between sync.WaitGroup
	between.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			owner, err := net.Dial("unix", socket+"-real")
			if err != nil {
				client.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				io.Copy(io.MultiWriter(heard, to), from)
				to.(*net.UnixConn).CloseWrite()
			}
			between.Go(func() { pass(owner, client) })
			between.Go(func() { pass(client, owner) })
		}
	})
	return func() []byte {
		l.Close() // which removes its name
		mustDo(t, os.Rename(socket+"-real", socket))
		cancel()
		if code := <-done; code != exitOK {
			t.Errorf("the owner: exit %d: %s", code, heard.b.String())
		}
		between.Wait()
		return heard.b.Bytes()
	}
}

// hearing keeps what several say.
type hearing struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (h *hearing) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(b)
}
