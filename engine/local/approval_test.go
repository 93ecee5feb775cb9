package local_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

const loginManifest = `
name: login
description: a tool for tests
kind: host
class: destructive
input: {type: object, properties: {user: {type: string}, password: {type: string, writeOnly: true}}, additionalProperties: false}
`

// withLogin is the small project with a tool that takes a secret.
func withLogin(t *testing.T) local.Config {
	t.Helper()
	dir := t.TempDir()
	writeSmall(t, dir)
	rules := filepath.Join(dir, "bundle", "rules.rego")
	text, err := os.ReadFile(rules)
	if err == nil {
		err = os.WriteFile(rules, bytes.ReplaceAll(text, []byte(`"wipe"`), []byte(`"login"`)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := small(dir)
	c.HostTools = append(c.HostTools, engine.Host(loginManifest, func(context.Context, *hostfx.Effects, map[string]string) (string, error) { return "", nil }))
	return c
}

func login() call.Call {
	c := ask("login", "")
	c.Args = []byte(`{"user":"al","password":"canary-password"}`)
	return c
}

// The owner masks: a client is sent what is secret only when it asks for it, and that
// is in the log by then. What people say to a question crosses the socket whole.
func TestQuestionsCross(t *testing.T) {
	c := withLogin(t)
	e, k := open(t, c), dial(t, c)
	d, ok := errors.AsType[*engine.Denial](only(k.Do(t.Context(), login())))
	if !ok || d.ApprovalID == "" {
		t.Fatalf("Do = %v", d)
	}
	q, err := k.Approval(t.Context(), d.ApprovalID)
	if err != nil || string(q.Args) != `{"password":null,"user":"al"}` || len(q.Masked) != 1 || q.Masked[0].At != "/password" || q.Masked[0].Bytes != 15 {
		t.Errorf("Approval = %s, %+v, %v", q.Args, q.Masked, err)
	}
	own, err := e.Approval(t.Context(), d.ApprovalID)
	if err != nil || own.Masked[0] != q.Masked[0] {
		t.Errorf("the owner says %+v, its client %+v; %v", own.Masked, q.Masked, err)
	}
	if q, err := k.Reveal(t.Context(), d.ApprovalID, local.User()); !errors.Is(err, state.ErrMayNotVote) || q.Args != nil {
		t.Errorf("to somebody who is not asked: %s, %v", q.Args, err)
	}
	if q, err = k.Reveal(t.Context(), d.ApprovalID, approver); err != nil || !strings.Contains(string(q.Args), "canary-password") {
		t.Errorf("Reveal = %s, %v", q.Args, err)
	}
	if _, err := k.Vote(t.Context(), engine.Vote{Approval: d.ApprovalID, By: approver, Reason: "two\nlines"}); !errors.Is(err, engine.ErrReason) {
		t.Errorf("Vote = %v", err)
	}
	a, err := k.Vote(t.Context(), engine.Vote{Approval: d.ApprovalID, By: approver, Deny: true, Reason: "not today"})
	if err != nil || a.Standing != state.Denied || len(a.Votes) != 1 || a.Votes[0].Reason != "not today" || a.Votes[0].At.IsZero() {
		t.Errorf("Vote = %+v, %v", a, err)
	}
	if err := errors.Join(k.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	reveals := 0
	for _, r := range records(t, filepath.Dir(c.Data)) {
		if r.Type != call.TypeReveal {
			continue
		}
		if reveals++; r.Approval != d.ApprovalID || r.Principal.ID != "bob" || r.Principal.Auth.Method != "asserted" {
			t.Errorf("record %+v", r)
		}
	}
	if reveals != 1 {
		t.Errorf("%d reveals are recorded, want 1", reveals)
	}
}

func only(_ *engine.Result, err error) error { return err }

// written is a log that several goroutines write.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

// A new question is told to a server that the configuration names, signed with a
// credential that it names too, and nothing secret is in the log of it.
func TestWebhook(t *testing.T) {
	key := []byte("canary-key-of-at-least-24-bytes")
	type heard struct {
		id, body string
		genuine  bool
	}
	told := make(chan heard, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		told <- heard{r.Header.Get("webhook-id"), string(body), err == nil && r.Header.Get("webhook-signature") == want}
	}))
	defer server.Close()
	c := withLogin(t)
	dir := filepath.Dir(c.Data)
	c.CA = filepath.Join(dir, "ca.pem")
	secret := filepath.Join(dir, "hook.secret")
	if err := errors.Join(
		os.WriteFile(c.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600),
		os.WriteFile(secret, []byte("whsec_"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	c.Secrets = []local.Secret{{Name: "hook", File: secret}}
	c.Webhooks = []local.Webhook{{Name: "chat", URL: server.URL + "/canary", Secret: "hook"}}
	log := &written{}
	c.Logger = zerolog.New(log)
	e := open(t, c)
	for range 2 {
		if err := only(e.Do(t.Context(), login())); !errors.Is(err, engine.ErrPending) {
			t.Fatalf("Do = %v", err)
		}
	}
	h := <-told
	list, err := e.Approvals(t.Context())
	if err != nil || len(list) != 1 || h.id != list[0].ID || !h.genuine || !strings.Contains(h.body, `"class":"destructive"`) || strings.Contains(h.body, "canary") {
		t.Errorf("told %+v of %+v, %v", h, list, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 || strings.Contains(log.buf.String(), "canary") {
		t.Errorf("told %d times more; log %s", len(told), log.buf.String())
	}
	for name, w := range map[string]local.Webhook{
		"no secret": {Name: "chat", URL: server.URL}, "plain": {Name: "chat", URL: "http://hooks.example/", Secret: "hook"}, "no name": {URL: server.URL, Secret: "hook"},
	} {
		c.Webhooks = []local.Webhook{w}
		if e, err := local.Open(t.Context(), c); err == nil {
			t.Errorf("%s: opened", name)
			e.Close()
		}
	}
	// A secret that cannot sign is known at the start, and where it was looked for.
	c.Webhooks = []local.Webhook{{Name: "chat", URL: server.URL, Secret: "hook"}}
	if err := os.WriteFile(secret, []byte("canary-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for named, s := range map[string]local.Secret{"whsec_": {Name: "hook", File: secret}, "no.secret": {Name: "hook", File: filepath.Join(dir, "no.secret")}, "CALLGATE_SECRET_HOOK": {Name: "hook"}} {
		c.Secrets = []local.Secret{s}
		e, err := local.Open(t.Context(), c)
		if err == nil {
			e.Close()
		}
		if call.CodeOf(err, "") != call.CodeSecretUnavailable || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), `"chat"`) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", named, err)
		}
	}
}

// A process that lives for one call tells of its question all the same when the
// receiver has a moment's trouble, and says so when nobody took it.
func TestWebhookOfOneCall(t *testing.T) {
	for want, faults := range map[string]int32{"": 1, "approval not announced before the process ended": 1 << 30} {
		var tries atomic.Int32
		told := make(chan string, 100)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tries.Add(1) <= faults {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			told <- r.Header.Get("webhook-id")
		}))
		defer server.Close()
		c := withLogin(t)
		t.Setenv("CALLGATE_SECRET_HOOK", "whsec_"+base64.StdEncoding.EncodeToString([]byte("canary-key-of-at-least-24-bytes")))
		c.Webhooks = []local.Webhook{{Name: "chat", URL: server.URL, Secret: "hook"}}
		log := &written{}
		c.Logger = zerolog.New(log).Level(zerolog.WarnLevel)
		e, err := local.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		d, ok := errors.AsType[*engine.Denial](only(e.Do(t.Context(), login())))
		if err := e.Close(); err != nil || !ok || d.ApprovalID == "" {
			t.Fatalf("%+v, %v", d, err)
		}
		if (len(told) == 1) != (want == "") || !strings.Contains(log.buf.String(), want) || len(told) == 1 && <-told != d.ApprovalID {
			t.Errorf("told %d times after %d tries; log %s", len(told), tries.Load(), log.buf.String())
		}
		e = open(t, c) // nothing is lost: the question is in the log
		if list, err := e.Approvals(t.Context()); err != nil || len(list) != 1 || list[0].ID != d.ApprovalID {
			t.Errorf("%+v, %v", list, err)
		}
	}
}

// While a process that ends still tells of its questions, another one can own the
// directory.
func TestWebhookHoldsNobodyUp(t *testing.T) {
	asked, free := make(chan bool, 1), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- true
		<-free
	}))
	defer server.Close()
	c := withLogin(t)
	t.Setenv("CALLGATE_SECRET_HOOK", "whsec_"+base64.StdEncoding.EncodeToString([]byte("canary-key-of-at-least-24-bytes")))
	c.Webhooks = []local.Webhook{{Name: "chat", URL: server.URL, Secret: "hook"}}
	log := &written{}
	c.Logger = zerolog.New(log).Level(zerolog.WarnLevel)
	e := open(t, c)
	if err := only(e.Do(t.Context(), login())); !errors.Is(err, engine.ErrPending) {
		t.Fatalf("Do = %v", err)
	}
	<-asked
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	d, err := os.Open(c.Data)
	if err == nil {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX) // as the next owner does
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	close(free)
	if err := <-closed; err != nil || log.buf.Len() > 0 {
		t.Errorf("Close = %v; log %s", err, log.buf.String())
	}
}

// Whoever waits in another process hears of the answer when it is given.
func TestWaitAcrossProcesses(t *testing.T) {
	c := withLogin(t)
	e, k := open(t, c), dial(t, c)
	d, _ := errors.AsType[*engine.Denial](only(k.Do(t.Context(), login())))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := k.Wait(ctx, d.ApprovalID); done <- err }()
	if _, err := e.Vote(t.Context(), engine.Vote{Approval: d.ApprovalID, By: bob()}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func bob() call.Principal {
	p := approver
	p.Auth = call.Auth{Method: "jwt", Issuer: "https://idp.example"}
	return p
}
