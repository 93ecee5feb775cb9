package hostfx_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// Whatever a tool asks for, the server sees only what the grant allows, and one
// request for each that went well.
func FuzzHTTP(f *testing.F) {
	for _, s := range []struct{ method, url, name, value, secret string }{
		{"GET", v1, "X-A", "b", ""}, {"POST", v1, "x-a", "b", "token"}, {"GET", v1 + "/../../v2", "", "", ""}, {"GET", v1 + "%2f..%2f..%2fv2", "Host", "evil", ""},
		{"GET /v2 HTTP/1.1\r\n\r\n", v1, "X-A\r\nX-B", "c\r\n\r\nGET /v2 HTTP/1.1", "token"}, {"get", "https://API.example.com:443/v1/x?a=b#c", "Transfer_Encoding", "chunked", ""},
		{"GET", "https://api.example.com@evil.com/v1", "Authorization", "Bearer mine", "token"}, {"GET", "http://api.example.com/v1", "Cookie", "a", "\x00"},
		{"PUT", "https://api.example.com/v1;/../v2", "X-HTTP-Method-Override", "DELETE", ""}, {"GET", "https://аpi.example.com/v1", "Content-Length", "5", ""},
	} {
		f.Add(s.method, s.url, s.name, s.value, s.secret)
	}
	w := newWeb(f, hello)
	w.secrets()
	h, err := hostfx.New(w.opts)
	must(f, err)
	caps := call.Caps{HTTP: []call.HTTP{entry(), entry(carrying("token", "bearer"), func(h *call.HTTP) { h.Methods = []string{"GET"} })}}
	f.Fuzz(func(t *testing.T, method, url, name, value, secret string) {
		before := len(w.requests())
		fx, err := h.Open(t.Context(), mint(t, caps))
		must(t, err)
		a, err := fx.HTTP(context.Background(), hostfx.Request{Method: method, URL: url, Header: http.Header{name: {value}}, Body: []byte(value), Secret: secret})
		seen := w.requests()[before:]
		if (a == nil) == (err == nil) || len(seen) > 1 || len(seen) == 0 && err == nil {
			t.Fatalf("answer %v, error %v, %d requests", a, err, len(seen))
		}
		for _, r := range seen {
			auth := map[string]string{"token": "Bearer " + credentials["token"].Value}[secret]
			switch {
			case r.Method != "GET" && (r.Method != "POST" || secret != ""), r.Method != method, r.Host != api && r.Host != api+":443":
				t.Errorf("%s of %s", r.Method, r.Host)
			case r.URL.Path != "/v1" && !strings.HasPrefix(r.URL.Path, "/v1/"), call.URLPathFault(r.URL.Path) != "":
				t.Errorf("path %s", r.RequestURI)
			case r.Header.Get("Authorization") != auth, len(r.TransferEncoding) > 0, r.ContentLength != int64(len(value)), r.Header.Get("Cookie") != "":
				t.Errorf("headers %v", r.Header)
			}
		}
		if e := fx.Close(); exposed(a, err, e) || len(e) > 1 || len(seen) > 0 && e[0].Within != api+":443" {
			t.Errorf("effects = %v", e)
		}
	})
}
