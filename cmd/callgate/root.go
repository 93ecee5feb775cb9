package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	exitOK     = 0 // ran, or verified
	exitDenied = 1 // denied or pending, or not verified
	exitUnsure = 2 // could not tell: configuration, backend, usage
	exitFailed = 3 // ran, and failed or hit a bound
)

// exitError carries the exit code of a command to main. A nil err has been
// printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitUnsure
	if x, ok := errors.AsType[*exitError](err); ok {
		code, err = x.code, x.err
	}
	if err != nil {
		fmt.Fprintln(errOut, "callgate:", clean(err.Error()))
	}
	return code
}

// needSubcommand is what a command does that is only a group: a misspelt verify
// must not pass for a verified log.
func needSubcommand(cmd *cobra.Command, _ []string) error {
	return fmt.Errorf("%s: a subcommand is missing, see %s --help", cmd.CommandPath(), cmd.CommandPath())
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "callgate",
		Short: "Policy on every tool call of an AI agent",
		Long: `Callgate decides every tool call of an agent with Rego policies, records the
decision, and only then runs the tool: as WebAssembly, or as an effect of the
host, able to do what the decision grants and nothing else.

Exit codes: 0 ran or verified, 1 denied, pending or not verified, 2 could not
tell, 3 ran and failed or hit a bound.`,
		Example: `  callgate demo
  callgate init work && callgate call --config work/callgate.yaml --as alice --roles analyst \
    --tool read-file --args '{"path": "/docs/welcome.txt"}'`,
		RunE:          needSubcommand,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newInit(), newCall(), newUndo(), newDiff(), newServe(), newIssue(), newExec(), newGrants(), newRevoke(), newApprovals(), newDemo(), newAudit(), newWitness(), newBundle(), newPolicy(), newTools(), newCodes())
	return root
}
