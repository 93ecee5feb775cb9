package tool

import (
	"errors"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// parseInput parses a manifest with this schema, written in flow style.
func parseInput(schema string) (*Manifest, error) {
	return Parse([]byte("name: t\ndescription: d\nkind: host\nclass: read\ninput: " + schema + "\n"))
}

// prop is a schema with one property.
func prop(schema string) string {
	return "{type: object, additionalProperties: false, properties: {a: " + schema + "}, $defs: {open: {type: object}, base: {properties: {b: {type: string}}}, bad: {properties: {b: true}}, leaf: {type: string}, tree: {type: array, items: {$ref: '#/$defs/tree'}}}}"
}

func TestSchemaAccepts(t *testing.T) {
	for name, s := range map[string]string{
		"no arguments":           "{type: object, additionalProperties: false}",
		"dialect":                "{$schema: 'https://json-schema.org/draft/2020-12/schema', type: object, additionalProperties: false}",
		"string":                 prop("{type: string, pattern: '^a+$', format: date-time, title: t, description: d, default: x, examples: [x], $comment: c, deprecated: true}"),
		"number or null":         prop("{type: [number, 'null'], minimum: 0, multipleOf: 0.1}"),
		"enum":                   prop("{enum: [1, null, {a: 1}]}"),
		"const null":             prop("{const: null}"),
		"false":                  prop("false"),
		"array":                  prop("{type: array, items: {type: integer}, minItems: 1, uniqueItems: true, contains: {const: 1}}"),
		"tuple":                  prop("{type: array, prefixItems: [{type: integer}], items: false}"),
		"nested":                 prop("{type: object, properties: {b: {type: object, additionalProperties: false}}, additionalProperties: false}"),
		"map":                    prop("{type: object, additionalProperties: {type: string}, propertyNames: {maxLength: 9}, maxProperties: 3}"),
		"patterns":               prop("{type: object, patternProperties: {'^x-': {type: string}}, additionalProperties: false}"),
		"alternatives":           prop("{oneOf: [{type: string}, {type: object, additionalProperties: false}]}"),
		"reference":              prop("{$ref: '#/$defs/leaf'}"),
		"recursive":              prop("{$ref: '#/$defs/tree'}"),
		"all of, unevaluated":    prop("{type: object, allOf: [{$ref: '#/$defs/base'}], properties: {c: {type: string}}, unevaluatedProperties: false}"),
		"conditions":             prop("{type: object, properties: {b: {enum: [1, 2]}}, if: {properties: {b: {const: 1}}}, then: {required: [b]}, additionalProperties: false, dependentRequired: {b: []}}"),
		"property named like so": prop("{type: object, properties: {properties: {type: string}, $ref: {type: string}, items: {type: string}}, additionalProperties: false}"),
	} {
		if _, err := parseInput(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	const open, anything = "object left open", "takes anything"
	tests := []struct {
		name, give, want string
	}{
		{"true", "true", "input: the root needs type: object"},
		{"a list", "[]", "input: the root needs type: object"},
		{"null", "null", "input: the root needs type: object"},
		{"root without a type", "{additionalProperties: false}", "input: the root needs type: object"},
		{"root of two types", "{type: [object, array], additionalProperties: false, items: false}", "input: the root needs type: object"},
		{"root of another type", "{type: array, items: false}", "input: the root needs type: object"},

		{"unknown keyword", prop("{type: string, maxLenght: 3}"), "/properties/a/maxLenght: unknown or unsupported keyword"},
		{"keyword of another case", prop("{type: string, MaxLength: 3}"), "/properties/a/MaxLength: unknown"},
		{"keyword of another draft", prop("{type: string, definitions: {}}"), "/properties/a/definitions: unknown"},
		{"content", prop("{type: string, contentEncoding: base64}"), "/properties/a/contentEncoding: unknown"},
		{"identifier", "{$id: 'https://x.io/', type: object, additionalProperties: false}", "/$id: unknown"},
		{"anchor", prop("{type: string, $anchor: x}"), "/$anchor: unknown"},
		{"dynamic reference", prop("{$dynamicRef: '#x'}"), "/$dynamicRef: unknown"},
		{"vocabulary", prop("{type: string, $vocabulary: {}}"), "/$vocabulary: unknown"},
		{"in a list", prop("{anyOf: [{type: string}, {tpye: string}]}"), "/properties/a/anyOf/1/tpye: unknown"},
		{"in items", prop("{type: array, items: {tpye: string}}"), "/properties/a/items/tpye: unknown"},
		{"in not", prop("{type: string, not: {tpye: string}}"), "/properties/a/not/tpye: unknown"},
		{"in a definition nobody uses", "{type: object, additionalProperties: false, $defs: {x: {tpye: string}}}", "/$defs/x/tpye: unknown"},
		{"definitions elsewhere", prop("{type: string, $defs: {}}"), "/properties/a/$defs: definitions belong at the root"},
		{"other dialect", "{$schema: 'http://json-schema.org/draft-07/schema#', type: object, additionalProperties: false}", "/$schema: is not"},
		{"dialect within", prop("{$schema: 'https://json-schema.org/draft/2020-12/schema', type: string}"), "/$schema: is not"},
		{"unknown format", prop("{type: string, format: phone}"), "/properties/a/format: unknown format"},
		{"remote reference", prop("{$ref: 'https://x.io/s.json'}"), "/$ref: is not of the form"},
		{"file reference", prop("{$ref: 'other.json'}"), "/$ref: is not of the form"},
		{"reference to the root", prop("{$ref: '#'}"), "/$ref: is not of the form"},
		{"reference to a property", prop("{$ref: '#/properties/a'}"), "/$ref: is not of the form"},
		{"reference to nothing", prop("{$ref: '#/$defs/none'}"), "/$ref: there is no such definition"},
		{"bad pattern", prop("{type: string, pattern: '('}"), "input: "},
		{"pattern Go lacks", prop("{type: string, pattern: '(?=a)'}"), "input: "},
		{"wrong type of a keyword", prop("{type: string, maxLength: x}"), "input: "},
		{"wrong type of a list", prop("{anyOf: {type: string}}"), "input: "},
		{"unknown type", prop("{type: text}"), "input: "},

		{"open root", "{type: object}", "input: /: " + open},
		{"open root with properties", "{type: object, properties: {a: {type: string}}}", "input: /: " + open},
		{"additional true", "{type: object, additionalProperties: true}", open},
		{"additional schema beside properties", "{type: object, properties: {a: {type: string}}, additionalProperties: {type: string}}", open},
		{"open property", prop("{type: object}"), "/properties/a: " + open},
		{"open in items", prop("{type: array, items: {type: object}}"), "/properties/a/items: " + open},
		{"open in a tuple", prop("{type: array, prefixItems: [{type: object}], items: false}"), "/properties/a/prefixItems/0: " + open},
		{"open in a map", prop("{type: object, additionalProperties: {type: object}}"), "/properties/a/additionalProperties: " + open},
		{"open by pattern", prop("{type: object, patternProperties: {x: {type: object}}, additionalProperties: false}"), "/properties/a/patternProperties/x: " + open},
		{"open alternative", prop("{anyOf: [{type: string}, {type: object}]}"), "/properties/a/anyOf/1: " + open},
		{"open definition", prop("{$ref: '#/$defs/open'}"), "/$defs/open: " + open},
		{"open among types", prop("{type: [string, object]}"), "/properties/a: " + open},
		{"open member of a mixin", prop("{type: object, allOf: [{$ref: '#/$defs/bad'}], unevaluatedProperties: false}"), "/properties/b: " + anything},
		{"mixin that opens", prop("{type: object, allOf: [{additionalProperties: true}], unevaluatedProperties: false}"), "/allOf/0/additionalProperties: opens the object"},
		{"condition that opens", prop("{type: object, if: {properties: {b: true}}, unevaluatedProperties: false}"), "/if/properties/b: " + anything},
		{"unevaluated schema", prop("{type: object, unevaluatedProperties: {type: string}}"), open},
		{"anything", prop("true"), "/properties/a: " + anything},
		{"anything, spelt as a schema", prop("{}"), "/properties/a: " + anything},
		{"anything with a title", prop("{title: x}"), "/properties/a: " + anything},
		{"properties without a type", prop("{properties: {}, additionalProperties: false}"), "/properties/a: " + anything},
		{"only not", prop("{not: {type: string}}"), "/properties/a: " + anything},
		{"open array", prop("{type: array}"), "/properties/a: array left open"},
		{"array of anything", prop("{type: array, items: true}"), "/properties/a/items: " + anything},
		{"open end of a tuple", prop("{type: array, prefixItems: [{type: string}]}"), "/properties/a: array left open"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseInput(tt.give)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	const schema = `
  type: object
  additionalProperties: false
  required: [path]
  properties:
    path: {type: string, minLength: 2, maxLength: 8, pattern: '^[a-z]+$'}
    n: {type: integer, minimum: 1, maximum: 9}
    price: {type: number, multipleOf: 0.01, exclusiveMinimum: 0}
    mode: {enum: [fast, slow]}
    day: {type: string, format: date}
    list: {type: array, items: {type: string}, minItems: 1, maxItems: 2, uniqueItems: true}
    map: {type: object, additionalProperties: {type: integer}, propertyNames: {maxLength: 9}}
    either: {oneOf: [{type: string}, {type: integer}]}
    inner: {type: object, properties: {x: {type: string}, y: {type: string}}, dependentRequired: {x: [y]}, additionalProperties: false}
    loop: {$ref: '#/$defs/loop'}
    never: false
  $defs: {loop: {allOf: [{$ref: '#/$defs/loop'}], type: string}}
`
	m, err := parseInput(schema)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, give, want string // "" for accepted
	}{
		{"least", `{"path":"ab"}`, ""},
		{"most", `{"path":"ab","n":9,"price":0.1,"mode":"fast","day":"2026-01-02","list":["a","b"],"map":{"k":1},"either":1,"inner":{"x":"a","y":"b"}}`, ""},
		{"1.0 is an integer", `{"path":"ab","n":1.0}`, ""},
		{"missing", `{}`, "at /: lacks path"},
		{"type", `{"path":1}`, "at /path: want string"},
		{"null", `{"path":null}`, "at /path: want string"},
		{"unknown property", `{"path":"ab","CANARY":1}`, "at /: has what the schema does not allow"},
		{"property of another case", `{"path":"ab","N":1}`, "at /: has what the schema does not allow"},
		{"short", `{"path":"C"}`, "at /path: does not match the pattern; at /path: is shorter than 2"},
		{"long", `{"path":"canarycanary"}`, "at /path: is longer than 8"},
		{"pattern", `{"path":"CANARY"}`, "at /path: does not match the pattern"},
		{"fraction", `{"path":"ab","n":1.5}`, "at /n: want integer"},
		{"minimum", `{"path":"ab","n":0}`, "at /n: is below the minimum 1"},
		{"maximum", `{"path":"ab","n":10}`, "at /n: is above the maximum 9"},
		{"multiple", `{"path":"ab","price":0.001}`, "at /price: breaks multipleOf"},
		{"exclusive minimum", `{"path":"ab","price":0}`, "at /price: breaks exclusiveMinimum"},
		{"enum", `{"path":"ab","mode":"CANARY"}`, "at /mode: is none of the values that are allowed"},
		{"format", `{"path":"ab","day":"CANARY"}`, "at /day: want the format date"},
		{"item", `{"path":"ab","list":["a",77777]}`, "at /list/1: want string"},
		{"no items", `{"path":"ab","list":[]}`, "at /list: has fewer than 1 items"},
		{"many items", `{"path":"ab","list":["a","b","c"]}`, "at /list: has more than 2 items"},
		{"equal items", `{"path":"ab","list":["CANARY","CANARY"]}`, "at /list: breaks uniqueItems"},
		{"value in a map", `{"path":"ab","map":{"CANARY":"CANARY"}}`, "at /map/*: want integer"},
		{"number as a key in a map", `{"path":"ab","map":{"77777":"x"}}`, "at /map/*: want integer"},
		{"key of a map", `{"path":"ab","map":{"CANARY-CANARY":1}}`, "a property has a name that propertyNames does not allow"},
		{"alternatives", `{"path":"ab","either":{"CANARY":1}}`, "at /either: does not fit exactly what the alternatives want"},
		{"unknown inner property", `{"path":"ab","inner":{"CANARY":1}}`, "at /inner: has what the schema does not allow"},
		{"dependency", `{"path":"ab","inner":{"x":"CANARY"}}`, "at /inner: lacks y"},
		{"never", `{"path":"ab","never":"CANARY"}`, "at /never: has what the schema does not allow"},
		{"a definition that is itself", `{"path":"ab","loop":"CANARY"}`, "at /loop: does not fit"},
		{"only three", `{"path":1,"n":0,"mode":1,"day":1}`, "at /day: want string; at /mode: is none of the values that are allowed; at /n: is below the minimum 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, err := call.Canonical([]byte(tt.give))
			if err != nil {
				t.Fatal(err)
			}
			err = m.Check(args)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := errors.AsType[*call.Error](err)
			if !ok || e.Code != call.CodeArgsSchema || e.Detail != tt.want {
				t.Fatalf("%v, want %s: %s", err, call.CodeArgsSchema, tt.want)
			}
			if s := strings.ToLower(err.Error()); strings.Contains(s, "canary") || strings.Contains(s, "77777") {
				t.Errorf("the arguments show: %v", err)
			}
		})
	}
	for name, err := range map[string]error{
		"zero arguments": m.Check(call.Args{}),
		"zero manifest":  (&Manifest{}).Check(mustCanonical(t, `{}`)),
	} {
		if call.CodeOf(err, "") != call.CodeArgsSchema {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustCanonical(t *testing.T, s string) call.Args {
	t.Helper()
	a, err := call.Canonical([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return a
}
