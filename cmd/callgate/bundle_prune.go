package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/rego/source"
)

func newBundlePrune() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove kept bundles that no record names",
		Long: `Every bundle that has decided is kept in the data directory, for a start without
network and so that a recorded decision can be made again. Prune removes those that
no record of the log names and that do not decide now. It reads the whole log, and no
engine may have the data directory open.`,
		Example: "  callgate bundle prune --config work/callgate.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			gone, err := local.PruneBundles(cmd.Context(), conf.Data)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), struct {
					OK      bool          `json:"ok"`
					Removed []source.Kept `json:"removed"`
				}{true, gone})
			}
			for _, k := range gone {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "removed %s: revision %s, digest %s, first decided %s\n",
					k.Archive, clean(k.Revision), k.Digest, k.Activated.Format(time.RFC3339)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d bundles removed\n", len(gone))
			return err
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	return cmd
}
