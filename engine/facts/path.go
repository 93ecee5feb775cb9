package facts

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/callgate/callgate/engine/call"
)

// MaxPathBytes is the longest path that is read.
const MaxPathBytes = 1024

var rootForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// ParsePath reads a path of the form /root/a/b, as guests see the directories that
// they are granted, and returns it as a fact, without a mode, together with its
// canonical text. Root is the name of a root that the operator configured; Path is
// below it, "." for the root itself.
//
// Repeated and trailing slashes are folded. Refused are paths that are relative or
// have a dot segment, which links may turn into another place, and text that looks
// like another or that file systems store as another: control and format
// characters, backslashes, Unicode that is not in form C.
//
// # Errors
//
// [*call.Error] with [call.CodeFactsUnparsable]. Its Detail says what is wrong and
// holds nothing of the path.
func ParsePath(raw string) (call.Path, string, error) {
	if fault := pathTextFault(raw); fault != "" {
		return refusePath(fault)
	}
	segments := []string{}
	for s := range strings.SplitSeq(raw, "/") {
		switch s {
		case "":
			continue
		case ".", "..":
			return refusePath("has a dot segment")
		}
		segments = append(segments, s)
	}
	if len(segments) == 0 || !rootForm.MatchString(segments[0]) {
		return refusePath("does not begin with the name of a root")
	}
	p := call.Path{Root: segments[0], Path: ".", Segments: segments[1:]}
	text := "/" + strings.Join(segments, "/")
	if len(p.Segments) > 0 {
		p.Path = strings.Join(p.Segments, "/")
	}
	return p, text, nil
}

func refusePath(fault string) (call.Path, string, error) {
	return call.Path{}, "", &call.Error{Code: call.CodeFactsUnparsable, Detail: "the path " + fault}
}

func pathTextFault(raw string) string {
	switch {
	case len(raw) > MaxPathBytes:
		return "is too long"
	case !strings.HasPrefix(raw, "/"):
		return "does not begin with /"
	case !utf8.ValidString(raw):
		return "is not UTF-8"
	case strings.Contains(raw, `\`):
		return "has a backslash"
	case strings.ContainsFunc(raw, unseen):
		return "has a control or format character"
	case !norm.NFC.IsNormalString(raw):
		return "is not in Unicode form C"
	}
	return ""
}

// unseen reports whether r shows as nothing, as a new line, or turns around what
// stands beside it.
func unseen(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
