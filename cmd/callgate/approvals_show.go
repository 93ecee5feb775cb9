package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/state"
)

func newApprovalsShow() *cobra.Command {
	var format string
	var reveal, full bool
	var v voter
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one approval: exactly what will run, and what people said so far",
		Long: `Show prints the call as it will run: who asks and for whom, the tool by its digest,
the arguments as the tool will get them, what the call could do, and under which
policy. Characters that nobody sees, or that change how others look, are written as
\\u escapes. Long values are folded, and how much is not shown is said; --full shows
all of it. -o json is always complete.

Values that the tool's schema marks writeOnly are masked: their type, length and a
digest. --reveal shows them to those who are asked, after it is recorded that they
looked.`,
		Example: "  callgate approvals show ap-ID\n  callgate approvals show ap-ID --reveal",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			who, err := v.principal(cmd)
			if err != nil {
				return err
			}
			return withGate(cmd, func(g local.Gate) error {
				var q engine.Question
				if reveal {
					q, err = g.Reveal(cmd.Context(), args[0], who)
				} else {
					q, err = g.Approval(cmd.Context(), args[0])
				}
				if err != nil {
					return refusedTo(who, err)
				}
				a := shown(q.Approval)
				a.Args, a.Masked = q.Args, q.Masked
				if format == "json" {
					return writeJSON(cmd.OutOrStdout(), a)
				}
				return printApproval(cmd.OutOrStdout(), a, full)
			})
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show what is masked; recorded")
	cmd.Flags().BoolVar(&full, "full", false, "fold nothing")
	v.flags(cmd, "looks")
	return cmd
}

func printApproval(w io.Writer, a shownApproval, full bool) error {
	caps, err := json.Marshal(a.Caps)
	if err != nil {
		return err
	}
	undecided := a.Standing == state.Open || a.Standing == state.Approved
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, visible(value))
		}
	}
	line("approval", a.ID)
	line("standing", string(a.Standing))
	line("requester", who(a.Requester))
	for _, p := range a.Requester.OnBehalfOf {
		line("on behalf of", who(p))
	}
	line("tool", a.Tool)
	line("tool digest", a.Digest+" ("+a.Kind+")")
	switch {
	case a.Args != nil:
		text, err := printedArgs(a.Args, a.Masked, full)
		if err != nil {
			return err
		}
		line("arguments", text)
		for _, word := range lookAlikes(string(a.Args)) {
			line("beware", word)
		}
	case undecided:
		line("arguments", "LOST: do not approve what you cannot see")
	}
	line("could do", string(caps))
	for _, r := range a.Policy {
		text := revisionText(r)
		if r.Role != "" {
			text += " (" + r.Role + ")"
		}
		line("policy", text)
	}
	line("asked", a.Asked.Format(time.RFC3339))
	expires := a.Expires.Format(time.RFC3339)
	if left := a.Expires.Sub(now()); undecided && left > 0 {
		expires += fmt.Sprintf(" (%v left)", left.Round(time.Second))
	}
	line("expires", expires)
	for _, r := range a.Rules {
		line("needs", needs([]call.ApprovalRule{r})+" (rule "+call.InLayer(r.Layer, r.Name)+")")
	}
	for _, v := range a.Votes {
		said := who(v.By)
		if !v.At.IsZero() {
			said += " at " + v.At.Format(time.RFC3339)
		}
		if v.Reason != "" {
			said += ": " + v.Reason
		}
		line(map[bool]string{false: "approved by", true: "denied by"}[v.Deny], said)
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
	s += "; " + p.Auth.Method
	if p.Auth.Issuer != "" {
		s += " by " + p.Auth.Issuer
	}
	return s + ")"
}
