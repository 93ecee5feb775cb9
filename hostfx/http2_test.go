package hostfx_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// What holds over HTTP/1.1 holds over HTTP/2, which a server chooses that has both.
func TestHTTP2(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"echo": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Saw", strings.Join([]string{r.Host, r.Method, r.URL.Path, r.Header.Get("X-A"), r.Header.Get("Te"), r.Header.Get("Connection")}, "|"))
			_, _ = io.Copy(w, r.Body)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://other.example.com/", http.StatusFound)
		},
		"large":        func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, 3_000_000)) },
		"large header": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", strings.Repeat("a", 2_000_000)) },
		"cut short": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "ab")
			panic(http.ErrAbortHandler)
		},
		"trailer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-After")
			_, _ = io.WriteString(w, "ab")
			w.Header().Set("X-After", "token-canary")
		},
		"credential": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Authorization")) },
	}
	bearer := call.Secret{Name: "token", As: "bearer"}
	for _, tt := range []struct {
		server string
		give   hostfx.Request
		caps   call.Caps
		body   string
		code   string
		err    error
	}{
		{server: "echo", give: hostfx.Request{Method: "POST", URL: v1, Body: []byte("abc")}, caps: only(), body: "abc", code: "ok"},
		{server: "echo", give: hostfx.Request{Method: "POST", URL: v1, Header: http.Header{"Connection": {"close"}}}, caps: only(), code: "refused", err: hostfx.ErrBadRequest},
		{server: "echo", give: hostfx.Request{Method: "POST", URL: v1, Body: make([]byte, 3_000_000)}, caps: only(), code: "over_cap", err: hostfx.ErrTooLarge},
		{server: "redirect", give: get(v1), caps: only(), code: "redirect", err: hostfx.ErrRedirect},
		{server: "large", give: get(v1), caps: only(), code: "over_cap", err: hostfx.ErrTooLarge},
		{server: "large header", give: get(v1), caps: only(), code: "no_answer", err: hostfx.ErrNoAnswer},
		{server: "cut short", give: get(v1), caps: only(), code: "no_answer", err: hostfx.ErrNoAnswer},
		{server: "trailer", give: get(v1), caps: only(), body: "ab", code: "ok"},
		{server: "credential", give: hostfx.Request{Method: "GET", URL: v1, Secret: "token"}, caps: only(func(h *call.HTTP) { h.Secret = &bearer }), code: "withheld", err: hostfx.ErrWithheld},
	} {
		t.Run(tt.server+" "+tt.code, func(t *testing.T) {
			w := newWebOf(t, handlers[tt.server], "h2", "http/1.1")
			w.opts.Secrets = func(string) (hostfx.Secret, error) { return hostfx.Secret{Value: "token-canary"}, nil }
			fx := w.open(t, tt.caps)
			a, err := fx.HTTP(t.Context(), tt.give)
			if !errors.Is(err, tt.err) || err == nil && string(a.Body) != tt.body || err != nil && a != nil {
				t.Fatalf("HTTP = %v, %v; want %v", a, err, tt.err)
			}
			if e := fx.Close(); len(e) != 1 || e[0].Code != tt.code {
				t.Errorf("effects %+v", e)
			}
			for _, r := range w.requests() {
				if r.Proto != "HTTP/2.0" || r.Host != api {
					t.Errorf("asked over %s for %s", r.Proto, r.Host)
				}
			}
			if asked := len(w.requests()); (asked == 1) != (tt.code != "refused" && tt.server+tt.code != "echoover_cap") {
				t.Errorf("asked %d times", asked)
			}
			if tt.body == "abc" && a.Header.Get("X-Saw") != api+"|POST|/v1/x|||" {
				t.Errorf("the server saw %q", a.Header.Get("X-Saw"))
			}
			if tt.server == "trailer" {
				var all bytes.Buffer
				_ = a.Header.Write(&all)
				if strings.Contains(all.String(), "token-canary") {
					t.Error("what came after the body is among the headers")
				}
			}
		})
	}
}

// A connection is one request's with HTTP/2, too, and ends with the call, whatever the
// server does.
func TestHTTP2Connections(t *testing.T) {
	w := newWebOf(t, hello, "h2")
	fx := w.open(t, only())
	for range 3 {
		_, err := fx.HTTP(t.Context(), get(v1))
		must(t, err)
	}
	var from []string
	for _, r := range w.requests() {
		from = append(from, r.RemoteAddr)
	}
	if slices.Sort(from); len(slices.Compact(from)) != 3 {
		t.Errorf("connections: %v", from)
	}

	silent := newWebOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "h2")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := silent.open(t, only()).HTTP(ctx, get(v1)); !errors.Is(err, hostfx.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of a silent server: %v", err)
	}
}
