package tool

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// The validator ignores words it does not know, so a misspelt one would check
// nothing. These are the words it does know, less those that reach outside the
// schema or only annotate content.
var (
	inOne  = []string{"items", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"}
	inList = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	inMap  = []string{"properties", "patternProperties", "dependentSchemas", "$defs"}
	plain  = []string{
		"type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
		"maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains",
		"maxProperties", "minProperties", "required", "dependentRequired", "format",
		"title", "description", "default", "examples", "deprecated", "writeOnly", "$comment", "$ref", "$schema",
	}
	formats = []string{
		"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference",
		"uri-template", "iri", "iri-reference", "uuid", "json-pointer", "relative-json-pointer", "regex",
	}
	refForm = regexp.MustCompile(`^#/\$defs/([A-Za-z0-9_-]+)$`)
)

// setSchema checks and compiles the schema of the arguments, and returns it decoded.
func (m *Manifest) setSchema(input []byte) (map[string]any, error) {
	if len(input) == 0 {
		return nil, errors.New("input: is missing")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	root, ok := doc.(map[string]any)
	if !ok || root["type"] != "object" {
		return nil, errors.New("input: the root needs type: object")
	}
	w := walker{words: map[string]bool{}}
	if defs, ok := root["$defs"].(map[string]any); ok {
		w.defs = defs
	}
	if err := w.walk(root, ""); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(nowhere{})
	const url = "tool:///input"
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	// Only a schema with the right types everywhere, as it is now, can be judged.
	open := closer{defs: w.defs, values: map[string]bool{}, members: map[string]bool{}}
	if err := open.value(root, ""); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	m.schema, m.words = s, w.words
	return root, nil
}

// nowhere loads nothing: a schema that lies elsewhere could change under us.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("remote schemas are not read") }

// walker visits every schema within a schema and refuses words it does not know.
type walker struct {
	defs  map[string]any
	words map[string]bool
}

func (w *walker) walk(schema any, at string) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil // true, false, or of a wrong type, which the compiler refuses
	}
	for _, word := range slices.Sorted(maps.Keys(s)) {
		here, v := at+"/"+word, s[word]
		var err error
		switch {
		case slices.Contains(inOne, word):
			err = w.walk(v, here)
		case slices.Contains(inList, word):
			list, _ := v.([]any)
			for i, sub := range list {
				err = errors.Join(err, w.walk(sub, fmt.Sprintf("%s/%d", here, i)))
			}
		case slices.Contains(inMap, word):
			if word == "$defs" && at != "" {
				return fmt.Errorf("%s: definitions belong at the root", here)
			}
			subs, _ := v.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(subs)) {
				if word == "properties" {
					w.words[name] = true
				}
				err = errors.Join(err, w.walk(subs[name], here+"/"+name))
			}
		case slices.Contains(plain, word):
			err = w.plain(word, v, at)
		default:
			err = fmt.Errorf("%s: unknown or unsupported keyword", here)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) plain(word string, v any, at string) error {
	text, isText := v.(string)
	switch word {
	case "$schema":
		if at != "" || strings.TrimSuffix(text, "#") != dialect {
			return fmt.Errorf("%s/$schema: is not %s at the root", at, dialect)
		}
	case "format":
		if isText && !slices.Contains(formats, text) {
			return fmt.Errorf("%s/format: unknown format", at)
		}
	case "$ref":
		part := refForm.FindStringSubmatch(text)
		if part == nil {
			return fmt.Errorf("%s/$ref: is not of the form #/$defs/NAME", at)
		}
		if _, ok := w.defs[part[1]]; !ok {
			return fmt.Errorf("%s/$ref: there is no such definition", at)
		}
	}
	return nil
}
