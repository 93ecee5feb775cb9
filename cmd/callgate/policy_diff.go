package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/rego"
)

type policyDiffParams struct {
	policyParams
	corpus    string
	most      int
	seed      uint64
	generated bool
}

func newPolicyDiff() *cobra.Command {
	var p policyDiffParams
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say which calls policy B answers otherwise than policy A",
		Long: `Diff asks two policies about the same calls and says what is newly allowed, newly
denied, newly asking, or granted otherwise. With callgate.yaml of several layers, B
stands in the place of A among them, if A is one of them.

The calls are those of --corpus, and calls made of the tools' schemas and of what the
rules and data of both policies name: tools, roles, hosts, paths, numbers. They are
the same each time, and not all that there are: no difference found is no proof.

Exit codes: 0 nothing opens, 1 some call is newly allowed, waits where it was denied,
or can do more or under less, 2 could not tell.`,
		Example: `  callgate policy diff main/bundle bundle --tools tools
  callgate policy diff main.tar.gz bundle --corpus calls --generated=false -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0], args[1]) },
	}
	p.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&p.corpus, "corpus", "", "directory of calls: inputs as NAME.json, or several in NAME.txtar")
	f.IntVar(&p.most, "most", 4000, "how many calls to make")
	f.Uint64Var(&p.seed, "seed", 1, "which of the calls to make, of more than that")
	f.BoolVar(&p.generated, "generated", true, "also make calls")
	f.StringSliceVar(&p.roles, "roles", nil, "roles that there are beside those that the policies name")
	return cmd
}

func (p *policyDiffParams) run(cmd *cobra.Command, pathA, pathB string) error {
	if p.most < 1 || p.most > 1_000_000 {
		return errors.New("--most: want 1 to 1000000")
	}
	a, err := p.desk(cmd, pathA)
	if err != nil {
		return err
	}
	b := &desk{tools: a.tools, conf: a.conf, most: a.most}
	of := a.layers[0]
	of.Bundle = pathB
	b.layers = []local.Layer{of}
	p.among(a, b, pathA)
	was, _, err := a.decider(cmd.Context())
	if err != nil {
		return fmt.Errorf("%s: %w", pathA, err)
	}
	is, _, err := b.decider(cmd.Context())
	if err != nil {
		return fmt.Errorf("%s: %w", pathB, err)
	}
	var cases []rego.Case
	if p.corpus != "" {
		if cases, err = readCorpus(p.corpus); err != nil {
			return err
		}
	}
	if p.generated {
		o := rego.GenerateOptions{Tools: a.infos(), Roles: p.roles, Most: p.most, Seed: p.seed, Complete: a.complete}
		if o.Bundles, err = a.sources(slices.Concat(a.layers, b.layers)); err != nil {
			return err
		}
		made, _, err := rego.Generate(cmd.Context(), o)
		if err != nil {
			return err
		}
		cases = append(cases, made...)
	}
	if len(cases) == 0 {
		return errors.New("there are no calls to compare by")
	}
	r, err := rego.Diff(cmd.Context(), was, is, slices.Values(cases))
	if err != nil {
		return err
	}
	if p.output == "json" {
		err = writeJSON(cmd.OutOrStdout(), r)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), clean(r.Text()))
	}
	if err != nil || r.Opens == 0 {
		return err
	}
	return exitWith(exitDenied, nil)
}

// among puts the other layers of the configuration beside the two, if A is one of
// them: what a layer lets through is nothing that another denies.
func (p *policyDiffParams) among(a, b *desk, pathA string) {
	if a.conf == nil {
		return
	}
	all, err := p.layers(a.conf, "")
	if err != nil || !slices.ContainsFunc(all, func(l local.Layer) bool { return samePlace(l.Bundle, pathA) }) {
		return
	}
	for _, l := range all {
		if !samePlace(l.Bundle, pathA) {
			a.layers, b.layers = append(a.layers, l), append(b.layers, l)
		}
	}
}

// sources are the bundles of layers, to take names from.
func (d *desk) sources(layers []local.Layer) ([]rego.GenerateBundle, error) {
	var out []rego.GenerateBundle
	seen := map[string]bool{}
	for _, l := range layers {
		if seen[l.Bundle] {
			continue
		}
		seen[l.Bundle] = true
		fsys, err := d.load(l)
		if err != nil {
			return nil, err
		}
		out = append(out, rego.GenerateBundle{FS: fsys, Role: cmp.Or(rego.Role(l.Role), rego.Permit), Entrypoint: l.Entrypoint})
	}
	return out, nil
}
