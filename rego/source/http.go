package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// longPollType is the type by which a server says that it holds requests until
// there is something newer, as OPA's documentation of bundles has it.
const longPollType = "application/vnd.openpolicyagent.bundles"

// HTTP is a bundle at a URL, served as OPA expects it: with an ETag, and 304 for
// a request that has it; long polling if the server can.
type HTTP struct {
	URL    string
	Access Access
}

type httpSource struct {
	HTTP
	url    *url.URL
	client *client
	cut    atomic.Bool // the last request was to be held, and failed
}

// NewHTTP makes the source.
func NewHTTP(h HTTP) (Source, error) {
	u, err := url.Parse(h.URL)
	if err != nil {
		return nil, errors.New("the bundle's URL is none") // the error would quote it
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("the bundle's URL is not https://HOST/PATH")
	}
	s := &httpSource{HTTP: h, url: u}
	if u.User != nil {
		return nil, fmt.Errorf("%s: a credential in a URL ends up in logs; give it as a secret", s)
	}
	if err := h.Access.check(u.Host, u.Scheme == "http"); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	if s.client, err = h.Access.client(u, sameHost); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return s, nil
}

// String leaves the query out: some hold a credential.
func (s *httpSource) String() string { return Redacted(s.URL) }

// Hold is how long a fetch may take when all is well.
func (s *httpSource) Hold() time.Duration { return s.Access.Wait }

func (s *httpSource) hangUp() { s.client.hangUp() }

// Fetch implements [Source]. After a request that was to be held and failed, the next
// is not to be: where something between ends such requests, what decides is known to be
// the newest all the same.
func (s *httpSource) Fetch(ctx context.Context, last string) (*Snapshot, error) {
	hold := s.Access.Wait
	if last == "" || s.cut.Load() {
		hold = 0
	}
	ctx, cancel := context.WithTimeout(ctx, s.Access.timeout()+hold)
	defer cancel()
	snap, err := s.fetch(ctx, last, hold)
	failed := err != nil && !errors.Is(err, ErrUnchanged)
	s.cut.Store(failed && hold > 0)
	if failed {
		err = s.client.failed(err)
	}
	return snap, err
}

func (s *httpSource) fetch(ctx context.Context, last string, hold time.Duration) (*Snapshot, error) {
	s.client.after.Store(0)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, bare(err)
	}
	if err := s.client.renew(); err != nil {
		return nil, err
	}
	secret, err := s.Access.Secret.read()
	switch {
	case err != nil:
		return nil, err
	case s.Access.User != "":
		req.SetBasicAuth(s.Access.User, secret)
	case secret != "":
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	// No delta: a patch is not signed.
	prefer := "modes=snapshot"
	if last != "" {
		req.Header.Set("If-None-Match", last)
	}
	if hold > 0 {
		prefer += ";wait=" + strconv.Itoa(int(hold/time.Second))
	}
	req.Header.Set("Prefer", prefer)
	resp, err := s.client.http.Do(req)
	if err != nil {
		return nil, bare(s.Access.refused(err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && last != "":
		return nil, ErrUnchanged
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case resp.ContentLength > MaxBytes:
		return nil, errTooLarge
	}
	b, err := readAll(resp.Body)
	if err != nil {
		return nil, err
	}
	snap := newSnapshot(b, etag(resp.Header.Get("ETag")))
	snap.Wait = s.Access.Wait > 0 && snap.Version != "" && resp.Header.Get("Content-Type") == longPollType
	return snap, nil
}

// etag is the server's word for the version if it can be sent back (RFC 9110,
// section 8.8.3), else "".
func etag(s string) string {
	opaque := strings.TrimPrefix(s, "W/")
	if len(s) > 1024 || len(opaque) < 2 || opaque[0] != '"' || strings.IndexByte(opaque[1:], '"') != len(opaque)-2 {
		return ""
	}
	return s
}
