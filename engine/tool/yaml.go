package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	yaml "go.yaml.in/yaml/v3"
)

// toJSON converts one YAML document to JSON. It takes the part of YAML that says
// what it looks like: no anchors, aliases, merge keys or tags, no second document,
// only strings as keys, only numbers that JSON has, kept digit for digit.
func toJSON(src []byte) ([]byte, error) {
	d := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("is empty")
		}
		return nil, err
	}
	// A reader that stops at the first document would not see what else is signed for.
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more than one document")
	}
	var b bytes.Buffer
	if err := writeNode(jsontext.NewEncoder(&b), doc.Content[0]); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeNode(e *jsontext.Encoder, n *yaml.Node) error {
	if n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 {
		return fmt.Errorf("line %d: anchors, aliases and tags are not taken", n.Line)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return writeMapping(e, n)
	case yaml.SequenceNode:
		if err := e.WriteToken(jsontext.BeginArray); err != nil {
			return err
		}
		for _, c := range n.Content {
			if err := writeNode(e, c); err != nil {
				return err
			}
		}
		return e.WriteToken(jsontext.EndArray)
	case yaml.ScalarNode:
		return writeScalar(e, n)
	}
	return fmt.Errorf("line %d: neither mapping, sequence nor scalar", n.Line)
}

func writeMapping(e *jsontext.Encoder, n *yaml.Node) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" || k.Anchor != "" || k.Style&yaml.TaggedStyle != 0:
			return fmt.Errorf("line %d: a key that is not a plain string", k.Line)
		case seen[k.Value]:
			return fmt.Errorf("line %d: the key %q stands there twice", k.Line, k.Value)
		}
		seen[k.Value] = true
		if err := e.WriteToken(jsontext.String(k.Value)); err != nil {
			return fmt.Errorf("line %d: %w", k.Line, err)
		}
		if err := writeNode(e, n.Content[i+1]); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

func writeScalar(e *jsontext.Encoder, n *yaml.Node) error {
	var v jsontext.Value
	switch n.ShortTag() {
	case "!!str", "!!timestamp": // JSON has no times; a date is its text
		if err := e.WriteToken(jsontext.String(n.Value)); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		return nil
	case "!!null":
		v = jsontext.Value("null")
	case "!!bool":
		v = jsontext.Value(strings.ToLower(n.Value))
	case "!!int", "!!float":
		v = jsontext.Value(n.Value)
		if !v.IsValid() {
			return fmt.Errorf("line %d: a number that is not written as in JSON", n.Line)
		}
	default:
		return fmt.Errorf("line %d: a value that JSON does not have", n.Line)
	}
	return e.WriteValue(v)
}
