package hostfx_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

const api = "api.example.com"

// authority signs certificates in tests.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a := &authority{key: key}
	a.cert = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, key)
	return a
}

func (a *authority) sign(t testing.TB, c *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	must(t, err)
	got, err := x509.ParseCertificate(der)
	must(t, err)
	return got
}

func (a *authority) leaf(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := a.sign(t, &x509.Certificate{DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, key)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// web is a TLS server on loopback that is api.example.com for its host, and
// remembers what it was asked.
type web struct {
	opts hostfx.Options
	at   netip.AddrPort
	ca   *authority
	conf *tls.Config // may be changed before the first request

	mu   sync.Mutex
	seen []*http.Request
}

func newWeb(t testing.TB, h http.HandlerFunc) *web {
	t.Helper()
	return newWebOf(t, h, "http/1.1")
}

// newWebOf is newWeb of a server that speaks these protocols, best first.
func newWebOf(t testing.TB, h http.HandlerFunc, protocols ...string) *web {
	t.Helper()
	w := &web{ca: newAuthority(t)}
	w.conf = &tls.Config{Certificates: []tls.Certificate{w.ca.leaf(t, api)}, NextProtos: protocols}
	s := httptest.NewUnstartedServer(w.remember(h))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true // where the handshake has chosen it
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.conf, nil }}
	s.StartTLS()
	t.Cleanup(s.Close)
	w.at = netip.MustParseAddrPort(s.Listener.Addr().String())
	w.opts = hostfx.Options{
		Networks: []hostfx.Network{{Name: "loopback", Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}},
		Names:    []hostfx.Name{{Host: api, Addresses: []netip.AddrPort{w.at}}},
		CA:       w.ca.pem(),
	}
	return w
}

func (w *web) remember(h http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen = append(w.seen, r.Clone(r.Context()))
		w.mu.Unlock()
		h(rw, r)
	}
}

// requests are what the server was asked so far.
func (w *web) requests() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// open opens a grant of the entries at a host that knows the server.
func (w *web) open(t testing.TB, caps call.Caps) *hostfx.Effects {
	t.Helper()
	h, err := hostfx.New(w.opts)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	fx, err := h.Open(t.Context(), mint(t, caps))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

// entry grants GET and POST below /v1 of the server.
func entry(change ...func(*call.HTTP)) call.HTTP {
	e := call.HTTP{
		Hosts: []string{api}, Ports: []int{443}, Methods: []string{"GET", "POST"}, Paths: []string{"/v1"}, Networks: []string{"loopback"},
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func only(change ...func(*call.HTTP)) call.Caps {
	return call.Caps{HTTP: []call.HTTP{entry(change...)}}
}

func get(url string) hostfx.Request { return hostfx.Request{Method: "GET", URL: url} }

func hello(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") }

const v1 = "https://" + api + "/v1/x"
