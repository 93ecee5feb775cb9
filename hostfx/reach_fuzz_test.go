package hostfx_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// answers are what a resolver may say, of which the network "near" has the first.
var answers = []string{"127.0.0.1", "127.0.0.2", "::1", "0.0.0.0", "::ffff:127.0.0.2", "169.254.169.254", "fd00:ec2::254", "64:ff9b::7f00:2"}

// Whatever a tool asks for, and wherever names lead, what is allowed dials only what was
// granted: only granted names are looked up, only the address in the granted network
// is connected to, and the server there reads a granted host, method and path.
func FuzzHTTPReach(f *testing.F) {
	for i, u := range append(spellings, strange...) {
		f.Add("GET", u, "X-A", "b", []byte{byte(i % 9)})
	}
	f.Add("POST", spellings[0], "Host", "evil.com", []byte{0, 1})
	f.Add("GET", spellings[0], "X-A", "a\r\nHost: evil.com", []byte{1, 0})
	f.Add("GET https://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\nGET", spellings[0], "X-A", "b", []byte{0})
	f.Add("GET", "https://api.example.com"+port+"/v1/%2e%2e/v2", "X-A", "b", []byte{0})
	f.Add("DELETE", "https://api.example.com"+port+"/v10", "X-A", "b", []byte{0})
	c := newTown(f, false)
	e := entry(func(h *call.HTTP) {
		h.Hosts, h.Ports, h.Networks = []string{api, "*.wild.example.com"}, []int{c.port}, []string{"near"}
	})
	f.Fuzz(func(t *testing.T, method, text, name, value string, to []byte) {
		var addrs []netip.Addr
		for _, b := range to[:min(len(to), 4)] {
			addrs = append(addrs, netip.MustParseAddr(answers[int(b)%len(answers)]))
		}
		c.dns.answer.Store(addrs)
		c.taken()
		fx, err := c.host.Open(t.Context(), mint(t, call.Caps{HTTP: []call.HTTP{e}}))
		must(t, err)
		_, err = fx.HTTP(context.Background(), hostfx.Request{Method: method, URL: c.at(text), Header: http.Header{name: {value}}, Body: []byte(value)})
		effects := fx.Close()
		dialed, names, asked := c.taken()
		granted := func(host string) bool { return call.MatchHost(api, host) || call.MatchHost("*.wild.example.com", host) }
		for _, n := range names {
			if !granted(strings.TrimSuffix(n, ".")) {
				t.Errorf("%s was looked up", n)
			}
		}
		for _, d := range dialed {
			if d != answers[0] {
				t.Errorf("%s was dialled", d)
			}
		}
		if len(asked) > 1 || len(asked) == 0 && err == nil || len(asked) > 0 && errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("%d requests for %v", len(asked), err)
		}
		if reached := len(names) > 0; reached && (len(effects) != 1 || effects[0].Within == "") {
			t.Errorf("names were looked up, and the effects are %v", effects)
		}
		for _, r := range asked {
			host, at, _ := strings.Cut(r.Host, ":")
			if !granted(host) || c.at(port) != ":"+at || r.TLS.ServerName != host {
				t.Errorf("the server was asked for %s over TLS for %s", r.Host, r.TLS.ServerName)
			}
			if r.Method != "GET" && r.Method != "POST" || r.Method != method {
				t.Errorf("the server was asked to %s", r.Method)
			}
			// As servers read it that decode once, twice, or not at all.
			once := r.URL.Path
			twice, err := url.PathUnescape(once)
			if err != nil {
				twice = once
			}
			for _, p := range []string{strings.SplitN(r.RequestURI, "?", 2)[0], once, twice} {
				if p = path.Clean(p); p != "/v1" && !strings.HasPrefix(p, "/v1/") {
					t.Errorf("the server was asked for %s", r.RequestURI)
				}
			}
		}
	})
}
