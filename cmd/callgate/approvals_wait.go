package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/local"
)

func newApprovalsWait() *cobra.Command {
	var format string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until one approval is given or over",
		Long: `Wait ends as soon as people have answered, and exits with 0 if the call is approved:
make it again. It exits with 1 if the approval is denied, used or expired, or still
pending when --timeout is over.`,
		Example: "  callgate approvals wait ap-ID --timeout 10m",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withGate(cmd, func(g local.Gate) error {
				ctx := cmd.Context()
				if timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, timeout)
					defer cancel()
				}
				a, err := g.Wait(ctx, args[0])
				switch {
				case errors.Is(err, engine.ErrNotApproved):
					return errors.Join(printStanding(cmd, format, shown(a)), approvalError(err))
				case err != nil && ctx.Err() != nil && cmd.Context().Err() == nil:
					return exitWith(exitDenied, errors.New("nobody has decided it in time"))
				case err != nil:
					return approvalError(err)
				}
				return printStanding(cmd, format, shown(a))
			})
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait, such as 10m; as long as it is pending when absent")
	return cmd
}
