package facts

import (
	"slices"
	"strings"

	"github.com/callgate/callgate/engine/call"
)

// every is the segment for all items of an array.
const every = "*"

// ParsePointer returns the segments of a JSON pointer (RFC 6901) with their escapes
// undone, and whether it is one to something within the arguments. * is left as it
// is.
func ParsePointer(s string) ([]string, bool) {
	if !strings.HasPrefix(s, "/") {
		return nil, false
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(t), "~") {
			return nil, false
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens, true
}

// pointer is a place in a declaration.
type pointer struct {
	text   string // as the declaration writes it
	tokens []string
}

func newPointer(text string) pointer {
	tokens, _ := ParsePointer(text)
	return pointer{text, tokens}
}

// refuse is the error for what stands at p.
func (p pointer) refuse(fault string) error {
	return &call.Error{Code: call.CodeFactsUnparsable, Detail: "at " + p.text + ": " + fault}
}

// found is one value among decoded arguments that a pointer leads to.
type found struct {
	value any
	set   func(any)
	items []int // which item each * of the pointer stands for
}

// each visits every value below f that p leads to from its token i on, in the
// order of the arrays, and stops at the first error.
func (p pointer) each(f found, i int, visit func(found) error) error {
	if i == len(p.tokens) {
		return visit(f)
	}
	if name := p.tokens[i]; name != every {
		object, ok := f.value.(map[string]any)
		if !ok {
			return p.refuse("is not within an object")
		}
		value, ok := object[name]
		if !ok {
			return p.refuse("is missing")
		}
		return p.each(found{value, func(v any) { object[name] = v }, f.items}, i+1, visit)
	}
	array, ok := f.value.([]any)
	if !ok {
		return p.refuse("is not within an array")
	}
	if len(array) == 0 {
		return p.refuse("is missing, since the array has no items")
	}
	for n, value := range array {
		items := append(slices.Clip(f.items), n)
		if err := p.each(found{value, func(v any) { array[n] = v }, items}, i+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// at returns the one string that p leads to when each * is the item of items.
func (p pointer) at(value any, items []int) (string, error) {
	for _, token := range p.tokens {
		var next any
		switch v := value.(type) {
		case map[string]any:
			next = v[token] // a null is no string either
		case []any:
			if token == every && len(items) > 0 && items[0] < len(v) {
				next, items = v[items[0]], items[1:]
			}
		}
		value = next
	}
	s, ok := value.(string)
	if !ok {
		return "", p.refuse("is missing, or is not a string")
	}
	return s, nil
}
