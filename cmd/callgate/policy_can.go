package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

func readCorpus(dir string) ([]rego.Case, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--corpus: %w", err)
	}
	defer root.Close()
	cases, err := rego.ReadCorpus(root.FS())
	if err != nil {
		return nil, fmt.Errorf("--corpus: %w", err)
	}
	return cases, nil
}

type policyCanParams struct {
	policyParams
	kind, tenant, bundle string
	ask                  bool
	most                 int
}

func (p *policyCanParams) canFlags(cmd *cobra.Command) {
	p.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&p.bundle, "bundle", "", "the policy (default: the layers of callgate.yaml)")
	f.BoolVar(&p.ask, "ask", false, "ask the policy even if it says what is visible")
	f.IntVar(&p.most, "most", 4000, "how many calls to ask about")
}

const canLong = `

If the policy says which tools are visible to whom, that is the answer; to be shown a
tool is not to be allowed every call of it. Otherwise, or with --ask, the policy is
asked about calls made of the tools' schemas and of what its rules name; a call that
takes arguments which nobody could guess is not among them. That none of them is let
through proves nothing, and is no answer. The output says which of the two it is from.`

func newPolicyWhoCan() *cobra.Command {
	var p policyCanParams
	cmd := &cobra.Command{
		Use:   "who-can TOOL",
		Short: "Say which roles, ids and tenants can call a tool",
		Long:  "Who-can says who can call a tool: by role, id and tenant, as far as the policy names them." + canLong + "\n\nExit codes: 0 somebody can, 1 nobody is shown it, 2 could not tell.",
		Example: `  callgate policy who-can read-file
  callgate policy who-can refund --bundle bundle --tools tools --roles support,analyst --ask`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0], nil) },
	}
	p.canFlags(cmd)
	cmd.Flags().StringSliceVar(&p.roles, "roles", nil, "roles that there are beside those that the policy names")
	return cmd
}

func newPolicyWhatCan() *cobra.Command {
	var p policyCanParams
	cmd := &cobra.Command{
		Use:   "what-can PRINCIPAL",
		Short: "Say which tools a principal can call",
		Long:  "What-can says which tools a principal can call. PRINCIPAL is their id." + canLong + "\n\nExit codes: 0 there are such tools, 1 they are shown none, 2 could not tell.",
		Example: `  callgate policy what-can alice --roles analyst
  callgate policy what-can alice --roles analyst --bundle bundle --tools tools --ask`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			who := asserted(args[0], p.kind, p.tenant, append([]string{}, p.roles...))
			return p.run(cmd, "", &who)
		},
	}
	p.canFlags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&p.roles, "roles", nil, "their roles, separated by commas")
	f.StringVar(&p.kind, "kind", "user", "what they are: agent, user or service")
	f.StringVar(&p.tenant, "tenant", "", "their tenant")
	return cmd
}

// canResult is what -o json prints.
type canResult struct {
	From   string        `json:"from"` // visible or decisions
	Access []rego.Access `json:"access"`
	Shown  []string      `json:"shown,omitzero"` // names and patterns, of one principal
	Tried  int           `json:"tried,omitzero"` // calls, if decisions are asked for
}

const (
	fromVisible   = "visible"
	fromDecisions = "decisions"
)

func (p *policyCanParams) run(cmd *cobra.Command, tool string, who *call.Principal) error {
	d, err := p.desk(cmd, p.bundle)
	if err != nil {
		return err
	}
	if p.most < 1 || p.most > 1_000_000 {
		return errors.New("--most: want 1 to 1000000")
	}
	policy, _, err := d.decider(cmd.Context())
	if err != nil {
		return err
	}
	o := rego.GenerateOptions{Tools: d.infos(), Roles: p.roles, Tool: tool, Most: p.most, Seed: 1, Complete: d.complete}
	if o.Bundles, err = d.sources(d.layers); err != nil {
		return err
	}
	_, world, err := rego.Generate(cmd.Context(), rego.GenerateOptions{Tools: o.Tools, Roles: o.Roles, Bundles: o.Bundles, Most: 1})
	if err != nil {
		return err
	}
	if tool != "" && !slices.ContainsFunc(world.Tools, func(t rego.ToolInfo) bool { return t.Name == tool }) {
		return fmt.Errorf("no tool is named %s", tool)
	}
	var name func(call.Principal) string
	if o.Who, name = world.Everybody(); who != nil {
		o.Who, name = []call.Principal{*who}, func(call.Principal) string { return who.ID }
	}
	var r canResult
	if r, err = p.visible(cmd.Context(), d, world, o, name); errors.Is(err, rego.ErrNoListing) {
		r.From = fromDecisions
		cases, _, genErr := rego.Generate(cmd.Context(), o)
		if genErr != nil {
			return genErr
		}
		r.Tried = len(cases)
		r.Access, err = rego.AccessOf(cmd.Context(), policy, cases, name)
	}
	if err != nil {
		return err
	}
	r.Access = slices.DeleteFunc(r.Access, func(a rego.Access) bool { return a.Verdict == call.Deny })
	if p.output == "json" {
		err = writeJSON(cmd.OutOrStdout(), r)
	} else {
		err = r.print(cmd.OutOrStdout())
	}
	switch {
	case err != nil || len(r.Access)+len(r.Shown) > 0:
		return err
	case r.From == fromDecisions:
		return exitWith(exitUnsure, nil) // some other call may be let through
	}
	return exitWith(exitDenied, nil)
}

// visible answers from what the permit layers say is visible, if all of them do.
func (p *policyCanParams) visible(ctx context.Context, d *desk, w rego.World, o rego.GenerateOptions, name func(call.Principal) string) (canResult, error) {
	r := canResult{From: fromVisible, Access: []rego.Access{}}
	if p.ask {
		return r, rego.ErrNoListing
	}
	var listings []*rego.Listing
	for _, l := range d.layers {
		if rego.Role(l.Role) == rego.Restrict {
			continue
		}
		fsys, err := d.load(l)
		if err != nil {
			return r, err
		}
		listing, err := rego.OpenListing(ctx, fsys, optionsOf(l))
		if err != nil {
			return r, err
		}
		listings = append(listings, listing)
	}
	if len(listings) == 0 {
		return r, rego.ErrNoListing
	}
	for _, who := range o.Who {
		var all [][]string
		for _, l := range listings {
			patterns, err := within(ctx, d.most, func(ctx context.Context) ([]string, error) { return l.Shown(ctx, who, now()) })
			if err != nil {
				return r, err
			}
			all = append(all, patterns)
		}
		if len(o.Who) == 1 && len(listings) == 1 {
			r.Shown = all[0]
		}
		for _, t := range w.Tools {
			if o.Tool != "" && t.Name != o.Tool || slices.ContainsFunc(r.Access, func(a rego.Access) bool { return a.Tool == t.Name && a.Who == name(who) }) {
				continue
			}
			shown := true
			for i, l := range listings {
				ok, err := within(ctx, d.most, func(ctx context.Context) (bool, error) { return l.Shows(ctx, all[i], t.Name) })
				if err != nil {
					return r, err
				}
				shown = shown && ok
			}
			if shown {
				r.Access = append(r.Access, rego.Access{Tool: t.Name, Who: name(who), Verdict: verdictShown})
			}
		}
	}
	return r, nil
}

// verdictShown stands for being shown, which is no verdict.
const verdictShown call.Verdict = "visible"

func (r canResult) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, a := range r.Access {
		fmt.Fprintln(w, strings.TrimRight(clean(strings.Join([]string{a.Tool, a.Who, string(a.Verdict), strings.ReplaceAll(a.Args, "\t", " ")}, "\t")), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := "from what the policy says is visible; calls can still be denied"
	if r.From == fromDecisions {
		text = "from asking the policy; the arguments are those of a call that was tried"
	}
	switch {
	case len(r.Access) > 0:
	case r.From == fromDecisions:
		text = fmt.Sprintf("none of %d tried calls was let through; that proves nothing, for their arguments are guessed", r.Tried)
	default:
		text = "nothing; " + text
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
