package hostfx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

// Limits of requests.
const maxAnswerHeader = 64 << 10

// Request is what a tool asks to be sent.
type Request struct {
	Method string // upper case; "" is malformed
	URL    string // absolute; https, or http where the grant says plain
	Header http.Header
	Body   []byte

	// Secret names the credential that the request is to carry; "" for none. The
	// host adds it, and the tool never sees it.
	Secret string
}

// Response is the whole answer. Its body is what the server sent, without any
// content coding being undone.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// HTTP sends one request, over a connection of its own, and returns the whole
// answer. It ends with ctx or with the call, whichever is first. It speaks HTTP/2 where
// the server does. No content coding is undone, so nothing grows on the way to the tool.
//
// The request must fall under one http entry of the grant for each thing that
// it is: host, port, path, method, and the secret that it names or the absence
// of one. The address that is dialled must be in a network of such an entry. The
// environment's proxy plays no part, nor do cookies; the credential is added
// last, in the form that the grant says. Before the first request that is not GET or
// HEAD, files on which the call depends are looked at, and each such request carries
// the entity tag on which it depends as If-Match. Of two forms for one secret, the one
// that the grant lists first is taken, with the networks of that form alone.
//
// Each request is an effect, with the host pattern and port as Within: http.get,
// http.head, http.post, http.put, http.patch, http.delete, http.options or http.other.
// One whose URL nobody can read is refused and has no Target. Its BytesOut are those of
// the body that was sent, whether or not the server read it, its BytesIn those of the
// body that came back, and its Address is that of the connection, or the last to which
// one was tried.
//
// # Errors
//
// [*call.Error] with [call.CodeFactsUnparsable] for a URL that [facts.ParseURL]
// refuses; [ErrNotGranted] also when the name leads to an address that is not
// granted, or the call has made as many requests as it may; [ErrBadRequest];
// [ErrTooLarge] when all bodies sent by the call, or all that it received, are
// more than its bound (2,000,000 bytes unless the grant says); [ErrRedirect];
// [ErrWithheld]; [ErrChanged]; and [ErrNoAnswer], which is also [context.DeadlineExceeded] or
// [context.Canceled] when that is why. Their texts hold nothing of the request,
// the answer or the addresses of a name.
func (fx *Effects) HTTP(ctx context.Context, r Request) (*Response, error) {
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return nil, err
	}
	u, text, err := facts.ParseURL(r.URL)
	if err != nil {
		fx.log.add(httpKind(r.Method), "", "", refused)
		return nil, err
	}
	x := &exchange{fx: fx, url: u, text: text}
	began := fx.now()
	a, err := x.do(ctx, r)
	e := fx.log.record(call.Effect{Kind: httpKind(r.Method), Within: x.within, Target: text, Address: x.address, Code: httpCode(err)})
	e.out.Add(x.sent)
	e.in.Add(x.received)
	e.lasted(fx.since(began))
	if err != nil {
		return nil, err
	}
	return a, nil
}

func httpKind(method string) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, method) {
		return "http." + strings.ToLower(method)
	}
	return "http.other"
}

func httpCode(err error) string {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, ErrNotGranted), errors.Is(err, ErrBadRequest):
		return refused
	case errors.Is(err, ErrRedirect):
		return redirect
	case errors.Is(err, ErrNoAnswer):
		return noAnswer
	case errors.Is(err, ErrWithheld):
		return withheld
	case errors.Is(err, ErrTooLarge):
		return overCap
	case errors.Is(err, ErrChanged):
		return changed
	}
	return failed
}

// exchange is one request and its answer.
type exchange struct {
	fx   *Effects
	url  call.URL
	text string // the URL, canonical

	within         string // what granted it
	address        string // that was dialled
	sent, received int64  // bytes of bodies
}

// do must be called with life held.
func (x *exchange) do(ctx context.Context, r Request) (*Response, error) {
	if !facts.IsMethod(r.Method) {
		return nil, fmt.Errorf("%w: malformed method", ErrBadRequest)
	}
	w, ok := x.fx.way(x.url, r.Method, r.Secret)
	if !ok {
		return nil, ErrNotGranted
	}
	x.within = w.within
	header, err := requestHeader(r.Header)
	if err != nil {
		return nil, err
	}
	if err := x.fx.conditional(r.Method, header); err != nil {
		return nil, err
	}
	if r.Secret != "" {
		if err := x.fx.secrets[r.Secret].attach(header, w.as); err != nil {
			return nil, err
		}
	}
	if !x.fx.budget.call() {
		return nil, fmt.Errorf("%w: no requests are left", ErrNotGranted)
	}
	if !x.fx.budget.send(int64(len(r.Body))) {
		return nil, ErrTooLarge
	}
	wire := newWire(ctx, x.fx, x.url, w.networks)
	defer wire.end()
	a, err := x.over(wire, r, header)
	// The server may not have read it, but whatever it had is in the record.
	if wire.end(); wire.up() {
		x.sent = int64(len(r.Body))
	}
	x.address = wire.to()
	return a, err
}

// over sends the request over the wire.
func (x *exchange) over(w *wire, r Request, header http.Header) (*Response, error) {
	// The transport may read the body after we returned, so the tool keeps its own.
	q, err := http.NewRequestWithContext(w.ctx, r.Method, x.text, bytes.NewReader(bytes.Clone(r.Body)))
	if err != nil || q.URL.String() != x.text || q.URL.Path != x.url.Path {
		return nil, fmt.Errorf("%w: the URL has two readings", ErrBadRequest)
	}
	q.Header = header
	a, err := w.transport().RoundTrip(q)
	if err != nil {
		return nil, w.why()
	}
	defer a.Body.Close()
	switch a.StatusCode {
	case 301, 302, 303, 307, 308:
		return nil, ErrRedirect
	}
	if a.StatusCode < 200 {
		return nil, fmt.Errorf("%w: the server left the protocol", ErrNoAnswer)
	}
	for name := range a.Header {
		if !httpguts.ValidHeaderFieldName(name) { // such names the search below would not see
			return nil, errBroken
		}
	}
	got, err := x.read(w, a, r.Method)
	if err != nil {
		return nil, err
	}
	if err := x.fx.exposes(a.Header, got); err != nil {
		return nil, err
	}
	return &Response{Status: a.StatusCode, Header: a.Header, Body: got}, nil
}

// read returns the whole body. What the server announces is reserved first, so
// that of two large answers one arrives.
func (x *exchange) read(w *wire, a *http.Response, method string) ([]byte, error) {
	reserved := max(a.ContentLength, 0)
	if method == http.MethodHead {
		reserved = 0
	}
	if !x.fx.budget.receive(reserved) {
		return nil, ErrTooLarge
	}
	defer func() { x.fx.budget.receive(-reserved) }()
	body, chunk := make([]byte, 0, min(reserved, 1<<20)), make([]byte, 32<<10)
	for {
		n, err := a.Body.Read(chunk)
		x.received += int64(n)
		covered := min(reserved, int64(n))
		reserved -= covered
		if !x.fx.budget.receive(int64(n) - covered) {
			return nil, ErrTooLarge
		}
		body = append(body, chunk[:n]...)
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, w.why()
		}
	}
}

// budget is what the requests of a call may still use together.
type budget struct {
	mu                    sync.Mutex // protects the fields below
	calls, sends, receipt int64
}

func (b *budget) call() bool           { return b.take(&b.calls, 1) }
func (b *budget) send(n int64) bool    { return b.take(&b.sends, n) }
func (b *budget) receive(n int64) bool { return b.take(&b.receipt, n) }

func (b *budget) take(left *int64, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > *left {
		return false
	}
	*left -= n
	return true
}
