package facts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/callgate/callgate/engine/call"
)

// maxDeclared is how many arguments of a family a tool can declare. An array is
// one.
const maxDeclared = 32

var modes = []string{call.ModeRead, call.ModeAppend, call.ModeWrite, call.ModeList, call.ModeRemove}

// Declaration says which arguments of a tool are URLs, paths and commands. The zero
// value declares none.
//
// Places are JSON pointers (RFC 6901) into the arguments, in which the segment *
// stands for every item of an array: /url, /requests/*/url.
type Declaration struct {
	URLs     []URLAt     `json:"urls"`
	Paths    []PathAt    `json:"paths"`
	Commands []CommandAt `json:"commands"`
}

// URLAt declares a URL and the method that it is requested with: a fixed one, or
// the argument at MethodAt. Exactly one of the two is set. A * in MethodAt means the
// same item as the one in At, so all before it is the same there.
type URLAt struct {
	At       string `json:"at"`
	Method   string `json:"method"`
	MethodAt string `json:"method_at"`
}

// PathAt declares a path and the mode that it is used with (read, append, write,
// list, remove): a fixed one, or the argument at ModeAt, as in [URLAt]. A path that
// is used in two ways is declared twice.
type PathAt struct {
	At     string `json:"at"`
	Mode   string `json:"mode"`
	ModeAt string `json:"mode_at"`
}

// CommandAt declares what is run: a line for a shell, the string At, or one program
// with its arguments, the array of strings Argv. Exactly one of the two is set. A
// tool that takes an array runs it without a shell.
type CommandAt struct {
	At   string `json:"at"`
	Argv string `json:"argv"`
}

// IsZero reports whether d declares nothing.
func (d Declaration) IsZero() bool { return len(d.URLs)+len(d.Paths)+len(d.Commands) == 0 }

// Validate checks the declaration by itself. The error names each place and what
// is wrong there.
func (d Declaration) Validate() error {
	var errs []error
	bad := func(family string, i int, fault string) {
		if fault != "" {
			errs = append(errs, fmt.Errorf("%s[%d]: %s", family, i, fault))
		}
	}
	if max(len(d.URLs), len(d.Paths), len(d.Commands)) > maxDeclared {
		return fmt.Errorf("has more than %d urls, paths or commands", maxDeclared)
	}
	for i, u := range d.URLs {
		bad("urls", i, u.source().fault())
		if slices.Contains(d.URLs[:i], u) {
			bad("urls", i, "stands there twice")
		}
	}
	for i, p := range d.Paths {
		bad("paths", i, p.source().fault())
		if slices.Contains(d.Paths[:i], p) {
			bad("paths", i, "stands there twice")
		}
		if slices.ContainsFunc(d.URLs, func(u URLAt) bool { return u.At == p.At }) {
			bad("paths", i, "is declared as a URL too")
		}
	}
	for i, c := range d.Commands {
		bad("commands", i, c.fault())
		if slices.Contains(d.Commands[:i], c) {
			bad("commands", i, "stands there twice")
		}
		if slices.ContainsFunc(d.URLs, func(u URLAt) bool { return u.At == c.at() }) || slices.ContainsFunc(d.Paths, func(p PathAt) bool { return p.At == c.at() }) {
			bad("commands", i, "is declared as a URL or path too")
		}
	}
	return errors.Join(errs...)
}

// at is where the command stands, in either form.
func (c CommandAt) at() string { return c.At + c.Argv }

func (c CommandAt) fault() string {
	if (c.At == "") == (c.Argv == "") {
		return "needs one of at and argv"
	}
	if _, ok := ParsePointer(c.at()); !ok {
		return "at or argv is not a JSON pointer to an argument"
	}
	return ""
}

// IsMethod reports whether s has the form of a method: upper-case letters and
// hyphens, at most 32. Case is never changed, since methods have one (RFC 9110
// section 9.1).
func IsMethod(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

// IsMode reports whether s is a mode of paths.
func IsMode(s string) bool { return slices.Contains(modes, s) }

// source is one declared argument of either family, with the word that goes with
// it: a method or a mode.
type source struct {
	at, word, wordAt string
	noun             string
	isWord           func(string) bool
}

func (u URLAt) source() source { return source{u.At, u.Method, u.MethodAt, "method", IsMethod} }

func (p PathAt) source() source { return source{p.At, p.Mode, p.ModeAt, "mode", IsMode} }

func (s source) fault() string {
	at, ok := ParsePointer(s.at)
	if !ok {
		return "at is missing, or is not a JSON pointer to an argument"
	}
	if (s.word == "") == (s.wordAt == "") {
		return "needs one of " + s.noun + " and " + s.noun + "_at"
	}
	if s.word != "" {
		if !s.isWord(s.word) {
			return s.noun + " is not one that is known"
		}
		return ""
	}
	wordAt, ok := ParsePointer(s.wordAt)
	if !ok {
		return s.noun + "_at is not a JSON pointer to an argument"
	}
	for i, token := range wordAt {
		if token == every && (i >= len(at) || !slices.Equal(at[:i+1], wordAt[:i+1])) {
			return s.noun + "_at has a * that is not an item of what at names"
		}
	}
	return ""
}
