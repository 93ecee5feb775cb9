package hostfx_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// town is some servers on loopback with one port, and a resolver that knows them. A
// host there is granted api.example.com and the names right below wild.example.com.
type town struct {
	dns  *dns
	host *hostfx.Host
	port int

	mu     sync.Mutex
	dialed []string // the addresses, without port, that took a connection
	asked  []*http.Request
}

// aliases are addresses of this machine. The network "near" is the first alone.
var aliases = []string{"127.0.0.1", "127.0.0.2", "127.1.2.3", "::1"}

// newTown listens with TLS, or without, at each alias that the machine has.
func newTown(t testing.TB, plain bool) *town {
	t.Helper()
	c := &town{}
	w := newWeb(t, hello)
	w.conf.Certificates = append(w.conf.Certificates, w.ca.leaf(t, api, "*.wild.example.com", "*.example.com", "localhost"))
	for i, a := range aliases {
		l, err := net.Listen("tcp", net.JoinHostPort(a, strconv.Itoa(c.port)))
		if err != nil && i > 0 { // not every machine has them all
			continue
		}
		must(t, err)
		c.port = l.Addr().(*net.TCPAddr).Port
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			c.asked = append(c.asked, r)
			c.mu.Unlock()
			hello(rw, r)
		}))
		s.Listener.Close()
		s.Listener = listener{l, func() { c.mu.Lock(); defer c.mu.Unlock(); c.dialed = append(c.dialed, a) }}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if s.TLS = w.conf; plain {
			s.Start()
		} else {
			s.StartTLS()
		}
		t.Cleanup(s.Close)
	}
	prefix := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	w.opts.Names = nil
	w.opts.Networks = []hostfx.Network{
		{Name: "near", Ranges: prefix("127.0.0.1/32")},
		{Name: "all", Ranges: append(prefix("0.0.0.0/0"), prefix("::/0")...)},
	}
	h, err := hostfx.New(w.opts)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	d, resolver := newDNS(t)
	hostfx.SetResolver(h, resolver)
	c.host, c.dns = h, d
	return c
}

// listener reports each connection before anything is said on it.
type listener struct {
	net.Listener
	accepted func()
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted()
	}
	return conn, err
}

// open grants the town's names on its port and the usual ones, in the network.
func (c *town) open(t testing.TB, network string) *hostfx.Effects {
	t.Helper()
	e := entry(func(h *call.HTTP) {
		h.Hosts = []string{api, "*.wild.example.com"}
		h.Ports, h.Networks, h.Plain, h.Paths = []int{c.port, 80, 443, 8443}, []string{network}, true, []string{"/v1", "/"}
	})
	fx, err := c.host.Open(t.Context(), mint(t, call.Caps{HTTP: []call.HTTP{e}}))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

// taken returns what happened since it was asked last: connections, names that were
// looked up, and requests.
func (c *town) taken() (dialed, names []string, asked []*http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dialed, asked, c.dialed, c.asked = c.dialed, c.asked, nil, nil
	c.dns.mu.Lock()
	defer c.dns.mu.Unlock()
	names, c.dns.asked = c.dns.asked, nil
	return dialed, names, asked
}

// resolves has names lead to addresses.
func (d *dns) resolves(to ...string) {
	addrs := []netip.Addr{}
	for _, a := range to {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	d.answer.Store(addrs)
}

// port stands for the port of the servers in URLs.
const port = ":PORT"

// spellings are of what is granted.
var spellings = []string{
	"https://api.example.com" + port + "/v1", "HTTPS://API.Example.COM" + port + "/", "https://api。example。com" + port + "/", "https://ａｐｉ.example.com" + port + "/",
	"https://api.example.com\u200b" + port + "/", // nothing, to IDNA
	"https://one.wild.example.com" + port + "/", "https://api.example.com" + port, "https://api.example.com" + port + "/v1?next=http://127.0.0.1/&u=user:pw@evil.com",
}

// strange spellings are of another place, or of this machine, and some reader of URLs
// takes each for a host that it is not.
var strange = []string{
	"https://api.example.com.evil.com" + port, "https://api.example.com@evil.com" + port, "https://user:pw@api.example.com" + port, "https://@api.example.com" + port,
	"https://evil.com#@api.example.com" + port, "https://evil.com" + port + "#@api.example.com/", `https://evil.com\@api.example.com` + port, `https://api.example.com\.evil.com` + port,
	"https://api.example.com" + port + "#x", "https://evil.com" + port + "?@api.example.com/", "https://evil.com" + port + "/@api.example.com/", "https://api.example.com" + port + "@evil.com" + port,
	"https://api.example.com." + port, "https://api.example.com.." + port, "https://.api.example.com" + port, "https://evilapi.example.com." + port, "https://api..example.com" + port,
	"https://api.example.com%2eevil.com" + port, "https://api%2eexample%2ecom" + port, "https://api.example.com%00.evil.com" + port, "https://api.example.com%0d%0a" + port, "https://%61pi.example.com" + port,
	"https://api.example.com\r\nHost: evil" + port, "https://api.example.com\t" + port, " https://api.example.com" + port, "https://api.example.com" + port + "/ HTTP/1.1\r\nHost: evil", "https://api.example.com " + port, "https://api.exa\nmple.com" + port, "https://api.example.com" + port + "\x00",
	"https://аpi.example.com" + port, "https://xn--pi-7kc.example.com" + port, "https://xn--.example.com" + port, "https://xn--a.example.com" + port, "https://api.example.com\u2028" + port, "https://api\u00ad.example.com" + port + "@evil.com",
	"https://2130706433" + port, "https://0x7f000001" + port, "https://0x7f.1" + port, "https://0177.0.0.1" + port, "https://017700000001" + port, "https://127.1" + port, "https://127.0.0.1" + port, "https://127.0.0.1." + port, "https://0" + port, "https://0.0.0.0" + port,
	"https://①②⑦.⓪.⓪.①" + port, "https://１２７.0.0.1" + port, "https://127。0。0。1" + port, "https://127.0.0.1.nip.io" + port,
	"https://[::1]" + port, "https://[::]" + port, "https://[::ffff:127.0.0.1]" + port, "https://[::127.0.0.1]" + port, "https://[fe80::1%25eth0]" + port, "https://[fe80::1%eth0]" + port, "https://[fd00:ec2::254]" + port, "https://[64:ff9b::7f00:1]" + port, "https://[2002:7f00:1::]" + port, "https://[v1.x]" + port, "https://::1" + port, "https://[api.example.com]" + port,
	"https://169.254.169.254" + port + "/latest/meta-data", "https://169.254.43518" + port, "https://0xa9fea9fe" + port, "https://metadata.google.internal" + port, "https://metadata" + port, "https://localhost" + port, "https://localhost.localdomain" + port, "https://api.localhost" + port, "https://api" + port,
	"https://example.com" + port, "https://wild.example.com" + port, "https://evilwild.example.com" + port, "https://.wild.example.com" + port, "https://a.b.wild.example.com" + port, "https://*.wild.example.com" + port, "https://api_example.com" + port, "https://api.example.com_" + port, "https://-.wild.example.com" + port,
	"https://api.example.com:", "https://api.example.com:/", "https://api.example.com:0443", "https://api.example.com:0", "https://api.example.com:65979", "https://api.example.com:-1", "https://api.example.com:+443", "https://api.example.com:443 ", "https://api.example.com:４４３", "https://api.example.com:443:443", "https://api.example.com:https", "https://api.example.com:8444",
	"file:///etc/passwd", "file://api.example.com" + port + "/etc/passwd", "gopher://api.example.com" + port, "ftp://api.example.com" + port, "unix:///run/docker.sock", "javascript:alert(1)", "data:text/plain,x", "ws://api.example.com" + port, "wss://api.example.com" + port, "ldap://api.example.com" + port, "dict://api.example.com" + port, "jar:https://api.example.com" + port + "!/", "view-source:https://api.example.com" + port, "https+unix://api.example.com" + port, "httpſ://api.example.com" + port,
	"//api.example.com" + port, "/v1", "v1", "", "?", "#", "https:api.example.com" + port, "https:/api.example.com" + port, "https:///api.example.com" + port, "https:////api.example.com" + port, "https://", "https:", "://api.example.com" + port, ":https://api.example.com" + port, `https:\\api.example.com` + port, "https;//api.example.com" + port,
	"https://api.example.com" + port + "/../v1", "https://api.example.com" + port + "/v1/..", "https://api.example.com" + port + "/%2e%2e/v1", "https://api.example.com" + port + "/v1/.%2e/x", "https://api.example.com" + port + "/v1%2f..%2fx", "https://api.example.com" + port + "/v1%5c..%5cx", `https://api.example.com` + port + `/v1\..\x`, "https://api.example.com" + port + "/v1;/../x", "https://api.example.com" + port + "//evil.com/v1", "https://api.example.com" + port + "/v1/%00", "https://api.example.com" + port + "/v1/%", "https://api.example.com" + port + "/v1/%zz",
}

// Every spelling of another place, or of this machine, that some reader of URLs takes
// for a host. The resolver would lead each to a server that answers, and the network is
// any: what refuses here is the reading of the URL and the grant's names. A refused one
// asks no resolver and connects to nothing.
func TestSpellings(t *testing.T) {
	for _, plain := range []bool{false, true} {
		c := newTown(t, plain)
		c.dns.resolves("127.0.0.1")
		fx := c.open(t, "all")
		ask := func(url string) error {
			if plain {
				url = strings.Replace(strings.Replace(url, "HTTPS", "HTTP", 1), "https", "http", 1)
			}
			_, err := fx.HTTP(t.Context(), get(c.at(url)))
			return err
		}
		for _, url := range spellings {
			err := ask(url)
			dialed, _, asked := c.taken()
			if err != nil || len(asked) != 1 || !slices.Equal(dialed, []string{"127.0.0.1"}) {
				t.Errorf("%q, plain %v: %v, dialled %v, %d requests", url, plain, err, dialed, len(asked))
			}
		}
		for _, url := range strange {
			err := ask(url)
			if call.CodeOf(err, "") != call.CodeFactsUnparsable && !errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("%q, plain %v: %v", url, plain, err)
			}
			if dialed, names, asked := c.taken(); len(dialed)+len(names)+len(asked) > 0 {
				t.Errorf("%q, plain %v: looked up %v, dialled %v, %d requests", url, plain, names, dialed, len(asked))
			}
		}
	}
}

// A granted name leads to one address after the other, of which each is refused or
// dialled as the grant's network says. In the network of one alias there is no way to
// the others.
func TestAddressesOfAName(t *testing.T) {
	special := []string{
		"127.0.0.2", "127.1.2.3", "0.0.0.0", "10.0.0.1", "100.64.0.1", "169.254.169.254", "192.168.0.1", "224.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.2", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "fd00:ec2::254", "fe80::1", "ff02::1",
	}
	for network, granted := range map[string][]string{"near": {"127.0.0.1", "::ffff:127.0.0.1"}, "public": nil} {
		c := newTown(t, false)
		ask := func(to ...string) error {
			c.dns.resolves(to...)
			_, err := c.open(t, network).HTTP(t.Context(), get(c.url()))
			return err
		}
		for _, to := range granted {
			if err := ask(to); err != nil {
				t.Errorf("%s, %s: %v", network, to, err)
			}
			if dialed, _, _ := c.taken(); !slices.Equal(dialed, []string{"127.0.0.1"}) {
				t.Errorf("%s, %s: dialled %v", network, to, dialed)
			}
		}
		for _, a := range special {
			if err := ask(a); !errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("%s, %s: %v", network, a, err)
			}
			if dialed, _, _ := c.taken(); len(dialed) > 0 {
				t.Errorf("%s, %s: dialled %v", network, a, dialed)
			}
		}
	}
	// Beside one that is granted, which may be the first that is tried.
	c := newTown(t, false)
	for _, a := range special {
		c.dns.resolves(a, "127.0.0.1")
		_, err := c.open(t, "near").HTTP(t.Context(), get(c.url()))
		if err != nil && !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("%s: %v", a, err)
		}
		if dialed, _, asked := c.taken(); slices.ContainsFunc(dialed, func(d string) bool { return d != "127.0.0.1" }) || err != nil && len(asked) > 0 {
			t.Errorf("%s: %v, dialled %v, %d requests", a, err, dialed, len(asked))
		}
	}
}

// The resolver leads elsewhere with each answer, so that the answer that is checked and
// the one that is dialled would differ if there were two.
func TestRebindingWithEachAnswer(t *testing.T) {
	c := newTown(t, false)
	turn := 0
	c.dns.mu.Lock()
	c.dns.each = func(q dnsmessage.Question) []netip.Addr {
		if q.Type == dnsmessage.TypeA {
			turn++
		}
		return []netip.Addr{netip.MustParseAddr(aliases[turn%2])}
	}
	c.dns.mu.Unlock()
	went := map[bool]int{}
	for range 20 {
		_, err := c.open(t, "near").HTTP(t.Context(), get(c.url()))
		if err != nil && !errors.Is(err, hostfx.ErrNotGranted) {
			t.Error(err)
		}
		went[err == nil]++
		if dialed, _, asked := c.taken(); slices.Contains(dialed, aliases[1]) || len(dialed) > 1 || err != nil && len(asked) > 0 {
			t.Fatalf("%v: dialled %v", err, dialed)
		}
	}
	if went[true] == 0 || went[false] == 0 {
		t.Errorf("it never led elsewhere, or always: %v", went)
	}
}

// url is what the grants of a town allow.
func (c *town) url() string { return fmt.Sprintf("https://%s:%d/v1", api, c.port) }

// at puts the town's port into a URL.
func (c *town) at(url string) string { return strings.ReplaceAll(url, port, ":"+strconv.Itoa(c.port)) }
