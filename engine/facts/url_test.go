package facts_test

import (
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

// taken are URLs with one reading, and their canonical text.
var taken = []struct{ give, want string }{
	{"https://api.example.com/v1", ""},
	{"https://API.Example.COM/v1", "https://api.example.com/v1"},
	{"https://api.example.com:443/x", "https://api.example.com/x"},
	{"HTTPS://api.example.com/", "https://api.example.com/"},
	{"http://api.example.com/", ""},
	{"https://api.example.com:8443/", ""},
	{"https://api.example.com.evil.com/", ""},
	{"https://api。example。com/", "https://api.example.com/"},
	{"https://ａｐｉ.example.com/", "https://api.example.com/"},
	{"https://аpi.example.com/", "https://xn--pi-6kc.example.com/"}, // a Cyrillic a is another host
	{"https://xn--pi-7kc.example.com/", ""},
	{"https://metadata.google.internal/", ""}, // a name; where it leads is the dialler's question

	{"http://api.example.com:80", "http://api.example.com/"},
	{"http://api.example.com:443/", ""},
	{"https://api.example.com:80/", ""},
	{"https://api.example.com:65535/", ""},
	{"https://api.example.com?a=b", "https://api.example.com/?a=b"},
	{"https://api.example.com/a/", ""},
	{"https://bücher.example/", "https://xn--bcher-kva.example/"},
	{"https://BÜCHER.example/", "https://xn--bcher-kva.example/"},
	{"https://XN--BCHER-KVA.example/", "https://xn--bcher-kva.example/"},
	{"https://xn--fa-hia.example/", ""},
	{"https://r3---sn.example.com/", ""},
	{"https://exa\u00admple.com/", "https://example.com/"}, // every version of IDNA drops a soft hyphen
	{"https://example.com/ü", "https://example.com/%C3%BC"},
	{"https://example.com/%c3%bc", "https://example.com/%C3%BC"},
	{"https://example.com/%7Euser/%61", "https://example.com/~user/a"},
	{"https://example.com/a%20b", ""},
	{"https://example.com/a+b", "https://example.com/a%2Bb"},
	{"https://example.com/a%2Bb", ""},
	{"https://example.com/.well-known/x", ""},
	{"https://example.com/%2ewell-known/x", "https://example.com/.well-known/x"},
	{"https://example.com/wiki/A_(b),c:d@e!f$g&h=i'j*k", ""},
	{`https://example.com/a|b"<>^` + "`{}[]", "https://example.com/a%7Cb%22%3C%3E%5E%60%7B%7D%5B%5D"},
	{"https://example.com/?", "https://example.com/"},
	{"https://example.com/?b=2&a=1&b=1&a", ""},
	{"https://example.com/?q=a+b%20c", "https://example.com/?q=a%20b%20c"},
	{"https://example.com/?q=%2b", "https://example.com/?q=%2B"},
	{"https://example.com/?q=a=b", "https://example.com/?q=a%3Db"},
	{"https://example.com/?q=a?b/c", "https://example.com/?q=a%3Fb%2Fc"},
	{"https://example.com/?q=", ""},
	{"https://example.com/?ü=ü", "https://example.com/?%C3%BC=%C3%BC"},
	{"https://example.com/?u=https%3A%2F%2Fx.io%2F%252e", ""},
	{"https://example.com/?u=https://a@x.io/", "https://example.com/?u=https%3A%2F%2Fa%40x.io%2F"},
	{"https://example.com/?a%3Bb", ""},
	{"https://example.com/?%5C", ""},
	{"https://example.com?@evil.com/", "https://example.com/?%40evil.com%2F"},
}

// refused are URLs that programs read differently, and words of the reason.
var refused = []struct{ give, want string }{
	{"https://api.example.com:/", "a port"},
	{"https://api.example.com:0443/", "a port"},
	{"https://api.example.com./", "ends in a dot"},
	{"https://api.example.com..//", "ends in a dot"},
	{"https://evilapi.example.com.", "ends in a dot"},
	{"https://api.example.com@evil.com/", "user information"},
	{"https://user:pw@api.example.com/", "user information"},
	{"https://evil.com#@api.example.com/", "a fragment"},
	{`https://evil.com\@api.example.com/`, "a backslash"},
	{`https://api.example.com\.evil.com/`, "a backslash"},
	{"https://api.example.com%2eevil.com/", "an escape in its host"},
	{"https://api%2eexample%2ecom/", "an escape in its host"},
	{"https://api.example.com%00.evil.com/", "an escape in its host"},
	{"https://api.example.com%0d%0a/", "an escape in its host"},
	{"https://api.example.com\r\nHost: evil/", "control character"},
	{"https://api.example.com\t/", "control character"},
	{" https://api.example.com/", "space"},
	{"https://2130706433/", "an IP address"},
	{"https://0x7f000001/", "an IP address"},
	{"https://0177.0.0.1/", "an IP address"},
	{"https://127.1/", "an IP address"},
	{"https://127.0.0.1/", "an IP address"},
	{"https://[::1]/", "an IP address"},
	{"https://[::ffff:127.0.0.1]/", "an IP address"},
	{"https://[fe80::1%25eth0]/", "an IP address"},
	{"https://[::]/", "an IP address"},
	{"https://0/", "an IP address"},
	{"https://localhost/", "one label"},
	{"https://169.254.169.254/latest/meta-data", "an IP address"},
	{"https://[fd00:ec2::254]/", "an IP address"},
	{"https://[64:ff9b::7f00:1]/", "an IP address"},
	{"https://①②⑦.⓪.⓪.①/", "an IP address"},
	{"file:///etc/passwd", "does not begin"},
	{"gopher://api.example.com/", "does not begin"},
	{"ftp://api.example.com/", "does not begin"},
	{"unix:///run/docker.sock", "does not begin"},
	{"//api.example.com/", "does not begin"},
	{"/v1", "does not begin"},
	{"https:api.example.com", "does not begin"},
	{"https:///api.example.com/", "no host"},
	{"https://", "no host"},
	{"javascript:alert(1)", "does not begin"},
	{"https://api.example.com/../../x", "a dot segment"},
	{"https://api.example.com/%2e%2e/x", "a dot segment"},
	{"https://api_example.com/", "not a valid name"},

	{"", "does not begin"},
	{"https:/example.com/", "does not begin"},
	{"httpſ://example.com/", "does not begin"}, // folds to https
	{"https://?x", "no host"},
	{"https://:443/", "no host"},
	{"https://@example.com/", "user information"},
	{"https://example.com:443:443/", "a port"},
	{"https://example.com:0/", "a port"},
	{"https://example.com:65536/", "a port"},
	{"https://example.com:+443/", "a port"},
	{"https://example.com:4_43/", "a port"},
	{"https://example.com:４４３/", "a port"},
	{"https://example.com/#", "a fragment"},
	{"https://example.com/\x7f", "control character"},
	{"https://example.com/\u0085", "control character"},
	{"https://example.com/\xff", "not UTF-8"},
	{"https://example.com/%ff", "not UTF-8"},
	{"https://example.com/%c0%af", "not UTF-8"},
	{"https://a.0x7f/", "an IP address"},
	{"https://a.1e/", "an IP address"},
	{"https://127.0.0.1。/", "ends in a dot"},
	{"https://example.com。/", "ends in a dot"},
	{"https://example.com／.evil.com/", "internationalised"},
	{"https://example.com＠evil.com/", "internationalised"},
	{"https://example.com：443/", "internationalised"},
	{"https://faß.example/", "versions of IDNA"},
	{"https://نامه\u200cای.example/", "versions of IDNA"},
	{"https://xn--a.example/", "internationalised"},
	{"https://xn--abc-.example/", "internationalised"},
	{"https://xn--.example/", "xn--"},
	{"https://-a.example.com/", "not a valid name"},
	{"https://a..example.com/", "not a valid name"},
	{"https://*.example.com/", "not a valid name"},
	{"https://a,b.example.com/", "not a valid name"},
	{"https://" + strings.Repeat("a", 64) + ".com/", "not a valid name"},
	{"https://" + strings.Repeat("abcdefgh.", 29) + "com/", "not a valid name"},
	{"https://" + strings.Repeat("ü.", 400) + "com/", "host that is too long"},
	{"https://example.com//a", "an empty segment"},
	{"https://example.com/a//", "an empty segment"},
	{"https://example.com/.", "a dot segment"},
	{"https://example.com/a/.%2E", "a dot segment"},
	{"https://example.com/a%2fb", "an escaped slash"},
	{"https://example.com/..%2F", "an escaped slash"},
	{"https://example.com/%2f", "an escaped slash"},
	{"https://example.com/a%5cb", "a backslash"},
	{"https://example.com/a%00", "a control character"},
	{"https://example.com/a%C2%85", "a control character"},
	{"https://example.com/%252f", "a %"},
	{"https://example.com/%25", "a %"},
	{"https://example.com/a;b", "a ;"},
	{"https://example.com/a%3Bb", "a ;"},
	{"https://example.com/a%3Fb", "a query or fragment"},
	{"https://example.com/a%23b", "a query or fragment"},
	{"https://example.com/%", "malformed escape in its path"},
	{"https://example.com/%2", "malformed escape in its path"},
	{"https://example.com/%zz", "malformed escape in its path"},
	{"https://example.com/%u0041", "malformed escape in its path"},
	{"https://example.com/" + strings.Repeat("a", 1024), "is too long"},
	{"https://example.com/?%", "malformed escape in its query"},
	{"https://example.com/?a=%g0", "malformed escape in its query"},
	{"https://example.com/?a=1;b=2", "a ; in its query"},
	{"https://example.com/?a=%0a", "control character in its query"},
	{"https://example.com/?%00", "control character in its query"},
	{"https://example.com/?a=%ff", "query that is not UTF-8"},
	{"https://example.com/?&", "empty key"},
	{"https://example.com/?a&", "empty key"},
	{"https://example.com/?=b", "empty key"},
	{"https://example.com/?" + strings.Repeat("a", facts.MaxURLBytes), "is too long"},
	{"https://example.com/?" + strings.Repeat(",", facts.MaxURLBytes/3), "is too long with its escapes"},
}

func TestParseURL(t *testing.T) {
	for _, tt := range taken {
		want := tt.want
		if want == "" {
			want = tt.give
		}
		u, got, err := facts.ParseURL(tt.give)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", tt.give, got, err, want)
			continue
		}
		checkURL(t, u, got)
	}
}

func TestParseURLFact(t *testing.T) {
	tests := []struct {
		give string
		want call.URL
	}{
		{"HTTPS://A.B.Example.com/x%20y/%C3%BC?q=a+b&q", call.URL{
			Scheme: "https", Host: "a.b.example.com", Wildcard: "*.b.example.com", Port: 443,
			Path: "/x y/ü", Segments: []string{"x y", "ü"}, Query: "q=a%20b&q",
		}},
		{"http://example.com:8080", call.URL{Scheme: "http", Host: "example.com", Port: 8080, Path: "/", Segments: []string{}}},
		{"https://a.github.io/x/", call.URL{Scheme: "https", Host: "a.github.io", Port: 443, Path: "/x/", Segments: []string{"x"}}},
		{"https://a.b.internal/?", call.URL{
			Scheme: "https", Host: "a.b.internal", Wildcard: "*.b.internal", Port: 443, Path: "/", Segments: []string{},
		}},
	}
	for _, tt := range tests {
		got, _, err := facts.ParseURL(tt.give)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %#v, %v, want %#v", tt.give, got, err, tt.want)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, tt := range refused {
		u, text, err := facts.ParseURL(tt.give)
		e, ok := errors.AsType[*call.Error](err)
		if !ok || e.Code != call.CodeFactsUnparsable || !strings.Contains(e.Detail, tt.want) {
			t.Errorf("%.80q: %q, %v, want %q", tt.give, text, err, tt.want)
			continue
		}
		if text != "" || !reflect.DeepEqual(u, call.URL{}) {
			t.Errorf("%.80q: refused, yet gave %q, %+v", tt.give, text, u)
		}
	}
}

func TestParseURLKeepsTheURLOutOfErrors(t *testing.T) {
	for _, s := range []string{
		"https://user:canary@example.com/", "canary://example.com/", "https://canary/", "https://example.com:canary/",
		"https://example.com/canary%zz", "https://example.com/canary/..", "https://example.com/?canary=%00", "https://xn--canary.example/",
		"https://example.com/#canary", "https://canary\u200d.example/", "https://canary%41.example/",
	} {
		if _, _, err := facts.ParseURL(s); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// checkURL checks what holds for every URL that is taken: the text is a fixed
// point, and another parser reads from it what the fact says.
func checkURL(t *testing.T, u call.URL, text string) {
	t.Helper()
	again, text2, err := facts.ParseURL(text)
	if err != nil || text2 != text || !reflect.DeepEqual(again, u) {
		t.Fatalf("%q is no fixed point: %q, %+v, %v, was %+v", text, text2, again, err, u)
	}
	o, err := url.Parse(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	port := map[string]int{"http": 80, "https": 443}[o.Scheme]
	if p := o.Port(); p != "" {
		port, _ = strconv.Atoi(p)
	}
	if o.Scheme != u.Scheme || o.Hostname() != u.Host || port != u.Port || o.Path != u.Path || o.RawQuery != u.Query ||
		o.User != nil || o.Fragment != "" || o.Opaque != "" || o.ForceQuery {
		t.Fatalf("%q: net/url reads %+v, the fact is %+v", text, o, u)
	}
	if o.String() != text {
		t.Fatalf("net/url writes %q for %q", o, text)
	}
	values, err := url.ParseQuery(u.Query)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	for k, vs := range values {
		if k == "" || strings.ContainsAny(k+strings.Join(vs, ""), "\x00\r\n") {
			t.Fatalf("%q has the query %q", text, values)
		}
	}
	if !call.MatchHost(u.Host, u.Host) || call.URLPathFault(u.Path) != "" || u.Segments == nil || u.Method != "" {
		t.Fatalf("%q gives %+v", text, u)
	}
	if u.Wildcard != "" && !call.MatchHost(u.Wildcard, u.Host) {
		t.Fatalf("%q has the wildcard %q", text, u.Wildcard)
	}
	if got := "/" + strings.Join(u.Segments, "/"); got != u.Path && got+"/" != u.Path {
		t.Fatalf("%q has the segments %q", u.Path, u.Segments)
	}
}

func FuzzParseURL(f *testing.F) {
	for _, tt := range taken {
		f.Add(tt.give)
	}
	for _, tt := range refused {
		f.Add(tt.give)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, text, err := facts.ParseURL(raw)
		if err != nil {
			if call.CodeOf(err, "") != call.CodeFactsUnparsable {
				t.Fatalf("%q: %v", raw, err)
			}
			return // refusing is always allowed
		}
		checkURL(t, u, text)
	})
}
