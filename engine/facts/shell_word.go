package facts

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command: what the program gets when it is known, else its
// source.
type word struct {
	text  string
	known bool
}

func texts(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return out
}

func allKnown(words []word) bool {
	for _, w := range words {
		if !w.known {
			return false
		}
	}
	return true
}

// word resolves w, and reads the commands that are substituted into it.
func (r *reader) word(w *syntax.Word, at places) word {
	if w == nil {
		return word{"", true}
	}
	r.substituted(w, at)
	return r.plain(w)
}

// plain resolves w and looks for no commands in it.
func (r *reader) plain(w *syntax.Word) word {
	var b strings.Builder
	known := true
	for i, part := range w.Parts {
		text, ok := r.part(part, i == 0)
		if lit, isLit := part.(*syntax.Lit); isLit && strings.HasSuffix(lit.Value, "$") && i+1 < len(w.Parts) {
			ok = false // $'x' is read as two parts where it is no quoting
		}
		b.WriteString(text)
		known = known && ok
	}
	return word{b.String(), known && !braces(w)}
}

// part returns what part stands for and whether that is known; else its source.
func (r *reader) part(part syntax.WordPart, first bool) (string, bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		return unquoted(p.Value, first)
	case *syntax.SglQuoted:
		if !p.Dollar {
			return p.Value, true
		}
		if text, ok := ansiC(p.Value); ok {
			return text, true
		}
	case *syntax.DblQuoted:
		var b strings.Builder
		known := !p.Dollar // $"x" is translated
		for _, q := range p.Parts {
			text, ok := "", false
			if lit, isLit := q.(*syntax.Lit); isLit {
				text, ok = doubleQuoted(lit.Value)
			} else {
				text = r.source(q)
			}
			b.WriteString(text)
			known = known && ok
		}
		return b.String(), known
	}
	return r.source(part), false
}

func (r *reader) source(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(r.src)) {
		return ""
	}
	return r.src[from:to]
}

// unquoted undoes the backslashes of text without quotes. The text is not known
// when the shell makes something else of it: patterns, tildes, history.
func unquoted(s string, first bool) (string, bool) {
	var b strings.Builder
	known := true
	bracket := false
	before := byte('a') // in front of s stands some other part, or nothing
	if first {
		before = ':'
		known = !strings.HasPrefix(s, "=") // zsh makes =ls the path of ls
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
			if i == len(s) {
				return s, false
			}
			if s[i] == '\n' {
				continue
			}
		case c == '*' || c == '?' || c == ']' && bracket || c == '`':
			known = false
		case c == '[':
			bracket = true
		case c == '~' && (before == ':' || before == '='):
			known = false
		case c == '!' && history(s[i+1:]):
			known = false
		}
		b.WriteByte(s[i])
		before = s[i]
	}
	return b.String(), known
}

// history reports whether a ! before rest is one that interactive shells replace.
func history(rest string) bool { return rest != "" && !strings.ContainsRune(" \t\n=(", rune(rest[0])) }

func doubleQuoted(s string) (string, bool) {
	var b strings.Builder
	known := true
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		} else if s[i] == '!' && history(s[i+1:]) {
			known = false
		}
		b.WriteByte(s[i])
	}
	return b.String(), known
}

// braces reports whether bash may make several words of w, as of a{b,c}.
func braces(w *syntax.Word) bool {
	open, divided := false, false
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			continue
		}
		for i := 0; i < len(lit.Value); i++ {
			switch lit.Value[i] {
			case '\\':
				i++
			case '{':
				open = true
			case ',':
				divided = open
			case '.':
				divided = divided || open && strings.HasPrefix(lit.Value[i:], "..")
			case '}':
				if divided {
					return true
				}
			}
		}
	}
	return false
}

var ansiLetters = map[byte]string{
	'a': "\a", 'b': "\b", 'e': "\x1b", 'E': "\x1b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
	'\\': `\`, '\'': "'", '"': `"`, '?': "?",
}

// ansiC undoes the escapes of $'...', as far as all shells that have it agree.
func ansiC(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", false
		}
		if text, ok := ansiLetters[s[i]]; ok {
			b.WriteString(text)
			continue
		}
		from, most, base := i+1, 0, 16
		switch c := s[i]; {
		case c == 'x':
			most = 2
		case c == 'u':
			most = 4
		case c == 'U':
			most = 8
		case c >= '0' && c <= '7':
			from, most, base = i, 3, 8
		}
		to := from
		for to < len(s) && to-from < most && isDigit(s[to], base) {
			to++
		}
		n, err := strconv.ParseUint(s[from:to], base, 32)
		if err != nil || n == 0 || n > utf8.MaxRune {
			return "", false
		}
		if s[i] == 'u' || s[i] == 'U' {
			b.WriteRune(rune(n))
		} else {
			b.WriteByte(byte(n))
		}
		i = to - 1
	}
	return b.String(), utf8.ValidString(b.String())
}

func isDigit(c byte, base int) bool {
	_, err := strconv.ParseUint(string(c), base, 8)
	return err == nil
}
