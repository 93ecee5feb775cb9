package sandbox_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

const (
	site   = "https://api.example.com"
	secret = "correct-horse-battery"
)

// online gives the world a server on loopback, known as api.example.com, and
// grants for it.
func online(t testing.TB, h http.Handler) *world {
	t.Helper()
	w := open(t, sandbox.Options{})
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	host, err := hostfx.New(hostfx.Options{
		Roots: []hostfx.Root{{Name: "docs", Path: filepath.Join(w.dir, "docs")}},
		Names: []hostfx.Name{
			{Host: "api.example.com", Addresses: []netip.AddrPort{at}},
			{Host: "inside.example.com", Addresses: []netip.AddrPort{at}},
		},
		Networks: []hostfx.Network{{Name: "loopback", Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}},
		CA:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Secrets:  func(string) (hostfx.Secret, error) { return hostfx.Secret{Value: secret}, nil },
	})
	must(t, err)
	t.Cleanup(func() { host.Close() })
	w.host = host
	entry := call.HTTP{Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET", "POST", "HEAD"}, Paths: []string{"/"}, Networks: []string{"loopback"}}
	inside, named := entry, entry
	inside.Hosts, inside.Networks = []string{"inside.example.com"}, []string{"public"}
	named.Secret = &call.Secret{Name: "notes", As: "bearer"}
	w.more = call.Caps{HTTP: []call.HTTP{entry, inside, named}, Log: true}
	return w
}

// handler answers in every way that matters to a guest.
func handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["Date"], w.Header()["Content-Type"], w.Header()["X-Two"] = nil, nil, []string{"a", "b\xff"}
		fmt.Fprintf(w, "%s %s %s %s %t", r.Method, r.URL.RequestURI(), body, r.Header.Get("X-One"), r.Header.Get("Authorization") == "Bearer "+secret)
	})
	m.HandleFunc("/v1/notes", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"noted":%s}`, body)
	})
	m.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		w.WriteHeader(410)
	})
	m.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, site+"/echo", http.StatusFound) })
	m.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", pokeMemory)) })
	m.HandleFunc("/huge", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 2_000_001)) })
	m.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	m.HandleFunc("/tell", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("Authorization")) })
	m.HandleFunc("/text", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "tab\t \"é\" bad\xff") })
	m.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x"+strings.Repeat("é", 40<<10)) })
	return m
}
