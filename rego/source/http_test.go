package source_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/rego/source"
)

// secure is a web server with TLS, and access to it.
func secure(t *testing.T, h http.HandlerFunc) (*httptest.Server, source.Access) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, source.Access{CA: caOf(t, s)}
}

func newHTTP(t *testing.T, h source.HTTP) source.Source {
	t.Helper()
	s, err := source.NewHTTP(h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An ETag is sent back, and 304 is unchanged; without one there is nothing to send.
func TestHTTPConditional(t *testing.T) {
	tag, body := `"v1"`, []byte("one")
	var asked http.Header
	server, access := secure(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Clone()
		if tag != "" {
			w.Header().Set("ETag", tag)
		}
		if r.Header.Get("If-None-Match") == tag && tag != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(body)
	})
	s := newHTTP(t, source.HTTP{URL: server.URL + "/b.tar.gz", Access: access})
	one, err := s.Fetch(t.Context(), "")
	if err != nil || string(one.Bytes) != "one" || one.Version != `"v1"` || one.Wait || !strings.HasPrefix(one.Digest, "sha256:") {
		t.Fatalf("%+v, %v", one, err)
	}
	if asked.Get("Prefer") != "modes=snapshot" || asked.Get("If-None-Match") != "" || asked.Get("Authorization") != "" {
		t.Errorf("asked with %v", asked)
	}
	if _, err := s.Fetch(t.Context(), one.Version); !errors.Is(err, source.ErrUnchanged) {
		t.Errorf("again: %v", err)
	}
	tag, body = `W/"v2"`, []byte("two")
	two, err := s.Fetch(t.Context(), one.Version)
	if err != nil || string(two.Bytes) != "two" || two.Version != `W/"v2"` {
		t.Errorf("%+v, %v", two, err)
	}
	for _, tag = range []string{"", "v3", `"a"b"`, `"`, `"` + strings.Repeat("x", 2000) + `"`} {
		if three, err := s.Fetch(t.Context(), two.Version); err != nil || three.Version != "" {
			t.Errorf("tag %.10s: %+v, %v", tag, three, err)
		}
	}
}

// A server that can is asked to hold the request, but for the first.
func TestHTTPLongPoll(t *testing.T) {
	publish, held := make(chan struct{}), make(chan struct{}, 1)
	server, access := secure(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.openpolicyagent.bundles")
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			if got := r.Header.Get("Prefer"); got != "modes=snapshot;wait=30" {
				t.Errorf("Prefer: %s", got)
			}
			held <- struct{}{}
			<-publish
			w.Header().Set("ETag", `"v2"`)
		} else if got := r.Header.Get("Prefer"); got != "modes=snapshot" {
			t.Errorf("first Prefer: %s", got)
		}
		_, _ = io.WriteString(w, "x")
	})
	access.Wait = 30 * time.Second
	s := newHTTP(t, source.HTTP{URL: server.URL, Access: access})
	one, err := s.Fetch(t.Context(), "")
	if err != nil || !one.Wait {
		t.Fatalf("%+v, %v", one, err)
	}
	got := make(chan *source.Snapshot)
	go func() {
		two, err := s.Fetch(context.Background(), one.Version)
		if err != nil {
			t.Error(err)
		}
		got <- two
	}()
	<-held
	close(publish)
	if two := <-got; two == nil || two.Version != `"v2"` {
		t.Errorf("%+v", two)
	}
}

// The credential goes to the server, is read anew each time, and stands in no error.
func TestHTTPSecret(t *testing.T) {
	var got string
	server, access := secure(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "you sent "+got)
	})
	file := filepath.Join(t.TempDir(), "token")
	access.Secret = source.Secret{File: file}
	s := newHTTP(t, source.HTTP{URL: server.URL + "/x?sig=c4nary", Access: access})
	for _, token := range []string{"c4nary-1", "c4nary-2"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Fetch(t.Context(), "")
		if got != "Bearer "+token {
			t.Errorf("sent %q", got)
		}
		if err == nil || err.Error() != "the server answers 403 Forbidden" {
			t.Errorf("%v", err)
		}
	}
	for _, token := range []string{"", "c4nary\r\nX: y", strings.Repeat("c4nary", 20_000)} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		got = ""
		if _, err := s.Fetch(t.Context(), ""); err == nil || strings.Contains(err.Error(), "c4nary") || got != "" {
			t.Errorf("%.20q: sent %q, %v", token, got, err)
		}
	}
	t.Setenv("BUNDLE_PASSWORD", "c4nary")
	access.Secret, access.User = source.Secret{Env: "BUNDLE_PASSWORD"}, "me"
	s = newHTTP(t, source.HTTP{URL: server.URL, Access: access})
	if _, err := s.Fetch(t.Context(), ""); err == nil || got != "Basic bWU6YzRuYXJ5" {
		t.Errorf("sent %q, %v", got, err)
	}
	server.Close()
	s = newHTTP(t, source.HTTP{URL: server.URL + "/x?sig=c4nary", Access: access})
	if _, err := s.Fetch(t.Context(), ""); err == nil || strings.Contains(err.Error(), "c4nary") {
		t.Errorf("unreachable: %v", err)
	}
	if strings.Contains(s.String(), "c4nary") {
		t.Errorf("shown as %s", s)
	}
}

func TestHTTPRefuses(t *testing.T) {
	other, _ := secure(t, func(http.ResponseWriter, *http.Request) { t.Error("we went to another host") })
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("we went without TLS") }))
	t.Cleanup(plain.Close)
	done := make(chan struct{})
	server, access := secure(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/plain":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusMovedPermanently)
		case "/here":
			_, _ = io.WriteString(w, "here")
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/404":
			http.Error(w, "nothing to see", http.StatusNotFound)
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/large":
			w.Header().Set("Content-Length", "9999999999")
		case "/endless":
			b := bytes.Repeat([]byte{0}, 1<<20)
			for {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		case "/half":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "x")
		case "/slow":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-done
		}
	})
	t.Cleanup(func() { close(done) })
	for path, want := range map[string]string{
		"/other": "another host", "/plain": "another host", "/loop": "around", "/moved": "",
		"/304": "304", "/404": "404 Not Found", "/204": "204", "/empty": "empty",
		"/large": "larger", "/endless": "larger", "/half": "EOF", "/slow": "deadline",
	} {
		t.Run(path, func(t *testing.T) {
			a := access
			if path == "/slow" {
				a.Timeout = 200 * time.Millisecond
			}
			got, err := newHTTP(t, source.HTTP{URL: server.URL + path, Access: a}).Fetch(t.Context(), "")
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if err == nil && string(got.Bytes) != "here" {
				t.Errorf("got %q", got.Bytes)
			}
			if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the error has the URL: %v", err)
			}
		})
	}
	// Not by the system's certificates.
	if _, err := newHTTP(t, source.HTTP{URL: server.URL + "/here"}).Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("by the system's certificates: %v", err)
	}
}

func TestAt(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	secret := source.Secret{Env: "X"}
	for _, tt := range []struct {
		place string
		give  source.Access
		want  string // the source, or the error
	}{
		{dir, source.Access{}, dir},
		{"https://a.example/b.tar.gz?x=y", source.Access{}, "https://a.example/b.tar.gz"},
		{"http://127.0.0.1:8181/b", source.Access{Secret: secret}, "http://127.0.0.1:8181/b"},
		{"http://[::1]/b", source.Access{}, "http://[::1]/b"},
		{"http://localhost/b", source.Access{}, "http://localhost/b"},
		{"http://a.example/b", source.Access{Plain: true}, "http://a.example/b"},
		{"oci://a.example/team/b:v1", source.Access{}, "oci://a.example/team/b:v1"},
		{"oci+http://localhost:5000/b:v1", source.Access{Secret: secret}, "oci://localhost:5000/b:v1"},

		{"http://a.example/b", source.Access{}, "only for this machine"},
		{"http://a.example/b", source.Access{Plain: true, Secret: secret}, "in the clear"},
		{"http://localhost.a.example/b", source.Access{}, "only for this machine"},
		{"oci+http://a.example/b:v1", source.Access{}, "only for this machine"},
		{"oci+http://a.example/b:v1", source.Access{Plain: true, Secret: secret}, "in the clear"},
		{"https://me:c4nary@a.example/b", source.Access{}, "as a secret"},
		{"https://a.example/%zz c4nary", source.Access{}, "URL is none"},
		{"https://", source.Access{}, "HOST/PATH"},
		{"oci://a.example/b", source.Access{}, "HOST/NAME:TAG"},
		{"oci://x", source.Access{}, "HOST/NAME:TAG"},
		{"ftp://a.example/b", source.Access{}, "ftp://"},
		{"https://a.example", source.Access{CA: filepath.Join(dir, "none")}, "no such file"},
		{"https://a.example", source.Access{CA: empty}, "no certificate"},
		{"https://a.example", source.Access{User: "me"}, "no password"},
		{"https://a.example", source.Access{Secret: source.Secret{Env: "X", File: "y"}}, "not in both"},
		{"https://a.example", source.Access{Timeout: -1}, "negative"},
	} {
		s, err := source.At(tt.place, tt.give)
		got := ""
		if err != nil {
			got = err.Error()
		} else if got = s.String(); got != tt.want {
			t.Errorf("%s is %s, want %s", tt.place, got, tt.want)
		}
		if !strings.Contains(got, tt.want) || strings.Contains(got, "c4nary") {
			t.Errorf("%s: %s, want %s", tt.place, got, tt.want)
		}
	}
	for _, w := range []time.Duration{-1, time.Hour, time.Millisecond} {
		if _, err := source.NewHTTP(source.HTTP{URL: "https://a.example", Access: source.Access{Wait: w}}); err == nil {
			t.Errorf("waits %v", w)
		}
	}
}
