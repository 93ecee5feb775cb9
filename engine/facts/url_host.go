package facts

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/callgate/callgate/engine/call"
)

// maxAuthority is in bytes. A name has at most 253 characters, and IDNA takes a
// time that grows with the square of what it is given.
const maxAuthority = 1024

// oldIDNA reads names as IDNA2003 did, which some programs still do.
var oldIDNA = idna.New(idna.MapForLookup(), idna.Transitional(true))

// readAuthority reads host[:port].
func readAuthority(s string, defaultPort int) (host string, port int, fault string) {
	switch {
	case s == "" || s[0] == ':':
		return "", 0, "has no host"
	case len(s) > maxAuthority:
		return "", 0, "has a host that is too long"
	case strings.Contains(s, "@"):
		return "", 0, "has user information"
	case strings.ContainsAny(s, "[]"):
		return "", 0, "has an IP address for a host"
	case strings.Contains(s, "%"):
		return "", 0, "has an escape in its host"
	}
	s, rawPort, stated := strings.Cut(s, ":")
	if port = defaultPort; stated {
		if port = readPort(rawPort); port == 0 {
			return "", 0, "has a port that is not a plain number of 1 to 65535"
		}
	}
	host, fault = readHost(s)
	return host, port, fault
}

// readPort returns 0 for what is not a port in its one plain spelling.
func readPort(s string) int {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || strconv.FormatUint(port, 10) != s {
		return 0
	}
	return int(port)
}

// readHost returns a name in lower-case ASCII that [call.MatchHost] takes.
func readHost(s string) (host, fault string) {
	host = strings.ToLower(s)
	// Names in plain ASCII are not put to IDNA: it refuses some that are in use,
	// such as r3---sn.example.com.
	if !isASCII(s) || strings.Contains(host, "xn--") {
		a, err := idna.Lookup.ToASCII(s)
		if err != nil {
			return "", "has a host that is not a valid internationalised name"
		}
		if isASCII(s) && a != host {
			return "", "has a host in xn-- form that does not stand for itself"
		}
		if old, err := oldIDNA.ToASCII(s); !isASCII(s) && (err != nil || old != a) {
			return "", "has a host that the versions of IDNA read differently; write its xn-- form"
		}
		host = a
	}
	if call.MatchHost(host, host) {
		return host, ""
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case last == "":
		return "", "has a host that ends in a dot"
	case last[0] >= '0' && last[0] <= '9':
		return "", "has an IP address for a host, or a name that ends in a number"
	case len(labels) < 2:
		return "", "has a host of one label"
	}
	return "", "has a host that is not a valid name"
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}
