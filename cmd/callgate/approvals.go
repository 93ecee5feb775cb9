package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/state"
)

func newApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "See what waits for people, and answer",
		Long: `A call that policy wants approved ends with requires_approval and an id. People
whom the policy names approve or deny that very call: this tool with these arguments,
for this requester, under this policy. Whoever made the call, or is acted for in it,
may not, nor may agents, and nobody counts for two. An approved call runs once, when it is made again,
unless policy or tool have changed by then: people are asked again about that.`,
		Example: "  callgate approvals list\n  callgate approvals show ap-ID\n  callgate approvals approve ap-ID --reason 'ticket 4711'",
		Args:    cobra.NoArgs,
		RunE:    needSubcommand,
	}
	cmd.AddCommand(newApprovalsList(), newApprovalsShow(), newApprovalsVote("approve", false), newApprovalsVote("deny", true), newApprovalsWait())
	return cmd
}

// withGate runs f on the owner of the data directory or a client of it.
func withGate(cmd *cobra.Command, f func(local.Gate) error) error {
	conf, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	g, err := local.Join(cmd.Context(), conf.local(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	return errors.Join(f(g), g.Close())
}

// shownApproval is what -o json prints of an approval.
type shownApproval struct {
	ID        string               `json:"id"`
	Standing  state.Standing       `json:"standing"`
	Tool      string               `json:"tool"`
	Kind      string               `json:"tool_kind"`
	Digest    string               `json:"tool_digest"`
	Requester call.RecordPrincipal `json:"requester"`
	Asked     time.Time            `json:"asked"`
	Expires   time.Time            `json:"expires"`
	Rules     []call.ApprovalRule  `json:"rules"`
	Votes     []call.Vote          `json:"votes"`
	Caps      call.Caps            `json:"caps"`
	Policy    []call.Revision      `json:"policy,omitzero"`
	Args      jsontext.Value       `json:"args,omitzero"`
	Masked    []engine.Masked      `json:"masked,omitzero"` // what stands as null in args
}

func shown(a state.Approval) shownApproval {
	return shownApproval{
		ID: a.ID, Standing: a.Standing, Tool: a.Tool.Name, Kind: a.Tool.Kind, Digest: a.Tool.Digest, Policy: a.Policy, Requester: a.Requester, Asked: a.Asked, Expires: a.Expires,
		Rules: a.Rules, Votes: a.Votes, Caps: a.Caps,
	}
}

func newApprovalsList() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List what waits for people, the oldest first",
		Example: "  callgate approvals list --config work/callgate.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withGate(cmd, func(g local.Gate) error {
				list, err := g.Approvals(cmd.Context())
				if err != nil {
					return err
				}
				out := make([]shownApproval, len(list))
				for i, a := range list {
					out[i] = shown(a)
				}
				if format == "json" {
					return writeJSON(cmd.OutOrStdout(), out)
				}
				return printApprovals(cmd.OutOrStdout(), out)
			})
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	return cmd
}

func printApprovals(w io.Writer, list []shownApproval) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing waits for approval")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTANDING\tTOOL\tREQUESTER\tEXPIRES\tNEEDS")
	for _, a := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.Standing, visible(a.Tool), visible(a.Requester.ID), a.Expires.Format(time.RFC3339), visible(needs(a.Rules)))
	}
	return t.Flush()
}

// needs says in words who must approve.
func needs(rules []call.ApprovalRule) string {
	var out []string
	for _, r := range rules {
		var who []string
		for _, role := range r.From.Roles {
			who = append(who, "role "+role)
		}
		who = append(who, r.From.IDs...)
		out = append(out, fmt.Sprintf("%d of %s", max(1, r.Count), strings.Join(who, " or ")))
	}
	return strings.Join(out, ", and ")
}

// refusedTo is approvalError for somebody who wanted to answer, or to see.
func refusedTo(by call.Principal, err error) error {
	switch {
	case errors.Is(err, state.ErrMayNotVote):
		err = fmt.Errorf("%s %w", visible(by.ID), err)
	case errors.Is(err, engine.ErrAsserted):
		err = fmt.Errorf("%w: leave out --as, which the demo profile alone believes", err)
	}
	return approvalError(err)
}

// approvalError tells a no from not knowing.
func approvalError(err error) error {
	for _, no := range []error{state.ErrNoApproval, state.ErrMayNotVote, engine.ErrAsserted, engine.ErrNotApproved} {
		if errors.Is(err, no) {
			return exitWith(exitDenied, err)
		}
	}
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		return exitWith(exitOf(d.Code.Info().Class), err)
	}
	return err
}
