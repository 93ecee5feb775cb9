package source

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/engine/keyfile"
)

// maxRedirects is how often one request is sent on.
const maxRedirects = 5

// maxCA is more than all authorities of a system have, in bytes.
const maxCA = 8 << 20

// client asks on behalf of one source. It is the transport of its own HTTP client.
type client struct {
	http   *http.Client
	access Access
	home   string // host:port that the operator named
	plain  bool   // and it is without TLS
	roots  *x509.CertPool

	conns  conns
	own    atomic.Pointer[http.Transport] // to home
	others *http.Transport                // to where a registry sends us
	shown  atomic.Pointer[tls.Certificate]
	after  atomic.Int64 // what the last answer said of when to ask again, a time.Duration
}

// client makes the client of one source. Whoever asks bounds the time.
func (a Access) client(home *url.URL, redirect func(*http.Request, []*http.Request) error) (*client, error) {
	c := &client{access: a, home: canonical(home), plain: home.Scheme == "http"}
	if a.CA != "" {
		b, err := keyfile.ReadTrusted(a.CA, maxCA)
		if err != nil {
			return nil, err
		}
		c.roots = x509.NewCertPool()
		if !c.roots.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s holds no certificate", a.CA)
		}
	}
	c.others = c.transport(nil)
	c.own.Store(c.others)
	c.http = &http.Client{Transport: c, CheckRedirect: redirect}
	return c, c.renew()
}

// renew takes up what the files of the client certificate hold now. Connections that
// were made with another one are not used again.
func (c *client) renew() error {
	if c.access.ClientCert == "" {
		return nil
	}
	cert, err := c.access.certificate()
	if err != nil {
		return &credentialError{err}
	}
	if was := c.shown.Load(); was != nil && was.Leaf.Equal(cert.Leaf) {
		return nil
	}
	c.shown.Store(cert)
	c.own.Swap(c.transport(cert)).CloseIdleConnections()
	return nil
}

func (c *client) transport(cert *tls.Certificate) *http.Transport {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.roots}
	proxy := http.ProxyFromEnvironment
	if cert != nil {
		// Also where the server names other authorities: then it says what it misses.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		proxy = notThroughTLS(proxy)
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            c.conns.dial,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        2 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
		// A request that is held on a dead connection would else be waited for in full.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
		// An archive is gzip already, and servers say so in several ways.
		DisableCompression: true,
	}
}

// notThroughTLS refuses proxies that are themselves reached by TLS: they would be
// shown the client certificate.
func notThroughTLS(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(req *http.Request) (*url.URL, error) {
		u, err := proxy(req)
		if u != nil && u.Scheme == "https" {
			return nil, errors.New("the proxy would be shown the client certificate; use one that is reached by http://")
		}
		return u, err
	}
}

// RoundTrip implements [http.RoundTripper]. Only the host that the operator named is
// shown the certificate, and without TLS only this machine and that host are spoken to,
// if it was named so: a registry says where blobs and tokens are.
func (c *client) RoundTrip(req *http.Request) (*http.Response, error) {
	home := canonical(req.URL) == c.home
	if req.URL.Scheme != "https" && (!c.plain || !home && !isLoopback(req.URL.Host)) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errors.New("the server sends us to a host without TLS")
	}
	t := c.others
	if home {
		t = c.own.Load()
	}
	resp, err := t.RoundTrip(req)
	if err == nil {
		c.after.Store(int64(retryAfter(resp)))
	}
	return resp, err
}

// hangUp gives up the connections that are kept for the next request.
func (c *client) hangUp() { c.conns.close() }

// canonical is the host and port of a URL, as one name for all spellings.
func canonical(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// retryAfter is what a server that is busy says of when to ask again (RFC 9110,
// section 10.2.3); zero if it does not. A date is told by the server's own clock.
func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err1 := http.ParseTime(text)
	now, err2 := http.ParseTime(resp.Header.Get("Date"))
	if err1 != nil || err2 != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// later is a failure of a server that says when to ask again.
type later struct {
	error
	after time.Duration
}

func (e *later) Unwrap() error { return e.error }

// failed is the error of a fetch, with when to ask again.
func (c *client) failed(err error) error {
	if d := time.Duration(c.after.Load()); d > 0 {
		return &later{err, d}
	}
	return err
}

// sameHost follows redirects only to where the operator sent us: another host would
// get the credential, or see that we ask.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case req.URL.Scheme != first.Scheme || req.URL.Host != first.Host:
		return errors.New("the server sends us to another host")
	case len(via) > maxRedirects:
		return errors.New("the server sends us around")
	}
	return nil
}
