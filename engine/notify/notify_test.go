package notify_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/notify"
)

const (
	oldKey = "canary-old-key-of-24-bytes-or-more"
	newKey = "canary-new-key-of-24-bytes-or-more"
)

func whsec(key string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(key)) }

func word(secret string) func() (string, error) { return func() (string, error) { return secret, nil } }

func always(context.Context) bool { return true }

func approval(id string) call.Approval {
	return call.Approval{
		ID: id, Binding: "canary-binding", About: "canary-about", Asked: time.Now().UTC(), Expires: time.Now().Add(time.Hour),
		Rules:     []call.ApprovalRule{{Layer: "team", Name: "lead", From: call.From{Roles: []string{"lead"}}}},
		Requester: call.RecordPrincipal{ID: "sam", Kind: "agent", Tenant: "acme", OnBehalfOf: []call.RecordPrincipal{{ID: "olga", Kind: "user", Tenant: "acme"}}},
		Tool:      call.RecordTool{Name: "refund", Kind: "host", Digest: "sha256:1"},
		Caps:      call.Caps{FS: []call.FS{{Root: "canary-root", Path: "canary-path", Modes: []string{"read"}}}},
	}
}

// logs is a log that several goroutines write.
type logs struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{} // holds one when something was written
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.buf.Write(b)
}

func (l *logs) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.buf.String() }

// await waits until the log says so.
func (l *logs) await(what string) {
	for !strings.Contains(l.String(), what) {
		<-l.more
	}
}

// open starts a notifier that tries again soon, and checks at the end that nothing
// secret was logged.
func open(t *testing.T, o notify.Options) (*notify.Notifier, *logs) {
	t.Helper()
	l := &logs{more: make(chan struct{}, 1)}
	o.Logger = zerolog.New(l)
	o.Retry, o.MaxRetry = time.Millisecond, 4*time.Millisecond
	n, err := notify.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Close()
		if strings.Contains(l.String(), "canary") {
			t.Errorf("the log holds what it must not: %s", l)
		}
	})
	return n, l
}

// server answers as handle does, with TLS.
func server(t *testing.T, handle http.HandlerFunc) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s, pool
}

// verified checks a message as its receiver would, who knows key alone.
func verified(r *http.Request, key string, now time.Time) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	sent, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
	if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return nil, fmt.Errorf("timestamp %d, %v", sent, err)
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
	for _, s := range strings.Split(r.Header.Get("webhook-signature"), " ") {
		version, text, _ := strings.Cut(s, ",")
		got, err := base64.StdEncoding.DecodeString(text)
		if err == nil && version == "v1" && hmac.Equal(got, mac.Sum(nil)) {
			return body, nil
		}
	}
	return nil, errors.New("no signature is right")
}

// A message is signed with every key, tried again until somebody takes it, and tells
// of the question and not of the call's arguments.
func TestSignedAndTriedAgain(t *testing.T) {
	type got struct {
		id, signature string
		body          []byte
	}
	heard := make(chan got, 10)
	var tries atomic.Int32
	s, pool := server(t, func(w http.ResponseWriter, r *http.Request) {
		signature := r.Header.Get("webhook-signature")
		body, err := verified(r, []string{oldKey, newKey}[tries.Add(1)%2], time.Now()) // either
		if err != nil || r.Method != http.MethodPost || r.Header.Get("content-type") != "application/json" {
			t.Errorf("%s: %v", r.Method, err)
		}
		if tries.Load() < 3 {
			http.Error(w, "canary answer", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		heard <- got{r.Header.Get("webhook-id"), signature, body}
	})
	n, l := open(t, notify.Options{Roots: pool, Hooks: []notify.Hook{{Name: "chat", URL: s.URL + "/canary-path?token=canary", Secret: word(whsec(oldKey) + " " + whsec(newKey))}}})
	a := approval("ap-1")
	for range 64 { // as many calls that ask the same
		n.Asked(a, "destructive", always)
	}
	g := <-heard
	n.Close()
	if g.id != "ap-1" || tries.Load() != 3 || n.Counts() != (notify.Counts{Delivered: 1}) {
		t.Errorf("%s after %d tries, %+v", g.id, tries.Load(), n.Counts())
	}
	if len(heard) > 0 || strings.Count(l.String(), "not announced yet") != 2 || !strings.Contains(l.String(), "status 500") {
		t.Errorf("heard %d more; log %s", len(heard), l)
	}
	want := fmt.Sprintf(`{"type":"approval.asked","timestamp":%q,"data":{"id":"ap-1","tool":{"name":"refund","class":"destructive","digest":"sha256:1"},`+
		`"principal":{"id":"sam","kind":"agent","tenant":"acme"},"on_behalf_of":[{"id":"olga","kind":"user","tenant":"acme"}],"expires":%q,`+
		`"rules":[{"layer":"team","name":"lead","count":1,"from":{"roles":["lead"]}}]}}`, a.Asked.Format(time.RFC3339Nano), a.Expires.Format(time.RFC3339Nano))
	if diff := cmp.Diff(want, string(g.body)); diff != "" {
		t.Error(diff)
	}
	n.Asked(approval("ap-2"), "read", always) // too late, and no harm
}

// Nobody is led elsewhere: neither by a redirect nor by a proxy of the environment.
func TestStaysOnItsWay(t *testing.T) {
	var strayed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, elsewhere.URL)
	}
	tried := make(chan bool, 100)
	s, pool := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		tried <- true
	})
	n, _ := open(t, notify.Options{Roots: pool, Linger: time.Millisecond, Hooks: []notify.Hook{{Name: "a", URL: s.URL, Secret: word(whsec(oldKey))}}})
	n.Asked(approval("ap-1"), "read", always)
	<-tried
	<-tried
	n.Close()
	if strayed.Load() > 0 || n.Counts() != (notify.Counts{GivenUp: 1}) {
		t.Errorf("%d strayed, %+v", strayed.Load(), n.Counts())
	}
}

// A receiver that never answers keeps nobody else waiting, and so many messages of its
// own at most.
func TestNeverAnswers(t *testing.T) {
	heard := make(chan string, 1000)
	s, pool := server(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dead" {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		heard <- r.Header.Get("webhook-id")
	})
	n, l := open(t, notify.Options{Roots: pool, Linger: time.Millisecond, Hooks: []notify.Hook{
		{Name: "dead", URL: s.URL + "/dead", Secret: word(whsec(oldKey))}, {Name: "well", URL: s.URL + "/well", Secret: word(whsec(newKey))},
	}})
	for i := range 300 {
		n.Asked(approval(fmt.Sprint("ap-", i)), "read", always)
		<-heard
	}
	n.Close()
	if got := n.Counts(); got.Dropped != 44 || got.Delivered+got.GivenUp != 556 || got.Delivered < 299 || strings.Count(l.String(), "too many wait") != 44 {
		t.Errorf("%+v", got)
	}
}

// An answer without an end is a yes by its status, and is not read to its end.
func TestEndlessAnswer(t *testing.T) {
	s, pool := server(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	n, l := open(t, notify.Options{Roots: pool, Linger: time.Minute, Hooks: []notify.Hook{{Name: "a", URL: s.URL, Secret: word(whsec(oldKey))}}})
	n.Asked(approval("ap-1"), "read", always)
	n.Close()
	if n.Counts() != (notify.Counts{Delivered: 1}) {
		t.Errorf("%+v, %s", n.Counts(), l)
	}
}

// What people have answered, and what a receiver wants no more of, is not sent again.
func TestRetriesEnd(t *testing.T) {
	var tries atomic.Int32
	s, pool := server(t, func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		w.WriteHeader(map[string]int{"/gone": http.StatusGone, "/": http.StatusInternalServerError}[r.URL.Path])
	})
	for name, tt := range map[string]struct {
		path    string
		expires time.Duration
		want    int32
	}{"answered": {"/", time.Hour, 1}, "gone": {"/gone", time.Hour, 1}, "expired before the first": {"/", -time.Hour, 0}} {
		tries.Store(0)
		n, l := open(t, notify.Options{Roots: pool, Hooks: []notify.Hook{{Name: "a", URL: s.URL + tt.path, Secret: word(whsec(oldKey))}}})
		a := approval("ap-1")
		a.Expires = a.Asked.Add(tt.expires)
		times, answered := 0, make(chan bool) // closed when it is asked for the second time
		n.Asked(a, "read", func(context.Context) bool {
			if times++; times == 2 {
				close(answered)
			}
			return times < 2
		})
		if name == "answered" {
			<-answered
		}
		n.Close()
		if tries.Load() != tt.want || n.Counts() != (notify.Counts{GivenUp: 1}) || strings.Contains(l.String(), "before the process ended") {
			t.Errorf("%s: %d tries, %+v, %s", name, tries.Load(), n.Counts(), l)
		}
	}
}

// badSecrets are what no hook can sign with.
var badSecrets = map[string]func() (string, error){
	"unreadable": func() (string, error) { return "", errors.New("no such file") },
	"empty":      word(""),
	"no prefix":  word(base64.StdEncoding.EncodeToString([]byte(oldKey))),
	"not base64": word("whsec_canary!"),
	"too short":  word(whsec("canary")),
	"too long":   word(whsec(strings.Repeat("canary", 11))),
	"too many":   word(strings.Repeat(whsec(oldKey)+" ", 5)),
	"one of two": word(whsec(oldKey) + " whsec_canary"),
}

// A secret that cannot sign is known when the process starts, and not at the first
// question.
func TestSecretsAreCheckedAtStart(t *testing.T) {
	for name, secret := range badSecrets {
		_, err := notify.New(notify.Options{Hooks: []notify.Hook{{Name: "chat", URL: "https://x.example/canary", Secret: secret}}})
		if call.CodeOf(err, "") != call.CodeSecretUnavailable || !strings.Contains(err.Error(), `"chat"`) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What cannot be signed, or not be sent to the right one, is not sent.
func TestNotSent(t *testing.T) {
	var tries atomic.Int32
	s, pool := server(t, func(http.ResponseWriter, *http.Request) { tries.Add(1) })
	secrets := maps.Clone(badSecrets)
	secrets["unknown cert"], secrets["nobody there"] = word(whsec(oldKey)), word(whsec(oldKey))
	for name, secret := range secrets {
		started := false
		h := notify.Hook{Name: "a", URL: s.URL, Secret: func() (string, error) { // that was well when the process started
			if !started {
				started = true
				return whsec(oldKey), nil
			}
			return secret()
		}}
		roots := pool
		switch name {
		case "unknown cert":
			roots = x509.NewCertPool()
		case "nobody there":
			h.URL = "https://127.0.0.1:1/canary"
		}
		n, l := open(t, notify.Options{Roots: roots, Hooks: []notify.Hook{h}, Linger: time.Millisecond})
		n.Asked(approval("ap-1"), "read", always)
		l.await(`"cause"`)
		n.Close()
		if n.Counts() != (notify.Counts{GivenUp: 1}) || !strings.Contains(l.String(), "not announced before the process ended") {
			t.Errorf("%s: %+v, %s", name, n.Counts(), l)
		}
	}
	if tries.Load() > 0 {
		t.Errorf("%d were sent", tries.Load())
	}
}

// A process that ends soon after it asked still tells of the question when the
// receiver has a moment's trouble, and says so when it could not.
func TestCloseTriesAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		fails         int32         // so many attempts are answered with 503
		retry, linger time.Duration // an hour: by itself it would try again long after the test
		want          notify.Counts
	}{
		"one fault": {1, time.Hour, time.Minute, notify.Counts{Delivered: 1}},
		"several":   {4, 40 * time.Millisecond, time.Minute, notify.Counts{Delivered: 1}},
		"no end":    {1 << 30, time.Hour, 20 * time.Millisecond, notify.Counts{GivenUp: 1}},
	} {
		var tries atomic.Int32
		s, pool := server(t, func(w http.ResponseWriter, _ *http.Request) {
			if tries.Add(1) <= tt.fails {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		l := &logs{more: make(chan struct{}, 1)}
		n, err := notify.New(notify.Options{
			Roots: pool, Linger: tt.linger, Retry: tt.retry, MaxRetry: 2 * time.Hour, Logger: zerolog.New(l),
			Hooks: []notify.Hook{{Name: "a", URL: s.URL, Secret: word(whsec(oldKey))}},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.Asked(approval("ap-1"), "read", always)
		l.await("not announced yet")
		n.Close()
		said := strings.Contains(l.String(), "not announced before the process ended") && strings.Contains(l.String(), "status 503")
		if n.Counts() != tt.want || said != (tt.want.GivenUp > 0) {
			t.Errorf("%s: %+v after %d tries, %s", name, n.Counts(), tries.Load(), l)
		}
	}
}

func TestOptions(t *testing.T) {
	ok := word(whsec(oldKey))
	for name, h := range map[string]notify.Hook{
		"no name":      {URL: "https://x.example/", Secret: ok},
		"no secret":    {Name: "a", URL: "https://x.example/"},
		"no URL":       {Name: "a", Secret: ok},
		"plain":        {Name: "a", URL: "http://x.example/canary", Secret: ok},
		"a look-alike": {Name: "a", URL: "http://localhost.canary.example/", Secret: ok},
		"another way":  {Name: "a", URL: "ftp://x.example/canary", Secret: ok},
		"a user":       {Name: "a", URL: "https://canary:canary@x.example/", Secret: ok},
		"a fragment":   {Name: "a", URL: "https://x.example/#canary", Secret: ok},
		"not a URL":    {Name: "a", URL: "https://x.example:canary/", Secret: ok},
		"no host":      {Name: "a", URL: "https:///canary", Secret: ok},
	} {
		if _, err := notify.New(notify.Options{Hooks: []notify.Hook{h}}); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := notify.Hook{Name: "a", URL: "https://x.example/", Secret: ok}
	if _, err := notify.New(notify.Options{Hooks: []notify.Hook{twice, twice}}); err == nil {
		t.Error("two hooks of one name")
	}
	for _, url := range []string{"http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/", "https://10.0.0.1/", "https://x.example:8443/a?b=c"} {
		if _, err := notify.New(notify.Options{Hooks: []notify.Hook{{Name: "a", URL: url, Secret: ok}}}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// On this machine plain http will do.
func TestPlainToThisMachine(t *testing.T) {
	heard := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := verified(r, oldKey, time.Now())
		heard <- err
	}))
	defer s.Close()
	n, _ := open(t, notify.Options{Hooks: []notify.Hook{{Name: "a", URL: s.URL, Secret: word(whsec(oldKey))}}})
	n.Asked(approval("ap-1"), "read", always)
	if err := <-heard; err != nil {
		t.Error(err)
	}
}
