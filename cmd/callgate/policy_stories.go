package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	stories "github.com/callgate/callgate/policytests/story"
	"github.com/callgate/callgate/rego"
)

// tell tells the stories of a directory. Those about the bundle "this" are about the
// policy that is tested.
func (p *policyTestParams) tell(ctx context.Context, this fs.FS) (*rego.TestReport, error) {
	run, err := regexp.Compile(p.Run)
	if err != nil {
		return nil, fmt.Errorf("--run: not a regular expression")
	}
	root, err := os.OpenRoot(p.stories)
	if err != nil {
		return nil, fmt.Errorf("--stories: %w", err)
	}
	defer root.Close()
	told, err := stories.Tell(ctx, root.FS(), stories.Options{This: this, Now: now, Run: func(name string) bool { return run.MatchString(storyName(name)) }})
	if err != nil {
		return nil, fmt.Errorf("--stories: %w", err)
	}
	r := &rego.TestReport{}
	for _, s := range told {
		t := rego.TestResult{Name: storyName(s.Name), Where: s.File, Outcome: rego.TestPass, Took: s.Took}
		switch {
		case s.Err != nil:
			t.Outcome, t.Detail = rego.TestError, s.Err.Error()
		case len(s.Differs) > 0:
			t.Outcome, t.Detail = rego.TestFail, s.Why+"\n"+strings.Join(s.Differs, "\n")
		}
		if r.Tests = append(r.Tests, t); t.Outcome == rego.TestPass {
			r.Passed++
		} else {
			r.Failed++
		}
	}
	return r, nil
}

// storyName is how --run and reports know a scene.
func storyName(name string) string { return "stories." + strings.Replace(name, "/", ".", 1) }
