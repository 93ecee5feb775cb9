package call

import (
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// MatchHost reports whether host falls under pattern. It is the one host
// matcher: capabilities, facts and connections all ask it.
//
// A pattern is an exact name, or "*.x.y" for exactly one label below x.y and
// never x.y itself. Names are lower-case ASCII (IDNA names in their xn-- form)
// of at least two labels without a trailing dot. An IP address is not a name: it
// matches nothing, since a network and not a spelling says where it leads. A
// wildcard directly below a public suffix would cover names of many owners, so
// it matches nothing either, and neither does any other malformed pattern.
func MatchHost(pattern, host string) bool {
	return hostFault(host) == "" && hostPatternFault(pattern) == "" && hostCovers(pattern, host)
}

// hostPatternFault says what is wrong with a pattern, "" for nothing.
func hostPatternFault(p string) string {
	parent, wild := strings.CutPrefix(p, "*.")
	if fault := hostFault(parent); fault != "" || !wild {
		return fault
	}
	// The second question catches rules like *.ck, where each name that the
	// pattern matches is a public suffix of its own.
	for _, name := range []string{parent, "probe." + parent} {
		if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
			return "is a wildcard over a public suffix"
		}
	}
	return ""
}

// hostFault says what is wrong with a host name, "" for nothing.
func hostFault(h string) string {
	if len(h) > 253 {
		return "is longer than 253 characters"
	}
	labels := strings.Split(h, ".")
	if len(labels) < 2 {
		return "needs at least two labels"
	}
	for _, l := range labels {
		if fault := labelFault(l); fault != "" {
			return fault
		}
	}
	// URL parsers read a name that ends in a number, even 0x7f, as an IPv4 address.
	if last := labels[len(labels)-1]; last[0] < 'a' {
		return "ends in a number, as only IP addresses do"
	}
	return ""
}

func labelFault(l string) string {
	switch {
	case l == "":
		return "has an empty label"
	case len(l) > 63:
		return "has a label longer than 63 characters"
	case l[0] == '-' || l[len(l)-1] == '-':
		return "has a label that begins or ends with a hyphen"
	}
	for _, b := range []byte(l) {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' {
			return "has a character that is not a lower-case letter, a digit or a hyphen"
		}
	}
	if strings.HasPrefix(l, "xn--") {
		// A label that does not decode, or not to itself, is read differently by
		// different resolvers.
		if a, err := idna.Lookup.ToASCII(l); err != nil || a != l {
			return "has a label that is not valid IDNA"
		}
	}
	return ""
}

// hostCovers reports whether all that q matches p matches too. Both are valid.
func hostCovers(p, q string) bool { return p == q || p == wildcard(q) }

// wildcard is the one wildcard that covers h: for a wildcard, itself.
func wildcard(h string) string {
	_, parent, _ := strings.Cut(h, ".")
	return "*." + parent
}

// hasHost is hostCovers for any of a sorted list.
func hasHost(sorted []string, h string) bool {
	return has(sorted, h) || has(sorted, wildcard(h))
}

// normalHosts returns the list sorted, without repeats and without names that a
// wildcard of the list covers.
func normalHosts(hosts []string) []string {
	all := normalList(hosts)
	return slices.DeleteFunc(slices.Clone(all), func(h string) bool {
		return !strings.HasPrefix(h, "*.") && has(all, wildcard(h))
	})
}
