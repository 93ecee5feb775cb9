package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
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
may not. An approved call runs once, when it is made again.`,
		Example: "  callgate approvals list\n  callgate approvals show ap-ID\n  callgate approvals approve ap-ID",
		Args:    cobra.NoArgs,
		RunE:    needSubcommand,
	}
	cmd.AddCommand(newApprovalsList(), newApprovalsShow(), newApprovalsVote("approve", false), newApprovalsVote("deny", true))
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
	Requester call.RecordPrincipal `json:"requester"`
	Asked     time.Time            `json:"asked"`
	Expires   time.Time            `json:"expires"`
	Rules     []call.ApprovalRule  `json:"rules"`
	Votes     []call.Vote          `json:"votes"`
	Caps      call.Caps            `json:"caps"`
	Args      jsontext.Value       `json:"args,omitzero"`
}

func shown(a state.Approval) shownApproval {
	return shownApproval{
		ID: a.ID, Standing: a.Standing, Tool: a.Tool.Name, Requester: a.Requester, Asked: a.Asked, Expires: a.Expires,
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.Standing, a.Tool, a.Requester.ID, a.Expires.Format(time.RFC3339), needs(a.Rules))
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

func newApprovalsShow() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show one approval, with the arguments and what the call could do",
		Example: "  callgate approvals show ap-ID",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withGate(cmd, func(g local.Gate) error {
				q, err := g.Approval(cmd.Context(), args[0])
				if err != nil {
					return approvalError(err)
				}
				a := shown(q.Approval)
				a.Args = q.Args
				if format == "json" {
					return writeJSON(cmd.OutOrStdout(), a)
				}
				return printApproval(cmd.OutOrStdout(), a)
			})
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	return cmd
}

func printApproval(w io.Writer, a shownApproval) error {
	caps, err := json.Marshal(a.Caps)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, clean(value))
		}
	}
	line("approval", a.ID)
	line("standing", string(a.Standing))
	line("tool", a.Tool)
	if a.Args == nil && (a.Standing == state.Open || a.Standing == state.Approved) {
		line("arguments", "LOST: do not approve what you cannot see")
	}
	line("arguments", string(a.Args))
	line("could do", string(caps))
	line("requester", who(a.Requester))
	for _, p := range a.Requester.OnBehalfOf {
		line("on behalf of", who(p))
	}
	line("asked", a.Asked.Format(time.RFC3339))
	line("expires", a.Expires.Format(time.RFC3339))
	line("needs", needs(a.Rules))
	for _, v := range a.Votes {
		line(map[bool]string{false: "approved by", true: "denied by"}[v.Deny], who(v.By))
	}
	return t.Flush()
}

// who names a person and how anybody knows that it is them.
func who(p call.RecordPrincipal) string {
	s := p.ID + " (" + p.Kind
	if len(p.Roles) > 0 {
		s += ", " + strings.Join(p.Roles, ", ")
	}
	if p.Tenant != "" {
		s += ", of " + p.Tenant
	}
	return s + "; " + p.Auth.Method + ")"
}

func newApprovalsVote(verb string, deny bool) *cobra.Command {
	var as, tenant, format string
	var roles []string
	cmd := &cobra.Command{
		Use:   verb + " ID",
		Short: strings.ToUpper(verb[:1]) + verb[1:] + " one call",
		Long: `The vote is yours as the operating system knows you, with the id uid:N. In the
demo profile alone, --as says who you are, and the record says that it was only
asserted.`,
		Example: "  callgate approvals " + verb + " ap-ID",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by := local.User()
			if cmd.Flags().Changed("as") {
				by = asserted(as, "user", tenant, roles)
			} else if len(roles) > 0 || tenant != "" {
				return errors.New("--roles and --tenant go with --as")
			}
			return withGate(cmd, func(g local.Gate) error {
				a, err := g.Vote(cmd.Context(), engine.Vote{Approval: args[0], By: by, Deny: deny})
				if err != nil {
					return approvalError(err)
				}
				if format == "json" {
					return writeJSON(cmd.OutOrStdout(), shown(a))
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", a.ID, a.Standing)
				return err
			})
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&as, "as", "", "id of who votes (demo profile only)")
	cmd.Flags().StringSliceVar(&roles, "roles", nil, "their roles, with --as")
	cmd.Flags().StringVar(&tenant, "tenant", "", "their tenant, with --as")
	return cmd
}

// approvalError tells a no from not knowing.
func approvalError(err error) error {
	for _, no := range []error{state.ErrNoApproval, state.ErrMayNotVote, engine.ErrAsserted} {
		if errors.Is(err, no) {
			return exitWith(exitDenied, err)
		}
	}
	return err
}
