package facts

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/callgate/callgate/engine/call"
)

// MaxURLBytes is the longest URL that is read, and the longest canonical one.
const MaxURLBytes = 8192

var defaultPorts = map[string]int{"http": 80, "https": 443}

// ParseURL reads an absolute http or https URL and returns it as a fact, without
// a method, together with its canonical text. It is the one reader of URLs: facts
// and effects both ask it.
//
// It refuses what programs read differently, whichever of RFC 3986 and the WHATWG
// standard they follow: control characters, spaces and backslashes, user
// information, fragments, IP addresses in any spelling, names of one label or with
// a trailing dot, escapes that hide a slash or a dot segment, parameters, empty
// segments. What is left has one reading. Names in Unicode become their xn-- form.
//
// The canonical text has no default port, and escapes in one spelling. Reading it
// again gives the same fact and the same text. In the fact, Port is always set,
// Path and Segments are decoded (a trailing slash shows in Path only), and Query
// stays encoded: its order and repeats are kept, a space is %20.
//
// # Errors
//
// [*call.Error] with [call.CodeFactsUnparsable]. Its Detail says what is wrong and
// holds nothing of the URL.
func ParseURL(raw string) (call.URL, string, error) {
	if fault := urlTextFault(raw); fault != "" {
		return refuseURL(fault)
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	// ToLower, since folding would take the long s of Unicode for an s.
	if scheme = strings.ToLower(scheme); !ok || defaultPorts[scheme] == 0 {
		return refuseURL("does not begin with http:// or https://")
	}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	authority, rawPath := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, rawPath = rest[:i], rest[i:]
	}
	u := call.URL{Scheme: scheme}
	var fault string
	if u.Host, u.Port, fault = readAuthority(authority, defaultPorts[scheme]); fault != "" {
		return refuseURL(fault)
	}
	_, parent, _ := strings.Cut(u.Host, ".")
	if wildcard := "*." + parent; call.MatchHost(wildcard, u.Host) {
		u.Wildcard = wildcard
	}
	if u.Path, u.Segments, fault = readURLPath(rawPath); fault != "" {
		return refuseURL(fault)
	}
	if u.Query, fault = canonicalQuery(rawQuery); fault != "" {
		return refuseURL(fault)
	}
	text := urlText(u)
	if len(text) > MaxURLBytes {
		return refuseURL("is too long with its escapes")
	}
	return u, text, nil
}

func refuseURL(fault string) (call.URL, string, error) {
	return call.URL{}, "", &call.Error{Code: call.CodeFactsUnparsable, Detail: "the URL " + fault}
}

// urlTextFault refuses what parsers strip, turn into a slash or split at.
func urlTextFault(raw string) string {
	switch {
	case len(raw) > MaxURLBytes:
		return "is too long"
	case !utf8.ValidString(raw):
		return "is not UTF-8"
	case strings.ContainsFunc(raw, func(r rune) bool { return r == ' ' || unicode.IsControl(r) }):
		return "has a space or control character"
	case strings.Contains(raw, `\`):
		return "has a backslash"
	case strings.Contains(raw, "#"):
		return "has a fragment"
	}
	return ""
}

// readURLPath decodes a path once, segment by segment, so that an escaped slash
// cannot pass for a plain one.
func readURLPath(raw string) (path string, segments []string, fault string) {
	segments = []string{}
	if raw == "" || raw == "/" {
		return "/", segments, ""
	}
	for s := range strings.SplitSeq(raw[1:], "/") {
		s, ok := unescape(s)
		if !ok {
			return "", nil, "has a malformed escape in its path"
		}
		if strings.Contains(s, "/") {
			return "", nil, "has an escaped slash in its path"
		}
		segments = append(segments, s)
	}
	path = "/" + strings.Join(segments, "/")
	if fault := call.URLPathFault(path); fault != "" {
		return "", nil, "has a path that " + fault
	}
	if last := len(segments) - 1; segments[last] == "" {
		segments = segments[:last]
	}
	return path, segments, ""
}

// urlText writes the canonical text.
func urlText(u call.URL) string {
	var b strings.Builder
	b.WriteString(u.Scheme + "://" + u.Host)
	if u.Port != defaultPorts[u.Scheme] {
		b.WriteString(":" + strconv.Itoa(u.Port))
	}
	escape(&b, u.Path, pathChars)
	if u.Query != "" {
		b.WriteString("?" + u.Query)
	}
	return b.String()
}
