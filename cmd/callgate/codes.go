package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
)

func newCodes() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "codes",
		Short:   "List every code of the engine and what it means",
		Example: "  callgate codes\n  callgate codes -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format == "json" {
				type row struct {
					call.CodeInfo
					Exit int `json:"exit"`
				}
				var rows []row
				for _, c := range call.Codes() {
					rows = append(rows, row{c, exitOf(c.Class)})
				}
				return writeJSON(cmd.OutOrStdout(), rows)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "CODE\tCLASS\tEXIT\tMEANING")
			for _, c := range call.Codes() {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Code, c.Class, exitOf(c.Class), c.Meaning)
			}
			return w.Flush()
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

// exitOf is the exit code of a call that ends with a code of this class.
func exitOf(c call.Class) int {
	switch c {
	case call.ClassRan:
		return exitOK
	case call.ClassDenied, call.ClassPending, call.ClassLimited:
		return exitDenied
	case call.ClassFailed:
		return exitFailed
	default:
		return exitUnsure
	}
}
