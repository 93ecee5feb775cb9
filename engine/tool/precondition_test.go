package tool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
)

const dependingInput = `{
  type: object, additionalProperties: false, required: [path, etag, other, n, list, deep],
  properties: {
    path: {type: string}, etag: {type: string}, other: {type: string}, may: {type: string}, n: {type: integer},
    list: {type: array, minItems: 1, items: {type: string}},
    deep: {type: object, additionalProperties: false, required: ['a/b'], properties: {'a/b': {type: string}}}
  }
}`

// depending is a manifest with these preconditions.
func depending(kind, caps, preconditions string) []byte {
	return []byte("name: t\ndescription: d\nkind: " + kind + "\nclass: write\ninput: " + dependingInput + "\ncaps: {" + caps +
		"}\nfacts: {urls: [{at: /other, method: PUT}], paths: [{at: /path, mode: read}, {at: '/list/*', mode: read}, {at: /deep/a~1b, mode: read}]}\npreconditions: " + preconditions + "\n")
}

const (
	dependingHTTP = "http: [{hosts: [x.io], ports: [443], methods: [PUT], paths: [/], networks: [public]}]"
	dependingFS   = "fs: [{root: w, path: ., modes: [read]}]"
	dependingBoth = dependingHTTP + ", " + dependingFS
)

func TestPreconditions(t *testing.T) {
	const args = `{"path":"/w/a","etag":"\"v\"","other":"https://x.io/","n":1,"list":["/w/b"],"deep":{"a/b":"/w/c"}}`
	for _, tt := range []struct {
		name, list string
		want       []call.Precondition
	}{
		{"none", "[]", nil},
		{"a file", "[{file: /path}]", []call.Precondition{{File: "/w/a"}}},
		{"a tag", "[{etag: /etag}]", []call.Precondition{{ETag: `"v"`}}},
		{"in their order", "[{etag: /etag}, {file: /deep/a~1b}, {file: /path}]", []call.Precondition{{ETag: `"v"`}, {File: "/w/c"}, {File: "/w/a"}}},
	} {
		m, err := Parse(depending("host", dependingBoth, tt.list))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		a, err := call.Canonical([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.DependsOn(a)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", tt.name, err, diff)
		}
	}
}

func TestPreconditionsRefused(t *testing.T) {
	for _, tt := range []struct{ name, kind, caps, list, want string }{
		{"neither", "host", dependingBoth, "[{}]", "preconditions[0]: needs one of file and etag"},
		{"both", "host", dependingBoth, "[{file: /path, etag: /etag}]", "needs one of file and etag"},
		{"unknown key", "host", dependingBoth, "[{path: /path}]", "unknown key"},
		{"no list", "host", dependingBoth, "{file: /path}", "wrong type"},
		{"null", "host", dependingBoth, "[{file: null}]", "null"},
		{"twice", "host", dependingBoth, "[{file: /path}, {file: /path}]", "preconditions[1]: stands there twice"},
		{"two tags", "host", dependingBoth, "[{etag: /etag}, {etag: /other}]", "second etag"},
		{"too many", "host", dependingBoth, "[{file: /path}, {file: /deep/a~1b}, {etag: /etag}, {etag: /other}, {etag: /n}]", "at most 4"},
		{"a file of no fact", "host", dependingBoth, "[{file: /other}]", "not a path that facts declare"},
		{"items", "host", dependingBoth, "[{file: '/list/*'}]", "without *"},
		{"an item", "host", dependingBoth, "[{etag: /list/0}]", "not a property"},
		{"a number", "host", dependingBoth, "[{etag: /n}]", "is not of type string"},
		{"may be absent", "host", dependingBoth, "[{etag: /may}]", "may be absent"},
		{"no property", "host", dependingBoth, "[{etag: /none}]", "not a property"},
		{"no pointer", "host", dependingBoth, "[{etag: etag}]", "not a JSON pointer"},
		{"no files", "host", dependingHTTP, "[{file: /path}]", "fs capabilities to read"},
		{"files not to be read", "host", dependingHTTP + ", fs: [{root: w, path: ., modes: [list]}]", "[{file: /path}]", "fs capabilities"},
		{"no requests", "host", dependingFS, "[{etag: /etag}]", "needs http capabilities"},
		{"run elsewhere", "external", dependingBoth, "[{file: /path}]", "kind wasm or host"},
	} {
		list := tt.list
		text := string(depending(tt.kind, tt.caps, list))
		if tt.name == "files not to be read" { // else the facts are refused first
			text = strings.ReplaceAll(text, "mode: read", "mode: list")
		}
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// What is no strong entity tag never becomes a header.
func TestEntityTags(t *testing.T) {
	m, err := Parse(depending("host", dependingBoth, "[{etag: /etag}]"))
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]bool{
		`\"v1\"`: true, `\"\"`: true, `\"!#$%&'()*+,-./:;<=>?@[]^_{|}~\"`: true,
		``: false, `*`: false, `v1`: false, `W/\"v1\"`: false, `\"v1`: false, `v1\"`: false, `\"`: false, `\"a\", \"b\"`: false, `\"a\"b\"`: false,
		`\"v 1\"`: false, `\"v\r\nX: y\"`: false, `\"v\"\n`: false, `\"\u0000\"`: false, `\"\u007f\"`: false, `\"ü\"`: false, `\"` + strings.Repeat("x", 1001) + `\"`: false,
	} {
		args, err := call.Canonical([]byte(`{"etag":"` + tag + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.DependsOn(args)
		if (err == nil) != want || err != nil && (call.CodeOf(err, "") != call.CodeArgsSchema || strings.Contains(err.Error(), "v1")) {
			t.Errorf("%s: %v", tag, err)
		}
	}
	for _, args := range []string{`{}`, `{"etag":7}`, `{"etag":null}`, `{"etag":{"etag":"\"v\""}}`} {
		a, err := call.Canonical([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.DependsOn(a); call.CodeOf(err, "") != call.CodeArgsSchema {
			t.Errorf("%s: %v", args, err)
		}
	}
}
