package call

import (
	"cmp"
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

func (e Exec) check(bad *faults, at string) {
	bad.add(at+".command", commandFault(e.Command))
	for i, p := range e.Args {
		bad.addIn(at+".args", i, argPatternFault(p))
	}
	for i, v := range e.Env {
		bad.addIn(at+".env", i, envFault(v))
	}
	bad.add(at+".env", envRepeats(e.Env))
	for i, p := range e.Ports {
		bad.addIn(at+".ports", i, portFault(p))
	}
	if enforcement(e.Enforcement) < 0 || e.Enforcement == "unavailable" {
		bad.add(at+".enforcement", "is neither enforced nor partial")
	}
}

// enforcement orders what the kernel does to confine a command; below 0 is no such word.
func enforcement(level string) int {
	switch level {
	case "", "unavailable":
		return 0
	case "partial":
		return 1
	case "enforced":
		return 2
	}
	return -1
}

// EnforcedAs reports whether a kernel that does this much confines runs of the entry as
// it demands. The words are enforced, partial and unavailable.
func (e Exec) EnforcedAs(level string) bool {
	return enforcement(e.Enforcement) >= 0 && enforcement(level) >= enforcement(e.Enforcement)
}

func (e Exec) allows(op Op) bool {
	return e.Command == op.Command &&
		slices.EqualFunc(e.Args, op.Argv, func(p, a string) bool { return argPatternFault(p) == "" && argCovers(p, a) }) &&
		envRepeats(e.Env) == "" &&
		within(e.Env, op.Env, func(v string) bool { return envFault(v) == "" }) &&
		within(e.Ports, op.Ports, func(p int) bool { return portFault(p) == "" }) &&
		e.EnforcedAs(op.Enforcement)
}

// within reports whether each of few is one of many, and sound.
func within[T comparable](many, few []T, sound func(T) bool) bool {
	return !slices.ContainsFunc(few, func(x T) bool { return !slices.Contains(many, x) || !sound(x) })
}

// coversExec is for normal entries.
func coversExec(a, b Exec) bool {
	return a.Command == b.Command && slices.EqualFunc(a.Args, b.Args, argCovers) &&
		!slices.ContainsFunc(b.Env, func(v string) bool { return !has(a.Env, v) }) &&
		!slices.ContainsFunc(b.Ports, func(p int) bool { return !has(a.Ports, p) }) &&
		enforcement(a.Enforcement) <= enforcement(b.Enforcement)
}

// meetExec is for normal entries.
func meetExec(a, b Exec) (Exec, bool) {
	if a.Command != b.Command || len(a.Args) != len(b.Args) {
		return Exec{}, false
	}
	m := Exec{a.Command, slices.Clone(a.Args), meetList(a.Env, b.Env, has), meetList(a.Ports, b.Ports, has), a.Enforcement}
	if enforcement(b.Enforcement) > enforcement(a.Enforcement) {
		m.Enforcement = b.Enforcement
	}
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
	return cmp.Or(strings.Compare(a.Command, b.Command), slices.Compare(a.Args, b.Args), slices.Compare(a.Env, b.Env), slices.Compare(a.Ports, b.Ports),
		strings.Compare(a.Enforcement, b.Enforcement))
}

func normalExec(e Exec) Exec {
	e.Args = append([]string{}, e.Args...) // no arguments has one form, not two
	e.Env, e.Ports = normalList(e.Env), normalList(e.Ports)
	return e
}
