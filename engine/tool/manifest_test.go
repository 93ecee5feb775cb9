package tool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
)

const hostTool = `name: fs.read
description: Reads one file.
kind: host
class: read
sensitivity: [pii]
tags: [files]
input:
  type: object
  properties:
    path: {type: string, maxLength: 100}
  required: [path]
  additionalProperties: false
caps:
  fs:
    - {root: w, path: data, modes: [read]}
  bounds: {timeout_ms: 1000}
facts: none
`

func edit(pairs ...string) string {
	s := hostTool
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(s, pairs[i]) {
			panic("the manifest does not hold " + pairs[i])
		}
		s = strings.Replace(s, pairs[i], pairs[i+1], 1)
	}
	return s
}

func without(key string) string {
	var out []string
	keep := true
	for line := range strings.Lines(hostTool) {
		if line[0] != ' ' {
			keep = !strings.HasPrefix(line, key+":")
		}
		if keep {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func wasm(module, sum string) string {
	return edit("kind: host", fmt.Sprintf("kind: wasm\nmodule: %s\nsha256: %s", module, sum))
}

func TestParse(t *testing.T) {
	m, err := Parse([]byte(hostTool))
	if err != nil {
		t.Fatal(err)
	}
	want := call.Tool{
		Name: "fs.read", Kind: "host", Class: "read", Sensitivity: []string{"pii"}, Tags: []string{"files"},
		Digest: m.Digest(), Findings: []string{},
	}
	if d := cmp.Diff(want, m.Tool()); d != "" {
		t.Errorf("Tool (-want +got):\n%s", d)
	}
	if m.Description != "Reads one file." || !m.Facts.IsZero() || len(m.Caps.FS) != 1 || m.Caps.Bounds.TimeoutMS != 1000 {
		t.Errorf("got %+v", m)
	}
	if got := string(m.Input()); got != `{"additionalProperties":false,"properties":{"path":{"maxLength":100,"type":"string"}},"required":["path"],"type":"object"}` {
		t.Errorf("Input = %s", got)
	}

	bare, err := Parse([]byte("{name: now, description: The time., kind: host, class: read, input: {type: object, additionalProperties: false}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := bare.Tool(); got.Sensitivity == nil || got.Tags == nil || got.Findings == nil {
		t.Errorf("a field that policy sees is null: %+v", got)
	}
}

func TestDigestPinsAllOfTheManifest(t *testing.T) {
	sum := strings.Repeat("a", 64)
	seen := map[string]string{}
	for name, src := range map[string]string{
		"as it is": hostTool, "name": edit("fs.read", "fs.reed"), "description": edit("one file", "a file"),
		"class": edit("class: read", "class: write"), "sensitivity": edit("[pii]", "[pci]"), "tags": edit("[files]", "[file]"),
		"schema": edit("100", "101"), "caps": edit("[read]", "[list]"), "bounds": edit("1000", "1001"),
		"wasm": wasm("m.wasm", sum), "module": wasm("n.wasm", sum), "sha256": wasm("m.wasm", strings.Repeat("b", 64)),
	} {
		m, err := Parse([]byte(src))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other := seen[m.Digest()]; other != "" || !strings.HasPrefix(m.Digest(), "sha256:") || len(m.Digest()) != 71 {
			t.Errorf("%s has the digest %s, as has %q", name, m.Digest(), other)
		}
		seen[m.Digest()] = name
	}
	spaced, err := Parse([]byte("# a comment\n" + edit("kind: host\nclass: read", "class: 'read'\nkind:   host")))
	if err != nil || seen[spaced.Digest()] != "as it is" {
		t.Errorf("spelling changes the digest: %v", err)
	}
	if got := (&Manifest{}).Digest(); got != "" {
		t.Errorf("the zero manifest has a digest: %s", got)
	}
}

func TestParseRefuses(t *testing.T) {
	sum := strings.Repeat("a", 64)
	tests := []struct {
		name, give, want string
	}{
		{"nothing", "", "is empty"},
		{"only a comment", "# x", ""},
		{"a list", "[]", "is not a mapping"},
		{"a scalar", "x", "is not a mapping"},
		{"broken yaml", "name: [", "yaml"},
		{"too large", hostTool + strings.Repeat("#", MaxManifestBytes), "is larger than"},
		{"second document", hostTool + "---\nname: other\n", "more than one document"},
		{"second, empty document", hostTool + "---\n", "more than one document"},
		{"key twice", hostTool + "name: other\n", `the key "name" stands there twice`},
		{"inner key twice", edit("path: data,", "path: data, path: x,"), `the key "path" stands there twice`},
		{"anchor", edit("[files]", "&a [files]"), "anchors"},
		{"alias", edit("[pii]", "&a [pii]", "[files]", "*a"), "anchors"},
		{"merge key", edit("{root: w,", "{<<: {root: w},"), "not a plain string"},
		{"tag", edit("fs.read", "!!str fs.read"), "tags"},
		{"number as a key", edit("path: {type", "1: {type"), "not a plain string"},
		{"hexadecimal", edit("1000", "0x10"), "not written as in JSON"},
		{"infinity", edit("1000", ".inf"), "not written as in JSON"},
		{"inexact", edit("100}", "9007199254740993}"), "cannot be represented exactly"},
		{"null", edit("tags: [files]", "tags:"), "tags: is null"},
		{"null in caps", edit("[read]", "[null]"), "caps.fs.0.modes.0: is null"},
		{"nested too deep", edit("[files]", strings.Repeat("[", 40)+strings.Repeat("]", 40)), "nested too deep"},

		{"unknown key", hostTool + "version: 1\n", "version: unknown key"},
		{"key in another case", edit("class: read", "Class: read"), "Class: unknown key"},
		{"unknown key in caps", edit("modes: [read]", "modes: [read], deep: true"), "caps.fs.0.deep: unknown key"},
		{"unknown family", edit("  fs:", "  files:"), "caps.files: unknown key"},
		{"unknown bound", edit("timeout_ms", "timeout_s"), "timeout_s"},
		{"wrong type", edit("[files]", "files"), "tags: has the wrong type"},

		{"no name", without("name"), "name: is missing"},
		{"bad name", edit("fs.read", "Fs.read"), "name: is missing, or is not"},
		{"long name", edit("fs.read", "a"+strings.Repeat("b", 64)), "name: is missing, or is not"},
		{"no description", without("description"), "description: is missing"},
		{"empty description", edit("Reads one file.", "' '"), "description: is missing"},
		{"long description", edit("Reads one file.", strings.Repeat("x", maxDescription+1)), "description: is longer"},
		{"escape in a description", edit("Reads one file.", `"\e[2J"`), "description: has a control"},
		{"no kind", without("kind"), "kind: is missing"},
		{"unknown kind", edit("kind: host", "kind: native"), "kind: is missing, or is not one of"},
		{"kind of a later version", edit("kind: host", "kind: component"), "kind: this version loads wasm, host, external only"},
		{"no class", without("class"), "class: is missing"},
		{"unknown class", edit("class: read", "class: safe"), "class: is missing, or is not one of"},
		{"unknown sensitivity", edit("[pii]", "[pii, phi]"), "sensitivity[1]"},
		{"sensitivity twice", edit("[pii]", "[pii, pii]"), "sensitivity[1]"},
		{"bad tag", edit("[files]", "[a b]"), "tags[0]"},
		{"tag twice", edit("[files]", "[a, a]"), "tags[1]"},
		{"too many tags", edit("[files]", "["+strings.Repeat("a, ", 33)+"]"), "tags: has 33, at most 32"},
		{"host tool with a module", hostTool + "module: m.wasm\n", "module, sha256: only"},
		{"wasm without a module", edit("kind: host", "kind: wasm\nsha256: "+sum), "module: is missing"},
		{"wasm without a sha256", edit("kind: host", "kind: wasm\nmodule: m.wasm"), "sha256: is missing"},
		{"module elsewhere", wasm("../m.wasm", sum), "module: is missing, or is not the plain name"},
		{"module below", wasm("a/m.wasm", sum), "module: is missing, or is not the plain name"},
		{"hidden module", wasm(".m.wasm", sum), "module: is missing, or is not the plain name"},
		{"absolute module", wasm("/m.wasm", sum), "module: is missing, or is not the plain name"},
		{"short sha256", wasm("m.wasm", sum[1:]), "sha256: is missing, or is not 64"},
		{"upper-case sha256", wasm("m.wasm", strings.ToUpper(sum)), "sha256: is missing, or is not 64"},

		{"no facts", without("facts"), "facts: is missing"},
		{"external tool with a module", edit("kind: host", "kind: external\nmodule: m.wasm"), "module, sha256: only"},

		{"any path", edit("path: data", "path: '*/..'"), "caps: fs[0].path has a dot segment"},
		{"no modes", edit("[read]", "[]"), "caps: fs[0].modes is empty"},
		{"any host", edit("  fs:", "  http: [{hosts: ['*'], ports: [443], methods: [GET], paths: [/], networks: [public]}]\n  fs:"), "caps: http[0].hosts[0]"},
		{"no ports", edit("  fs:", "  http: [{hosts: [a.x.io], methods: [GET], paths: [/], networks: [public]}]\n  fs:"), "caps: http[0].ports is empty"},
		{"any method", edit("  fs:", "  http: [{hosts: [a.x.io], ports: [443], methods: ['*'], paths: [/], networks: [public]}]\n  fs:"), "caps: http[0].methods[0]"},
		{"too many entries", edit("  fs:", "  secrets: ["+strings.Repeat("s, ", 33)+"]\n  fs:"), "caps: secrets: 33 entries, at most 32"},
		{"bound of zero", edit("1000", "0"), "timeout_ms is not a whole number"},

		{"no input", without("input"), "input: is missing"},
		{"two problems", edit("class: read", "class: safe", "[read]", "[exec]"), "class: is missing, or is not one of read, write, destructive, unclassified\ncaps: fs[0].modes[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse([]byte(tt.give))
			if err == nil || m != nil {
				t.Fatalf("accepted: %+v", m)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "tool.yaml: ") {
				t.Errorf("%q, want %q", err, tt.want)
			}
		})
	}
}

// What YAML 1.1 would turn into true and false stays as it is written.
func TestYAMLKeepsWords(t *testing.T) {
	m, err := Parse([]byte(edit("path: {type: string, maxLength: 100}", "{path: {enum: [yes, no, on, 2026-01-02]}, y: {type: integer}}", "  properties:\n    {", "  properties: {")))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Input()); !strings.Contains(got, `{"path":{"enum":["yes","no","on","2026-01-02"]},"y":{"type":"integer"}}`) {
		t.Errorf("Input = %s", got)
	}
}

func TestWithin(t *testing.T) {
	full := edit("  bounds:", `  http: [{hosts: [a.x.io], ports: [443], methods: [GET], paths: [/v1], networks: [public]}]
  exec: [{command: git, args: [log]}]
  secrets: [s]
  workspace: true
  plan: true
  log: true
  precise_clock: true
  bounds:`)
	m, err := Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*call.Caps)
		want   string
	}{
		{"equal", func(*call.Caps) {}, ""},
		{"wider", func(c *call.Caps) { c.FS[0].Path, c.HTTP[0].Hosts[0], c.Bounds.TimeoutMS = ".", "*.x.io", 2000 }, ""},
		{"fs", func(c *call.Caps) { c.FS[0].Path = "data/deep" }, "fs"},
		{"http", func(c *call.Caps) { c.HTTP[0].Ports[0] = 8443 }, "http"},
		{"exec", func(c *call.Caps) { c.Exec = nil }, "exec"},
		{"secrets", func(c *call.Caps) { c.Secrets[0] = "t" }, "secrets"},
		{"workspace", func(c *call.Caps) { c.Workspace = false }, "workspace"},
		{"plan", func(c *call.Caps) { c.Plan = false }, "plan"},
		{"log", func(c *call.Caps) { c.Log = false }, "log"},
		{"precise_clock", func(c *call.Caps) { c.PreciseClock = false }, "precise_clock"},
		{"smaller bound", func(c *call.Caps) { c.Bounds.TimeoutMS = 999 }, "bounds"},
		{"bound the manifest does not state", func(c *call.Caps) { c.Bounds.Fuel = 1 }, ""},
		{"nothing", func(c *call.Caps) { *c = call.Caps{} }, "fs, http, exec, secrets, workspace, plan, log, precise_clock"},
		{"malformed", func(c *call.Caps) { c.FS[0].Root = "" }, "fs, http, exec, secrets, workspace, plan, log, precise_clock"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ceiling := m.Caps.Clone()
			tt.change(&ceiling)
			err := m.Within(&ceiling)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := "tool fs.read: caps: over the operator's ceiling: " + tt.want; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
	if err := m.Within(nil); err != nil {
		t.Errorf("without a ceiling: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(hostTool))
	f.Add([]byte(wasm("m.wasm", strings.Repeat("a", 64))))
	f.Add([]byte("{name: now, description: d, kind: host, class: read, input: {type: object, additionalProperties: false, properties: {a: {$ref: '#/$defs/a'}}, $defs: {a: {type: array, items: {$ref: '#/$defs/a'}}}}}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := Parse(src)
		if err != nil {
			if m != nil {
				t.Fatal("refused, yet gave a manifest")
			}
			return
		}
		again, err := Parse(src)
		if err != nil || again.Digest() != m.Digest() {
			t.Fatalf("parsed again: %v", err)
		}
		canonical, err := toJSON(src)
		if err != nil {
			t.Fatal(err)
		}
		// Canonical JSON is YAML too, but for text that YAML cannot hold unescaped.
		if again, err = Parse(canonical); err == nil && again.Digest() != m.Digest() {
			t.Fatalf("the digest is of the spelling: %s", canonical)
		}
		if err := m.Within(&m.Caps); err != nil {
			t.Fatalf("not within itself: %v", err)
		}
		args, err := call.Canonical([]byte(`{"a":[[]],"path":"CANARY-CANARY-CANARY"}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Check(args); err != nil && strings.Contains(err.Error(), "CANARY-CANARY-CANARY") && !strings.Contains(string(src), "CANARY-CANARY-CANARY") {
			t.Fatalf("a value shows: %v", err)
		}
	})
}
