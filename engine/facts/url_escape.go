package facts

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~" // RFC 3986 section 2.3

	// pathChars stand for themselves in a path, RFC 3986 section 3.3. The plus sign
	// is left out, since some servers read it as a space there too.
	pathChars = unreserved + "!$&'()*,=:@/"
)

// canonicalQuery spells every key and value of a query in one way, as the form
// encoding of the WHATWG URL standard does, but a space is %20. A key without = is
// kept so.
func canonicalQuery(raw string) (query, fault string) {
	if raw == "" {
		return "", ""
	}
	if strings.Contains(raw, ";") {
		return "", "has a ; in its query, which some read as &"
	}
	var b strings.Builder
	for i, pair := range strings.Split(raw, "&") {
		if i > 0 {
			b.WriteByte('&')
		}
		key, value, stated := strings.Cut(strings.ReplaceAll(pair, "+", " "), "=")
		if key == "" {
			return "", "has an empty key in its query"
		}
		if fault := writeQuery(&b, key); fault != "" {
			return "", fault
		}
		if !stated {
			continue
		}
		b.WriteByte('=')
		if fault := writeQuery(&b, value); fault != "" {
			return "", fault
		}
	}
	return b.String(), ""
}

func writeQuery(b *strings.Builder, raw string) (fault string) {
	s, ok := unescape(raw)
	switch {
	case !ok:
		return "has a malformed escape in its query"
	case !utf8.ValidString(s):
		return "has a query that is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has a control character in its query"
	}
	escape(b, s, unreserved)
	return ""
}

// escape writes every byte that is not in plain as %XX, RFC 3986 section 2.1.
func escape(b *strings.Builder, s, plain string) {
	const hex = "0123456789ABCDEF"
	for _, c := range []byte(s) {
		if strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
}

// unescape undoes %XX once and reports whether every % was one. A + stays a +.
func unescape(s string) (string, bool) {
	s, err := url.PathUnescape(s)
	return s, err == nil
}
