package hostfx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

func TestHTTP(t *testing.T) {
	const within = api + ":443"
	post := func(url, body string) hostfx.Request {
		return hostfx.Request{Method: "POST", URL: url, Body: []byte(body)}
	}
	method := func(m string) hostfx.Request { return hostfx.Request{Method: m, URL: v1} }
	tests := []struct {
		name string
		give hostfx.Request
		caps call.Caps
		err  error
		want call.Effect
	}{
		{name: "get", give: get(v1), want: call.Effect{Kind: "http.get", Within: within, Target: v1, Code: "ok", BytesIn: 5}},
		{name: "post", give: post(v1, "abc"), want: call.Effect{Kind: "http.post", Within: within, Target: v1, Code: "ok", BytesIn: 5, BytesOut: 3}},
		{name: "canonical", give: get("HTTPS://API.example.com:443/v1/%78?q=1"), want: call.Effect{Kind: "http.get", Within: within, Target: v1 + "?q=1", Code: "ok", BytesIn: 5}},
		{name: "wildcard", give: get(v1), caps: only(func(h *call.HTTP) { h.Hosts = []string{"*.example.com"} }), want: call.Effect{Kind: "http.get", Within: "*.example.com:443", Target: v1, Code: "ok", BytesIn: 5}},
		{name: "other method", give: method("REPORT"), caps: only(func(h *call.HTTP) { h.Methods = []string{"REPORT"} }), want: call.Effect{Kind: "http.other", Within: within, Target: v1, Code: "ok", BytesIn: 5}},

		{name: "nothing granted", give: get(v1), caps: call.Caps{Log: true}, err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Target: v1, Code: "refused"}},
		{name: "host", give: get("https://apo.example.com/v1/x"), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Target: "https://apo.example.com/v1/x", Code: "refused"}},
		{name: "port", give: get("https://api.example.com:444/v1/x"), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Target: "https://api.example.com:444/v1/x", Code: "refused"}},
		{name: "path", give: get("https://api.example.com/v10"), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Target: "https://api.example.com/v10", Code: "refused"}},
		{name: "method", give: method("DELETE"), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.delete", Target: v1, Code: "refused"}},
		{name: "plain", give: get("http://api.example.com:443/v1/x"), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Target: "http://api.example.com:443/v1/x", Code: "refused"}},
		{name: "network the host does not know", give: get(v1), caps: only(func(h *call.HTTP) { h.Networks = []string{"office"} }), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Target: v1, Code: "refused"}},
		{name: "network the address is not in", give: get(v1), caps: only(func(h *call.HTTP) { h.Networks = []string{"public"} }), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Within: within, Target: v1, Code: "refused"}},
		{name: "network of another entry", give: get(v1), caps: call.Caps{HTTP: []call.HTTP{
			entry(func(h *call.HTTP) { h.Networks = []string{"public"} }), entry(func(h *call.HTTP) { h.Methods = []string{"PUT"} }),
		}}, err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Within: within, Target: v1, Code: "refused"}},
		{name: "secret", give: hostfx.Request{Method: "GET", URL: v1, Secret: "token"}, err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.get", Target: v1, Code: "refused"}},
		{name: "tunnel", give: method("CONNECT"), caps: only(func(h *call.HTTP) { h.Methods = []string{"CONNECT"} }), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.other", Target: v1, Code: "refused"}},
		{name: "echo", give: method("TRACE"), caps: only(func(h *call.HTTP) { h.Methods = []string{"TRACE"} }), err: hostfx.ErrNotGranted, want: call.Effect{Kind: "http.other", Target: v1, Code: "refused"}},
		{name: "lower case method", give: method("get"), err: hostfx.ErrBadRequest, want: call.Effect{Kind: "http.other", Target: v1, Code: "refused"}},
		{name: "no method", give: method(""), err: hostfx.ErrBadRequest, want: call.Effect{Kind: "http.other", Target: v1, Code: "refused"}},
		{name: "two lines of method", give: method("GET / HTTP/1.1\r\nX: y\r\n"), err: hostfx.ErrBadRequest, want: call.Effect{Kind: "http.other", Target: v1, Code: "refused"}},
	}
	w := newWeb(t, hello)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if cmp.Equal(tt.caps, call.Caps{}) {
				tt.caps = only()
			}
			before := len(w.requests())
			fx := w.open(t, tt.caps)
			a, err := fx.HTTP(t.Context(), tt.give)
			if !errors.Is(err, tt.err) || (a == nil) != (tt.err != nil) {
				t.Fatalf("HTTP() = %v, %v, want %v", a, err, tt.err)
			}
			if tt.err == nil && (a.Status != 200 || string(a.Body) != "hello" || a.Header.Get("Content-Length") != "5") {
				t.Errorf("answer = %+v", a)
			}
			if seen := len(w.requests()) - before; seen != 1 && tt.err == nil || seen != 0 && tt.err != nil {
				t.Errorf("the server was asked %d times", seen)
			}
			if d := cmp.Diff([]call.Effect{tt.want}, happened(t, fx.Close())); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
		})
	}
}

// What the server gets is the tool's request and nothing of the host's.
func TestHTTPSends(t *testing.T) {
	var body []byte
	w := newWeb(t, func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) })
	fx := w.open(t, only())
	_, err := fx.HTTP(t.Context(), hostfx.Request{
		Method: "POST", URL: v1 + "?a=%26&b", Header: http.Header{"X-One": {"1", "2"}, "content-type": {"text/plain"}}, Body: []byte("abc"),
	})
	must(t, err)
	r := w.requests()[0]
	want := http.Header{
		"X-One": {"1", "2"}, "Content-Type": {"text/plain"}, "User-Agent": {"callgate"}, "Accept-Encoding": {"identity"},
		"Content-Length": {"3"}, "Connection": {"close"},
	}
	if d := cmp.Diff(want, r.Header); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
	if r.Method != "POST" || r.RequestURI != "/v1/x?a=%26&b" || r.Host != api || string(body) != "abc" || r.TLS.ServerName != api {
		t.Errorf("the server got %s %s of %s with %q over TLS for %s", r.Method, r.RequestURI, r.Host, body, r.TLS.ServerName)
	}
}

// It is refused, and nothing of it is recorded but that.
func TestHTTPUnparsableURL(t *testing.T) {
	fx := newWeb(t, hello).open(t, only())
	urls := []string{"", "/v1", "https://127.0.0.1/v1", "https://user:canary@api.example.com/v1", "https://api.example.com/v1/%2e%2e/x", "file:///etc/passwd", strings.Repeat("a", 1<<20)}
	for _, u := range urls {
		_, err := fx.HTTP(t.Context(), get(u))
		if call.CodeOf(err, "") != call.CodeFactsUnparsable || strings.Contains(err.Error(), "canary") {
			t.Errorf("HTTP(%.60q) = %v, want %s", u, err, call.CodeFactsUnparsable)
		}
	}
	want := slices.Repeat([]call.Effect{{Kind: "http.get", Code: "refused"}}, len(urls))
	if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestHTTPNilHost(t *testing.T) {
	fx, err := (*hostfx.Host)(nil).Open(t.Context(), mint(t, only(func(h *call.HTTP) { h.Networks = []string{"public"} })))
	must(t, err)
	if _, err := fx.HTTP(t.Context(), get(v1)); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("HTTP() = %v, want %v", err, hostfx.ErrNotGranted)
	}
	fx.Close()
}

func TestRedirectIsNotFollowed(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		status := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("status"), &status)
		w.Header().Set("Location", "https://"+api+"/v1/elsewhere")
		if status == 307 {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
		}
		w.WriteHeader(status)
	})
	for status, want := range map[int]error{301: hostfx.ErrRedirect, 302: hostfx.ErrRedirect, 303: hostfx.ErrRedirect, 307: hostfx.ErrRedirect, 308: hostfx.ErrRedirect, 300: nil, 304: nil, 404: nil} {
		fx, before := w.open(t, only()), len(w.requests())
		a, err := fx.HTTP(t.Context(), get(fmt.Sprintf("%s?status=%d", v1, status)))
		if !errors.Is(err, want) || (a == nil) != (want != nil) {
			t.Errorf("%d: %v, %v, want %v", status, a, err, want)
		}
		if seen := len(w.requests()) - before; seen != 1 {
			t.Errorf("%d: %d requests", status, seen)
		}
		if got := fx.Close(); (got[0].Code == "redirect") != (want != nil) || len(got) != 1 {
			t.Errorf("%d: effects = %v", status, got)
		}
	}
}

// What the grant leaves open is 2,000,000 bytes in each direction.
func TestHTTPByteCapUnstated(t *testing.T) {
	const most = 2_000_000
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
			_, _ = w.Write(make([]byte, n))
		}
	})
	for n, want := range map[int]error{most: nil, most + 1: hostfx.ErrTooLarge} {
		a, err := w.open(t, only()).HTTP(t.Context(), get(fmt.Sprintf("%s?n=%d", v1, n)))
		if !errors.Is(err, want) || (a == nil) != (want != nil) || a != nil && len(a.Body) != n {
			t.Errorf("an answer of %d bytes: %v, want %v", n, err, want)
		}
		_, err = w.open(t, only()).HTTP(t.Context(), hostfx.Request{Method: "POST", URL: v1, Body: make([]byte, n)})
		if !errors.Is(err, want) {
			t.Errorf("a body of %d bytes: %v, want %v", n, err, want)
		}
	}
}

func TestHTTPByteCap(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		n := 60_000
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/v1/none":
			n = 0
		case "/v1/cut":
			w.Header().Set("Content-Length", "90000")
			n = 10
		case "/v1/more":
			w.Header().Set("Content-Length", "100001")
			n = 0
		case "/v1/chunked":
			w.(http.Flusher).Flush()
		case "/v1/endless":
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}
		_, _ = w.Write(make([]byte, n))
	})
	const site = "https://" + api + "/v1/"
	caps := only(func(h *call.HTTP) { h.Methods = append(h.Methods, "HEAD") })
	caps.Bounds.HTTPBytes = 100_000
	for _, path := range []string{"plain", "chunked"} {
		t.Run(path, func(t *testing.T) {
			fx := w.open(t, caps)
			if a, err := fx.HTTP(t.Context(), get(site+path)); err != nil || len(a.Body) != 60_000 {
				t.Fatal(err)
			}
			if a, err := fx.HTTP(t.Context(), get(site+path)); !errors.Is(err, hostfx.ErrTooLarge) || a != nil {
				t.Errorf("second answer: %v, %v, want %v", a, err, hostfx.ErrTooLarge)
			}
			if got := fx.Close(); got[0].Code != "ok" || got[1].Code != "over_cap" {
				t.Errorf("effects = %v", got)
			}
		})
	}
	t.Run("endless", func(t *testing.T) {
		fx := w.open(t, caps)
		if a, err := fx.HTTP(t.Context(), get(site+"endless")); !errors.Is(err, hostfx.ErrTooLarge) || a != nil {
			t.Errorf("endless answer: %v, %v, want %v", a, err, hostfx.ErrTooLarge)
		}
		if got := fx.Close()[0]; got.BytesIn > 150_000 {
			t.Errorf("%d bytes were read", got.BytesIn)
		}
	})
	t.Run("sent", func(t *testing.T) {
		fx, before := w.open(t, caps), len(w.requests())
		body := hostfx.Request{Method: "POST", URL: site + "none", Body: make([]byte, 60_000)}
		if _, err := fx.HTTP(t.Context(), body); err != nil {
			t.Fatal(err)
		}
		if _, err := fx.HTTP(t.Context(), body); !errors.Is(err, hostfx.ErrTooLarge) {
			t.Errorf("second body: %v, want %v", err, hostfx.ErrTooLarge)
		}
		if n := len(w.requests()) - before; n != 1 {
			t.Errorf("%d requests were sent", n)
		}
	})
	t.Run("HEAD announces and sends nothing", func(t *testing.T) {
		fx := w.open(t, caps)
		for range 3 {
			if a, err := fx.HTTP(t.Context(), hostfx.Request{Method: "HEAD", URL: site + "more"}); err != nil || len(a.Body) != 0 {
				t.Fatal(err)
			}
		}
	})
	t.Run("what was announced and did not come", func(t *testing.T) {
		fx := w.open(t, caps)
		if _, err := fx.HTTP(t.Context(), get(site+"cut")); !errors.Is(err, hostfx.ErrNoAnswer) {
			t.Errorf("HTTP() = %v, want %v", err, hostfx.ErrNoAnswer)
		}
		if _, err := fx.HTTP(t.Context(), get(site+"plain")); err != nil {
			t.Errorf("it counts all the same: %v", err)
		}
	})
	t.Run("together", func(t *testing.T) {
		for _, path := range []string{"plain", "chunked"} {
			fx := w.open(t, caps)
			var wg sync.WaitGroup
			got := make([]int, 6)
			for i := range got {
				wg.Go(func() {
					if a, err := fx.HTTP(t.Context(), get(site+path)); err == nil {
						got[i] = len(a.Body)
					} else if !errors.Is(err, hostfx.ErrTooLarge) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			sum := 0
			for _, n := range got {
				sum += n
			}
			if sum > 100_000 || path == "plain" && sum != 60_000 {
				t.Errorf("%s: %d bytes arrived together", path, sum)
			}
		}
	})
}

func TestHTTPCallsBound(t *testing.T) {
	w := newWeb(t, hello)
	caps := only()
	caps.Bounds.Calls = 2
	fx := w.open(t, caps)
	_, _ = fx.HTTP(t.Context(), get("https://"+api+"/v2")) // refused, and costs nothing
	for range 2 {
		_, err := fx.HTTP(t.Context(), get(v1))
		must(t, err)
	}
	if _, err := fx.HTTP(t.Context(), get(v1)); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("third request = %v, want %v", err, hostfx.ErrNotGranted)
	}
	if n := len(w.requests()); n != 2 {
		t.Errorf("%d requests were sent", n)
	}
	if e := fx.Close(); e[3].Code != "refused" {
		t.Errorf("effects = %v", e)
	}
}

// hang answers with headers and then says nothing until the client is gone.
func hang(arrived chan<- struct{}, gone chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}
}

func TestCloseEndsRequests(t *testing.T) {
	arrived, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	fx := newWeb(t, hang(arrived, gone)).open(t, only())
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { _, err = fx.HTTP(context.Background(), get(v1)) })
	<-arrived
	want := []call.Effect{{Kind: "http.get", Within: api + ":443", Target: v1, Code: "error"}}
	if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	wg.Wait()
	<-gone
	if !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("HTTP() = %v, want %v", err, hostfx.ErrClosed)
	}
	if _, err := fx.HTTP(t.Context(), get(v1)); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, hostfx.ErrClosed)
	}
}

func TestHTTPAfterTheGrantDied(t *testing.T) {
	w := newWeb(t, hello)
	fx := w.open(t, only())
	granttest.Kill(fx.Grant())
	if _, err := fx.HTTP(t.Context(), get(v1)); !errors.Is(err, hostfx.ErrClosed) || len(w.requests()) != 0 {
		t.Errorf("HTTP() = %v, want %v", err, hostfx.ErrClosed)
	}
	if d := cmp.Diff([]call.Effect{}, happened(t, fx.Close()), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

// One deadline with the call, whatever the tool passes and however slowly the
// server drips.
func TestRequestsEndWithTheCall(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
				_, _ = io.WriteString(w, "x")
				w.(http.Flusher).Flush()
			}
		}
	})
	t.Run("grant", func(t *testing.T) {
		caps := only()
		caps.Bounds.TimeoutMS = 100
		fx := w.open(t, caps)
		if _, err := fx.HTTP(context.Background(), get(v1)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, hostfx.ErrNoAnswer) {
			t.Errorf("HTTP() = %v, want %v", err, context.DeadlineExceeded)
		}
	})
	t.Run("caller", func(t *testing.T) {
		h, err := hostfx.New(w.opts)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		fx, err := h.Open(ctx, mint(t, only()))
		must(t, err)
		defer fx.Close()
		if _, err := fx.HTTP(context.Background(), get(v1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("HTTP() = %v, want %v", err, context.DeadlineExceeded)
		}
	})
	t.Run("tool", func(t *testing.T) {
		fx := w.open(t, only())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := fx.HTTP(ctx, get(v1)); !errors.Is(err, context.Canceled) || !errors.Is(err, hostfx.ErrNoAnswer) {
			t.Errorf("HTTP() = %v, want %v", err, context.Canceled)
		}
	})
	t.Run("a time that does not fit", func(t *testing.T) {
		caps := only()
		caps.Bounds.TimeoutMS = 1e13 // its nanoseconds are negative
		fx := newWeb(t, hello).open(t, caps)
		if _, err := fx.HTTP(t.Context(), get(v1)); err != nil {
			t.Error(err)
		}
	})
}

// A server that answers before it has read all leaves nothing of the body in use.
func TestEarlyAnswer(t *testing.T) {
	fx := newWeb(t, hello).open(t, only())
	body := bytes.Repeat([]byte("a"), 1_500_000)
	_, err := fx.HTTP(t.Context(), hostfx.Request{Method: "POST", URL: v1, Body: body})
	if err != nil && !errors.Is(err, hostfx.ErrNoAnswer) {
		t.Errorf("HTTP() = %v", err)
	}
	clear(body) // under -race
	first := fx.Close()
	if d := cmp.Diff(first, fx.Close()); d != "" {
		t.Errorf("effects changed after Close:\n%s", d)
	}
}
