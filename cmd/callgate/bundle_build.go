package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
)

func newBundleBuild() *cobra.Command {
	var p buildParams
	var epoch int64
	cmd := &cobra.Command{
		Use:   "build DIR",
		Short: "Test a directory of policy and pack it into an archive",
		Long: `Build checks a bundle as callgate policy check does, runs its tests as callgate
policy test does and, if nothing is wrong, writes it as opa build does: modules
formatted, data in one file. The result has no signature. A bundle without tests is
built only with --no-tests. One that is for something else than a permit layer is
checked with --role or --entrypoint.

Revision and epoch go into the manifest; without the flags, those that stand there
stay. The revision is the name by which records know the bundle. The epoch is a whole
number to raise with every release: an engine that requires signatures refuses a
bundle of an older one.

Exit codes: 0 built, 1 it would not load, or tests do not pass, 2 could not build.`,
		Example: "  callgate bundle build bundle --revision 2026-05-01 --epoch 12 --out policy.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("epoch") {
				p.Epoch = &epoch
			}
			return p.build(cmd, args[0])
		},
	}
	outputFlag(cmd, &p.output)
	f := cmd.Flags()
	f.StringVar(&p.out, "out", "", "archive to write, NAME.tar.gz (required)")
	f.StringVar(&p.Revision, "revision", "", "name of the release")
	f.Int64Var(&epoch, "epoch", 0, "number of the release, higher than that of the one before")
	f.StringVar((*string)(&p.Role), "role", "", "of the layer that it is for: permit or restrict (default permit)")
	f.StringVar(&p.Entrypoint, "entrypoint", "", "the rule that answers (default: that of the role)")
	f.BoolVar(&p.noTests, "no-tests", false, "build a bundle that has no tests")
	_ = cmd.MarkFlagRequired("out") // the flag is there
	return cmd
}

type buildParams struct {
	pack.Options
	out, output string
	noTests     bool
}

// built is what -o json prints of a build.
type built struct {
	OK       bool           `json:"ok"`
	Out      string         `json:"out,omitzero"`
	Tests    int            `json:"tests"`
	Failed   []string       `json:"failed,omitzero"`   // tests
	Findings []rego.Finding `json:"findings,omitzero"` // for which it would not load
	Bundle   *rego.Facts    `json:"bundle,omitzero"`
}

func (p *buildParams) build(cmd *cobra.Command, dir string) error {
	if !strings.HasSuffix(p.out, rego.ArchiveSuffix) {
		return fmt.Errorf("--out %s: want NAME%s", p.out, rego.ArchiveSuffix)
	}
	fsys, err := rego.Load(dir)
	if err != nil {
		return err
	}
	b, err := p.pack(cmd.Context(), fsys)
	if err != nil {
		var r built
		failed, ok := errors.AsType[*pack.TestError](err)
		if ok {
			r.Failed = failed.Failed
			err = fmt.Errorf("%w\n  %s", err, strings.Join(failed.Failed, "\n  "))
		}
		if refused, is := errors.AsType[*pack.RefusedError](err); is {
			r.Findings, ok = refused.Findings, true
		}
		switch {
		case !ok:
			return err
		case p.output != "json":
			return exitWith(exitDenied, err)
		}
		return cmp.Or(writeJSON(cmd.OutOrStdout(), r), exitWith(exitDenied, nil))
	}
	if err := replaceFile(p.out, b.Archive); err != nil {
		return err
	}
	facts, _, err := inspect(p.out)
	if err != nil {
		return err
	}
	if p.output == "json" {
		return writeJSON(cmd.OutOrStdout(), built{OK: true, Out: p.out, Tests: b.Tests, Bundle: facts})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: revision %s, %s, digest %s\n%s\n",
		p.out, clean(facts.Revision), epochText(facts), facts.Digest, testsText(b.Tests))
	return err
}

// pack refuses what policy check and policy test refuse beside what the engine does.
func (p *buildParams) pack(ctx context.Context, fsys fs.FS) (*pack.Built, error) {
	b, err := pack.Build(ctx, fsys, p.Options)
	if errors.Is(err, pack.ErrNoRevision) {
		return nil, fmt.Errorf("%w: name the release with --revision", err)
	}
	if err != nil {
		return nil, err
	}
	same, err := ownBase(fsys)
	switch {
	case err != nil:
		return nil, err
	case !same:
		return nil, &pack.RefusedError{Findings: []rego.Finding{baseChanged}}
	case b.Tests == 0 && !p.noTests:
		return nil, errors.New("there are no tests in the bundle; --no-tests builds it all the same")
	}
	return b, nil
}

func testsText(n int) string {
	if n == 0 {
		return "there are no tests in it"
	}
	return fmt.Sprintf("%d tests passed", n)
}

func epochText(f *rego.Facts) string {
	if f.Epoch == nil {
		return "no epoch"
	}
	return fmt.Sprintf("epoch %d", *f.Epoch)
}
