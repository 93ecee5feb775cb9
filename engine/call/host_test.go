package call

import (
	"strings"
	"testing"
)

func TestMatchHost(t *testing.T) {
	long := strings.Repeat("a", 64)
	tests := []struct {
		name, pattern, host string
		want                bool
	}{
		{"exact", "api.x.io", "api.x.io", true},
		{"other name", "api.x.io", "apo.x.io", false},
		{"suffix is not a match", "x.io", "evilx.io", false},
		{"exact is not its subdomain", "x.io", "api.x.io", false},
		{"wildcard", "*.x.io", "api.x.io", true},
		{"wildcard is one label", "*.x.io", "a.b.x.io", false},
		{"wildcard is not the apex", "*.x.io", "x.io", false},
		{"wildcard needs a label", "*.x.io", ".x.io", false},
		{"wildcard as a host", "*.x.io", "*.x.io", false},
		{"inner wildcard", "a.*.x.io", "a.b.x.io", false},
		{"partial wildcard", "a*.x.io", "ab.x.io", false},
		{"star", "*", "x.io", false},
		{"star dot", "*.", "x.", false},
		{"public suffix", "*.com", "x.com", false},
		{"public suffix of two labels", "*.co.uk", "x.co.uk", false},
		{"private suffix", "*.github.io", "x.github.io", false},
		{"names that are suffixes", "*.kawasaki.jp", "a.kawasaki.jp", false},
		{"unlisted top level", "*.internal", "x.internal", false},
		{"below an unlisted top level", "*.corp.internal", "x.corp.internal", true},
		{"upper case host", "api.x.io", "API.x.io", false},
		{"upper case pattern", "API.x.io", "API.x.io", false},
		{"trailing dot", "api.x.io", "api.x.io.", false},
		{"trailing dot in both", "api.x.io.", "api.x.io.", false},
		{"port", "api.x.io:443", "api.x.io:443", false},
		{"one label", "localhost", "localhost", false},
		{"ipv4", "127.0.0.1", "127.0.0.1", false},
		{"short ipv4", "127.1", "127.1", false},
		{"hex ipv4", "a.0x7f", "a.0x7f", false},
		{"wildcard over ipv4", "*.0.0.1", "127.0.0.1", false},
		{"ipv6", "[::1]", "[::1]", false},
		{"idna", "xn--bcher-kva.example", "xn--bcher-kva.example", true},
		{"unicode", "bücher.example", "bücher.example", false},
		{"broken punycode", "xn--a.example", "xn--a.example", false},
		{"punycode of ascii", "xn--abc-.example", "xn--abc-.example", false},
		{"underscore", "a_b.x.io", "a_b.x.io", false},
		{"hyphen first", "-a.x.io", "-a.x.io", false},
		{"hyphen last", "a-.x.io", "a-.x.io", false},
		{"hyphens within", "r3---sn.x.io", "r3---sn.x.io", true},
		{"long label", long + ".io", long + ".io", false},
		{"long name", strings.Repeat("abcdefgh.", 29) + "io", strings.Repeat("abcdefgh.", 29) + "io", false},
		{"NUL", "api.x.io\x00.evil.io", "api.x.io\x00.evil.io", false},
		{"userinfo", "a@x.io", "a@x.io", false},
		{"empty", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := MatchHost(tt.pattern, tt.host); got != tt.want {
				t.Errorf("MatchHost(%q, %q) = %v, want %v", tt.pattern, tt.host, got, tt.want)
			}
		})
	}
}

func FuzzMatchHost(f *testing.F) {
	f.Add("*.x.io", "a.x.io")
	f.Add("api.x.io", "api.x.io")
	f.Add("*.com", "x.com")
	f.Fuzz(func(t *testing.T, pattern, host string) {
		if !MatchHost(pattern, host) {
			return
		}
		if pattern == host {
			return
		}
		parent, wild := strings.CutPrefix(pattern, "*.")
		label, rest, _ := strings.Cut(host, ".")
		if !wild || rest != parent || label == "" || !strings.Contains(parent, ".") {
			t.Fatalf("%q matches %q", pattern, host)
		}
	})
}
