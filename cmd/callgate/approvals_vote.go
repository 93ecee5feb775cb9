package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
)

// voter says who answers.
type voter struct {
	as, tenant string
	roles      []string
}

func (v *voter) flags(cmd *cobra.Command, does string) {
	cmd.Flags().StringVar(&v.as, "as", "", "id of who "+does+" (demo profile only)")
	cmd.Flags().StringSliceVar(&v.roles, "roles", nil, "their roles, with --as")
	cmd.Flags().StringVar(&v.tenant, "tenant", "", "their tenant, with --as")
}

// principal is the user as the operating system knows them, but for --as.
func (v *voter) principal(cmd *cobra.Command) (call.Principal, error) {
	if cmd.Flags().Changed("as") {
		return asserted(v.as, "user", v.tenant, v.roles), nil
	}
	if len(v.roles) > 0 || v.tenant != "" {
		return call.Principal{}, errors.New("--roles and --tenant go with --as")
	}
	return local.User(), nil
}

func newApprovalsVote(verb string, deny bool) *cobra.Command {
	var format, reason string
	var v voter
	cmd := &cobra.Command{
		Use:   verb + " ID",
		Short: strings.ToUpper(verb[:1]) + verb[1:] + " one call",
		Long: `The vote is yours as the operating system knows you, with the id uid:N. In the
demo profile alone, --as says who you are, and the record says that it was only
asserted.

Your reason is recorded and shown, in your own words: printable text of at most 500
bytes. Without --reason you are asked for it, if there is a terminal. A yes may go
without, since what is approved says what for. A no needs one: whoever wanted the call
learns nothing from it otherwise.`,
		Example: "  callgate approvals " + verb + " ap-ID --reason 'ticket 4711'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := v.principal(cmd)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("reason") {
				if reason, err = askedReason(cmd); err != nil {
					return err
				}
			}
			if reason == "" && deny {
				return errors.New("a no needs a --reason")
			}
			return withGate(cmd, func(g local.Gate) error {
				a, err := g.Vote(cmd.Context(), engine.Vote{Approval: args[0], By: by, Deny: deny, Reason: reason})
				if err != nil {
					return refusedTo(by, err)
				}
				return printStanding(cmd, format, shown(a))
			})
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&reason, "reason", "", "why, in your own words")
	v.flags(cmd, "votes")
	return cmd
}

func printStanding(cmd *cobra.Command, format string, a shownApproval) error {
	if format == "json" {
		return writeJSON(cmd.OutOrStdout(), a)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", a.ID, a.Standing)
	return err
}

// askedReason is what somebody at a terminal answers; "" when there is none.
func askedReason(cmd *cobra.Command) (string, error) {
	in := cmd.InOrStdin()
	if out, ok := in.(io.Writer); !ok || !terminal(out) {
		return "", nil
	}
	return readReason(cmd.Context(), in, cmd.ErrOrStderr())
}

func readReason(ctx context.Context, in io.Reader, out io.Writer) (string, error) {
	fmt.Fprint(out, "Reason: ")
	type answer struct {
		line string
		err  error
	}
	done := make(chan answer, 1)
	go func() { // nobody's answer must not keep a signal from ending this
		line, err := bufio.NewReader(io.LimitReader(in, engine.MaxReason+2)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		done <- answer{strings.TrimSpace(line), err}
	}()
	select {
	case a := <-done:
		return a.line, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
