package hostfx_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// dns is a resolver that asks a server in this process.
type dns struct {
	answer atomic.Value // []netip.Addr

	mu    sync.Mutex
	asked []string
	each  func(q dnsmessage.Question) []netip.Addr // if set, it says the answer
}

func newDNS(t testing.TB) (*dns, *net.Resolver) {
	t.Helper()
	d := &dns{}
	at, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { at.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := at.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			out, _ := d.reply(m).Pack()
			_, _ = at.WriteTo(out, from)
		}
	}()
	return d, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", at.LocalAddr().String())
	}}
}

func (d *dns) reply(m dnsmessage.Message) *dnsmessage.Message {
	q := m.Questions[0]
	d.mu.Lock()
	d.asked = append(d.asked, q.Name.String())
	each := d.each
	d.mu.Unlock()
	m.Response, m.Additionals = true, nil
	addrs, _ := d.answer.Load().([]netip.Addr)
	if each != nil {
		addrs = each(q)
	}
	if addrs == nil {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		if q.Type == dnsmessage.TypeA && a.Is4() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}, Body: &dnsmessage.AResource{A: a.As4()},
			})
		}
		if q.Type == dnsmessage.TypeAAAA && a.Is6() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}, Body: &dnsmessage.AAAAResource{AAAA: a.As16()},
			})
		}
	}
	return &m
}

// The name of a granted host leads to this machine, then to what clouds keep
// their keys at. Each is checked when it is dialled.
func TestRebinding(t *testing.T) {
	w := newWeb(t, hello)
	w.opts.Names = nil
	d, resolver := newDNS(t)
	h, err := hostfx.New(w.opts)
	must(t, err)
	hostfx.SetResolver(h, resolver)
	port := int(w.at.Port())
	url := fmt.Sprintf("https://%s:%d/v1/x", api, port)
	try := func(network string, to ...string) error {
		var addrs []netip.Addr
		for _, a := range to {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		d.answer.Store(addrs)
		fx, err := h.Open(t.Context(), mint(t, only(func(h *call.HTTP) { h.Ports, h.Networks = []int{port}, []string{network} })))
		must(t, err)
		_, err = fx.HTTP(t.Context(), get(url))
		e := fx.Close()[0]
		if (e.Code == "refused") != errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("effect %v for %v", e, err)
		}
		return err
	}
	if err := try("loopback", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	for _, to := range [][]string{{"169.254.169.254"}, {"10.0.0.1", "192.168.0.1"}, {"0.0.0.0"}} {
		if err := try("loopback", to...); !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("%v: %v, want %v", to, err, hostfx.ErrNotGranted)
		}
	}
	if err := try("public", "127.0.0.1"); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("public: %v, want %v", err, hostfx.ErrNotGranted)
	}
	if err := try("loopback"); !errors.Is(err, hostfx.ErrNoAnswer) || !strings.Contains(err.Error(), "cannot resolve") {
		t.Errorf("unknown name: %v", err)
	}
	if n := len(w.requests()); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range d.asked {
		if name != api+"." {
			t.Errorf("the resolver was asked for %s", name)
		}
	}
}

func TestFixedAddresses(t *testing.T) {
	w := newWeb(t, hello)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	closed := netip.MustParseAddrPort(free.Addr().String())
	free.Close()
	private := netip.MustParseAddrPort("10.1.2.3:443")
	mapped := netip.AddrPortFrom(netip.MustParseAddr("::ffff:127.0.0.1"), w.at.Port())
	tests := []struct {
		name    string
		to      []netip.AddrPort
		network string
		want    error
		dialled string // last
		asked   int
	}{
		{"granted", []netip.AddrPort{w.at}, "loopback", nil, w.at.String(), 1},
		{"IPv4 as IPv6", []netip.AddrPort{mapped}, "loopback", nil, w.at.String(), 1},
		{"IPv4 as IPv6 is not public", []netip.AddrPort{mapped}, "public", hostfx.ErrNotGranted, "", 0},
		{"second answers", []netip.AddrPort{closed, w.at}, "loopback", nil, w.at.String(), 1},
		{"none answers", []netip.AddrPort{closed}, "loopback", hostfx.ErrNoAnswer, closed.String(), 0},
		{"private", []netip.AddrPort{private}, "loopback", hostfx.ErrNotGranted, "", 0},
		{"private first", []netip.AddrPort{private, w.at}, "loopback", hostfx.ErrNotGranted, "", 0},
		{"private second", []netip.AddrPort{closed, private}, "loopback", hostfx.ErrNotGranted, closed.String(), 0},
		{"unspecified", []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), w.at.Port())}, "all", hostfx.ErrNotGranted, "", 0},
	}
	w.opts.Networks = append(w.opts.Networks, hostfx.Network{Name: "all", Ranges: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.opts.Names[0].Addresses = tt.to
			before := len(w.requests())
			fx := w.open(t, only(func(h *call.HTTP) { h.Networks = []string{tt.network} }))
			_, err := fx.HTTP(t.Context(), get(v1))
			if !errors.Is(err, tt.want) {
				t.Errorf("HTTP() = %v, want %v", err, tt.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "0123456789") {
				t.Errorf("%q quotes an address", err)
			}
			if n := len(w.requests()) - before; n != tt.asked {
				t.Errorf("the server was asked %d times", n)
			}
			if e := fx.Close()[0]; (e.Code == "refused") != (tt.want == hostfx.ErrNotGranted) || e.Address != tt.dialled {
				t.Errorf("effect = %v, want %s as its address", e, tt.dialled)
			}
		})
	}
}

func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	w := newWeb(t, hello)
	if _, err := w.open(t, only()).HTTP(t.Context(), get(v1)); err != nil || asked.Load() != 0 || len(w.requests()) != 1 {
		t.Errorf("HTTP() = %v, the proxy was asked %d times", err, asked.Load())
	}
}

func TestServerMustBeTheHost(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *web)
		want   string
	}{
		{"another authority", func(w *web) { w.conf.Certificates = []tls.Certificate{newAuthority(t).leaf(t, api)} }, "not trusted"},
		{"another name", func(w *web) { w.conf.Certificates = []tls.Certificate{w.ca.leaf(t, "other.example.com")} }, "not trusted"},
		{"only the system's", func(w *web) { w.opts.CA = nil }, "not trusted"},
		{"TLS 1.1", func(w *web) { w.conf.MinVersion, w.conf.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, "TLS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWeb(t, hello)
			tt.change(w)
			_, err := w.open(t, only()).HTTP(t.Context(), get(v1))
			if !errors.Is(err, hostfx.ErrNoAnswer) || !strings.Contains(err.Error(), tt.want) || len(w.requests()) != 0 {
				t.Errorf("HTTP() = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPlainStaysOnThisMachine(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); hello(w, r) }))
	defer s.Close()
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	w := newWeb(t, hello)
	w.opts.Networks = append(w.opts.Networks, hostfx.Network{Name: "office", Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	plain := only(func(h *call.HTTP) {
		h.Plain, h.Ports, h.Networks = true, []int{80, 443}, []string{"loopback", "office", "public"}
	})
	url := strings.Replace(v1, "https:", "http:", 1)
	for to, want := range map[netip.AddrPort]error{
		at: nil, netip.MustParseAddrPort("10.1.2.3:80"): hostfx.ErrNotGranted, netip.MustParseAddrPort("8.8.8.8:80"): hostfx.ErrNotGranted,
	} {
		w.opts.Names[0].Addresses = []netip.AddrPort{to}
		if _, err := w.open(t, plain).HTTP(t.Context(), get(url)); !errors.Is(err, want) {
			t.Errorf("to %s: %v, want %v", to, err, want)
		}
	}
	w.opts.Names[0].Addresses = []netip.AddrPort{w.at}
	if _, err := w.open(t, plain).HTTP(t.Context(), get(v1)); err != nil {
		t.Errorf("https under a plain entry: %v", err)
	}
	if asked.Load() != 1 {
		t.Errorf("the plain server was asked %d times", asked.Load())
	}
}

func TestHostileAnswers(t *testing.T) {
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				conn.Close()
			}
		}
	}
	tests := map[string]http.HandlerFunc{
		"huge headers":   func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", strings.Repeat("a", 100_000)) },
		"many headers":   raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("a", 100)+"\r\n", 2000) + "\r\n"),
		"upgrade":        raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello"),
		"no status":      raw("hello"),
		"two lengths":    raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
		"cut short":      raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab"),
		"cut in a chunk": raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
		"nothing":        raw(""),
		"no token":       raw("HTTP/1.1 200 OK\r\nX Echo: secret\r\nContent-Length: 2\r\n\r\nab"),
		"endless 1xx":    raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("a", 1000)+"\r\n\r\n", 1000)),
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			fx := newWeb(t, h).open(t, only())
			a, err := fx.HTTP(t.Context(), get(v1))
			if a != nil || !errors.Is(err, hostfx.ErrNoAnswer) {
				t.Errorf("HTTP() = %v, %v, want %v", a, err, hostfx.ErrNoAnswer)
			}
			if e := fx.Close(); len(e) != 1 || e[0].Code != "no_answer" {
				t.Errorf("effects = %v", e)
			}
		})
	}
}

func TestNothingIsDecompressed(t *testing.T) {
	var sent atomic.Int64
	fx := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(io.MultiWriter(w, writer(func(b []byte) { sent.Add(int64(len(b))) })))
		for range 4 {
			_, _ = z.Write(make([]byte, 1<<20))
		}
		_ = z.Close()
	}).open(t, only())
	a, err := fx.HTTP(t.Context(), get(v1))
	must(t, err)
	if int64(len(a.Body)) != sent.Load() || a.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d bytes, the server sent %d", len(a.Body), sent.Load())
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// A connection of one request is not there for another, and ends with it.
func TestOneConnectionPerRequest(t *testing.T) {
	w := newWeb(t, hello)
	fx := w.open(t, only())
	for range 3 {
		_, err := fx.HTTP(t.Context(), get(v1))
		must(t, err)
	}
	var from []string
	for _, r := range w.requests() {
		from = append(from, r.RemoteAddr)
	}
	if slices.Sort(from); len(slices.Compact(from)) != 3 {
		t.Errorf("connections: %v", from)
	}
}

// A server that accepts and never speaks TLS holds a call no longer than its time.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	w := newWeb(t, hello)
	w.opts.Names[0].Addresses = []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}
	fx := w.open(t, only())
	done := make(chan error, 1)
	go func() { _, err := fx.HTTP(context.Background(), get(v1)); done <- err }()
	conn := <-accepted
	defer conn.Close()
	fx.Close()
	if err := <-done; !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("HTTP() = %v, want %v", err, hostfx.ErrClosed)
	}
	// The connection is closed too: reading gets past the greeting to its end.
	must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still open: %v", err)
	}
}
