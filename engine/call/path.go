package call

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxPath = 1024 // bytes; 32 of them, and as many effects as are listed, fit in a record

// pathFault says what is wrong with a path below a root, "" for nothing.
func pathFault(p string) string {
	if fault := textFault(p); fault != "" {
		return fault
	}
	switch {
	case p == "":
		return "is empty; the root itself is ."
	case len(p) > maxPath:
		return "is too long"
	case p == ".":
		return ""
	case p[0] == '/':
		return "is absolute; paths are below the root"
	}
	for s := range strings.SplitSeq(p, "/") {
		switch s {
		case "":
			return "has an empty segment"
		case ".", "..":
			return "has a dot segment"
		}
	}
	return ""
}

// pathCovers reports whether p is dir or below it. Both are valid.
func pathCovers(dir, p string) bool {
	return dir == "." || p == dir || (strings.HasPrefix(p, dir) && p[len(dir)] == '/')
}

// URLPathFault says what is wrong with the decoded path of a request, "" for
// nothing. Servers and proxies disagree about all that it refuses: an escape that
// is left after decoding, dot segments, parameters, empty segments.
func URLPathFault(p string) string {
	if fault := textFault(p); fault != "" {
		return fault
	}
	switch {
	case !strings.HasPrefix(p, "/"):
		return "does not begin with /"
	case len(p) > maxPath:
		return "is too long"
	case strings.Contains(p, "%"):
		return "has a %; paths are written decoded"
	case strings.Contains(p, ";"):
		return "has a ;"
	case strings.ContainsAny(p, "?#"):
		return "has a query or fragment"
	}
	segments := strings.Split(p[1:], "/")
	for i, s := range segments {
		switch {
		case s == "" && i < len(segments)-1:
			return "has an empty segment"
		case s == "." || s == "..":
			return "has a dot segment"
		}
	}
	return ""
}

// urlPrefixFault is URLPathFault for a prefix, where a last slash could mean two
// things.
func urlPrefixFault(p string) string {
	if fault := URLPathFault(p); fault != "" {
		return fault
	}
	if p != "/" && strings.HasSuffix(p, "/") {
		return "ends in /; a prefix covers all below it without"
	}
	return ""
}

// urlPathCovers reports whether prefix covers p by whole segments.
func urlPathCovers(prefix, p string) bool {
	return prefix == "/" || p == prefix || (strings.HasPrefix(p, prefix) && p[len(prefix)] == '/')
}

// hasURLPath is urlPathCovers for any of a sorted list.
func hasURLPath(sorted []string, p string) bool {
	for p != "" {
		if has(sorted, p) {
			return true
		}
		p = p[:strings.LastIndexByte(p, '/')]
	}
	return has(sorted, "/")
}

// normalURLPaths returns the list sorted, without repeats and without what a
// shorter prefix of the list covers.
func normalURLPaths(paths []string) []string {
	var out []string
	for _, p := range normalList(paths) { // shorter prefixes sort first
		if !hasURLPath(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// textFault refuses what file systems, servers and logs read differently.
func textFault(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has a control character"
	case strings.Contains(s, `\`):
		return "has a backslash"
	}
	return ""
}

// nameFault says what is wrong with the name of a root, network or secret.
func nameFault(s string) string {
	if s == "" || len(s) > 64 || s[0] < 'a' || s[0] > 'z' || slices.ContainsFunc([]byte(s), func(b byte) bool {
		return (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' && b != '_'
	}) {
		return "is not a name of a-z, 0-9, - and _, at most 64, a letter first"
	}
	return ""
}
