package call

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Patterns of arguments are
//
//	abc     this argument
//	abc*    any argument that begins with abc
//	*       any argument that does not begin with a hyphen
//
// A bare star stands for an operand. Were it to match options too, a grant of
// one file name would be a grant of --output=anywhere; write -* to mean that.
// A star elsewhere is refused.

func argPatternFault(p string) string {
	switch {
	case len(p) > maxPath:
		return "is too long"
	case !utf8.ValidString(p):
		return "is not UTF-8"
	case strings.ContainsRune(p, 0):
		return "has a NUL"
	case strings.Contains(strings.TrimSuffix(p, "*"), "*"):
		return "has a * that is not its last character"
	}
	return ""
}

func commandFault(c string) string {
	if c == "" {
		return "is empty"
	}
	return textFault(c)
}

// argCovers reports whether p matches all that q matches. It serves for arguments
// as well, stars and all: a prefix never ends in one.
func argCovers(p, q string) bool {
	prefix, star := strings.CutSuffix(p, "*")
	switch {
	case !star:
		return p == q
	case prefix == "":
		return !strings.HasPrefix(q, "-")
	}
	return strings.HasPrefix(strings.TrimSuffix(q, "*"), prefix)
}

func (e Exec) allows(command string, argv []string) bool {
	return e.Command == command && slices.EqualFunc(e.Args, argv, func(p, a string) bool {
		return argPatternFault(p) == "" && argCovers(p, a)
	})
}

func coversExec(a, b Exec) bool {
	return a.Command == b.Command && slices.EqualFunc(a.Args, b.Args, argCovers)
}

func meetExec(a, b Exec) (Exec, bool) {
	if a.Command != b.Command || len(a.Args) != len(b.Args) {
		return Exec{}, false
	}
	m := Exec{a.Command, slices.Clone(a.Args)}
	for i, p := range a.Args {
		switch q := b.Args[i]; {
		case argCovers(p, q):
			m.Args[i] = q
		case !argCovers(q, p):
			return Exec{}, false
		}
	}
	return m, true
}

func compareExec(a, b Exec) int {
	if c := strings.Compare(a.Command, b.Command); c != 0 {
		return c
	}
	return slices.Compare(a.Args, b.Args)
}

func normalExec(e Exec) Exec {
	e.Args = append([]string{}, e.Args...) // no arguments has one form, not two
	return e
}
