package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/rego"
)

type policyTestParams struct {
	policyParams
	rego.TestSettings
	junit, stories string
	threshold      float64
}

func newPolicyTest() *cobra.Command {
	var p policyTestParams
	cmd := &cobra.Command{
		Use:   "test [DIR|ARCHIVE]",
		Short: "Run the tests of a policy, twice, and its stories",
		Long: `Test runs a bundle's tests with OPA's runner, as opa test does. Those that pass run
once more with the engine's settings, under which an error in a builtin is an error
and every rule is evaluated; a test that then ends otherwise fails with
differs_strict.

Coverage leaves out tests and the vendored base library. With --stories, the stories
of a directory are told as well: policytests/README.md says how they are written.

Exit codes: 0 all passed, 1 something failed or too little is covered, 2 could not
tell, such as when there are no tests at all.`,
		Example: `  callgate policy test bundle --threshold 100
  callgate policy test bundle --run analysts -o json
  callgate policy test bundle --stories stories --junit report.xml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, oneArg(args)) },
	}
	p.plainFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&p.Run, "run", "", "run only tests whose whole name matches this regular expression")
	f.DurationVar(&p.Timeout, "timeout", 0, "for each test (default 5s)")
	f.Float64Var(&p.threshold, "threshold", 0, "percent of lines that tests must reach")
	f.StringVar(&p.junit, "junit", "", "also write the results into this file, for build servers")
	f.StringVar(&p.stories, "stories", "", "directory of stories to tell as well")
	return cmd
}

// tested is what -o json prints.
type tested struct {
	OK       bool                      `json:"ok"`
	Tests    []rego.TestResult         `json:"tests"`
	Passed   int                       `json:"passed"`
	Failed   int                       `json:"failed"`
	Skipped  int                       `json:"skipped"`
	Coverage map[string]*rego.Coverage `json:"coverage,omitzero"` // by bundle
	Short    []string                  `json:"short,omitzero"`    // bundles of which too little is covered
}

func (p *policyTestParams) run(cmd *cobra.Command, path string) error {
	if p.Run != "" && p.threshold > 0 {
		return errors.New("--run and --threshold: some of the tests say nothing about how much all of them cover")
	}
	if p.threshold < 0 || p.threshold > 100 {
		return errors.New("--threshold: want a percentage")
	}
	r := tested{Tests: []rego.TestResult{}}
	var this fs.FS // the policy, if it is one
	if path != "" || p.stories == "" || p.threshold > 0 {
		d, err := p.desk(cmd, path)
		if err != nil {
			return err
		}
		for _, l := range d.layers {
			fsys, err := d.load(l)
			if err != nil {
				return err
			}
			if err := p.bundle(cmd, l.Bundle, fsys, &r); err != nil {
				return err
			}
			if len(d.layers) == 1 {
				this = fsys
			}
		}
	}
	if p.stories != "" {
		told, err := p.tell(cmd.Context(), this)
		if err != nil {
			return err
		}
		r.add(told)
	}
	if r.Passed+r.Failed == 0 {
		return errors.New("there are no tests to run")
	}
	r.OK = r.Failed == 0 && len(r.Short) == 0
	if p.junit != "" {
		var b bytes.Buffer
		if err := (&rego.TestReport{Tests: r.Tests}).JUnit(&b); err != nil {
			return err
		}
		if err := replaceFile(p.junit, b.Bytes()); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	var err error
	if p.output == "json" {
		err = writeJSON(cmd.OutOrStdout(), r)
	} else {
		err = r.print(cmd.OutOrStdout())
	}
	if err != nil || r.OK {
		return err
	}
	return exitWith(exitDenied, nil)
}

func (p *policyTestParams) bundle(cmd *cobra.Command, path string, fsys fs.FS, r *tested) error {
	one, err := rego.Test(cmd.Context(), fsys, p.TestSettings)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	name := filepath.ToSlash(filepath.Clean(path))
	if r.add(one); p.Run == "" {
		if r.Coverage == nil {
			r.Coverage = map[string]*rego.Coverage{}
		}
		r.Coverage[name] = &one.Coverage
	}
	if one.Coverage.Percent < p.threshold {
		r.Short = append(r.Short, name)
	}
	return nil
}

func (r *tested) add(one *rego.TestReport) {
	r.Tests = append(r.Tests, one.Tests...)
	r.Passed += one.Passed
	r.Failed += one.Failed
	r.Skipped += one.Skipped
}

func (r *tested) print(w io.Writer) error {
	var b strings.Builder
	for _, t := range r.Tests {
		if t.Outcome == rego.TestPass {
			continue
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", t.Where, t.Name, t.Outcome)
		for _, text := range []string{t.Detail, t.Output} {
			if text = strings.TrimSpace(text); text != "" {
				fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
			}
		}
	}
	for name, c := range sorted(r.Coverage) {
		for _, f := range c.Files {
			for _, l := range f.Missed {
				fmt.Fprintf(&b, "%s:%s: no test reaches this\n", f.File, linesText(l))
			}
		}
		fmt.Fprintf(&b, "%s: tests reach %.1f%% of %d lines\n", name, c.Percent, c.Covered+c.Missed)
	}
	for _, name := range r.Short {
		fmt.Fprintf(&b, "%s: too little is covered\n", name)
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
	_, err := io.WriteString(w, clean(b.String()))
	return err
}

func linesText(l rego.Lines) string {
	if l.First == l.Last {
		return fmt.Sprint(l.First)
	}
	return fmt.Sprintf("%d-%d", l.First, l.Last)
}
