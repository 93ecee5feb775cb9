package hostfx

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Limits of the headers of a request.
const (
	maxHeaders     = 64
	maxHeaderBytes = 16 << 10
)

// framing are the headers that say where a message ends or what becomes of the
// connection (RFC 9110 section 7.6.1), with those that lead a request elsewhere.
var framing = []string{
	"connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade",
}

// identity are the headers by which servers know who asks, and those by which
// some of them take another method or path than the request's own.
var identity = []string{
	"authorization", "cookie", "cookie2", "forwarded", "via",
	"true-client-ip", "client-ip", "x-client-ip", "x-real-ip", "x-cluster-client-ip", "cf-connecting-ip", "fastly-client-ip",
	"remote-user", "x-remote-user", "x-authenticated-user", "x-forwarded", "x-host",
	"x-http-method", "x-http-method-override", "x-method-override", "x-rewrite-url",
}

var identityPrefixes = []string{"x-forwarded-", "x-original-", "x-auth-request-", "x-envoy-", "x-amzn-oidc-", "sec-"}

// folded is a header's name as the laxest server reads it: CGI and its heirs
// make one character of all that are neither letters nor digits.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

func isFraming(name string) bool {
	name = folded(name)
	return slices.Contains(framing, name) || name == "proxy" || strings.HasPrefix(name, "proxy-")
}

func isIdentity(name string) bool {
	name = folded(name)
	return slices.Contains(identity, name) ||
		slices.ContainsFunc(identityPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// isOurs reports whether the host sets the header when the tool does not.
func isOurs(name string) bool {
	return slices.Contains([]string{"user-agent", "accept-encoding"}, folded(name))
}

// requestHeader returns a copy of the headers that a tool gives, or which of
// them is not its to set.
func requestHeader(in http.Header) (http.Header, error) {
	out, n, size := http.Header{}, 0, 0
	for name, values := range in {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("%w: malformed header name", ErrBadRequest)
		}
		if isFraming(name) || isIdentity(name) {
			return nil, fmt.Errorf("%w: the header %.40s is not the tool's to set", ErrBadRequest, folded(name))
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("%w: malformed header value", ErrBadRequest)
			}
			n++
			size += len(name) + len(v) + len(": \r\n")
			out.Add(name, v)
		}
	}
	if n > maxHeaders || size > maxHeaderBytes {
		return nil, fmt.Errorf("%w: more than %d headers or %d bytes of them", ErrBadRequest, maxHeaders, maxHeaderBytes)
	}
	if out["User-Agent"] == nil {
		out.Set("User-Agent", "callgate")
	}
	if out["Accept-Encoding"] == nil {
		out.Set("Accept-Encoding", "identity") // nothing here undoes a coding
	}
	return out, nil
}
