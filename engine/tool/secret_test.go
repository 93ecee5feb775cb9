package tool_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
)

// withInput is a tool that takes what the schema says.
func withInput(t testing.TB, input string) *tool.Manifest {
	t.Helper()
	m, err := tool.Parse([]byte("name: t\ndescription: d\nkind: host\nclass: read\nfacts: none\ninput: " + input + "\n"))
	if err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	return m
}

func TestMask(t *testing.T) {
	const secret = `{type: string, writeOnly: true}`
	tests := []struct{ name, schema, args, want, places string }{
		{"nothing", `{a: {type: string}}`, `{"a":"x"}`, `{"a":"x"}`, ""},
		{"false is nothing", `{a: {type: string, writeOnly: false}}`, `{"a":"x"}`, `{"a":"x"}`, ""},
		{"a property", `{a: {type: string}, p: ` + secret + `}`, `{"a":"x","p":"s"}`, `{"a":"x","p":null}`, "/p"},
		{"absent", `{a: {type: string}, p: ` + secret + `}`, `{"a":"x"}`, `{"a":"x"}`, ""},
		{"any type", `{p: {writeOnly: true, type: object, properties: {x: {type: number}}, additionalProperties: false}, q: {type: [boolean, "null"], writeOnly: true}}`,
			`{"p":{"x":7},"q":true}`, `{"p":null,"q":null}`, "/p /q"},
		{"deep", `{a: {type: array, items: {type: object, additionalProperties: false, properties: {p: ` + secret + `, n: {type: number}}}}}`,
			`{"a":[{"n":1},{"n":2,"p":"s"}]}`, `{"a":[{"n":1},{"n":2,"p":null}]}`, "/a/1/p"},
		{"items", `{a: {type: array, items: ` + secret + `}}`, `{"a":["x","y"]}`, `{"a":[null,null]}`, "/a/0 /a/1"},
		{"the first item", `{a: {type: array, prefixItems: [` + secret + `], items: {type: string}}}`, `{"a":["x","y"]}`, `{"a":[null,"y"]}`, "/a/0"},
		{"a map", `{a: {type: object, additionalProperties: ` + secret + `}}`, `{"a":{"x":"1","y":"2"}}`, `{"a":{"x":null,"y":null}}`, "/a/x /a/y"},
		{"names", `{a: {type: object, propertyNames: {writeOnly: true}, additionalProperties: {type: string}}}`, `{"a":{"x":"1"}}`, `{"a":null}`, "/a"},
		{"by a pattern", `{a: {type: object, additionalProperties: false, patternProperties: {"^s_": ` + secret + `, "^p_": {type: string}}}}`,
			`{"a":{"p_a":"1","s_a":"2"}}`, `{"a":{"p_a":"1","s_a":null}}`, "/a/s_a"},
		{"by reference", `{p: {$ref: "#/$defs/s"}}, $defs: {s: ` + secret + `}`, `{"p":"s"}`, `{"p":null}`, "/p"},
		{"beside a reference", `{p: {$ref: "#/$defs/s", writeOnly: true}}, $defs: {s: {type: string}}`, `{"p":"s"}`, `{"p":null}`, "/p"},
		{"in the branch that was not taken", `{p: {oneOf: [{type: number}, ` + secret + `]}}`, `{"p":7}`, `{"p":null}`, "/p"},
		{"in a schema for the same object", `{p: {type: string}}, allOf: [{properties: {p: {writeOnly: true}}}]`, `{"p":"s"}`, `{"p":null}`, "/p"},
		{"in a condition", `{p: {type: string}, k: {type: string}}, if: {properties: {k: {const: x}}}, then: {properties: {p: {writeOnly: true}}}`,
			`{"k":"y","p":"s"}`, `{"k":"y","p":null}`, "/p"},
		{"in what it holds itself", `{t: {$ref: "#/$defs/t"}}, $defs: {t: {type: object, additionalProperties: false, properties: {t: {$ref: "#/$defs/t"}, p: ` + secret + `}}}`,
			`{"t":{"p":"1","t":{"p":"2"}}}`, `{"t":{"p":null,"t":{"p":null}}}`, "/t/p /t/t/p"},
		{"names that name themselves", `{a: {$ref: "#/$defs/n"}}, $defs: {n: {type: object, propertyNames: {$ref: "#/$defs/n"}, additionalProperties: {type: string}}}`,
			`{"a":{}}`, `{"a":{}}`, ""},
		{"a name with a slash", `{a/b~: ` + secret + `}`, `{"a/b~":"s"}`, `{"a/b~":null}`, "/a~1b~0"},
		{"everything", `{p: {type: string}}, writeOnly: true`, `{"p":"s"}`, `null`, ""},
		{"what was null", `{p: {type: ["null"]}}`, `{"p":null}`, `{"p":null}`, ""},
	}
	for _, tt := range tests {
		m := withInput(t, `{type: object, additionalProperties: false, properties: `+tt.schema+`}`)
		args, err := call.Canonical([]byte(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		var places []string
		got, err := m.Mask(args, func(at jsontext.Pointer, v jsontext.Value) {
			places = append(places, string(at))
			if !strings.Contains(tt.args, string(v)) {
				t.Errorf("%s: masked %s", tt.name, v)
			}
		})
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: Mask = %s, %v; want %s", tt.name, got, err, tt.want)
		}
		if diff := cmp.Diff(tt.places, strings.Join(places, " ")); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	if _, err := tool.Parse([]byte("name: t\ndescription: d\nkind: host\nclass: read\nfacts: none\ninput: {type: object, additionalProperties: false, properties: {p: {type: string, writeOnly: yes please}}}\n")); err == nil {
		t.Error("writeOnly that is neither true nor false is taken")
	}
}

// Whatever the arguments are, nothing but what is marked goes missing.
func FuzzMask(f *testing.F) {
	open := withInput(f, `{type: object, additionalProperties: {$ref: "#/$defs/v"}, $defs: {v: {anyOf: [{type: [string, number, boolean, "null"]}, {type: array, items: {$ref: "#/$defs/v"}}, {type: object, additionalProperties: {$ref: "#/$defs/v"}}]}}}`)
	secret := withInput(f, `{type: object, additionalProperties: {type: string, writeOnly: true}}`)
	f.Add([]byte(`{"a":[1,{"b":"\u200b"},null,true,[]],"c":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, err := call.Canonical(raw)
		if err != nil {
			return
		}
		got, err := open.Mask(args, func(at jsontext.Pointer, _ jsontext.Value) { t.Errorf("%s is masked", at) })
		if err != nil || string(got) != string(args.Bytes()) {
			t.Errorf("Mask = %s, %v; want %s", got, err, args.Bytes())
		}
		if args.Bytes()[0] != '{' {
			return
		}
		n := 0
		if got, err = secret.Mask(args, func(jsontext.Pointer, jsontext.Value) { n++ }); err != nil || strings.Count(string(got), ":null") < n {
			t.Errorf("Mask = %s, %v with %d", got, err, n)
		}
	})
}
