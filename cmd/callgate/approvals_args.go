package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
)

const (
	foldOver = 256     // strings of more bytes are folded
	foldTo   = 160     // to so many
	foldRest = 8 << 10 // once so much is printed, further members are folded
)

// printedArgs are arguments for people. What is not JSON in it stands in angle
// brackets outside of strings, where no argument can put any.
func printedArgs(args jsontext.Value, masked []engine.Masked, full bool) (string, error) {
	p := &printedJSON{d: jsontext.NewDecoder(strings.NewReader(string(args))), masked: map[jsontext.Pointer]engine.Masked{}, full: full}
	for _, m := range masked {
		p.masked[m.At] = m
	}
	err := p.value("")
	return p.out.String(), err
}

type printedJSON struct {
	d      *jsontext.Decoder
	masked map[jsontext.Pointer]engine.Masked
	full   bool
	out    strings.Builder
}

func (p *printedJSON) value(at jsontext.Pointer) error {
	if m, ok := p.masked[at]; ok {
		size := ""
		if m.Bytes > 0 || m.Type == "string" {
			size = fmt.Sprintf(", %d bytes", m.Bytes)
		}
		fmt.Fprintf(&p.out, "<secret %s%s, %s>", m.Type, size, m.Digest)
		return p.d.SkipValue()
	}
	switch p.d.PeekKind() {
	case '{', '[':
		return p.members(at)
	case '"':
		t, err := p.d.ReadToken()
		if err == nil {
			err = p.text(t.String())
		}
		return err
	}
	v, err := p.d.ReadValue()
	p.out.Write(v)
	return err
}

func (p *printedJSON) members(at jsontext.Pointer) error {
	open, err := p.d.ReadToken()
	if err != nil {
		return err
	}
	object := open.Kind() == '{'
	p.out.WriteString(open.String())
	for i := 0; ; i++ {
		if kind := p.d.PeekKind(); kind == '}' || kind == ']' {
			end, err := p.d.ReadToken()
			p.out.WriteString(end.String())
			return err
		}
		if i > 0 {
			p.out.WriteByte(',')
		}
		if !p.full && p.out.Len() > foldRest {
			if err := p.rest(object); err != nil {
				return err
			}
			continue
		}
		name := fmt.Sprint(i)
		if object {
			t, err := p.d.ReadToken()
			if err != nil {
				return err
			}
			name = t.String()
			if err := p.text(name); err != nil {
				return err
			}
			p.out.WriteByte(':')
		}
		if err := p.value(at.AppendToken(name)); err != nil {
			return err
		}
	}
}

// rest says how much follows in the object or array, and skips it.
func (p *printedJSON) rest(object bool) error {
	n, from := 0, p.d.InputOffset()
	for kind := p.d.PeekKind(); kind != '}' && kind != ']'; kind = p.d.PeekKind() {
		if object {
			if _, err := p.d.ReadToken(); err != nil {
				return err
			}
		}
		if err := p.d.SkipValue(); err != nil {
			return err
		}
		n++
	}
	fmt.Fprintf(&p.out, "<%d more of %d bytes; --full shows all>", n, p.d.InputOffset()-from)
	return nil
}

func (p *printedJSON) text(s string) error {
	cut := s
	if !p.full && len(s) > foldOver {
		end := foldTo
		for !utf8.RuneStart(s[end]) {
			end--
		}
		cut = s[:end]
	}
	b, err := jsontext.AppendQuote(nil, cut)
	p.out.Write(b)
	if len(cut) < len(s) {
		fmt.Fprintf(&p.out, "<the first %d of %d bytes; --full shows all>", len(cut), len(s))
	}
	return err
}

// visible writes what nobody sees, and what changes how other text looks, as JSON
// escapes it: control characters, spaces other than the usual one, directions (bidi),
// joiners, variation selectors and the like.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// alike are scripts with letters that look like another's.
var alike = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"Latin", unicode.Latin}, {"Cyrillic", unicode.Cyrillic}, {"Greek", unicode.Greek}, {"Armenian", unicode.Armenian}, {"Cherokee", unicode.Cherokee},
}

// lookAlikes names the first few words that mix such scripts.
func lookAlikes(s string) (out []string) {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }) {
		var mixed []string
		for _, script := range alike {
			if strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(script.table, r) }) {
				mixed = append(mixed, script.name)
			}
		}
		if len(mixed) < 2 {
			continue
		}
		if len(out) == 3 {
			return append(out, "and further words like these")
		}
		if len(word) > foldTo {
			word = strings.ToValidUTF8(word[:foldTo], "") + "..."
		}
		out = append(out, fmt.Sprintf("letters of %s in one word: %+q", strings.Join(mixed, " and "), word))
	}
	return out
}
