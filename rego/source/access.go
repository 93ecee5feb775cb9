package source

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// fetchTimeout is how long one fetch takes at most by default, beside the time that
// a server is asked to wait.
const fetchTimeout = time.Minute

// maxWait is what servers and proxies between may be expected to hold a request.
const maxWait = 10 * time.Minute

// maxRedirects is how often one request is sent on.
const maxRedirects = 5

// Access is how a server is reached. The zero value reaches public ones.
type Access struct {
	// CA is a file of PEM certificates that are trusted in place of the system's.
	CA string

	// Secret is a bearer token or, with User, a password. It is read anew for every
	// fetch, so that it can be changed under way. The zero value is none.
	Secret Secret
	User   string

	// Plain permits http to other machines. It is never permitted with a Secret.
	Plain bool

	// Wait is how long a web server is asked to hold a request until there is
	// something newer, in whole seconds up to 10 minutes. Zero means not at all.
	// Registries cannot.
	Wait time.Duration

	// Timeout bounds one fetch, beside Wait. Zero means 1 minute.
	Timeout time.Duration
}

// Secret says where a credential is: in a file or in a variable of the environment.
type Secret struct {
	File string
	Env  string
}

func (s Secret) none() bool { return s == Secret{} }

// maxSecret is more than any token has.
const maxSecret = 64 << 10

// read gets the credential. No error quotes it.
func (s Secret) read() (string, error) {
	var text, from string
	switch {
	case s.none():
		return "", nil
	case s.File != "":
		from = s.File
		f, err := os.Open(s.File)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
		if err != nil {
			return "", err
		}
		text = string(b)
	default:
		from = "$" + s.Env
		text = os.Getenv(s.Env)
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("%s holds no credential", from)
	case len(text) > maxSecret || strings.ContainsFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e }):
		return "", fmt.Errorf("%s holds no credential, but something else", from)
	}
	return text, nil
}

// check says whether a host may be spoken to like this.
func (a Access) check(host string, plain bool) error {
	var errs []error
	if plain && !isLoopback(host) {
		switch {
		case !a.Secret.none():
			errs = append(errs, errors.New("a credential would go over the network in the clear; use TLS"))
		case !a.Plain:
			errs = append(errs, errors.New("plain http is only for this machine, unless it is permitted"))
		}
	}
	if a.Secret.File != "" && a.Secret.Env != "" {
		errs = append(errs, errors.New("the credential is in a file or in the environment, not in both"))
	}
	if a.User != "" && a.Secret.none() {
		errs = append(errs, errors.New("there is a user, and no password"))
	}
	if a.Timeout < 0 {
		errs = append(errs, errors.New("the timeout is negative"))
	}
	if a.Wait < 0 || a.Wait > maxWait || a.Wait%time.Second != 0 {
		errs = append(errs, fmt.Errorf("the time to wait is not whole seconds up to %v", maxWait))
	}
	return errors.Join(errs...)
}

func (a Access) timeout() time.Duration {
	if a.Timeout == 0 {
		return fetchTimeout
	}
	return a.Timeout
}

// client makes the HTTP client of one source. Whoever asks bounds the time.
func (a Access) client(redirect func(*http.Request, []*http.Request) error) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		b, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s holds no certificate", a.CA)
		}
	}
	return &http.Client{
		CheckRedirect: redirect,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSClientConfig:        conf,
			TLSHandshakeTimeout:    10 * time.Second,
			IdleConnTimeout:        2 * time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
			// An archive is gzip already, and servers say so in several ways.
			DisableCompression: true,
		},
	}, nil
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
