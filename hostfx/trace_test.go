package hostfx_test

import (
	"crypto/tls"
	"net/http/httptrace"
	"slices"
	"sync"
	"testing"

	"github.com/callgate/callgate/hostfx"
)

// Whoever traces the requests of a context, the caller's or the tool's, is shown
// neither the connection nor what goes over it.
func TestTracersSeeNothing(t *testing.T) {
	w := newWeb(t, hello)
	w.secrets()
	var mu sync.Mutex
	var seen []string
	see := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, what)
	}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn:              func(string) { see("GetConn") },
		GotConn:              func(httptrace.GotConnInfo) { see("GotConn") },
		GotFirstResponseByte: func() { see("GotFirstResponseByte") },
		DNSStart:             func(httptrace.DNSStartInfo) { see("DNSStart") },
		ConnectStart:         func(string, string) { see("ConnectStart") },
		ConnectDone:          func(string, string, error) { see("ConnectDone") },
		TLSHandshakeStart:    func() { see("TLSHandshakeStart") },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { see("TLSHandshakeDone") },
		WroteHeaderField:     func(name string, _ []string) { see(name) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { see("WroteRequest") },
	})
	h, err := hostfx.New(w.opts)
	must(t, err)
	fx, err := h.Open(ctx, mint(t, only(carrying("token", "bearer"))))
	must(t, err)
	defer fx.Close()
	_, err = fx.HTTP(ctx, named("token"))
	must(t, err)
	if len(seen) > 0 {
		t.Errorf("the tracer saw %v", slices.Compact(seen))
	}
}
