package story

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// The scenes again, under OPA as anybody has it. What each layer of a scene says
// alone is written down as a test in Rego beside the bundle. What several layers say
// together is for the engine to work out, so plain OPA is asked about each by itself;
// refusals before policy and roads have no part here.
func TestStoriesInPlainOPA(t *testing.T) {
	groups := map[string]*group{}
	for _, s := range tell(t) {
		for _, l := range s.layers {
			s.ask(t, groups, l)
		}
	}
	path, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "opa").Output()
	if err != nil {
		t.Fatal(err)
	}
	opa, asked := strings.TrimSpace(string(path)), 0
	for _, g := range groups {
		if len(g.tests) == 0 {
			continue
		}
		asked += len(g.tests)
		t.Run(strings.Join(slices.Compact(g.stories), ","), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, g.files); err != nil {
				t.Fatal(err)
			}
			src := regoHead + strings.Join(g.tests, "\n")
			if err := os.WriteFile(filepath.Join(dir, "stories_test.rego"), []byte(src), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), opa, "test", "-b", dir, "--run", `^data\.stories_test\.`, "--timeout", "60s").CombinedOutput()
			if all := fmt.Sprintf("PASS: %d/%[1]d", len(g.tests)); err != nil || !strings.Contains(string(out), all) {
				t.Errorf("opa test: %v, want %s\n%s", err, all, out)
			}
		})
	}
	if asked < fewestScenes {
		t.Errorf("plain OPA was asked about %d scenes", asked)
	}
}

// group is what one run of opa test takes: a bundle, and all that is asked of it.
type group struct {
	files   fs.FS
	stories []string
	tests   []string
}

// ask adds what the layer says of every scene to the group of its bundle.
func (s *story) ask(t *testing.T, groups map[string]*group, l layer) {
	t.Helper()
	files, err := s.bundle(l)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := bundles.Digest(files)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.openLayer(t.Context(), l)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	if groups[digest] == nil {
		groups[digest] = &group{files: files}
	}
	g := groups[digest]
	g.stories = append(g.stories, s.name)
	for _, c := range s.scenes {
		if c.Steps != nil {
			continue
		}
		in, err := s.input(c.ask)
		if err != nil {
			continue // refused before policy
		}
		d, err := p.Decide(t.Context(), in)
		if code := call.CodeOf(err, ""); err != nil && code != call.CodePolicyUndefined {
			continue // plain OPA has no word for the engine's faults
		}
		g.tests = append(g.tests, s.regoTest(t, l, c, in, d, err != nil))
	}
}

const regoHead = `# Generated from stories.
package stories_test

import rego.v1

# What a layer says, in whichever form.
said(d, _) := d.decision if d.decision in {"allow", "deny", "pass", "requires-approval"}

said({"decision": "not-applicable"}, lets) := {"allow": "deny", "pass": "pass"}[lets]

said({"decision": "not-applicable", "reason": _}, lets) := {"allow": "deny", "pass": "pass"}[lets]

said(d, lets) := lets if d.allow == true

said(d, _) := "deny" if d.allow == false

said(true, lets) := lets

said(false, _) := "deny"

names(d, list, key) := {x[key] | some x in d[list]} if is_object(d)

names(d, _, _) := set() if is_boolean(d)

`

// regoTest is one test. Sets are compared, for the engine sorts what a policy says in
// any order.
func (s *story) regoTest(t *testing.T, l layer, c *scene, in *call.Input, d call.Decision, undefined bool) string {
	t.Helper()
	input, err := json.Marshal(in, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	// Rego takes no byte-order mark, whereas JSON may have it in a text.
	input = []byte(strings.ReplaceAll(string(input), "\ufeff", `\ufeff`))
	name := strings.ReplaceAll(fmt.Sprintf("test_%s__%s__%s", s.name, c.name, l.Name), "-", "_")
	rule, lets := or(l.Entrypoint, "data.callgate.decision"), call.Allow
	if l.Role == rego.Restrict {
		rule, lets = or(l.Entrypoint, "data.callgate.restriction"), call.Pass
	}
	if undefined {
		return fmt.Sprintf("%s if {\n\tanswers := [d | d := %s with input as %s]\n\tanswers == []\n}\n", name, rule, input)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s if {\n\td := %s with input as %s\n\tsaid(d, %q) == %q\n", name, rule, input, lets, d.Verdict)
	var approvals, limits, reasons []string
	for _, r := range d.Reasons {
		reasons = append(reasons, r.Code)
	}
	for _, a := range d.Approvals {
		approvals = append(approvals, a.Name)
	}
	for _, l := range d.Limits {
		limits = append(limits, l.Name)
	}
	if l.Bundle != "none" { // other policies give reasons in words of their own
		fmt.Fprintf(&b, "\tnames(d, \"reasons\", \"code\") == %s\n", regoSet(reasons))
		fmt.Fprintf(&b, "\tnames(d, \"approvals\", \"name\") == %s\n", regoSet(approvals))
		fmt.Fprintf(&b, "\tnames(d, \"limits\", \"name\") == %s\n", regoSet(limits))
		fmt.Fprintf(&b, "\t{x | some x in object.get(d, \"labels\", [])} == %s\n", regoSet(d.Labels))
	}
	return b.String() + "}\n"
}

// regoSet has a form for the empty set too.
func regoSet(list []string) string {
	b, err := json.Marshal(append([]string{}, list...))
	if err != nil {
		panic("story: internal error: " + err.Error()) // texts
	}
	return "{x | some x in " + string(b) + "}"
}
