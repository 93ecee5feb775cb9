package main

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// worldly are the warnings that say that a rule cannot do what it says where it
// would decide. All others are matters of style, and for lint.
var worldly = []string{
	"tool_unknown", "role_unknown", "argument_unknown", "label_unknown", "grant_vain", "grant_broad",
}

func newPolicyCheck() *cobra.Command {
	var p policyParams
	cmd := &cobra.Command{
		Use:   "check [DIR|ARCHIVE]",
		Short: "Find what keeps a policy from loading, and rules that can never hold",
		Long: `Check says everything that would keep a policy from loading: syntax, types, builtins
that policies cannot use, names with nothing behind them, fields that the input does
not have, data that nobody reads. It also says which rules can never hold, because
they name a tool, role, argument or label that there is none of; which grants no
manifest makes effective; and which give more than anybody can have looked at.

Tools are known from callgate.yaml or --tools, roles from --roles. What is not known
is not looked at.

Exit codes: 0 nothing found, 1 something found, 2 could not tell.`,
		Example: "  callgate policy check bundle --tools tools --roles analyst,support,approver\n  callgate policy check -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.check(cmd, oneArg(args), false) },
	}
	p.checkFlags(cmd)
	return cmd
}

func newPolicyLint() *cobra.Command {
	var p policyParams
	cmd := &cobra.Command{
		Use:   "lint [DIR|ARCHIVE]",
		Short: "Find rules that load and probably do not say what was meant",
		Long: `Lint says all that check says and warns of more: permits and waivers by what is not,
negation that means something else than it seems to, patterns without anchors, rules
that OPA cannot index, heads that vanish with an optional field, and public rules
without metadata.

Exit codes: 0 nothing found, 1 something found, 2 could not tell.`,
		Example: "  callgate policy lint bundle\n  callgate policy lint bundle --tools tools -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.check(cmd, oneArg(args), true) },
	}
	p.checkFlags(cmd)
	return cmd
}

func (p *policyParams) checkFlags(cmd *cobra.Command) {
	p.plainFlags(cmd)
	cmd.Flags().StringSliceVar(&p.roles, "roles", nil, "all roles that there are, separated by commas")
}

// checked is what -o json prints.
type checked struct {
	OK      bool            `json:"ok"`
	Bundles []checkedBundle `json:"bundles"`
	Tools   int             `json:"tools"` // that are known; -1 if none are
}

type checkedBundle struct {
	Bundle   string         `json:"bundle"`
	Findings []rego.Finding `json:"findings"`
}

func (p *policyParams) check(cmd *cobra.Command, path string, lint bool) error {
	d, err := p.desk(cmd, path)
	if err != nil {
		return err
	}
	r := checked{OK: true, Tools: len(d.tools)}
	if d.tools == nil {
		r.Tools = -1
	}
	for _, l := range d.layers {
		found, err := p.findings(cmd, d, l)
		if err != nil {
			return fmt.Errorf("%s: %w", source.Redacted(l.Bundle), err)
		}
		if !lint {
			found = slices.DeleteFunc(found, func(f rego.Finding) bool {
				return f.Severity != rego.SeverityError && !slices.Contains(worldly, f.Code)
			})
		}
		r.OK = r.OK && len(found) == 0
		r.Bundles = append(r.Bundles, checkedBundle{source.Redacted(l.Bundle), append([]rego.Finding{}, found...)})
	}
	if p.output == "json" {
		err = writeJSON(cmd.OutOrStdout(), r)
	} else {
		err = printFindings(cmd, r)
	}
	if err != nil || r.OK {
		return err
	}
	return exitWith(exitDenied, nil)
}

func (p *policyParams) findings(cmd *cobra.Command, d *desk, l local.Layer) ([]rego.Finding, error) {
	fsys, err := d.load(l)
	if err != nil {
		return nil, err
	}
	found, err := rego.Check(cmd.Context(), fsys, rego.CheckOptions{
		Role: rego.Role(l.Role), Entrypoint: l.Entrypoint, Tools: d.infos(), Roles: p.roles, Lint: true,
	})
	if err != nil {
		return nil, err
	}
	same, err := ownBase(fsys)
	if err == nil && !same {
		found = append(found, baseChanged)
	}
	return found, err
}

var baseChanged = rego.Finding{
	Severity: rego.SeverityError, Code: "base_changed", Where: libraryDir,
	Message: "is not the base library of this version; callgate policy vendor writes it, over one that somebody changed with --force",
}

// libraryDir is where a bundle has the base library.
const libraryDir = "callgate"

// ownBase says that the bundle has this version's base library, or none.
func ownBase(fsys fs.FS) (bool, error) {
	vendored, err := fs.Sub(fsys, libraryDir)
	if err != nil {
		return false, err
	}
	got, err := bundles.Digest(vendored)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	want, err := bundles.Digest(bundles.Base())
	return got == want, err
}

func printFindings(cmd *cobra.Command, r checked) error {
	out := cmd.OutOrStdout()
	n := 0
	for _, b := range r.Bundles {
		for _, f := range b.Findings {
			n++
			if _, err := fmt.Fprintf(out, "%s: %s\n", f.Severity, clean(f.String())); err != nil {
				return err
			}
		}
	}
	if r.Tools < 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "callgate: no tools are known, so rules and grants are not compared with them: see --tools")
	}
	if n > 0 {
		_, err := fmt.Fprintf(out, "%d found\n", n)
		return err
	}
	_, err := fmt.Fprintln(out, "nothing found")
	return err
}

// sorted yields a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
