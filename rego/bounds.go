package rego

import (
	"errors"
	"fmt"
	"io/fs"
)

// The most of one module. OPA's compiler takes time that doubles with each level of
// the first, and that grows with the square of the others. No policy that people read
// comes near.
const (
	maxHeavyDeep = 8      // comprehensions, templates, every and composite keys within each other
	maxBrackets  = 64     // brackets of any kind within each other
	maxRules     = 10_000 // lines that begin a rule
	maxElse      = 500
	maxWith      = 2000
)

// checkBounds refuses modules that OPA would take minutes or for ever to compile,
// before it parses them. What it overlooks, the time for loading ends.
func checkBounds(fsys fs.FS) error {
	var errs []error
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !isModule(name) {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		s := scan{text: b, line: 1, open: []bracket{{}}}
		if err := s.run(); err != nil {
			errs = append(errs, &fault{fmt.Sprintf("%s:%d", name, s.line), err})
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// bracket is one that is open, or the module itself.
type bracket struct {
	by    byte // ( [ { or, of a string with expressions in it, " or `
	heavy bool // it counts as one level
	every bool // those in it are bodies of every
	deep  int  // levels in those that were closed in it
}

// scan is one pass over the tokens of a module, as far as they are told apart here.
type scan struct {
	text []byte
	at   int
	line int // of at
	open []bracket

	fresh             bool // nothing but blanks stands before in this line
	closed            int  // levels of the bracket that was closed just before; -1: none was
	rules, alts, with int
}

func (s *scan) run() error {
	s.fresh, s.closed = true, -1
	for s.at < len(s.text) {
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) step() error {
	c := s.text[s.at]
	fresh, closed := s.fresh, s.closed
	top := &s.open[len(s.open)-1]
	if c == '\n' {
		s.line++
		s.fresh = true
	} else if c != ' ' && c != '\t' && c != '\r' {
		s.fresh, s.closed = false, -1
	}
	s.at++
	switch {
	case c == '#':
		for s.at < len(s.text) && s.text[s.at] != '\n' {
			s.at++
		}
		s.closed = closed
	case c == '"' || c == '`':
		s.skip(c, false)
	case c == '$' && s.at < len(s.text) && (s.text[s.at] == '"' || s.text[s.at] == '`'):
		s.at++
		s.open = append(s.open, bracket{by: s.text[s.at-1], heavy: true})
		return s.template()
	case c == '(' || c == '[' || c == '{':
		s.open = append(s.open, bracket{by: c, heavy: c == '{' && top.every})
		return s.depth()
	case c == ')' || c == ']' || c == '}':
		return s.end()
	case c == '|' && top.by != '(':
		top.heavy = len(s.open) > 1
		return s.depth()
	case c == ':' && closed >= 0 && top.by == '{' && (s.at == len(s.text) || s.text[s.at] != '='):
		top.deep = max(top.deep, closed+1)
		return s.depth()
	case isLetter(c):
		return s.word(fresh)
	}
	return nil
}

// depth refuses what is too deep, as far as it was seen.
func (s *scan) depth() error {
	levels := 0
	for _, b := range s.open {
		if b.heavy {
			levels++
		}
	}
	deep := s.open[len(s.open)-1].deep
	switch {
	case levels+deep > maxHeavyDeep:
		return fmt.Errorf("comprehensions, templates, every and composite keys stand more than %d deep within each other; give the inner ones names", maxHeavyDeep)
	case len(s.open)-1 > maxBrackets:
		return fmt.Errorf("brackets stand more than %d deep within each other", maxBrackets)
	}
	return nil
}

// end closes the innermost bracket. In a template, its text goes on.
func (s *scan) end() error {
	if len(s.open) == 1 {
		return nil // OPA says what is wrong
	}
	s.close()
	if by := s.open[len(s.open)-1].by; by == '"' || by == '`' {
		return s.template()
	}
	return s.depth()
}

func (s *scan) close() {
	last := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	s.closed = last.deep
	if last.heavy {
		s.closed++
	}
	top := &s.open[len(s.open)-1]
	top.deep = max(top.deep, s.closed)
	if len(s.open) == 1 {
		top.deep = 0 // what stands beside it is another rule
	}
}

// template passes over text up to an expression or the end.
func (s *scan) template() error {
	if s.skip(s.open[len(s.open)-1].by, true) {
		s.open = append(s.open, bracket{by: '{'})
		return s.depth()
	}
	s.close()
	return nil
}

// skip passes over the rest of a string, and says whether an expression stopped it.
func (s *scan) skip(quote byte, template bool) (expression bool) {
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '\n':
			s.line++
			if quote == '"' {
				return false // OPA says that it does not end
			}
		case c == quote:
			return false
		case c == '\\' && s.at < len(s.text) && (quote == '"' && s.text[s.at] != '\n' || template && s.text[s.at] == '{'):
			s.at++
		case c == '{' && template:
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func (s *scan) word(fresh bool) error {
	from := s.at - 1
	for s.at < len(s.text) && (isLetter(s.text[s.at]) || s.text[s.at] >= '0' && s.text[s.at] <= '9') {
		s.at++
	}
	switch string(s.text[from:s.at]) {
	case "every":
		s.open[len(s.open)-1].every = len(s.open) > 1
	case "else":
		s.alts++
	case "with":
		s.with++
	}
	if fresh && len(s.open) == 1 {
		s.rules++
	}
	for _, b := range []struct {
		n, most int
		what    string
	}{{s.rules, maxRules, "rules"}, {s.alts, maxElse, "else"}, {s.with, maxWith, "with"}} {
		if b.n > b.most {
			return fmt.Errorf("has more than %d %s; make two modules of it, or data", b.most, b.what)
		}
	}
	return nil
}
