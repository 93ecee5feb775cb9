package hostfx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// connectTime is how long one attempt to connect may take, so that an address
// that swallows packets leaves time for the next.
const connectTime = 10 * time.Second

// Why there is no answer. The causes are not wrapped: they quote addresses, and
// what servers sent.
var (
	errResolve     = fmt.Errorf("%w: cannot resolve the host", ErrNoAnswer)
	errConnect     = fmt.Errorf("%w: cannot connect", ErrNoAnswer)
	errCertificate = fmt.Errorf("%w: the server's certificate is not trusted for this host", ErrNoAnswer)
	errTLS         = fmt.Errorf("%w: no TLS 1.2 or later with the server", ErrNoAnswer)
	errBroken      = fmt.Errorf("%w: the connection broke, or the answer is malformed", ErrNoAnswer)
	errTimedOut    = fmt.Errorf("%w: %w", ErrNoAnswer, context.DeadlineExceeded)
	errCancelled   = fmt.Errorf("%w: %w", ErrNoAnswer, context.Canceled)
)

// wire is the one connection of one request. Nothing of it is left after end.
type wire struct {
	fx       *Effects
	url      call.URL
	networks []string

	// The request's own: the context that the transport dials with outlives the
	// request, in the hope that another one can use the connection.
	ctx    context.Context
	asked  context.Context // the tool's
	cancel context.CancelFunc

	refused atomic.Bool // an address was not granted

	busy sync.WaitGroup // dialling; added to with mu held
	mu   sync.Mutex     // protects the fields below
	used bool           // it dialled, or is over
	err  error          // why dialling failed
	conn net.Conn       // without TLS
	addr string         // that was dialled
	done bool           // addr is that of a connection
}

// bare is a context without its values: with them, whoever traces requests in a
// context that the call came with would be shown the connection and the credential.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

// newWire must be called with life held, and the wire ended before it is let go.
func newWire(ctx context.Context, fx *Effects, u call.URL, networks []string) *wire {
	w := &wire{fx: fx, url: u, networks: networks, asked: ctx}
	both, cancel := context.WithCancel(bare{ctx})
	stop := context.AfterFunc(fx.ctx, cancel)
	w.ctx, w.cancel = both, func() { stop(); cancel() }
	return w
}

func (w *wire) end() {
	w.mu.Lock()
	w.used = true
	w.mu.Unlock()
	w.cancel()
	w.busy.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.conn.Close()
	}
}

// up reports whether there was a connection to send on.
func (w *wire) up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn != nil && w.err == nil
}

// to is the address that was dialled, "" for none.
func (w *wire) to() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.addr
}

// dialled says to where a connection is tried, or with done was made. The dialler may
// be about to try another one still when it has one.
func (w *wire) dialled(address string, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.addr, w.done = address, done
	}
}

// why says why there is no answer.
func (w *wire) why() error {
	switch {
	case w.refused.Load():
		return ErrNotGranted
	case errors.Is(w.fx.ctx.Err(), context.DeadlineExceeded), errors.Is(w.asked.Err(), context.DeadlineExceeded):
		return errTimedOut
	case w.fx.ctx.Err() != nil:
		return ErrClosed
	case w.asked.Err() != nil:
		return errCancelled
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return errBroken
}

func (w *wire) transport() *http.Transport {
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetHTTP2(true)     // as the server likes, by ALPN; without TLS there is HTTP/1.1 alone
	return &http.Transport{ // without Proxy, so there is none
		DialContext:            w.dial,
		DialTLSContext:         w.dial,
		DisableKeepAlives:      true, // an address is checked for one request
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHeader,
		Protocols:              both,
	}
}

// dial connects once, and does the TLS of https.
func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	w.mu.Lock()
	if w.used {
		w.mu.Unlock()
		return nil, errBroken
	}
	w.used = true
	w.busy.Add(1)
	w.mu.Unlock()
	defer w.busy.Done()

	raw, err := w.connect()
	conn := raw
	if err == nil {
		// TLS would say goodbye first, to a peer that may not be listening.
		context.AfterFunc(w.ctx, func() { raw.Close() })
		if w.url.Scheme == "https" {
			conn, err = w.secure(raw)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn, w.err = raw, err
	return conn, err
}

func (w *wire) connect() (net.Conn, error) {
	h := w.fx.host
	d := net.Dialer{Timeout: connectTime, Resolver: h.resolver, Control: w.control} // never ControlContext, which would replace Control
	port := strconv.Itoa(w.url.Port)
	// The dot keeps the resolver from trying the name below its search domains.
	to := []string{net.JoinHostPort(w.url.Host+".", port)}
	if fixed := h.names[w.url.Host]; fixed != nil {
		to = nil
		for _, a := range fixed {
			if a.Port() == 0 {
				a = netip.AddrPortFrom(a.Addr(), uint16(w.url.Port))
			}
			to = append(to, a.String())
		}
	}
	var conn net.Conn
	var err error
	for _, address := range to {
		if conn, err = d.DialContext(w.ctx, "tcp", address); err == nil || w.refused.Load() {
			break
		}
	}
	if err == nil {
		w.dialled(conn.RemoteAddr().String(), true)
	}
	// A name that has one address which is not granted is not to be trusted with
	// its others.
	if w.refused.Load() {
		if err == nil {
			conn.Close()
		}
		return nil, ErrNotGranted
	}
	return conn, dialFault(err)
}

func dialFault(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return errTimedOut
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errResolve
	}
	return errConnect
}

// control is asked about each address before a connection to it is attempted.
func (w *wire) control(network, address string, _ syscall.RawConn) error {
	if !w.fx.host.reaches(w.networks, w.url.Scheme != "https", network, address) {
		w.refused.Store(true)
		return ErrNotGranted
	}
	w.dialled(address, false)
	return nil
}

func (w *wire) secure(raw net.Conn) (net.Conn, error) {
	conn := tls.Client(raw, &tls.Config{
		ServerName: w.url.Host,
		RootCAs:    w.fx.host.trust,
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
	})
	err := conn.HandshakeContext(w.ctx)
	if err == nil {
		return conn, nil
	}
	raw.Close()
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return nil, errCertificate
	}
	return nil, errTLS
}
