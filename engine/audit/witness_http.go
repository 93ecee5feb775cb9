package audit

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// httpWitness speaks to a witness as https://c2sp.org/tlog-witness says.
type httpWitness struct {
	identity
	url    string
	client *http.Client
}

// HTTPWitness is a witness at a URL, the submission prefix, which must be https, or
// http to this machine. No redirect is followed and no proxy used. Roots are the
// authorities that vouch for its server; nil means the system's.
func HTTPWitness(name, prefix, key string, roots *x509.CertPool) (Witness, error) {
	id, err := newIdentity(name, key)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(prefix)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("audit: witness %s: its url is not https://HOST/PATH", name) // err would quote it
	case u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return nil, fmt.Errorf("audit: witness %s: its url has a user, a query or a fragment", name)
	case u.Scheme == "http" && !loopbackName(u.Hostname()):
		return nil, fmt.Errorf("audit: witness %s: its url is plain http, and not to this machine", name)
	}
	d := net.Dialer{Timeout: witnessTime}
	if u.Scheme == "http" {
		d.Control = onlyLoopback // whatever the name leads to by then
	}
	return &httpWitness{id, strings.TrimSuffix(u.String(), "/") + "/add-checkpoint", &http.Client{
		// Without Proxy, so that of the environment is not used either. And without HTTP/2,
		// which goes on with a connection that has gone dead for as long as TCP does; of
		// HTTP/1.1, one that did not answer in time is not used again.
		Transport: &http.Transport{
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableCompression:     true,
			MaxIdleConns:           1,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Update asks the witness for a cosignature.
func (w *httpWitness) Update(ctx context.Context, old int64, checkpoint []byte, proof [][32]byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(request(old, checkpoint, proof)))
	if err != nil {
		return nil, fmt.Errorf("audit: witness: %w", err)
	}
	req.Header.Set("User-Agent", "callgate")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("audit: witness: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("audit: witness: %w", err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return answered(resp.StatusCode, kind, body)
}

func loopbackName(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
		return errors.New("plain http to another machine")
	}
	return nil
}
