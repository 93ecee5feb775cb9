package token

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/callgate/callgate/engine/keyfile"
)

// How a set at a URL is followed.
const (
	// freshFor is how long a set is believed without another look, so how long it
	// takes at most until a key that was withdrawn is refused.
	freshFor = time.Minute

	// staleFor is how long it is believed when the look fails.
	staleFor = 10 * time.Minute

	// lookEvery is the least time between two looks, whatever tokens ask for.
	lookEvery = 5 * time.Second

	lookTimeout = 5 * time.Second
)

// FileKeys are those of a JSON Web Key Set in a file, which is read for every token,
// so that it can be replaced.
func FileKeys(name string) Keys { return fileKeys(name) }

type fileKeys string

// Key implements [Keys].
func (f fileKeys) Key(_ context.Context, kid string) (ed25519.PublicKey, error) {
	s, err := ReadSet(string(f))
	return s[kid], err
}

// ReadSet reads a JSON Web Key Set from a file. Whoever can write that file can write
// any grant.
//
// # Errors
//
// As those of [ParseSet]; a file that the group or others can write, or that belongs to
// somebody who is neither the user of this process nor root.
func ReadSet(name string) (Set, error) {
	b, err := keyfile.ReadTrusted(name, maxSetBytes)
	if err != nil {
		return nil, err
	}
	s, err := ParseSet(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// URLKeys are those of a JSON Web Key Set at a URL.
type URLKeys struct {
	URL string // https
	CA  []byte // PEM certificates that are trusted in place of the system's; nil for the system's

	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Keys looks at the URL when it is asked for the first time, for a key that it does
// not know, and every minute; never more often than every 5 seconds. When the
// server does not answer, the set that it gave before counts for 10 minutes.
func (u URLKeys) Keys() (Keys, error) {
	at, err := url.Parse(u.URL)
	if err != nil {
		return nil, errors.New("the URL of the set of keys is none") // the error would quote it
	}
	if at.Scheme != "https" || at.Host == "" || at.User != nil {
		return nil, errors.New("the URL of the set of keys is not https://HOST/PATH")
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if u.CA != nil {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(u.CA) {
			return nil, errors.New("no certificate of an authority for the set of keys")
		}
	}
	k := &urlKeys{url: at.String(), now: u.Now, client: &http.Client{
		// Elsewhere is not where the operator said that the keys are.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: lookTimeout}).DialContext,
			TLSClientConfig:        conf,
			TLSHandshakeTimeout:    lookTimeout,
			IdleConnTimeout:        2 * freshFor,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
	}}
	if k.now == nil {
		k.now = time.Now
	}
	return k, nil
}

type urlKeys struct {
	url    string
	client *http.Client
	now    func() time.Time

	looking sync.Mutex // one look at a time

	mu     sync.Mutex // protects the fields below
	set    Set
	got    time.Time // when set was
	looked time.Time // when somebody last tried
	err    error     // of that
}

// Key implements [Keys].
func (u *urlKeys) Key(ctx context.Context, kid string) (ed25519.PublicKey, error) {
	if key, err, done := u.known(kid, true); done {
		return key, err
	}
	u.looking.Lock()
	defer u.looking.Unlock()
	if key, err, done := u.known(kid, true); done { // somebody else looked meanwhile
		return key, err
	}
	// Whoever asks and goes away must not have the server asked again at once.
	set, err := u.look(context.WithoutCancel(ctx))
	u.mu.Lock()
	u.looked, u.err = u.now(), err
	if err == nil {
		u.set, u.got = set, u.looked
	}
	u.mu.Unlock()
	key, err, _ := u.known(kid, false)
	return key, err
}

// known answers from memory; not done when it is worth a look first.
func (u *urlKeys) known(kid string, mayLook bool) (_ ed25519.PublicKey, _ error, done bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	key := u.set[kid]
	if key != nil && within(u.got, now, freshFor) {
		return key, nil, true
	}
	if mayLook && !within(u.looked, now, lookEvery) {
		return nil, nil, false
	}
	switch {
	case key != nil && within(u.got, now, staleFor):
		return key, nil, true
	case u.err != nil:
		return nil, u.err, true
	case !within(u.got, now, staleFor):
		return nil, errors.New("the set of keys is too old"), true
	}
	return nil, nil, true
}

// within reports whether now is less than d after t; a clock that went back says
// that it is not.
func within(t, now time.Time, d time.Duration) bool {
	return !t.IsZero() && !now.Before(t) && now.Sub(t) < d
}

func (u *urlKeys) look(ctx context.Context) (Set, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url, nil)
	if err != nil {
		return nil, bare(err)
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return nil, bare(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server of the set of keys answers %d", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSetBytes+1))
	if err != nil {
		return nil, bare(err)
	}
	return ParseSet(b)
}

// bare is the error without the URL, whose query may be a credential.
func bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
