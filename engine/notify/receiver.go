package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
)

// maxAnswer is how much of an answer is read, in bytes; nothing of it is looked at.
const maxAnswer = 4096

// What keeps a message from being delivered. None of them quotes what servers sent,
// URLs or secrets.
var (
	errFinal   = errors.New("the receiver wants no more of it")
	errOver    = errors.New("nobody has to answer any more")
	errNoTime  = errors.New("the process ends")
	errSecret  = errors.New("the secret is not one to four times whsec_ and base64 of 24 to 64 bytes")
	errNoWord  = errors.New("no secret can be read")
	errPlain   = errors.New("plain http to an address that is not this machine's")
	errTimeout = errors.New("no answer in time")
	errResolve = errors.New("cannot resolve the host")
	errTLS     = errors.New("no trusted certificate, or no TLS 1.2 or later")
	errConnect = errors.New("cannot connect, or the connection broke")
)

// receiver is a hook that messages can be sent to.
type receiver struct {
	Hook
	url    string
	client *http.Client

	waiting chan struct{} // one for each message that is not done
	slots   chan struct{} // one for each request under way
}

func newReceiver(h Hook, roots *x509.CertPool) (*receiver, error) {
	u, err := url.Parse(h.URL)
	switch {
	case h.Name == "" || len(h.Name) > 256:
		return nil, errors.New("it has no name, or one of more than 256 bytes")
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("its URL is not https://HOST/PATH") // err would quote it
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("its URL has a user or a fragment")
	case u.Scheme == "http" && !loopbackName(u.Hostname()):
		return nil, errors.New("its URL is plain http, and not to this machine")
	case h.Secret == nil:
		return nil, errors.New("it has no secret")
	}
	r := &receiver{Hook: h, url: u.String(), waiting: make(chan struct{}, maxWaiting), slots: make(chan struct{}, atOnce)}
	d := net.Dialer{Timeout: attemptTime}
	if u.Scheme == "http" {
		d.Control = onlyLoopback // whatever the name leads to by then
	}
	r.client = &http.Client{
		// Without Proxy, so that of the environment is not used either.
		Transport: &http.Transport{
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r, nil
}

// usable says whether the secret can sign, as it is now. The cause says where the secret
// was looked for.
func (r *receiver) usable() error {
	secret, err := r.Secret()
	if err != nil {
		return &call.Error{Code: call.CodeSecretUnavailable, Detail: errNoWord.Error(), Err: err}
	}
	if _, err := sign(secret, "", "", nil); err != nil {
		return &call.Error{Code: call.CodeSecretUnavailable, Detail: err.Error()}
	}
	return nil
}

func loopbackName(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
		return errPlain
	}
	return nil
}

// send makes one attempt; nil says that it was delivered.
func (r *receiver) send(ctx context.Context, m *message, now time.Time) error {
	secret, err := r.Secret()
	if err != nil {
		return errNoWord // the cause may quote where it is
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signature, err := sign(secret, m.id, timestamp, m.body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(m.body))
	if err != nil {
		return errFinal
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "callgate")
	req.Header.Set("Webhook-Id", m.id)
	req.Header.Set("Webhook-Timestamp", timestamp)
	req.Header.Set("Webhook-Signature", signature)
	resp, err := r.client.Do(req)
	if err != nil {
		return fault(ctx, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // the status says it all
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusGone:
		return errFinal
	}
	return fmt.Errorf("answered with status %d", resp.StatusCode)
}

// fault names what went wrong. The cause quotes the URL, and what servers sent.
func fault(ctx context.Context, err error) error {
	if errors.Is(err, errPlain) {
		return errPlain
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errResolve
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	if certificate || record || alert {
		return errTLS
	}
	if e, ok := errors.AsType[net.Error](err); ctx.Err() != nil || ok && e.Timeout() {
		return errTimeout
	}
	return errConnect
}

// sign is the value of webhook-signature: for each key v1, a comma and the base64 of
// HMAC-SHA256 over id.timestamp.body, as "Signature scheme" of the specification says.
func sign(secret, id, timestamp string, body []byte) (string, error) {
	words := strings.Fields(secret)
	if len(words) == 0 || len(words) > 4 {
		return "", errSecret
	}
	var out []string
	for _, w := range words {
		text, ok := strings.CutPrefix(w, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return "", errSecret
		}
		h := hmac.New(sha256.New, key)
		fmt.Fprintf(h, "%s.%s.", id, timestamp)
		h.Write(body)
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	return strings.Join(out, " "), nil
}

// payload is what receivers are told: enough to go and look, and no arguments.
func payload(a call.Approval, class string) ([]byte, error) {
	type rule struct {
		Layer string    `json:"layer,omitzero"`
		Name  string    `json:"name"`
		Count int       `json:"count"`
		From  call.From `json:"from"`
	}
	type tool struct {
		Name   string `json:"name"`
		Class  string `json:"class"`
		Digest string `json:"digest"`
	}
	type principal struct {
		ID     string `json:"id"`
		Kind   string `json:"kind"`
		Tenant string `json:"tenant,omitzero"`
	}
	type data struct {
		ID         string      `json:"id"`
		Tool       tool        `json:"tool"`
		Principal  principal   `json:"principal"`
		OnBehalfOf []principal `json:"on_behalf_of,omitzero"`
		Expires    time.Time   `json:"expires"`
		Rules      []rule      `json:"rules"`
	}
	who := func(p call.RecordPrincipal) principal { return principal{p.ID, p.Kind, p.Tenant} }
	d := data{ID: a.ID, Tool: tool{a.Tool.Name, class, a.Tool.Digest}, Principal: who(a.Requester), Expires: a.Expires}
	for _, p := range a.Requester.OnBehalfOf {
		d.OnBehalfOf = append(d.OnBehalfOf, who(p))
	}
	for _, r := range a.Rules {
		d.Rules = append(d.Rules, rule{r.Layer, r.Name, max(1, r.Count), r.From})
	}
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      data      `json:"data"`
	}{"approval.asked", a.Asked, d}, json.Deterministic(true))
}
