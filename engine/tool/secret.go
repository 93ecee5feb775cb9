package tool

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
)

// Mask returns the arguments with null in place of every value that the schema marks
// writeOnly: true (JSON Schema 2020-12, Validation, section 9.4), and calls masked
// with each of them and its place (RFC 6901), in the order of the text. A value is
// marked if any subschema for its place says so, whether or not that branch is the
// one that the arguments took: rather too much than too little.
func (m *Manifest) Mask(args call.Args, masked func(at jsontext.Pointer, value jsontext.Value)) (jsontext.Value, error) {
	var root map[string]any
	if err := json.Unmarshal([]byte(m.input), &root); err != nil {
		return nil, err // of the zero value alone
	}
	k := masker{d: jsontext.NewDecoder(bytes.NewReader(args.Bytes())), masked: masked}
	k.defs, _ = root["$defs"].(map[string]any)
	var out bytes.Buffer
	k.e = jsontext.NewEncoder(&out)
	if err := k.value([]any{root}, ""); err != nil {
		return nil, err
	}
	return jsontext.Value(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// masker copies arguments and the schemas that could apply to them side by side.
type masker struct {
	defs   map[string]any
	d      *jsontext.Decoder
	e      *jsontext.Encoder
	masked func(at jsontext.Pointer, value jsontext.Value)
}

func (k *masker) value(schemas []any, at jsontext.Pointer) error {
	here := k.applicable(schemas)
	if k.marked(here) {
		v, err := k.d.ReadValue()
		if err != nil {
			return err
		}
		k.masked(at, v.Clone())
		return k.e.WriteToken(jsontext.Null)
	}
	switch k.d.PeekKind() {
	case '{':
		return k.within(func(int) error {
			name, err := k.d.ReadToken()
			if err != nil {
				return err
			}
			text := name.String()
			if err := k.e.WriteToken(jsontext.String(text)); err != nil {
				return err
			}
			return k.value(property(here, text), at.AppendToken(text))
		})
	case '[':
		return k.within(func(i int) error { return k.value(item(here, i), at.AppendToken(strconv.Itoa(i))) })
	}
	v, err := k.d.ReadValue()
	if err != nil {
		return err
	}
	return k.e.WriteValue(v)
}

// within copies an object or an array, whose members each does.
func (k *masker) within(each func(i int) error) error {
	for i := -1; ; i++ {
		if kind := k.d.PeekKind(); i >= 0 && kind != '}' && kind != ']' {
			if err := each(i); err != nil {
				return err
			}
			continue
		}
		t, err := k.d.ReadToken()
		if err == nil {
			err = k.e.WriteToken(t)
		}
		if err != nil || i >= 0 {
			return err
		}
	}
}

// applicable are all schemas for a place: the given ones, what they refer to, and
// what they apply to the value itself.
func (k *masker) applicable(schemas []any) (out []map[string]any) {
	referred := map[string]bool{}
	var add func(schema any)
	add = func(schema any) {
		s, ok := schema.(map[string]any)
		if !ok {
			return
		}
		out = append(out, s)
		if name := refName(s); name != "" && !referred[name] {
			referred[name] = true
			add(k.defs[name])
		}
		for _, sub := range applied(s, "") {
			add(sub)
		}
		add(s["not"])
	}
	for _, s := range schemas {
		add(s)
	}
	return out
}

// marked reports whether a schema marks the value, or the names within it.
func (k *masker) marked(schemas []map[string]any) bool {
	mark := func(s map[string]any) bool { return s["writeOnly"] == true }
	return slices.ContainsFunc(schemas, func(s map[string]any) bool {
		return mark(s) || slices.ContainsFunc(k.applicable([]any{s["propertyNames"]}), mark)
	})
}

// property are the schemas for the member of that name.
func property(schemas []map[string]any, name string) (out []any) {
	for _, s := range schemas {
		known := false
		if props, ok := s["properties"].(map[string]any); ok && has(props, name) {
			out, known = append(out, props[name]), true
		}
		patterns, _ := s["patternProperties"].(map[string]any)
		for pattern, sub := range patterns {
			if re, err := regexp.Compile(pattern); err != nil || re.MatchString(name) {
				out, known = append(out, sub), true
			}
		}
		if !known {
			out = append(out, s["additionalProperties"])
		}
		out = append(out, s["unevaluatedProperties"])
	}
	return out
}

// item are the schemas for that item of an array.
func item(schemas []map[string]any, i int) (out []any) {
	for _, s := range schemas {
		if first, _ := s["prefixItems"].([]any); i < len(first) {
			out = append(out, first[i])
		} else {
			out = append(out, s["items"])
		}
		out = append(out, s["contains"], s["unevaluatedItems"])
	}
	return out
}
