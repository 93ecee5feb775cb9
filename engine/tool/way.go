package tool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/callgate/callgate/engine/facts"
)

// way follows pointers of a declaration through a schema. Each step must be one
// that arguments which fit the schema always have, so that no declared fact can be
// absent: for a policy, every u in [] is true.
type way struct{ defs map[string]any }

// declared checks the way to one declared argument and returns the words, methods
// or modes, that may go with it.
func (w way) declared(root map[string]any, at, word, wordAt string, isWord func(string) bool) ([]string, error) {
	s, err := w.to(root, at)
	if err != nil {
		return nil, err
	}
	if !isType(s, "string") {
		return nil, fmt.Errorf("at %s: is not of type string", at)
	}
	if word != "" {
		return []string{word}, nil
	}
	if s, err = w.to(root, wordAt); err != nil {
		return nil, err
	}
	list, _ := s["enum"].([]any)
	if !isType(s, "string") || len(list) == 0 {
		return nil, fmt.Errorf("at %s: is not of type string with an enum", wordAt)
	}
	var words []string
	for _, v := range list {
		name, ok := v.(string)
		if !ok || !isWord(name) {
			return nil, fmt.Errorf("at %s: the enum has a value that can never be right", wordAt)
		}
		words = append(words, name)
	}
	return words, nil
}

// command checks the way to one declared command.
func (w way) command(root map[string]any, c facts.CommandAt) error {
	if c.Argv != "" {
		s, err := w.to(root, c.Argv)
		if err != nil {
			return err
		}
		items, err := w.step(s, "*")
		if err != nil {
			return fmt.Errorf("at %s: %w", c.Argv, err)
		}
		if !isType(w.resolved(items), "string") {
			return fmt.Errorf("at %s: the items are not of type string", c.Argv)
		}
		return nil
	}
	s, err := w.to(root, c.At)
	if err != nil {
		return err
	}
	if !isType(s, "string") {
		return fmt.Errorf("at %s: is not of type string", c.At)
	}
	return nil
}

// to returns the schema of what at leads to.
func (w way) to(root map[string]any, at string) (map[string]any, error) {
	tokens, ok := facts.ParsePointer(at)
	if !ok {
		return nil, fmt.Errorf("at %s: is not a JSON pointer", at)
	}
	s := root
	for _, token := range tokens {
		next, err := w.step(s, token)
		if err != nil {
			return nil, fmt.Errorf("at %s: %w", at, err)
		}
		s = w.resolved(next)
	}
	return s, nil
}

func (w way) step(s map[string]any, token string) (map[string]any, error) {
	if token == "*" {
		items, ok := s["items"].(map[string]any)
		switch {
		case !isType(s, "array") || !ok:
			return nil, errors.New("* is not at a type: array with items")
		case has(s, "prefixItems"):
			return nil, errors.New("* is at a tuple; items are not all of it")
		case !atLeastOne(s["minItems"]):
			return nil, errors.New("the array may be empty; say minItems: 1")
		}
		return items, nil
	}
	properties, _ := s["properties"].(map[string]any)
	next, ok := properties[token].(map[string]any)
	if !isType(s, "object") || !ok {
		return nil, fmt.Errorf("%s is not a property that the schema names", token)
	}
	required, _ := s["required"].([]any)
	if !slices.Contains(required, any(token)) {
		return nil, fmt.Errorf("%s may be absent; name it in required", token)
	}
	return next, nil
}

// resolved follows references. Whatever stands beside one only narrows further, so
// either alone may be believed.
func (w way) resolved(s map[string]any) map[string]any {
	for range len(w.defs) {
		name := refName(s)
		if has(s, "type") || name == "" {
			break
		}
		next, ok := w.defs[name].(map[string]any)
		if !ok {
			break
		}
		s = next
	}
	return s
}

func isType(s map[string]any, name string) bool {
	types := typesOf(s)
	return len(types) == 1 && types[0] == name
}

func atLeastOne(number any) bool {
	n, err := strconv.ParseFloat(fmt.Sprint(number), 64)
	return err == nil && n >= 1
}
