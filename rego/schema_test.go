package rego

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/callgate/callgate/engine/call"
)

// enums are the closed lists among the input's strings.
var enums = map[string][]string{
	"tool.kind":             {"wasm", "component", "host", "mcp", "external"},
	"tool.class":            {"read", "write", "destructive", "unclassified"},
	"principal.kind":        {"agent", "user", "service"},
	"principal.auth.method": {"jwt", "mtls", "uid", "token", "asserted"},
	"tool.sensitivity":      {"pii", "pci", "secret", "memory"},
	"facts.urls.scheme":     {"http", "https"},
	"session.plan.status":   {"planned", "active", "done", "failed", "replaced"},
	"facts.paths.mode":      {call.ModeRead, call.ModeAppend, call.ModeWrite, call.ModeList, call.ModeRemove},
}

// textForms are the forms of the texts that have one which authors miss.
var textForms = map[string]string{
	"session.labels":      `^[a-z0-9_.:-]*$`,
	"session.plan.id":     `^[a-z0-9_.-]*$`,
	"session.plan.tools":  `^[a-z0-9_.-]*$`,
	"session.plan.after":  `^[a-z0-9_.-]*$`,
	"facts.urls.host":     `^[^A-Z/@?#:]*$`, // of wildcards too: both are asked for in one list
	"facts.urls.wildcard": `^[^A-Z/@?#:]*$`,
	"facts.urls.method":   `^[A-Z-]*$`,
	"facts.urls.path":     `^(/[^?#]*)?$`,
	"facts.paths.path":    `^([^/].*)?$`,
}

func schemaOf(t *testing.T, typ reflect.Type, path string) map[string]any {
	t.Helper()
	switch {
	case typ == reflect.TypeFor[call.Args](), typ == reflect.TypeFor[map[string]jsontext.Value]():
		return map[string]any{"type": "object"}
	case typ.Kind() == reflect.String:
		s := map[string]any{"type": "string"}
		if e, ok := enums[path]; ok {
			s["enum"] = e
		}
		if p, ok := textForms[path]; ok {
			s["pattern"] = p
		}
		return s
	case typ.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case typ.Kind() == reflect.Int, typ.Kind() == reflect.Int64:
		return map[string]any{"type": "integer"}
	case typ.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t, typ.Elem(), path)}
	case typ.Kind() == reflect.Struct:
		return schemaOfStruct(t, typ, path)
	}
	t.Fatalf("%s: no schema for %s", path, typ)
	return nil
}

func schemaOfStruct(t *testing.T, typ reflect.Type, path string) map[string]any {
	t.Helper()
	properties, required := map[string]any{}, []string{}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			t.Fatalf("%s.%s has no name in JSON", typ, f.Name)
		}
		properties[name] = schemaOf(t, f.Type, strings.TrimPrefix(path+"."+name, "."))
		if options != "omitzero" {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func TestInputSchema(t *testing.T) {
	s := schemaOf(t, reflect.TypeFor[call.Input](), "")
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "What a Callgate policy sees"
	b, err := json.Marshal(s, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "schema/input.json", append(b, '\n'))
}

func TestInputsFitTheSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(inputJSON))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("input.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("input.json")
	if err != nil {
		t.Fatal(err)
	}
	full := input(t, "read-file", `{"path":"a"}`, "analyst")
	full.Facts = call.Facts{
		URLs:     []call.URL{{Scheme: "https", Host: "a.example", Port: 443, Path: "/", Method: "GET"}},
		Paths:    []call.Path{{Root: "docs", Path: "a", Segments: []string{"a"}, Mode: "read"}},
		Commands: []call.Command{{Name: "ls"}},
	}
	tests := []struct {
		name string
		give func(*call.Input)
		bad  bool
	}{
		{name: "as it is", give: func(*call.Input) {}},
		{name: "all facts", give: func(in *call.Input) { *in = *full }},
		{name: "nil lists are empty lists", give: func(in *call.Input) { in.Tool.Tags, in.Session.Labels = nil, nil }},
		{name: "unknown class", give: func(in *call.Input) { in.Tool.Class = "harmless" }, bad: true},
		{name: "unknown sensitivity", give: func(in *call.Input) { in.Tool.Sensitivity = []string{"pij"} }, bad: true},
		{name: "unknown mode", give: func(in *call.Input) { in.Facts.Paths = []call.Path{{Mode: "reda"}} }, bad: true},
		{name: "a host in upper case", give: func(in *call.Input) { in.Facts.URLs = []call.URL{{Scheme: "http", Host: "A.example"}} }, bad: true},
		{name: "an absolute path", give: func(in *call.Input) { in.Facts.Paths = []call.Path{{Path: "/etc", Mode: "read"}} }, bad: true},
		{name: "a plan", give: func(in *call.Input) {
			in.Session.Plan = call.Plan{{ID: "a", Status: call.TaskActive}, {ID: "b", Status: call.TaskPlanned, Tools: []string{"echo"}, After: []string{"a"}}}
		}},
		{name: "unknown status of a task", give: func(in *call.Input) { in.Session.Plan = call.Plan{{ID: "a", Status: "running"}} }, bad: true},
		{name: "unknown scheme", give: func(in *call.Input) { in.Facts.URLs = []call.URL{{Scheme: "ftp"}} }, bad: true},
		{name: "unknown kind of principal", give: func(in *call.Input) { in.Principal.Kind = "robot" }, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := input(t, "echo", `{}`)
			tt.give(in)
			b, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); (err != nil) != tt.bad {
				t.Errorf("%s: %v", b, err)
			}
		})
	}
}
