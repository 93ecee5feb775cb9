package tool

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

const factsSchema = `{
  type: object, additionalProperties: false,
  required: [url, path, how, mode, list, tree, ref, 'a/b', lower, tuple, empty, zero, nest, deep, two, cycle, n],
  properties: {
    url: {type: string, maxLength: 30, pattern: '^https://[a-zA-Z.]*/?$'},
    path: {type: string}, maybe: {type: string}, n: {type: integer}, two: {type: [string, 'null']},
    how: {type: string, enum: [GET, HEAD]}, mode: {type: string, enum: [read, list]}, lower: {type: string, enum: [GET, get]},
    list: {type: array, minItems: 1, items: {type: string}},
    empty: {type: array, items: {type: string}},
    zero: {type: array, minItems: 0, items: {type: string}},
    tuple: {type: array, minItems: 1, prefixItems: [{type: integer}], items: {type: string}},
    nest: {type: object, additionalProperties: false, properties: {url: {type: string}}},
    deep: {type: array, minItems: 2, items: {type: array, minItems: 1, items: {$ref: '#/$defs/item'}}},
    tree: {$ref: '#/$defs/again'},
    ref: {$ref: '#/$defs/text'}, cycle: {$ref: '#/$defs/cycle'},
    'a/b': {type: string}
  },
  $defs: {
    text: {type: string}, again: {$ref: '#/$defs/item'}, cycle: {$ref: '#/$defs/cycle', anyOf: [{type: string}]},
    item: {type: object, additionalProperties: false, required: [url, mode], properties: {url: {type: string}, mode: {type: string, enum: [read]}, may: {type: string}}}
  }
}`

// declaring is a manifest with these capabilities and facts.
func declaring(kind, caps, facts string) []byte {
	return []byte("name: t\ndescription: d\nkind: " + kind + "\nclass: read\ninput: " + factsSchema + "\ncaps: {" + caps + "}\nfacts: " + facts + "\n")
}

const (
	capsHTTP = "http: [{hosts: [x.io], ports: [443], methods: [GET, HEAD], paths: [/], networks: [public]}, {hosts: [y.io], ports: [443], methods: [PUT], paths: [/], networks: [public]}]"
	capsFS   = "fs: [{root: w, path: a, modes: [read]}, {root: w, path: b, modes: [list]}]"
	capsExec = "exec: [{command: git, args: [log]}]"
)

func TestFactsAccepts(t *testing.T) {
	url := func(u ...facts.URLAt) facts.Declaration { return facts.Declaration{URLs: u} }
	path := func(p ...facts.PathAt) facts.Declaration { return facts.Declaration{Paths: p} }
	command := func(c ...facts.CommandAt) facts.Declaration { return facts.Declaration{Commands: c} }
	tests := []struct {
		name, kind, caps, facts string
		want                    facts.Declaration
	}{
		{"none", "host", capsHTTP + ", " + capsFS + ", " + capsExec, "none", facts.Declaration{}},
		{"url", "host", capsHTTP, "{urls: [{at: /url, method: GET}]}", url(facts.URLAt{At: "/url", Method: "GET"})},
		{"method of another entry", "host", capsHTTP, "{urls: [{at: /url, method: PUT}]}", url(facts.URLAt{At: "/url", Method: "PUT"})},
		{"method_at", "host", capsHTTP, "{urls: [{at: /url, method_at: /how}]}", url(facts.URLAt{At: "/url", MethodAt: "/how"})},
		{"mode", "host", capsFS, "{paths: [{at: /path, mode: list}]}", path(facts.PathAt{At: "/path", Mode: "list"})},
		{"mode_at", "host", capsFS, "{paths: [{at: /path, mode_at: /mode}]}", path(facts.PathAt{At: "/path", ModeAt: "/mode"})},
		{"items", "host", capsFS, "{paths: [{at: '/list/*', mode: read}]}", path(facts.PathAt{At: "/list/*", Mode: "read"})},
		{"items of items", "host", capsFS, "{paths: [{at: '/deep/*/*/url', mode_at: '/deep/*/*/mode'}]}", path(facts.PathAt{At: "/deep/*/*/url", ModeAt: "/deep/*/*/mode"})},
		{"references", "host", capsFS, "{paths: [{at: /ref, mode: read}, {at: /tree/url, mode_at: /tree/mode}]}", path(facts.PathAt{At: "/ref", Mode: "read"}, facts.PathAt{At: "/tree/url", ModeAt: "/tree/mode"})},
		{"escaped", "host", capsFS, "{paths: [{at: /a~1b, mode: read}]}", path(facts.PathAt{At: "/a~1b", Mode: "read"})},
		{"one path, two modes", "host", capsFS, "{paths: [{at: /path, mode: read}, {at: /path, mode: list}]}", path(facts.PathAt{At: "/path", Mode: "read"}, facts.PathAt{At: "/path", Mode: "list"})},
		{"both", "host", capsHTTP + ", " + capsFS, "{urls: [{at: /url, method: GET}], paths: [{at: /path, mode: read}]}", facts.Declaration{
			URLs: []facts.URLAt{{At: "/url", Method: "GET"}}, Paths: []facts.PathAt{{At: "/path", Mode: "read"}},
		}},
		{"more than the capabilities need", "host", capsHTTP, "{urls: [{at: /url, method: GET}], paths: [{at: /path, mode: remove}]}", facts.Declaration{
			URLs: []facts.URLAt{{At: "/url", Method: "GET"}}, Paths: []facts.PathAt{{At: "/path", Mode: "remove"}},
		}},
		{"command", "host", capsExec, "{commands: [{at: /path}]}", command(facts.CommandAt{At: "/path"})},
		{"argv", "host", capsExec, "{commands: [{argv: /list}]}", command(facts.CommandAt{Argv: "/list"})},
		{"commands in items", "external", "", "{commands: [{at: '/list/*'}, {at: '/deep/*/*/url'}]}", command(facts.CommandAt{At: "/list/*"}, facts.CommandAt{At: "/deep/*/*/url"})},
		{"external, without capabilities", "external", "", "{paths: [{at: /path, mode: write}]}", path(facts.PathAt{At: "/path", Mode: "write"})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse(declaring(tt.kind, tt.caps, tt.facts))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, m.Facts); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if m.Kind != tt.kind || m.Tool().Kind != tt.kind {
				t.Errorf("kind is %s", m.Kind)
			}
		})
	}
}

func TestFactsRefuses(t *testing.T) {
	url := func(at string) string { return "{urls: [{at: '" + at + "', method: GET}]}" }
	tests := []struct {
		name, caps, facts, want string
	}{
		{"another word", capsFS, "all", "neither none nor a mapping"},
		{"none in capitals", capsFS, "None", "neither none nor a mapping"},
		{"a list", capsFS, "[none]", "facts: "},
		{"true", capsFS, "true", "facts: "},
		{"nothing", capsFS, "{}", "declares nothing; say none"},
		{"empty lists", capsFS, "{urls: [], paths: []}", "declares nothing; say none"},
		{"null", capsFS, "", "facts: is null"},
		{"null within", capsFS, "{urls: null}", "facts.urls: is null"},
		{"unknown family", capsFS, "{shells: [{at: /path}]}", "shells: unknown key"},
		{"unknown key", capsFS, "{paths: [{at: /path, mode: read, root: w}]}", "paths.0.root: unknown key"},
		{"key of the other family", capsFS, "{paths: [{at: /path, method: GET}]}", "paths.0.method: unknown key"},
		{"wrong type", capsFS, "{paths: {at: /path, mode: read}}", "paths: has the wrong type"},
		{"number for a pointer", capsFS, "{paths: [{at: 1, mode: read}]}", "paths.0.at: has the wrong type"},
		{"invalid by itself", capsFS, "{paths: [{at: path, mode: read}]}", "paths[0]: at is missing, or is not"},

		{"http without urls", capsHTTP, "{paths: [{at: /path, mode: read}]}", "a tool with http capabilities declares urls"},
		{"fs without paths", capsFS, url("/url"), "a tool with fs capabilities declares paths"},
		{"both without paths", capsHTTP + ", " + capsFS, url("/url"), "a tool with fs capabilities declares paths"},
		{"exec without commands", capsHTTP + ", " + capsExec, url("/url"), "a tool with exec capabilities declares commands"},
		{"command and line at once", capsExec, "{commands: [{at: /path, argv: /list}]}", "commands[0]: needs one of at and argv"},
		{"command nowhere", capsExec, "{commands: [{}]}", "commands[0]: needs one of at and argv"},
		{"command of a mode", capsExec, "{commands: [{at: /path, mode: read}]}", "commands.0.mode: unknown key"},
		{"optional command", capsExec, "{commands: [{at: /maybe}]}", "commands[0]: at /maybe: maybe may be absent"},
		{"command that is no string", capsExec, "{commands: [{at: /n}]}", "commands[0]: at /n: is not of type string"},
		{"line that is an array", capsExec, "{commands: [{at: /list}]}", "commands[0]: at /list: is not of type string"},
		{"argv that is no array", capsExec, "{commands: [{argv: /path}]}", "commands[0]: at /path: * is not at a type: array"},
		{"argv that may be empty", capsExec, "{commands: [{argv: /empty}]}", "commands[0]: at /empty: the array may be empty"},
		{"argv that is a tuple", capsExec, "{commands: [{argv: /tuple}]}", "commands[0]: at /tuple: * is at a tuple"},
		{"argv of arrays", capsExec, "{commands: [{argv: /deep}]}", "commands[0]: at /deep: the items are not of type string"},
		{"optional argv", capsExec, "{commands: [{argv: /more}]}", "commands[0]: at /more: more is not a property"},
		{"method beyond", capsHTTP, "{urls: [{at: /url, method: POST}]}", "urls[0]: POST is in none of the tool's own capabilities, which have GET, HEAD, PUT"},
		{"mode beyond", capsFS, "{paths: [{at: /path, mode: read}, {at: /path, mode: write}]}", "paths[1]: write is in none of"},
		{"mode_at beyond", "fs: [{root: w, path: a, modes: [read]}]", "{paths: [{at: /path, mode_at: /mode}]}", "paths[0]: list is in none of"},

		{"no such property", capsHTTP, url("/uri"), "urls[0]: at /uri: uri is not a property"},
		{"optional", capsHTTP, url("/maybe"), "at /maybe: maybe may be absent; name it in required"},
		{"optional within", capsHTTP, url("/nest/url"), "at /nest/url: url may be absent"},
		{"optional in items", capsHTTP, url("/deep/*/*/may"), "at /deep/*/*/may: may may be absent"},
		{"not a string", capsHTTP, url("/n"), "at /n: is not of type string"},
		{"string or null", capsHTTP, url("/two"), "at /two: is not of type string"},
		{"array", capsHTTP, url("/list"), "at /list: is not of type string"},
		{"maybe empty", capsHTTP, url("/empty/*"), "at /empty/*: the array may be empty; say minItems: 1"},
		{"empty by its own word", capsHTTP, url("/zero/*"), "at /zero/*: the array may be empty; say minItems: 1"},
		{"tuple", capsHTTP, url("/tuple/*"), "at /tuple/*: * is at a tuple"},
		{"index", capsHTTP, url("/list/0"), "at /list/0: 0 is not a property"},
		{"items of an object", capsHTTP, url("/nest/*"), "at /nest/*: * is not at a type: array"},
		{"beyond a string", capsHTTP, url("/url/x"), "at /url/x: x is not a property"},
		{"beyond a definition", capsHTTP, url("/ref/x"), "at /ref/x: x is not a property"},
		{"a definition that is itself", capsHTTP, url("/cycle"), "at /cycle: is not of type string"},
		{"method_at without an enum", capsHTTP, "{urls: [{at: /url, method_at: /path}]}", "at /path: is not of type string with an enum"},
		{"method_at optional", capsHTTP, "{urls: [{at: /url, method_at: /maybe}]}", "at /maybe: maybe may be absent"},
		{"method_at with a small letter", capsHTTP, "{urls: [{at: /url, method_at: /lower}]}", "at /lower: the enum has a value that can never be right"},
		{"mode_at of methods", capsFS, "{paths: [{at: /path, mode_at: /how}]}", "at /how: the enum has a value that can never be right"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse(declaring("host", tt.caps, tt.facts))
			if err == nil || m != nil {
				t.Fatalf("accepted: %+v", m.Facts)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "facts") {
				t.Errorf("%q, want %q", err, tt.want)
			}
		})
	}
}

func TestDerive(t *testing.T) {
	parse := func(schema, f string) *Manifest {
		t.Helper()
		m, err := Parse([]byte("name: t\ndescription: d\nkind: host\nclass: read\ninput: " + schema + "\nfacts: " + f + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	schema := func(more string) string {
		return "{type: object, additionalProperties: false, required: [url], properties: {url: {type: string, " + more + "}, n: {type: integer}}}"
	}
	const get = "{urls: [{at: /url, method: GET}]}"
	tests := []struct {
		name, schema, facts string
		give, want          string // want is the arguments, or of the error
		code                call.Code
	}{
		{"none", schema("maxLength: 30"), "none", `{"url":"HTTPS://X.io"}`, `{"url":"HTTPS://X.io"}`, ""},
		{"canonical", schema("maxLength: 30"), get, `{"n":1,"url":"HTTPS://X.io:443"}`, `{"n":1,"url":"https://x.io/"}`, ""},
		{"as it was", schema("maxLength: 13"), get, `{"url":"https://x.io/"}`, `{"url":"https://x.io/"}`, ""},
		{"unparsable", schema("maxLength: 30"), get, `{"url":"https://canary/"}`, "at /url: the URL has a host of one label", call.CodeFactsUnparsable},
		{"longer than the schema takes", schema("maxLength: 17"), get, `{"url":"https://x.io/ä/ca"}`, "with canonical URLs and paths: at /url: is longer than 17", call.CodeArgsSchema},
		{"not the pattern", schema("pattern: '[A-Z]'"), get, `{"url":"HTTPS://canary.io"}`, "with canonical URLs and paths: at /url: does not match the pattern", call.CodeArgsSchema},
		{"not the enum", schema("enum: ['https://canary.io']"), get, `{"url":"https://canary.io"}`, "with canonical URLs and paths: at /url: is none of the values", call.CodeArgsSchema},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(tt.schema, tt.facts)
			args := mustCanonical(t, tt.give)
			if err := m.Check(args); err != nil {
				t.Fatal(err)
			}
			f, out, err := m.Derive(args)
			if tt.code == "" {
				if err != nil || string(out.Bytes()) != tt.want || (len(f.URLs) == 1) != (tt.facts != "none") {
					t.Errorf("%s, %+v, %v, want %s", out.Bytes(), f, err, tt.want)
				}
				return
			}
			e, ok := errors.AsType[*call.Error](err)
			if !ok || e.Code != tt.code || !strings.HasPrefix(e.Detail, tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v, want %s: %s", err, tt.code, tt.want)
			}
			if !out.IsZero() || f.URLs != nil {
				t.Errorf("refused, yet gave %s, %+v", out.Bytes(), f)
			}
		})
	}
}

// Whatever arguments a schema takes, the facts that its manifest declares are
// there: only their own text can be at fault.
func FuzzDeclaredFactsAreThere(f *testing.F) {
	f.Add(declaring("host", capsFS, "{paths: [{at: '/list/*', mode: read}]}"), []byte(`{"list":["/w"]}`))
	f.Add([]byte("{name: t, description: d, kind: host, class: read, input: {type: object, required: [a], properties: {a: {type: array, minItems: 1, items: {$ref: '#/$defs/u'}}}, additionalProperties: false, $defs: {u: {type: string}}}, facts: {urls: [{at: '/a/*', method: GET}]}}"), []byte(`{"a":["https://x.io",""]}`))
	f.Add([]byte("{name: t, description: d, kind: host, class: read, input: {type: object, required: [a], properties: {a: {type: object, required: [m, p], properties: {m: {type: string, enum: [read]}, p: {type: string}}, additionalProperties: false}}, additionalProperties: false}, facts: {paths: [{at: /a/p, mode_at: /a/m}]}}"), []byte(`{"a":{"p":"/w","m":"read"}}`))
	f.Add(declaring("host", capsExec, "{commands: [{at: /path}, {argv: /list}]}"), []byte(`{"path":"ls | cat","list":["git","log"]}`))
	f.Fuzz(func(t *testing.T, src, raw []byte) {
		m, err := Parse(src)
		if err != nil || m.Facts.IsZero() {
			return
		}
		args, err := call.Canonical(raw)
		if err != nil || m.Check(args) != nil {
			return
		}
		got, out, err := m.Derive(args)
		if err != nil {
			e, ok := errors.AsType[*call.Error](err)
			if !ok || e.Code == call.CodeFactsUnparsable && !strings.Contains(e.Detail, ": the URL ") && !strings.Contains(e.Detail, ": the path ") && !strings.Contains(e.Detail, ": the command ") && !strings.Contains(e.Detail, "too many commands") {
				t.Fatalf("%s takes %s, yet: %v", src, raw, err)
			}
			return
		}
		if len(got.URLs) < len(m.Facts.URLs) || len(got.Paths) < len(m.Facts.Paths) || len(got.Commands) < len(m.Facts.Commands) || m.Check(out) != nil {
			t.Fatalf("%s takes %s and gives %+v", src, raw, got)
		}
	})
}
