package rego

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/callgate/callgate/bundles"
)

const denies = "package callgate\n\ndecision := false\n"

func TestOpenRefuses(t *testing.T) {
	link := files("policy.rego", denies)
	link["more.rego"] = &fstest.MapFile{Data: []byte("policy.rego"), Mode: fs.ModeSymlink}
	tests := []struct {
		name string
		give fs.FS
		want []string
	}{
		{"nothing", fstest.MapFS{}, []string{"no rule data.callgate.decision"}},
		{"another entrypoint", files("p.rego", "package callgate\n\nallow := false\n"), []string{"no rule data.callgate.decision"}},
		{"syntax", files("p.rego", "package callgate\n\ndecision := {\n"), []string{"p.rego:4"}},
		{"old rego", files("p.rego", "package callgate\n\ndecision = false { true }\n"), []string{"p.rego:3"}},
		{"old rego by manifest", files("p.rego", "package callgate\n\ndecision = false { true }\n", ".manifest", `{"rego_version": 0}`), []string{".manifest", "how modules are read"}},
		{"newer rego by manifest", files("p.rego", denies, ".manifest", `{"rego_version": 2}`), []string{".manifest", "how modules are read"}},
		{"rego of one file by manifest", files("p.rego", denies, ".manifest", `{"file_rego_versions": {"/p.rego": 2}}`), []string{".manifest", "how modules are read"}},
		{"a second manifest", files("p.rego", denies, "x.manifest", `{"revision": "evil"}`), []string{"x.manifest", "manifest"}},
		{"a manifest below", files("p.rego", denies, "x/.manifest", `{}`), []string{"x/.manifest", "manifest"}},
		{"rules that OPA ignores", files("p.rego", denies, "deny.REGO", ""), []string{"deny.REGO", ".rego"}},
		{"a library in another place", files("p.rego", denies, "vendor/lib.rego", "package callgate.lib\n\nx := 1\n"), []string{"vendor/lib.rego", "belongs to the base library"}},
		{"a tool's manifest that is not in its place", files("p.rego", denies, "tools/a/b/tool.yaml", ""), []string{"tools/a/b/tool.yaml", "data.json"}},
		{"unused import", files("p.rego", "package callgate\n\nimport data.x\n\ndecision := false\n"), []string{"p.rego:3", "unused"}},
		{"misspelt field", files("p.rego", denies+"\nx if input.tool.nmae == \"a\"\n"), []string{"p.rego:5", "undefined ref", "input.tool.nmae"}},
		{"misspelt fact", files("p.rego", denies+"\nx if input.facts.urls[_].hots == \"a\"\n"), []string{"p.rego:5", "undefined ref"}},
		{"own schema for the input", files("p.rego", "# METADATA\n# scope: package\n# schemas:\n# - input: {type: object}\npackage callgate\n\ndecision := false\n\nx if input.tool.nmae == \"a\"\n"), []string{"p.rego:9", "undefined ref"}},
		{"two kinds of one rule", files("p.rego", denies+"\nx contains 1\n\nx := 2\n"), []string{"p.rego:5", "conflicting rules"}},
		{"recursion", files("p.rego", denies+"\nx if y\n\ny if x\n"), []string{"p.rego:5", "recursive"}},
		{"data under a rule", files("p.rego", denies, "callgate/data.json", `{"decision": true}`), []string{"p.rego:3", "conflicting rule for data path callgate/decision"}},
		{"data that OPA ignores", files("p.rego", denies, "hosts.json", `[]`), []string{"hosts.json", "data.json"}},
		{"yaml that OPA ignores", files("p.rego", denies, "x/hosts.yml", `[]`), []string{"x/hosts.yml", "data.json"}},
		{"duplicate keys", files("p.rego", denies, "data.json", `{"a": 1, "a": 2}`), []string{"data.json", "duplicate"}},
		{"duplicate keys in yaml", files("p.rego", denies, "data.yaml", "a: 1\na: 2\n"), []string{"data.yaml", "already defined"}},
		{"two documents", files("p.rego", denies, "x/data.yml", "a: 1\n---\nb: 2\n"), []string{"x/data.yml", "more than one document"}},
		{"broken yaml", files("p.rego", denies, "data.yaml", "a: ["), []string{"data.yaml"}},
		{"broken data", files("p.rego", denies, "data.json", `{"a": `), []string{"data.json"}},
		{"link", link, []string{"more.rego", "not a regular file"}},
		{"compiled policy", files("p.rego", denies, "policy.wasm", ""), []string{"policy.wasm"}},
		{"patch", files("patch.json", `{}`), []string{"patch.json"}},
		{"data outside the roots", files("p.rego", denies, "data.json", `{"x": 1}`, ".manifest", `{"roots": ["callgate"]}`), []string{"roots"}},

		{"allows everything", files("p.rego", "package callgate\n\ndecision := true\n"), []string{"empty call", "allow"}},
		{"asks about everything", files("p.rego", "package callgate\n\ndecision := {\"decision\": \"requires-approval\"}\n"), []string{"empty call", "requires-approval"}},
		{"allows nobody", files("p.rego", "package callgate\n\ndecision if input.principal.id == \"\"\n"), []string{"empty call", "allow"}},
		{"answers text", files("p.rego", "package callgate\n\ndecision := \"deny\"\n"), []string{"empty call", "policy_shape"}},
		{"conflict", files("p.rego", "package callgate\n\ndecision := false\n\ndecision := {\"allow\": false}\n"), []string{"p.rego:3"}},
		{"error", files("p.rego", "package callgate\n\ndecision := 1 / count(input.tool.tags)\n"), []string{"empty call", "policy_error", "p.rego:3"}},

		{"local zone", files("p.rego", denies+"\nx := time.clock([input.env.now_ns, \"Local\"])\n"), []string{"p.rego:5", "time.clock"}},
		{"zone from data", files("p.rego", denies+"\nx := time.weekday([input.env.now_ns, data.zone])\n"), []string{"p.rego:5", "time.weekday"}},
		{"zone in a variable", files("p.rego", denies+"\nf(x) := count([time.date(x)])\n"), []string{"p.rego:5", "time.date"}},
		{"zone of the second operand", files("p.rego", denies+"\nx := time.diff(1, [2, \"Local\"])\n"), []string{"p.rego:5", "time.diff"}},
		{"zone behind a replaced function", files("p.rego", denies+"\nf(_) := 1\n\nx if y := f(input.args.t) with f as time.clock\n"), []string{"p.rego:7", "time.clock"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(t.Context(), tt.give, Options{Name: "org"})
			if err == nil {
				t.Fatal("loads")
			}
			for _, w := range append(tt.want, "bundle org: ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nhas no %q", err, w)
				}
			}
		})
	}
}

func TestOpenReportsSeveralProblems(t *testing.T) {
	_, err := Open(t.Context(), files("p.rego", denies, "hosts.json", "[]", "x.yaml", ""), Options{})
	if err == nil || !strings.Contains(err.Error(), "hosts.json") || !strings.Contains(err.Error(), "x.yaml") {
		t.Errorf("Open() = %v, want both files", err)
	}
}

// With the base library beside it, a bundle adds rules to callgate.rules and to
// nothing else below callgate.
func TestOnlyTheLibraryDefinesItsPackages(t *testing.T) {
	tests := []struct{ name, file, give, want string }{
		{"the decision", "x.rego", "package callgate\n\nreasons contains {\"code\": \"x\"} if false\n", "x.rego:1"},
		{"what is asked by default", "deep/x.rego", "package callgate.defaults\n\nwaived(_) := true\n", "deep/x.rego:1"},
		{"a helper", "x.rego", "package callgate.lib\n\nrole(_) if input.tool.name == \"x\"\n", "callgate.lib"},
		{"a package of its own", "x.rego", "package callgate.extra\n\nx := 1\n", "callgate.extra"},
		{"quoted", "x.rego", "package callgate[\"li b\"]\n\nx := 1\n", "x.rego:1"},
		{"below the rules", "x.rego", "package callgate.rules.more\n\nx := 1\n", "callgate.rules.more"},
		{"data", "callgate/extra/data.json", "{}", "data under callgate"},
		{"data from the top", "data.json", `{"callgate": {"extra": 1}}`, "data under callgate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := withBase(t, bundles.Project())
			b[tt.file] = &fstest.MapFile{Data: []byte(tt.give)}
			if _, err := Open(t.Context(), b, Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestOpenRefusesNames(t *testing.T) {
	for _, n := range []string{"My Layer", "a\nb", "Org", strings.Repeat("x", 65)} {
		if _, err := Open(t.Context(), files("p.rego", denies), Options{Name: n}); err == nil {
			t.Errorf("%q is a name", n)
		}
	}
}

func TestOpenAccepts(t *testing.T) {
	tests := []struct {
		name string
		give fs.FS
	}{
		{"a no", files("p.rego", denies)},
		{"no answer to an empty call", files("p.rego", "package callgate\n\ndecision if input.tool.name == \"x\"\n")},
		{"any argument", files("p.rego", denies+"\nx if input.args.a.b[0].c\n\ny if input.principal.claims.groups[_] == \"g\"\n\nz if input.asserted.context.x\n")},
		{"other files", files("p.rego", denies, "README.md", "hello", ".manifest", `{"revision": "r1", "roots": ["callgate"]}`)},
		{"a list in yaml", files("p.rego", denies, "hosts/data.yaml", "- a\n- b\n")},
		{"zones", files("p.rego", denies+"\na := time.clock([time.now_ns(), \"Europe/Berlin\"])\n\nb := time.weekday(input.env.now_ns)\n\nc := time.diff([1, \"UTC\"], 2)\n\nd := time.format([1, \"UTC\", \"RFC3339\"])\n")},
		{"print", files("p.rego", denies+"\nx if print(input.tool.name)\n")},
		{"the base library alone", withBase(t, fstest.MapFS{})},
		{"a tool's manifest", files("p.rego", denies, "tools/a/tool.yaml", "name: a\n")},
		{"the project", withBase(t, bundles.Project())},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Open(t.Context(), tt.give, Options{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRevision(t *testing.T) {
	const src = "package callgate\n\ndecision := false\n"
	of := func(pairs ...string) string { return mustOpen(t, files(pairs...)).Revision().Digest }
	first := of("p.rego", src, "data.json", `{"a": {"b": 1}, "c": null}`)

	if got := of("q.rego", src, "a/data.yaml", "b: 1", "data.json", `{"c": null}`); got != first {
		t.Error("the names of files and the order of data matter")
	}
	for name, got := range map[string]string{
		"module":  of("p.rego", src+"\n", "data.json", `{"a": {"b": 1}, "c": null}`),
		"data":    of("p.rego", src, "data.json", `{"a": {"b": 2}, "c": null}`),
		"big":     of("p.rego", src, "data.json", `{"a": {"b": 9007199254740993}, "c": null}`),
		"bigger":  of("p.rego", src, "data.json", `{"a": {"b": 9007199254740992}, "c": null}`),
		"no data": of("p.rego", src),
	} {
		if got == first {
			t.Errorf("%s does not change the digest", name)
		}
	}

	p, err := Open(t.Context(), files("p.rego", src, ".manifest", `{"revision": "r7"}`), Options{Name: "org"})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Revision()
	if r.Name != "org" || r.Revision != "r7" || !strings.HasPrefix(r.Digest, "sha256:") || len(r.Digest) != 71 {
		t.Errorf("Revision() = %+v", r)
	}
	d, err := p.Decide(t.Context(), input(t, "t", `{}`))
	if err != nil || len(d.Revisions) != 1 || d.Revisions[0] != r {
		t.Errorf("decided by %v, %v, want %v", d.Revisions, err, r)
	}
}
