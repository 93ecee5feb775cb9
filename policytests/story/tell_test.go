package story_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/callgate/callgate/policytests/story"
)

const told = `A policy of somebody's own.

-- story.yaml --
layers: [{name: mine, bundle: this, entrypoint: data.mine.allow}]
-- tools.yaml --
- name: look
  description: Looks around.
  kind: external
  class: read
  input: {type: object, properties: {}, additionalProperties: false}
-- right.call --
why: It looks.
kind: everyday
tool: look
-- right.want --
decision: allow
-- wrong.call --
why: It looks again.
kind: everyday
tool: look
-- wrong.want --
decision: deny
reasons: [denied]
-- open.call --
why: Nobody has said.
kind: everyday
tool: other
`

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

var mine = fstest.MapFS{"mine.rego": file("package mine\n\nimport rego.v1\n\ndefault allow := false\n\nallow if input.tool.name == \"look\"\n")}

func TestTell(t *testing.T) {
	results, err := story.Tell(t.Context(), fstest.MapFS{"own.txtar": file(told)}, story.Options{This: mine})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"own/right": "",
		"own/wrong": "decision: told deny, is allow\nreasons: told [denied], is nothing",
		"own/open":  "the story does not say what becomes of it: refused: tool_unknown",
	}
	for _, r := range results {
		if got := strings.Join(r.Differs, "\n"); r.Err != nil || got != want[r.Name] || r.File != "own.txtar" {
			t.Errorf("%s of %s: %v, %q, want %q", r.Name, r.File, r.Err, got, want[r.Name])
		}
		delete(want, r.Name)
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
}

func TestTellSomeOfIt(t *testing.T) {
	o := story.Options{This: mine, Run: func(name string) bool { return name == "own/right" }}
	results, err := story.Tell(t.Context(), fstest.MapFS{"own.txtar": file(told)}, o)
	if err != nil || len(results) != 1 || results[0].Name != "own/right" {
		t.Errorf("Tell() = %v, %v", results, err)
	}
}

func TestTellRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		dir fstest.MapFS
		o   story.Options
	}{
		"no stories":                  {dir: fstest.MapFS{"x.txt": file("x")}},
		"no policy to tell it of":     {dir: fstest.MapFS{"own.txtar": file(told)}},
		"a policy that does not load": {dir: fstest.MapFS{"own.txtar": file(told)}, o: story.Options{This: fstest.MapFS{"mine.rego": file("package")}}},
		"a story that cannot be read": {dir: fstest.MapFS{"own.txtar": file("x")}},
		"a story that is too large":   {dir: fstest.MapFS{"own.txtar": file(told + strings.Repeat("#\n", story.MaxBytes/2))}, o: story.Options{This: mine}},
	} {
		if _, err := story.Tell(t.Context(), tt.dir, tt.o); err == nil {
			t.Errorf("%s: is told", name)
		}
	}
}
