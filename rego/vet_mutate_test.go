package rego

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// office is where the project's rules decide.
func office() CheckOptions {
	tool := func(name, mode, args string) ToolInfo {
		t := ToolInfo{Name: name, Args: jsontext.Value(args)}
		if mode != "" {
			t.Caps.FS = []call.FS{{Root: "docs", Path: ".", Modes: []string{mode}}}
		}
		return t
	}
	const path = `{"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false}`
	o := CheckOptions{Lint: true, Roles: []string{"analyst", "approver", "support"}, Tools: []ToolInfo{
		tool("read-file", "read", path), tool("list-dir", "list", path), tool("refund", "", path), tool("publish", "", path),
	}}
	for _, name := range []string{"chatter", "fib", "hog", "recurse", "spin"} {
		o.Tools = append(o.Tools, tool(name, "", path))
	}
	return o
}

// moments are calls that the project's rules answer in every way they know.
func moments(t testing.TB) []*call.Input {
	var out []*call.Input
	for _, tool := range office().Tools[:5] { // one of the lab's is enough
		for _, role := range []string{"analyst", "support", "visitor"} {
			for _, path := range []string{"/docs/welcome.txt", "/docs/inbox/mail.txt"} {
				plain := input(t, tool.Name, `{"path":"`+path+`"}`, role)
				if tool.Name == "refund" {
					plain.Tool.Class = "destructive"
				}
				after := *plain
				after.Session.Labels = []string{"untrusted-input"}
				found := *plain
				found.Tool.Findings = []string{"hidden instructions"}
				out = append(out, plain, &after, &found)
			}
		}
	}
	return out
}

var verdicts = []call.Verdict{call.Deny, call.Ask, call.Allow}

// wider says what d gives that was is without, "" for nothing.
func wider(t testing.TB, was, d call.Decision) string {
	caps := func(d call.Decision) call.Caps {
		var all []call.Caps
		for _, g := range d.Grants {
			all = append(all, g.Caps)
		}
		c, err := call.Join(all...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	switch {
	case slices.Index(verdicts, d.Verdict) > slices.Index(verdicts, was.Verdict):
		return "verdict " + string(was.Verdict) + " becomes " + string(d.Verdict)
	case d.Verdict == call.Deny:
		return ""
	case !caps(was).Covers(caps(d)):
		return "grants"
	case len(d.Limits) < len(was.Limits):
		return "limits"
	case len(d.Approvals) < len(was.Approvals):
		return "approvals"
	}
	for _, l := range was.Labels {
		if !slices.Contains(d.Labels, l) {
			return "label " + l
		}
	}
	return ""
}

// names are the identifiers and the words in texts of two letters and more.
var names = regexp.MustCompile(`[A-Za-z_][A-Za-z_-]+`)

// A name of the project's rules that is misspelt by one letter, or by its case, keeps the policy
// from loading, or is warned of if it is a text that only operators know, or
// permits nothing more.
func TestMisspeltPoliciesPermitNothingMore(t *testing.T) {
	project := withBase(t, bundles.Project())
	original := mustOpen(t, project)
	calls := moments(t)
	var was []call.Decision
	seen := map[call.Verdict]bool{}
	for _, in := range calls {
		d, err := original.Decide(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		was, seen[d.Verdict] = append(was, d), true
	}
	if len(seen) != len(verdicts) {
		t.Fatalf("the calls are answered %v alone", slices.Collect(maps.Keys(seen)))
	}
	refused, warned, loaded := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		file := rapid.SampledFrom([]string{"docs.rego", "office.rego"}).Draw(rt, "file")
		src := string(project[file].Data)
		at := rapid.SampledFrom(names.FindAllStringIndex(src, -1)).Draw(rt, "name")
		name := misspell(rt, src[at[0]:at[1]])
		mutant := maps.Clone(project)
		mutant[file] = &fstest.MapFile{Data: []byte(src[:at[0]] + name + src[at[1]:])}
		p, err := Open(t.Context(), fs.FS(mutant), Options{})
		if err != nil {
			refused++
			return
		}
		loaded++
		for i, in := range calls {
			d, err := p.Decide(t.Context(), in)
			if err != nil {
				continue // no answer is a no
			}
			more := wider(t, was[i], d)
			if more == "" {
				continue
			}
			// A name without quotes is one that vet alone must know.
			if quoted(src, at[0]) && warnedOf(t, mutant) {
				warned++
				return
			}
			rt.Fatalf("%s: %s for %s: %s of %s gives more: %s", file, src[at[0]:at[1]], name, in.Tool.Name, in.Principal.Roles, more)
		}
	})
	t.Logf("%d refused, %d loaded, %d of them warned of", refused, loaded, warned)
}

func misspell(t *rapid.T, name string) string {
	i := rapid.IntRange(0, len(name)-1).Draw(t, "letter")
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		return name[:i] + name[i+1:]
	case 1:
		return name[:i] + name[i:i+1] + name[i:]
	case 2:
		return name[:i] + strings.ToUpper(name[i:i+1]) + name[i+1:]
	default:
		c := rapid.SampledFrom([]string{"a", "e", "n", "s", "x", "_"}).Draw(t, "other")
		return name[:i] + c + name[i+1:]
	}
}

// quoted says that the place is inside a text.
func quoted(src string, at int) bool {
	line := src[strings.LastIndexByte(src[:at], '\n')+1 : at]
	return strings.Count(line, `"`)%2 == 1 || strings.Count(line, "`")%2 == 1
}

func warnedOf(t testing.TB, fsys fs.FS) bool {
	t.Helper()
	found, err := Check(t.Context(), fsys, office())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(found, func(f Finding) bool {
		return slices.Contains([]string{"tool_unknown", "role_unknown", "argument_unknown", "label_unknown", "grant_vain"}, f.Code)
	})
}
