package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
)

// sh is a command that a shell reads; the arguments are $1 and so on.
func sh(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", script, "sh"}, args...)
}

func TestSecretCommands(t *testing.T) {
	t.Setenv("CALLGATE_SECRET_OTHER", "canary")
	t.Setenv("CALLGATE_SECRETS", "is none of them")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		argv []string
		want string
		says string // "" for a credential
		is   error
	}{
		{name: "printed", argv: sh("echo from a command"), want: "from a command"},
		{name: "one line break", argv: sh(`printf 'a\n\n'`), want: "a\n"},
		{name: "of Windows", argv: sh(`printf 'a\r\n'`), want: "a"},
		{name: "arguments as they are", argv: []string{"/bin/echo", "$HOME;", "a  b", "*"}, want: "$HOME; a  b *"},
		{name: "nothing to read", argv: sh("cat; echo end"), want: "end"},
		{name: "directory", argv: []string{"/bin/pwd"}, want: "/"},
		{name: "environment", argv: sh("echo $CALLGATE_SECRET_OTHER$CALLGATE_SECRETS${PATH:+.}"), want: "is none of them."},
		{name: "a complaint", argv: sh("echo canary >&2; echo fine"), want: "fine"},
		{name: "as much as may be", argv: sh("head -c 65536 /dev/zero"), want: strings.Repeat("\x00", 65536)},
		{name: "a byte more", argv: sh("head -c 65537 /dev/zero"), says: "/bin/sh: printed more than 65536 bytes, and was ended"},
		{name: "without end", argv: sh("while echo canary; do :; done"), says: "printed more than 65536 bytes"},
		{name: "fails", argv: sh("echo canary; echo canary >&2; exit 3", "canary"), says: "/bin/sh: exit status 3"},
		{name: "ends by a signal", argv: sh("echo canary; kill -9 $$"), says: "/bin/sh: a signal ended it"},
		{name: "not there", argv: []string{"/nowhere/canary-free", "canary"}, says: "/nowhere/canary-free: cannot be run", is: fs.ErrNotExist},
		{name: "not executable", argv: []string{plain}, says: "cannot be run", is: fs.ErrPermission},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			find, err := secrets([]Secret{{Name: "a", Command: tt.argv, Header: "X-Key"}}, newCommands())
			if err != nil {
				t.Fatal(err)
			}
			s, err := find("a")
			if s.Value != tt.want || s.Header != "X-Key" || (err == nil) != (tt.says == "") || tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("it is %.100q, %v", s.Value, err)
			}
			if err == nil {
				return
			}
			if text := strings.ReplaceAll(err.Error(), "canary-free", ""); !strings.Contains(err.Error(), tt.says) || strings.Contains(text, "canary") {
				t.Errorf("%v, want %s", err, tt.says)
			}
		})
	}
}

// Credentials of the configuration's other parts are nothing for them either.
func TestSecretCommandsHaveNoCredentials(t *testing.T) {
	for _, name := range []string{"R_TOKEN", "R_PASSWORD", "R_TOKENS"} {
		t.Setenv(name, name+"-value")
	}
	c := Config{Layers: []Layer{{}, {TokenEnv: "R_TOKEN"}}, State: &Shared{PasswordEnv: "R_PASSWORD"}}
	got, err := c.commands().read(t.Context(), sh("echo $R_TOKEN$R_PASSWORD$R_TOKENS"))
	if got != "R_TOKENS-value" || err != nil {
		t.Errorf("it has %q, %v", got, err)
	}
}

// What takes too long is ended with all that it started.
func TestSecretCommandsEnd(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := newCommands().read(ctx, sh(`(echo ready; exec sleep 1000) >"$1" & wait`, fifo))
		done <- err
	}()
	alive, err := os.Open(fifo) // for as long as what it started lives
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if _, err := io.ReadFull(alive, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "took more than 10s, and was ended") {
		t.Errorf("the command: %v", err)
	}
	if n, err := alive.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("what it started is there: %d, %v", n, err)
	}

	soon := newCommands()
	soon.time = 50 * time.Millisecond
	if _, err := soon.read(t.Context(), sh("sleep 1000")); err == nil || !strings.Contains(err.Error(), "took more than 50ms") {
		t.Errorf("after its time: %v", err)
	}
	for range commandsAtOnce {
		soon.slots <- struct{}{}
	}
	if _, err := soon.read(t.Context(), sh("echo canary")); err == nil || !strings.Contains(err.Error(), "others took too long") {
		t.Errorf("one too many: %v", err)
	}
}

// Nobody waits for what a command leaves behind: it is ended, and if it holds the output
// that is not believed.
func TestSecretCommandsLeaveNothing(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, script, want, says string }{
		{"that holds its output", `exec 3<>"$1"; sleep 1000 & echo canary`, "", "left something behind"},
		{"that holds nothing", `exec 3<>"$1"; sleep 1000 >/dev/null 2>&1 & echo fine`, "fine", ""},
		{"when it fails", `exec 3<>"$1"; sleep 1000 >/dev/null 2>&1 & exit 3`, "", "exit status 3"},
	} {
		got, err := newCommands().read(t.Context(), sh(tt.script, fifo))
		if got != tt.want || (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
		alive, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := alive.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := alive.Read(make([]byte, 1)); n > 0 || err != io.EOF { // which waits for who could write
			t.Errorf("%s: it is there: %d, %v", tt.name, n, err)
		}
		alive.Close()
	}
}

func TestSecretsAreWiped(t *testing.T) {
	b := []byte("canary\r\n")
	if s := line(b); s != "canary" || !bytes.Equal(b, make([]byte, 8)) {
		t.Errorf("%q is left of %q", b, s)
	}
	out := &output{b: make([]byte, 8), over: func() {}}
	for _, read := range []func() (int64, error){
		func() (int64, error) { return out.ReadFrom(strings.NewReader("cana")) },
		func() (int64, error) { n, err := out.Write([]byte("ry")); return int64(n), err },
	} {
		if _, err := read(); err != nil {
			t.Fatal(err)
		}
	}
	if string(out.b[:out.n]) != "canary" {
		t.Errorf("it is %q", out.b[:out.n])
	}
	if n, err := out.Write([]byte("123")); n != 2 || err == nil {
		t.Errorf("more than fits: %d, %v", n, err)
	}
	if out.wipe(); !bytes.Equal(out.b, make([]byte, 8)) {
		t.Errorf("%q is left", out.b)
	}
}

// The operator is told why a credential cannot be read, and the caller only that.
func TestSecretsTellTheOperator(t *testing.T) {
	c := Config{Secrets: []Secret{{Name: "token", Command: sh("echo canary; exit 3")}}}
	h, err := c.host(newCommands())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = h.Open(t.Context(), granttest.Mint(t, "", call.Args{}, call.Caps{HTTP: []call.HTTP{{
		Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/"}, Networks: []string{"public"},
		Secret: &call.Secret{Name: "token", As: "bearer"},
	}}}))
	e, ok := errors.AsType[*call.Error](err)
	if !ok || e.Code != call.CodeSecretUnavailable || e.Detail != "secret token: it cannot be read" || e.Where != "/bin/sh: exit status 3" {
		t.Errorf("%+v", err)
	}
	c.Webhooks = []Webhook{{Name: "chat", URL: "https://hooks.example/", Secret: "token"}}
	if _, err := c.announcer(newCommands()); call.CodeOf(err, "") != call.CodeSecretUnavailable || !strings.Contains(err.Error(), "/bin/sh: exit status 3") || strings.Contains(err.Error(), "canary") {
		t.Errorf("a webhook: %v", err)
	}
}
