package hostfx_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/callgate/callgate/hostfx"
)

// Every range that a registry sets aside, and each way to write this machine.
func TestPublicAddresses(t *testing.T) {
	h, err := hostfx.New(hostfx.Options{})
	must(t, err)
	special := []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1", "192.0.0.1", "192.0.2.1",
		"192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1",
		"2001:db8::1", "2002:7f00:1::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "3fff::1", "5f00::1", "fe80::1%eth0",
	}
	reaches := func(a string, plain bool) bool {
		ip, network := netip.MustParseAddr(a), "tcp4"
		if ip.Is6() {
			network = "tcp6"
		}
		return hostfx.Reaches(h, []string{"public"}, plain, network, netip.AddrPortFrom(ip, 443).String())
	}
	for _, a := range special {
		if reaches(a, false) {
			t.Errorf("%s passes for public", a)
		}
	}
	for _, a := range []string{"8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111"} {
		if !reaches(a, false) {
			t.Errorf("%s does not pass for public", a)
		}
		if reaches(a, true) {
			t.Errorf("%s is reached without TLS", a)
		}
	}
}

func TestReaches(t *testing.T) {
	h, err := hostfx.New(hostfx.Options{Networks: []hostfx.Network{
		{Name: "office", Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}},
		{Name: "loopback", Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		{Name: "link", Ranges: []netip.Prefix{netip.MustParsePrefix("fe80::/10")}},
	}})
	must(t, err)
	all := []string{"office", "loopback", "link"}
	tests := []struct {
		networks         []string
		network, address string
		plain, want      bool
	}{
		{all, "tcp4", "10.1.2.3:443", false, true},
		{all, "tcp6", "[fd00::1]:443", false, true},
		{all, "tcp6", "[::ffff:10.1.2.3]:443", false, true},
		{all, "tcp6", "[fe80::1]:443", false, true},
		{all, "tcp4", "127.0.0.1:443", true, true},
		{all, "tcp6", "[::ffff:127.0.0.1]:443", true, true},
		{all, "tcp4", "10.2.0.1:443", false, false},
		{all, "tcp4", "10.1.2.3:443", true, false},
		{all, "tcp6", "[fe80::1%lo]:443", false, false},
		{all, "tcp4", "8.8.8.8:443", false, false},
		{all, "udp4", "10.1.2.3:443", false, false},
		{all, "unix", "/run/docker.sock", false, false},
		{all, "tcp", "10.1.2.3:443", false, false},
		{all, "tcp4", "10.1.2.3", false, false},
		{all, "tcp4", "", false, false},
		{[]string{"office"}, "tcp4", "127.0.0.1:443", false, false},
		{[]string{"other"}, "tcp4", "10.1.2.3:443", false, false},
		{nil, "tcp4", "10.1.2.3:443", false, false},
	}
	for _, tt := range tests {
		if got := hostfx.Reaches(h, tt.networks, tt.plain, tt.network, tt.address); got != tt.want {
			t.Errorf("%v %s %s, plain %v: %v, want %v", tt.networks, tt.network, tt.address, tt.plain, got, tt.want)
		}
	}
}

func TestNewNamesEachFault(t *testing.T) {
	ten := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	one := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	a := newAuthority(t)
	h, err := hostfx.New(hostfx.Options{
		Networks: []hostfx.Network{
			{Name: "ok", Ranges: ten}, {Name: "ok", Ranges: ten}, {Name: "public", Ranges: ten}, {Name: "Upper", Ranges: ten}, {Name: "empty"},
			{Name: "invalid", Ranges: []netip.Prefix{{}}}, {Name: "unmasked", Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}},
			{Name: "mapped", Ranges: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		},
		Names: []hostfx.Name{
			{Host: api, Addresses: one}, {Host: api, Addresses: one}, {Host: "*.example.com", Addresses: one}, {Host: "localhost", Addresses: one},
			{Host: "API.example.com", Addresses: one}, {Host: "none.example.com"}, {Host: "bad.example.com", Addresses: []netip.AddrPort{{}}},
			{Host: "zone.example.com", Addresses: []netip.AddrPort{netip.MustParseAddrPort("[fe80::1%lo]:0")}},
		},
		CA: []byte("nothing"),
	})
	if h != nil || err == nil {
		t.Fatalf("New() = %v, %v, want an error alone", h, err)
	}
	for _, want := range []string{
		`network "ok": the name is used twice`, `network "public": the name is reserved`, `network "Upper"`, `network "empty"`, `network "invalid"`,
		`network "unmasked"`, `network "mapped"`, `name "api.example.com": the host is named twice`, `name "*.example.com"`, `name "localhost"`,
		`name "API.example.com"`, `name "none.example.com"`, `name "bad.example.com"`, `name "zone.example.com"`, "CA: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %s", err, want)
		}
	}
	for name, ca := range map[string]string{
		"key":     "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"garbage": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"second":  string(a.pem()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
	} {
		if _, err := hostfx.New(hostfx.Options{CA: []byte(ca)}); err == nil || !strings.Contains(err.Error(), "CA: ") {
			t.Errorf("%s: New() = %v", name, err)
		}
	}
}
