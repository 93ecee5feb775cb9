package tool

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// closer finds values that a schema leaves open: objects with properties nobody
// named, arrays of anything, values of any type. What policy and the tool read
// from such a value, nobody has checked. It takes the plain ways to close a value
// and refuses the clever ones.
type closer struct {
	defs map[string]any

	// Definitions that were looked at, or are being looked at further up: one may
	// hold itself. The first open place ends the search, so either is good news.
	values, members map[string]bool
}

// value returns an error that names the first place where a value that fits
// schema may hold something open.
func (c *closer) value(schema any, at string) error {
	s, ok := schema.(map[string]any)
	if !ok {
		if schema == false {
			return nil
		}
		return fmt.Errorf("%s: takes anything", where(at))
	}
	if has(s, "enum") || has(s, "const") {
		return nil
	}
	if name := refName(s); name != "" {
		if c.values[name] {
			return nil
		}
		c.values[name] = true
		return c.value(c.defs[name], "/$defs/"+name)
	}
	types := typesOf(s)
	if slices.Contains(types, "object") {
		if err := c.object(s, at); err != nil {
			return err
		}
	}
	if slices.Contains(types, "array") {
		return c.array(s, at)
	}
	if len(types) > 0 {
		return nil
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if list, ok := s[word].([]any); ok {
			return c.list(list, at+"/"+word)
		}
	}
	return fmt.Errorf("%s: takes anything; say its type", where(at))
}

func (c *closer) list(list []any, at string) error {
	for i, sub := range list {
		if err := c.value(sub, fmt.Sprintf("%s/%d", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *closer) object(s map[string]any, at string) error {
	rest, stated := s["additionalProperties"]
	switch {
	case rest == false:
		return c.properties(s, at)
	case stated && rest != true && !has(s, "properties"): // a map: any names, values of one kind
		if err := c.value(rest, at+"/additionalProperties"); err != nil {
			return err
		}
		return c.properties(s, at)
	case !stated && s["unevaluatedProperties"] == false:
		return c.beside(s, at)
	}
	return fmt.Errorf("%s: object left open; say additionalProperties: false", where(at))
}

func (c *closer) properties(s map[string]any, at string) error {
	for _, word := range []string{"properties", "patternProperties"} {
		subs, _ := s[word].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(subs)) {
			if err := c.value(subs[name], at+"/"+word+"/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside checks the properties of s and of every schema that is applied to the
// same object: each of them counts as evaluated.
func (c *closer) beside(s map[string]any, at string) error {
	if err := c.properties(s, at); err != nil {
		return err
	}
	for here, schema := range applied(s, at) {
		sub, ok := schema.(map[string]any)
		if !ok {
			continue
		}
		for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
			if has(sub, word) && sub[word] != false {
				return fmt.Errorf("%s/%s: opens the object", here, word)
			}
		}
		if err := c.beside(sub, here); err != nil {
			return err
		}
	}
	name := refName(s)
	if name == "" || c.members[name] {
		return nil
	}
	c.members[name] = true
	return c.beside(map[string]any{"allOf": []any{c.defs[name]}}, "/$defs/"+name)
}

// applied yields the schemas that s applies to the value it is for itself.
func applied(s map[string]any, at string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, word := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := s[word].([]any)
			for i, sub := range list {
				if !yield(fmt.Sprintf("%s/%s/%d", at, word, i), sub) {
					return
				}
			}
		}
		for _, word := range []string{"if", "then", "else"} {
			if has(s, word) && !yield(at+"/"+word, s[word]) {
				return
			}
		}
		subs, _ := s["dependentSchemas"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(subs)) {
			if !yield(at+"/dependentSchemas/"+name, subs[name]) {
				return
			}
		}
	}
}

func (c *closer) array(s map[string]any, at string) error {
	first, _ := s["prefixItems"].([]any)
	if err := c.list(first, at+"/prefixItems"); err != nil {
		return err
	}
	if !has(s, "items") {
		return fmt.Errorf("%s: array left open; say what its items are", where(at))
	}
	return c.value(s["items"], at+"/items")
}

// refName is the definition that s refers to, "" for none.
func refName(s map[string]any) string {
	ref, _ := s["$ref"].(string)
	if part := refForm.FindStringSubmatch(ref); part != nil {
		return part[1]
	}
	return ""
}

func typesOf(s map[string]any) []string {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, x := range t {
			if name, ok := x.(string); ok {
				out = append(out, name)
			}
		}
		return out
	}
	return nil
}

func has(s map[string]any, word string) bool {
	_, ok := s[word]
	return ok
}

func where(at string) string {
	if at == "" {
		return "/"
	}
	return at
}
