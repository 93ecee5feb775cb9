package hostfx_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/callgate/callgate/hostfx"
)

func TestHeadersThatAreNotTheTools(t *testing.T) {
	bad := []http.Header{
		{"X-A": {"a\r\nX-B: c"}}, {"X-A": {"a\nb"}}, {"X-A": {"a\x00"}}, {"X-A": {"a\x7f"}}, {"X A": {"b"}}, {"": {"b"}}, {"X-A\r\nX-B": {"c"}},
		{"X:A": {"b"}}, {"Xé": {"b"}}, {"X-A": {strings.Repeat("a", 17<<10)}},
	}
	many := http.Header{}
	for i := range 65 {
		many.Set(fmt.Sprintf("X-%d", i), "a")
	}
	bad = append(bad, many)
	for _, name := range []string{
		"Host", "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Connection", "Proxy-Authorization", "Proxy", "Keep-Alive", "TE",
		"Trailer", "Upgrade", "Expect", "Cookie", "Authorization", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Sec-Fetch-Site",
		"X-Real-IP", "Via", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL", "HTTP2-Settings",
		"True-Client-IP", "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP",
		"Remote-User", "X-Remote-User", "X-Authenticated-User", "X-Forwarded", "X-Host",
		"X-Original-Host", "X-Auth-Request-Email", "X-Envoy-External-Address", "X-Amzn-Oidc-Data",
	} {
		bad = append(bad, http.Header{name: {"1"}}, http.Header{strings.ToLower(name): {"1"}})
		for _, other := range []string{"_", ".", "~", "!"} { // CGI makes one of them all
			bad = append(bad, http.Header{strings.ReplaceAll(name, "-", other): {"1"}})
		}
	}
	bad = append(bad, http.Header{strings.Repeat("a", 17<<10): {"b"}}) // names count
	w := newWeb(t, hello)
	for _, h := range bad {
		fx := w.open(t, only())
		r := get(v1)
		r.Header = h
		if _, err := fx.HTTP(t.Context(), r); !errors.Is(err, hostfx.ErrBadRequest) {
			t.Errorf("%.100q: %v, want %v", fmt.Sprint(h), err, hostfx.ErrBadRequest)
		}
		if e := fx.Close(); len(e) != 1 || e[0].Code != "refused" {
			t.Errorf("%.100q: effects = %v", fmt.Sprint(h), e)
		}
	}
	if n := len(w.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	r := get(v1)
	r.Header = http.Header{"User-Agent": {"mine"}, "accept-encoding": {"br"}, "Accept": {"text/plain, é"}, "X-Empty": {""}}
	if _, err := w.open(t, only()).HTTP(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	got := w.requests()[0].Header
	if got.Get("User-Agent") != "mine" || got.Get("Accept-Encoding") != "br" || got.Get("Accept") != "text/plain, é" || got["X-Empty"] == nil {
		t.Errorf("the server got %v", got)
	}
}
